"""Rows of the table: what ours and the peers took in one case, and how they compare."""

import dataclasses
import statistics
import sys

from .system import BUILDS, Failure


def label(program):
    """Name of one of our builds in the table."""
    return "wellspring" if len(BUILDS) == 1 else program


@dataclasses.dataclass
class Row:
    """One case of a scenario."""

    scenario: str
    case: str
    unit: str
    # More is better, less is better, or as near as possible to `fair`.
    better: str
    # By contestant: `value` (None if it failed, and `note` says why), `rounds`, what else was counted.
    results: dict
    reach: str = ""
    met: bool | None = None
    fair: float | None = None
    # Contestants that bound what is possible, and do something else.
    ceilings: tuple = ()

    def value(self, who=None):
        """The median of a contestant, of our first build if none is named."""
        return self.results[who or label(BUILDS[0])]["value"]

    def peers(self):
        ours = {label(build) for build in BUILDS}
        return [who for who in self.results if who not in ours and who not in self.ceilings]

    def best(self):
        """The best of the peers that did not fail."""
        whole = [who for who in self.peers() if self.value(who)]
        pick = min if self.better == "less" else max
        return pick(whole, key=self.value) if whole and self.better != "fair" else None

    def ratio(self):
        """How many times better ours is than the best peer, or its share over the fair one."""
        ours, best = self.value(), self.best()
        if not ours:
            return None
        if self.better == "fair":
            return ours / self.fair
        if not best:
            return None
        return ours / self.value(best) if self.better == "more" else self.value(best) / ours

    def as_json(self):
        return {**dataclasses.asdict(self), "ratio": self.ratio(), "best_peer": self.best()}

    @staticmethod
    def from_json(row):
        names = {field.name for field in dataclasses.fields(Row)}
        return Row(**{name: value for name, value in row.items() if name in names})

    def cells(self):
        """Scenario, case, ours with its unit, ratio, best peer, others, reach."""
        show = lambda who: f"{who} {shown(self.results[who])}"
        best, ratio = self.best(), self.ratio()
        others = [show(who) for who in self.results if who not in (best, label(BUILDS[0]))]
        verdict = {True: ": met", False: ": missed", None: ""}[self.met]
        return [self.scenario, self.case, f"{shown(self.results[label(BUILDS[0])])} {self.unit}", f"{ratio:.2f}" if ratio else "-",
                show(best) if best else "-", ", ".join(others), self.reach + verdict]


def shown(result):
    value = result["value"]
    if value is None:
        return f"({result.get('note', 'failed')})"
    text = f"{value:.0f}" if value >= 100 else f"{value:.3g}"
    return f"{text} ({result['note']})" if result.get("note") else text


WIDTHS = (9, 26, 16, 6, 18)


def print_row(row, head):
    """A line of the table, and the line above the first."""
    line = lambda cells: "  ".join([*(f"{cell:<{width}}" for cell, width in zip(cells, WIDTHS)), "; ".join(filter(None, cells[5:]))])
    if head:
        print(line(["scenario", "case", "ours", "ratio", "best peer", "others", "reach"]))
    print(line(row.cells()), flush=True)


def in_turns(contestants, rounds, warm=0):
    """Results of contestants, each a function that gives what one round took; a peer that fails is not tried again."""
    taken = {who: [] for who in contestants}
    failures = {}
    for turn in range(-warm, rounds):
        for who, run in contestants.items():
            if who in failures:
                continue
            try:
                took = run()
            except Failure as failure:
                print(f"{who}: {failure}", file=sys.stderr)
                failures[who] = str(failure)
                continue
            if turn >= 0:
                taken[who].append(took)
    results = {}
    for who, all_rounds in taken.items():
        if who in failures:
            results[who] = {"value": None, "note": failures[who]}
            continue
        middle = lambda name: statistics.median(took[name] for took in all_rounds)
        numeric = [name for name, value in all_rounds[0].items() if isinstance(value, (int, float)) and not isinstance(value, bool)]
        results[who] = {name: middle(name) for name in numeric} | {"rounds": [took["value"] for took in all_rounds]}
        notes = [took["note"] for took in all_rounds if took.get("note")]
        if notes:
            results[who]["note"] = notes[0]
    return results


def of(results, name):
    """The same results, with another quantity as their value; contestants that have none are left out."""
    return {who: {**result, "value": result.get(name), "rounds": []} for who, result in results.items()
            if result["value"] is None or name in result}
