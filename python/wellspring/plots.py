"""Plots of simulated results in the papers' forms, by matplotlib.

Each takes a :class:`wellspring.sim.Result` and returns a matplotlib figure.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from .sim import Result, Table

__all__ = ["completion_times", "goodput_by_rank", "metric", "queues"]

# Student's t at 97.5 %, for 1 to 10 degrees of freedom; beyond, the normal distribution's.
_T = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)


def _axes(axes: Any) -> tuple[Any, Any]:
    if axes is not None:
        return axes.figure, axes
    figure = _figure_type()(figsize=(6, 4), layout="constrained")
    return figure, figure.subplots()


@cache
def _figure_type() -> Any:
    """A figure that notebooks show, also where pyplot was not imported."""
    from matplotlib.figure import Figure

    def picture(figure: Any) -> bytes:
        file = io.BytesIO()
        figure.savefig(file, format="png")
        return file.getvalue()

    return type("Figure", (Figure,), {"_repr_png_": picture})


def _groups(table: Mapping[str, list[Any]], by: str) -> dict[Any, list[int]]:
    groups: dict[Any, list[int]] = {}
    for at, value in enumerate(table[by]):
        groups.setdefault(value, []).append(at)
    return groups


def _flows(result: Result) -> Table:
    """The flows that are measured: not the background."""
    if result.flows.height == 0:
        raise ValueError("no flows are here: run with flows=True")
    return Table.of_rows(flow for flow in result.flows.rows() if flow["kind"] != "background")


def metric(result: Result, x: str, y: str, *, by: str = "protocol.name", axes: Any = None) -> Any:
    """A column over a parameter: means over seeds with 95 % confidence, a line for each value of ``by``."""
    figure, axes = _axes(axes)
    runs = result.runs
    for name, places in _groups(runs, by).items():
        points: dict[Any, list[float]] = {}
        for at in places:
            points.setdefault(runs[x][at], []).append(runs[y][at])
        means = {key: sum(values) / len(values) for key, values in points.items()}
        axes.errorbar(
            list(points),
            list(means.values()),
            yerr=[_half_interval(values, means[key]) for key, values in points.items()],
            marker="o",
            capsize=3,
            label=str(name),
        )
    axes.set(xlabel=x, ylabel=y, ylim=(0, None))
    axes.legend(title=by)
    return figure


def _half_interval(values: list[float], mean: float) -> float:
    count = len(values)
    if count < 2:
        return 0.0
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    return (_T[count - 2] if count - 2 < len(_T) else 1.96) * deviation / math.sqrt(count)


def goodput_by_rank(result: Result, *, by: str = "protocol", axes: Any = None) -> Any:
    """Goodputs of flows from the worst to the best, as in SCDP's figures. Needs ``flows=True``."""
    figure, axes = _axes(axes)
    flows = _flows(result)
    for name, places in _groups(flows, by).items():
        goodputs = sorted(flows["goodput_gbps"][at] for at in places)
        axes.plot(range(1, len(goodputs) + 1), goodputs, label=str(name))
    axes.set(xlabel="rank of flow", ylabel="goodput [Gbit/s]", ylim=(0, None))
    axes.legend(title=by)
    return figure


def completion_times(result: Result, *, by: str = "protocol", axes: Any = None) -> Any:
    """The distribution of flows' completion times. Needs ``flows=True``; flows that did not complete are left out."""
    figure, axes = _axes(axes)
    flows = _flows(result)
    for name, places in _groups(flows, by).items():
        times = sorted((flows["end_s"][at] - flows["start_s"][at]) * 1e3 for at in places if not flows["reason"][at])
        axes.step(times, [(rank + 1) / len(times) for rank in range(len(times))], where="post", label=str(name))
    axes.set(xlabel="completion time [ms]", ylabel="share of flows", xscale="log", ylim=(0, 1))
    axes.legend(title=by)
    return figure


def queues(result: Result, *, axes: Any = None) -> Any:
    """The longest queue of data packets by time. Needs a scenario with ``run.sample``."""
    figure, axes = _axes(axes)
    if result.queues.height == 0:
        raise ValueError('no queues were sampled: set {"run.sample": "10us"}')
    for (hash_, seed), longest in _longest(result.queues).items():
        axes.step([at * 1e3 for at in longest], list(longest.values()), where="post", label=f"{hash_[:6]}, seed {seed}")
    axes.set(xlabel="time [ms]", ylabel="longest queue [packets]", ylim=(0, None))
    axes.legend()
    return figure


def _longest(queues: Table) -> dict[tuple[str, int], dict[float, int]]:
    longest: dict[tuple[str, int], dict[float, int]] = {}
    rows = zip(queues["hash"], queues["seed"], queues["at_s"], queues["packets"], strict=True)
    for hash_, seed, at, packets in rows:
        of_run = longest.setdefault((hash_, seed), {})
        of_run[at] = max(of_run.get(at, 0), packets)
    return longest
