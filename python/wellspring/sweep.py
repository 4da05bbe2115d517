"""Many simulations by any executor of the ``concurrent.futures`` protocol, resumable.

>>> from wellspring.sweep import sweep
>>> small = {"topology.k": 4, "workload.senders": [2, 3], "workload.size": "70KB"}
>>> from concurrent.futures import ThreadPoolExecutor
>>> with ThreadPoolExecutor() as pool:
...     result = sweep("scdp-12a", seeds=2, set=small, executor=pool)
>>> sorted(result.runs["workload.senders"])
[2, 2, 2, 2, 3, 3, 3, 3]

Processes of this machine run it unless an executor is given. On a cluster that is Dask's:
``sweep(..., executor=dask_client.get_executor())``. Workers need the same version of this package; rows do not
depend on who made them.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

from .sim import Job, Result, _Scenario, collect, jobs, run_job

__all__ = ["RunFailed", "sweep"]

_WAITING = 64
"""Runs handed to our own processes beyond those that they are working on; if one dies, all are handed over again."""

_AT_EXECUTOR = 10_000
"""Runs handed to another executor at one time: it does not say how many it works on, and a cluster may have many cores."""


class RunFailed(RuntimeError):
    """A run that failed as often as it was tried; the others are done and kept."""


class _Folder:
    """``runs.jsonl`` of a folder: a line for each run, appended as it is done."""

    def __init__(self, folder: str | os.PathLike[str] | None, flows: bool) -> None:
        self._file: IO[str] | None = None
        self._done: dict[tuple[str, int], dict[str, Any]] = {}
        if folder is None:
            return
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        table = path / "runs.jsonl"
        whole = 0
        if table.exists():
            for line in table.read_bytes().splitlines(keepends=True):
                try:
                    entry = json.loads(line) if line.endswith(b"\n") else None
                except ValueError:
                    entry = None
                if entry is None:
                    break  # Cut off when an earlier sweep was killed: it and what follows is run again.
                whole += len(line)
                if entry["outcome"]["row"]["version"] == _version() and (entry["outcome"]["flows"] or not flows):
                    self._done[entry["hash"], entry["seed"]] = entry["outcome"]
            os.truncate(table, whole)
        self._file = table.open("a", encoding="utf-8")

    def done(self, job: Job) -> dict[str, Any] | None:
        return self._done.get((job.hash, job.seed))

    def keep(self, job: Job, outcome: Mapping[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps({"hash": job.hash, "seed": job.seed, "outcome": outcome}) + "\n")
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _version() -> str:
    from ._native import __version__

    return __version__


def _processes(workers: int | None) -> ProcessPoolExecutor:
    # A fork of a process with threads may lock up: workers are started anew.
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


def _some_of(done: SimpleQueue[Future[dict[str, Any]]]) -> list[Future[dict[str, Any]]]:
    """Waits for one, and takes what is there by then."""
    some = [done.get()]
    while not done.empty():
        some.append(done.get())
    return some


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
    by its scenario's hash, its seed and this version. A worker that dies loses its run alone, which is tried again,
    ``retries`` times at most. ``progress`` is called with the number of runs done, and of all.
    """
    todo = jobs(scenario, seeds=seeds, set=set)
    kept = _Folder(folder, flows)
    outcomes: dict[Job, Mapping[str, Any]] = {}
    waiting: list[Job] = []
    for job in todo:
        before = kept.done(job)
        if before is None:
            waiting.append(job)
        else:
            outcomes[job] = before
    total = len(todo)
    tries = dict.fromkeys(waiting, 0)
    running: dict[Future[dict[str, Any]], Job] = {}
    done: SimpleQueue[Future[dict[str, Any]]] = SimpleQueue()
    waiting.reverse()
    own = executor is None
    at_once = _WAITING + (os.cpu_count() or 1) if own else _AT_EXECUTOR
    pool = executor if executor is not None else _processes(workers)
    try:
        if progress is not None:
            progress(len(outcomes), total)
        while waiting or running:
            while waiting and len(running) < at_once:
                job = waiting.pop()
                try:
                    future = pool.submit(run_job, job, flows)
                except BrokenExecutor:
                    waiting.append(job)
                    break
                running[future] = job
                future.add_done_callback(done.put)
            broken = not running
            for future in _some_of(done) if running else ():
                if future not in running:
                    continue  # Of a pool that was given up.
                job = running.pop(future)
                error = future.exception()
                if error is None:
                    outcomes[job] = future.result()
                    kept.keep(job, outcomes[job])
                    if progress is not None:
                        progress(len(outcomes), total)
                    continue
                broken |= isinstance(error, BrokenExecutor)
                tries[job] += 1
                if isinstance(error, (ValueError, TypeError)) or tries[job] > retries:
                    named = f"{job.name} ({job.hash}) with seed {job.seed}"
                    raise RunFailed(f"{named} failed {tries[job]} times, at last: {error!r}") from error
                waiting.append(job)
            if broken and own:
                # A dead worker ends a pool of processes, and all runs that it had not begun.
                waiting.extend(running.values())
                running.clear()
                pool.shutdown(wait=False, cancel_futures=True)
                pool = _processes(workers)
            elif broken:
                raise RunFailed("the executor is broken: make another and call again with the same folder")
    finally:
        for future in running:
            future.cancel()
        if own:
            pool.shutdown(wait=True, cancel_futures=True)
        kept.close()
    return collect((job, outcomes[job]) for job in todo)
