"""Many simulations by any executor of the ``concurrent.futures`` protocol, resumable.

>>> from wellspring.sweep import sweep
>>> small = {"topology.k": 4, "workload.senders": [2, 3], "workload.size": "70KB"}
>>> from concurrent.futures import ThreadPoolExecutor
>>> with ThreadPoolExecutor() as pool:
...     result = sweep("scdp-12a", seeds=2, set=small, executor=pool)
>>> sorted(result.runs["workload.senders"])
[2, 2, 2, 2, 3, 3, 3, 3]

Processes of this machine run it unless an executor is given. On a cluster that is Dask's:
``sweep(..., executor=dask_client.get_executor())``; :data:`DASK_SETTINGS` are for a cluster on this machine. Workers need
the same version of this package; rows do not depend on who made them.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from .sim import Job, Result, _Scenario, collect, jobs, run_job

if sys.platform != "win32":
    import fcntl

__all__ = ["DASK_SETTINGS", "RunFailed", "sweep"]

DASK_SETTINGS: Mapping[str, object] = {
    "distributed.admin.tick.interval": "2s",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.worker.profile.enabled": False,
    "distributed.scheduler.work-stealing": False,
}
"""Settings for a Dask cluster whose workers share the processors with its scheduler, as on one machine: give them to
``dask.config.set`` around it. While they wait, four workers and their scheduler take a fiftieth of a processor by them, a
seventh without; the dashboard is as current as that, and has no profile."""

_WAITING = 64
"""Runs handed to our own processes beyond those that they are working on; if one dies, all are handed over again."""

_AT_EXECUTOR = 10_000
"""Runs handed to another executor at one time: it does not say how many it works on, and a cluster may have many cores."""

_FIRST = 16
"""Of these, so many before it is known how long a run takes."""

_SHORT = 2.0
"""Runs of which none is done after this time are long ones [s]."""

_TASK = 1.0
"""What short runs that are handed over together take [s]: a scheduler on a network takes some 10 ms for each task."""

_TASKS = 16
"""In so many tasks what is left is divided at least: a cluster may have many cores, and a worker that dies loses one task."""


class RunFailed(RuntimeError):
    """A run that failed as often as it was tried; the others are done and kept."""


_BEGIN = b'{"hash": "'
"""How each of our lines begins."""


@contextmanager
def _alone(file: FileIO) -> Iterator[None]:
    """Waits for those who append to it, and keeps them out; not on Windows, nor on a file system without locks."""
    if sys.platform == "win32":
        yield
        return
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_UN)


class _Folder:
    """``runs.jsonl`` of a folder: a line for each run, appended as it is done. Several processes may append to it."""

    def __init__(self, folder: str | os.PathLike[str] | None, flows: bool) -> None:
        self._file: FileIO | None = None
        self._done: dict[tuple[str, int], dict[str, Any]] = {}
        if folder is None:
            return
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        self._table = path / "runs.jsonl"
        self._file = self._table.open("a+b", buffering=0)
        try:
            with _alone(self._file):
                self._read(self._file, flows)
        except BaseException:
            self._file.close()
            raise

    def _read(self, file: FileIO, flows: bool) -> None:
        *lines, _ = self._table.read_bytes().split(b"\n")
        for number, line in enumerate(lines, 1):
            try:
                entry = json.loads(line)
                key, outcome = (str(entry["hash"]), int(entry["seed"])), entry["outcome"]
                version, has_flows = outcome["row"]["version"], outcome["flows"]
            except (KeyError, TypeError, ValueError):
                raise self._foreign(number) from None
            if version == _version() and (has_flows or not flows):
                self._done[key] = outcome
        self._cut(file)

    def _cut(self, file: FileIO) -> None:
        """Takes a last line away that was cut off when a sweep was killed; its run is made again."""
        end = os.fstat(file.fileno()).st_size
        file.seek(max(0, end - 1))
        if file.read(1) in (b"", b"\n"):
            return
        text = self._table.read_bytes()
        whole = text.rfind(b"\n") + 1
        if not text[whole:].startswith(_BEGIN[: end - whole]):
            raise self._foreign(text.count(b"\n") + 1)
        file.truncate(whole)

    def _foreign(self, number: int) -> ValueError:
        return ValueError(
            f"{self._table}: line {number} is no run of a sweep, and nothing is added to the file: "
            "choose another folder, or move it away"
        )

    def done(self, job: Job) -> dict[str, Any] | None:
        return self._done.get((job.hash, job.seed))

    def keep(self, job: Job, outcome: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        line = json.dumps({"hash": job.hash, "seed": job.seed, "outcome": outcome}) + "\n"
        rest = memoryview(line.encode())
        with _alone(self._file):
            self._cut(self._file)
            end = os.fstat(self._file.fileno()).st_size
            try:
                while rest:
                    rest = rest[self._file.write(rest) :]
            except BaseException:
                # What is there of it would be one line with the next.
                self._file.truncate(end)
                raise

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _version() -> str:
    from ._native import __version__

    return __version__


def _processes(workers: int | None) -> ProcessPoolExecutor:
    # A fork of a process with threads may lock up: workers are started anew.
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


_Outcome = dict[str, Any] | Exception
_Task = Future[tuple[list[_Outcome], float]]


def _some_of(done: SimpleQueue[_Task], patience: float | None) -> list[_Task]:
    """Waits for one, and takes what is there by then; none if there is none in that time [s]."""
    try:
        some = [done.get(timeout=patience)]
    except Empty:
        return []
    while not done.empty():
        some.append(done.get())
    return some


def _run_jobs(some: list[Job], flows: bool) -> tuple[list[_Outcome], float]:
    """Runs some jobs one after the other: what is of each, or why it failed, and how long a run takes on average [s]."""

    def run(job: Job) -> _Outcome:
        try:
            return run_job(job, flows)
        except Exception as error:
            return error

    began = time.perf_counter()
    outcomes = [run(job) for job in some]
    return outcomes, (time.perf_counter() - began) / len(some)


class _Share:
    """How many runs another executor gets at a time."""

    def __init__(self) -> None:
        self._seconds: float | None = None
        self._began = time.monotonic()

    @property
    def at_once(self) -> int:
        return _FIRST if self.patience is not None else _AT_EXECUTOR

    @property
    def patience(self) -> float | None:
        """How long it may yet take until it is known [s]; none if it is known, or they are long ones."""
        left = self._began + _SHORT - time.monotonic()
        return left if self._seconds is None and left > 0 else None

    def hear(self, seconds: float) -> None:
        self._seconds = seconds if self._seconds is None else (7 * self._seconds + seconds) / 8

    def of(self, waiting: int) -> int:
        """Runs of the next task."""
        if self._seconds is None:
            return 1
        return max(1, min(int(_TASK / max(self._seconds, 1e-6)), waiting // _TASKS))


class _Runs:
    """The runs of a sweep: which wait, how often each was tried, and what is of those that are done."""

    def __init__(self, todo: list[Job], kept: _Folder, progress: Callable[[int, int], object] | None) -> None:
        self._total, self._kept, self._progress = len(todo), kept, progress
        found = [(job, kept.done(job)) for job in todo]
        self.done: dict[Job, Mapping[str, Any]] = {job: outcome for job, outcome in found if outcome is not None}
        self.waiting = [job for job, outcome in reversed(found) if outcome is None]
        self._tries = dict.fromkeys(self.waiting, 0)
        self._tell()

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(len(self.done), self._total)

    def take(self, most: int) -> list[Job]:
        """Some that wait; what has failed goes alone, as it may be what others failed by."""
        some = [self.waiting.pop()]
        while self.waiting and len(some) < most and not self._tries[some[0]] + self._tries[self.waiting[-1]]:
            some.append(self.waiting.pop())
        return some

    def hear(self, job: Job, outcome: _Outcome, retries: int) -> None:
        if not isinstance(outcome, Exception):
            self.done[job] = outcome
            self._kept.keep(job, outcome)
            self._tell()
            return
        self._tries[job] += 1
        if isinstance(outcome, (ValueError, TypeError)) or self._tries[job] > retries:
            named = f"{job.name} ({job.hash}) with seed {job.seed}"
            raise RunFailed(f"{named} failed {self._tries[job]} times, at last: {outcome!r}") from outcome
        self.waiting.append(job)


def sweep(
    scenario: _Scenario,
    *,
    seeds: int | Iterable[int] | None = None,
    set: Mapping[str, Any] | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    flows: bool = False,
    retries: int = 2,
    progress: Callable[[int, int], object] | None = None,
) -> Result:
    """Runs all combinations and seeds of a scenario, as :func:`wellspring.sim.run` does, by an executor.

    With ``folder`` each run is kept there as it is done, and a later call runs only what is missing; a run is known
    by its scenario's hash, its seed and this version. Several processes may use one folder. A worker that dies loses its run alone, which is tried again,
    ``retries`` times at most; an ``executor`` of yours is given short runs some at a time, those of a second at most.
    ``progress`` is called with the number of runs done, and of all.
    """
    todo = jobs(scenario, seeds=seeds, set=set)
    kept = _Folder(folder, flows)
    running: dict[_Task, list[Job]] = {}
    done: SimpleQueue[_Task] = SimpleQueue()
    share = _Share() if executor is not None else None
    pool = executor if executor is not None else _processes(workers)
    try:
        runs = _Runs(todo, kept, progress)
        while runs.waiting or running:
            at_once = share.at_once if share else _WAITING + (os.cpu_count() or 1)
            under_way = sum(map(len, running.values()))
            while runs.waiting and under_way < at_once:
                some = runs.take(share.of(len(runs.waiting)) if share else 1)
                try:
                    future = pool.submit(_run_jobs, some, flows)
                except BrokenExecutor:
                    runs.waiting.extend(some)
                    break
                running[future] = some
                under_way += len(some)
                future.add_done_callback(done.put)
            broken = not running
            for future in _some_of(done, share.patience if share else None) if running else ():
                if future not in running:
                    continue  # Of a pool that was given up.
                some = running.pop(future)
                error = future.exception()
                broken |= isinstance(error, BrokenExecutor)
                if error is None:
                    outcomes, seconds = future.result()
                    if share:
                        share.hear(seconds)
                else:
                    outcomes = [error if isinstance(error, Exception) else RuntimeError(repr(error))] * len(some)
                for job, outcome in zip(some, outcomes, strict=True):
                    runs.hear(job, outcome, retries)
            if broken and share:
                raise RunFailed("the executor is broken: make another and call again with the same folder")
            if broken:
                # A dead worker ends a pool of processes, and all runs that it had not begun.
                runs.waiting.extend(job for some in running.values() for job in some)
                running.clear()
                pool.shutdown(wait=False, cancel_futures=True)
                pool = _processes(workers)
    finally:
        for future in running:
            future.cancel()
        if share is None:
            pool.shutdown(wait=True, cancel_futures=True)
        kept.close()
    # Runs that were kept may have flows that are not asked for now, and only some of them.
    without: dict[str, Any] = {} if flows else {"flows": {}}
    return collect((job, {**runs.done[job], **without}) for job in todo)
