"""The packet-level simulator: scenarios in, tables out.

>>> from wellspring import sim
>>> result = sim.run("scdp-12a", seeds=2, set={"topology.k": 4, "workload.senders": 3, "workload.size": "70KB"})
>>> result.runs["seed"], result.runs["completed"]  # of each of its two protocols
([1, 2, 1, 2], [3, 3, 3, 3])

A scenario is the name of one that comes with Wellspring (:func:`scenarios`), the path of a TOML file, or a mapping
with the same keys. ``set`` changes keys by their dotted names; a list for a key that takes one value is swept.
A table goes to pandas, polars or pyarrow by the Arrow interface, or is read by column. :func:`reproduce` runs a whole
figure of a paper, with its verdicts and plots.
"""

from __future__ import annotations

import json
import math
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from . import _native

__all__ = ["Figure", "Job", "Result", "Table", "figures", "jobs", "reproduce", "run", "scenarios", "show"]

_Scenario: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]


class Table(Mapping[str, list[Any]]):
    """A table by columns, all of one length."""

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._columns = {name: list(values) for name, values in columns.items()}

    @classmethod
    def of_rows(cls, rows: Iterable[Mapping[str, Any]]) -> Table:
        """A table of rows; what a row lacks is ``None``."""
        rows = list(rows)
        names = dict.fromkeys(name for row in rows for name in row)
        return cls({name: [row.get(name) for row in rows] for name in names})

    def __getitem__(self, name: str) -> list[Any]:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def height(self) -> int:
        """Number of rows."""
        return len(next(iter(self._columns.values()), []))

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows, one after the other."""
        for values in zip(*self._columns.values(), strict=True):
            yield dict(zip(self._columns, values, strict=True))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The Arrow interface: ``polars.DataFrame(table)``, ``pyarrow.table(table)``. Needs pyarrow."""
        import pyarrow

        return pyarrow.table(self._columns).__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """A pandas data frame."""
        import pandas

        return pandas.DataFrame(self._columns)

    def __repr__(self) -> str:
        return f"Table({self.height} rows: {', '.join(self)})"


@dataclass(frozen=True)
class Job:
    """One scenario with one seed: what a worker needs, small and picklable."""

    text: str
    """The scenario in TOML."""
    hash: str
    """Digest of everything that can move its result, the seed aside."""
    name: str
    seed: int
    parameters: dict[str, Any] = field(hash=False)
    """Every key of the scenario by its dotted name."""


@dataclass(frozen=True)
class Result:
    """The results of several runs."""

    runs: Table
    """One row a run: its scenario, seed, every parameter by its dotted name, and what came of it. Rates in Gbit/s,
    times in milliseconds; ``None`` where a run has no such request."""
    flows: Table
    """One row a flow, if asked for."""
    queues: Table
    """Queues by time, if the scenario has ``run.sample``."""


@dataclass(frozen=True)
class Figure:
    """A figure of a paper as it was reproduced: what reports are drawn from."""

    name: str
    title: str
    seeds: tuple[int, ...]
    checks: Table
    """A row for each claim: what is measured, the paper's, ours, and the verdict."""
    plots: tuple[Mapping[str, Any], ...]
    """Its plots as data: axes, and curves of points (x, y, half of y's 95 % confidence interval)."""

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Figure:
        """From a record that ``wellspring-lab reproduce --records`` keeps; this project's are in ``results``."""
        with open(path, encoding="utf-8") as file:
            return cls._of(json.load(file))

    @classmethod
    def _of(cls, record: Mapping[str, Any]) -> Figure:
        return cls(
            record["figure"],
            record["title"],
            tuple(record["seeds"]),
            Table.of_rows(record["checks"]),
            tuple(record["plots"]),
        )


def scenarios() -> Table:
    """The scenarios that come with Wellspring: names, and what each shows."""
    names, about = zip(*_native.scenarios(), strict=True)
    return Table({"name": names, "about": about})


def show(name: str) -> str:
    """The text of a scenario that comes with Wellspring."""
    return _native.scenario_text(name)


def figures() -> Table:
    """The papers' figures that can be reproduced: names, and what each shows."""
    names, titles = zip(*_native.figures(), strict=True)
    return Table({"name": names, "title": titles})


def reproduce(name: str, *, quick: bool = False, seeds: Iterable[int] | None = None) -> Figure:
    """Runs a figure of a paper on all cores, as ``wellspring-lab reproduce`` does: its claims beside what came out.

    At full size that takes seconds to hours; ``quick`` ones have fewer sessions and one seed, and judge nothing.
    :func:`wellspring.plots.figure` draws it.
    """
    chosen = None if seeds is None else _seeds(seeds)
    stop = _native.Stop()
    with ThreadPoolExecutor(1) as pool:
        # This thread hears Ctrl-C, which ends the run in the other, also if it comes when that has just begun.
        try:
            running = pool.submit(_native.reproduce, name, quick, chosen, stop)
            return Figure._of(json.loads(running.result()))
        except BaseException:
            stop.set()
            raise


