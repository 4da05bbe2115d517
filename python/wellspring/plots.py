"""Plots of simulated results in the papers' forms, by matplotlib.

Each takes a :class:`wellspring.sim.Result` and returns a matplotlib figure; :func:`figure` draws a
:class:`wellspring.sim.Figure` with the plots, colours and forms of the reports.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from .sim import Figure, Result, Table

__all__ = ["completion_times", "figure", "goodput_by_rank", "metric", "queues"]

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


def _with_unit(column: str) -> str:
    """A column's name with its unit."""
    units = {"fct_": "ms", "goodput_": "Gbit/s"}
    for prefix, unit in units.items():
        if column.startswith(prefix):
            return f"{column} [{unit}]"
    return f"{column.removesuffix('_us')} [us]" if column.endswith("_us") else column


def metric(result: Result, x: str, y: str, *, by: str = "protocol.name", axes: Any = None) -> Any:
    """A column over a parameter: means over seeds with 95 % confidence, a line for each value of ``by``.

    Runs without a value (``None``) are left out.
    """
    figure, axes = _axes(axes)
    runs = result.runs
    for name, places in _groups(runs, by).items():
        points: dict[Any, list[float]] = {}
        for at in places:
            if runs[y][at] is not None:
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
    axes.set(xlabel=_with_unit(x), ylabel=_with_unit(y), ylim=(0, None))
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


# The reports' colours, and the protocols that have the same one in every plot.
_COLOURS = (
    "#1F6FD6", "#D26A0C", "#8A4FBF", "#BF2F3A", "#1E844E", "#0A828C", "#8C6A12", "#B83D7D", "#4A55B0",
)  # fmt: skip
_REFERENCE = "#6B7280"
_PAPER = "#1F2933"
_OF_PROTOCOLS = {
    "SCDP": 0, "RaptorQ": 0, "LTTP": 0, "NDP+": 2, "NDP": 1, "DCTCP": 4, "TCP": 3, "PIAS": 4,
}  # fmt: skip


def figure(reproduced: Figure) -> Any:
    """All plots of a figure that was reproduced, one below the other, as its report has them."""
    plots = [plot for plot in reproduced.plots if any(curve["points"] for curve in plot["curves"])]
    if not plots:
        raise ValueError(f"{reproduced.name} has no plots: `checks` is all of it")
    drawn = _figure_type()(figsize=(7, 4.6 * len(plots)), layout="constrained")
    for plot, axes in zip(plots, drawn.subplots(len(plots), squeeze=False)[:, 0], strict=True):
        _draw(plot, axes)
    return drawn


def _draw(plot: Mapping[str, Any], axes: Any) -> None:
    colours = _colours(plot["curves"])
    bars = [curve["name"] for curve in plot["curves"] if _is_bars(curve)]
    named: set[str] = set()
    for curve in plot["curves"]:
        points = curve["points"]
        if not points:
            continue
        # Curves of one name look alike, and are named once.
        label = None if curve["name"] in named else curve["name"]
        named.add(curve["name"])
        x, y, half = (list(values) for values in zip(*points, strict=True))
        style = {"color": colours[curve["name"]], "label": label}
        if _is_bars(curve):
            width = 0.8 / len(bars)
            places = [at + (bars.index(curve["name"]) - (len(bars) - 1) / 2) * width for at in x]
            alpha = 0.45 if curve["source"] == "shipped" else 1.0
            axes.bar(places, y, width, yerr=half if any(half) else None, capsize=3, alpha=alpha, **style)
        elif curve["source"] == "paper":
            axes.plot(x, y, linestyle="", marker="D", **style)
        else:
            line = {"shipped": "--", "reference": ":"}.get(curve["source"], "-")
            is_marked = curve["shape"] != "curve" and len(points) <= 45
            form = {"linestyle": "" if curve["shape"] == "points" else line, "marker": "o" if is_marked else None}
            axes.errorbar(x, y, yerr=half if any(half) else None, capsize=3, **form, **style)
    axes.set(title=plot["title"], xlabel=plot["x"]["label"], ylabel=plot["y"]["label"])
    if plot["x"].get("log"):
        axes.set_xscale("log")
    if plot["y"].get("log"):
        axes.set_yscale("log", nonpositive="mask")
    else:
        axes.set_ylim(min(0, axes.get_ylim()[0]), None)
    if plot.get("categories"):
        axes.set_xticks(range(len(plot["categories"])), plot["categories"])
    axes.legend(fontsize="small")


def _is_bars(curve: Mapping[str, Any]) -> bool:
    return bool(curve["shape"] == "bars" and curve["source"] != "paper")


def _colours(curves: list[Mapping[str, Any]]) -> dict[str, str]:
    """A colour for each name: its protocol's, unless another curve has it already; what is shipped has that of what it
    is shipped instead of."""
    own = {
        curve["name"]: next((at for start, at in _OF_PROTOCOLS.items() if curve["name"].startswith(start)), None)
        for curve in curves
    }
    reserved = {at for at in own.values() if at is not None}
    chosen: dict[str, str] = {}
    for curve in curves:
        name, source = curve["name"], curve["source"]
        if name in chosen:
            continue
        instead_of = max((other for other in chosen if name.startswith(other)), key=len, default=None)
        preferred = own[name]
        if source == "paper":
            chosen[name] = _PAPER
        elif source == "reference":
            chosen[name] = _REFERENCE
        elif source == "shipped" and instead_of is not None:
            chosen[name] = chosen[instead_of]
        elif preferred is not None and _COLOURS[preferred] not in chosen.values():
            chosen[name] = _COLOURS[preferred]
        else:
            free = (c for at, c in enumerate(_COLOURS) if at not in reserved and c not in chosen.values())
            chosen[name] = next(free, _COLOURS[len(chosen) % len(_COLOURS)])
    return chosen