def _seeds(seeds: int | Iterable[int]) -> list[int]:
    """Seeds, or so many from 1 on: whole numbers, as a part of a number would be lost without a word."""
    if isinstance(seeds, int):
        return list(range(1, seeds + 1))
    if isinstance(seeds, (str, bytes)):
        raise TypeError(f"seeds are whole numbers, no text {seeds!r}")
    try:
        return [operator.index(seed) for seed in seeds]
    except TypeError as error:
        raise TypeError(f"seeds are whole numbers or how many there are, not {seeds!r}") from error


def _text(value: str) -> str:
    """A string in TOML, which is JSON's but for surrogates and DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _toml(value: Any) -> str:
    """A value in TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_text(key)} = {_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, Sequence) or type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        value = value.tolist() if hasattr(value, "tolist") else value
        if isinstance(value, Sequence) and not isinstance(value, str):
            return "[" + ", ".join(_toml(inner) for inner in value) + "]"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return repr(value)
        raise ValueError(f"{value} is no value of a scenario")
    if isinstance(value, os.PathLike):
        return _text(os.fspath(value))
    raise TypeError(f"a scenario has numbers, strings, lists and mappings, no {type(value).__name__}")


def jobs(
    scenario: _Scenario, *, seeds: int | Iterable[int] | None = None, set: Mapping[str, Any] | None = None
) -> list[Job]:
    """The runs of a scenario: all combinations of what is swept, with each seed.

    ``seeds`` are seeds, or their number counted from 1; without it those of the scenario.
    """
    changes = [(key, _toml(value)) for key, value in (set or {}).items()]
    if seeds is not None:
        changes.append(("run.seeds", _toml(_seeds(seeds))))
    if isinstance(scenario, Mapping):
        text = "\n".join(f"{_text(key)} = {_toml(value)}" for key, value in scenario.items())
        plans = _native.plan(text=text, set=changes)
    elif isinstance(scenario, os.PathLike) or scenario.endswith(".toml"):
        plans = _native.plan(path=os.fspath(scenario), set=changes)
    else:
        plans = _native.plan(name=scenario, set=changes)
    return [
        Job(plan["text"], plan["hash"], plan["name"], seed, plan["parameters"])
        for plan in json.loads(plans)
        for seed in plan["seeds"]
    ]


def run_job(job: Job, flows: bool = False, stop: _native.Stop | None = None) -> dict[str, Any]:
    """Runs one job: its row, flows and queues. For executors, which send it to their workers."""
    row, flow_columns, queues = _native.run_scenario(job.text, job.seed, flows, stop)
    return {"row": json.loads(row), "flows": flow_columns or {}, "queues": queues}


def collect(done: Iterable[tuple[Job, Mapping[str, Any]]]) -> Result:
    """Puts the results of jobs together."""
    rows: list[dict[str, Any]] = []
    flows: dict[str, list[Any]] = {}
    queues: dict[str, list[Any]] = {}
    for job, outcome in done:
        row = dict(outcome["row"])
        head = {key: row.pop(key) for key in ("version", "scenario", "hash", "seed")}
        rows.append({**head, **job.parameters, **row})
        for table, columns in ((flows, outcome["flows"]), (queues, outcome["queues"])):
            height = len(next(iter(columns.values()), []))
            if height == 0:
                continue
            for name, values in {"hash": [job.hash] * height, "seed": [job.seed] * height, **columns}.items():
                table.setdefault(name, []).extend(values)
    return Result(Table.of_rows(rows), Table(flows), Table(queues))


def run(
    scenario: _Scenario,
    *,
    seeds: int | Iterable[int] | None = None,
    set: Mapping[str, Any] | None = None,
    flows: bool = False,
    threads: int | None = None,
) -> Result:
    """Runs a scenario with each seed, on threads of this process (all cores unless given).

    The same scenario and seed give the same row on every machine. For long series see :mod:`wellspring.sweep`.
    """
    todo = jobs(scenario, seeds=seeds, set=set)
    threads = min(threads or os.cpu_count() or 1, len(todo))
    if threads <= 1:
        return collect([(job, run_job(job, flows)) for job in todo])
    stop = _native.Stop()
    with ThreadPoolExecutor(threads) as pool:
        try:
            futures = [pool.submit(run_job, job, flows, stop) for job in todo]
            wait(futures, return_when=FIRST_EXCEPTION)
            outcomes = [future.result() for future in futures]
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return collect(zip(todo, outcomes, strict=True))
