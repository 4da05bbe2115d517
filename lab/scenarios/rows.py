"""Rows of the table: what ours and the peers took in one case, how they compare, and whether a goal is reached."""

import dataclasses
import re
import statistics
import sys

from .system import BUILDS, Failure


def label(program):
    """Name of one of our builds in the table."""
    return "wellspring" if len(BUILDS) == 1 else program


@dataclasses.dataclass
class Goal:
    """Bounds of our value; without a bound there was nothing of ours to derive it from, and the goal is missed."""

    least: float | None = None
    most: float | None = None
    # The peer of whose value in the same round the bounds are multiples; without it there is no verdict.
    of: str | None = None

    def has_bounds(self):
        return self.least is not None or self.most is not None

    def short_by(self, value, scale=1.0):
        """By which part of a bound a value misses it; 0 if it does not."""
        if not self.has_bounds():
            return 1.0
        if self.least is not None and value < self.least * scale:
            return 1 - value / (self.least * scale)
        if self.most is not None and value > self.most * scale:
            return value / (self.most * scale) - 1 if self.most * scale else 1.0
        return 0.0


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
    # What is asked for, in words and numbers.
    reach: str = ""
    goals: list = dataclasses.field(default_factory=list)
    fair: float | None = None
    # Contestants that bound what is possible, and do something else.
    ceilings: tuple = ()
    # Whether the number is one of all rounds together, such as the slowest.
    of_all_rounds: bool = False
    # What was told of a goal whose bounds are not there.
    met: bool | None = None

    def ask(self, reach, least=None, most=None, of=None):
        """Adds a goal."""
        self.reach = "; ".join(filter(None, [self.reach, reach]))
        self.goals.append(Goal(least, most, of))
        return self

    def ask_nothing(self):
        """Sizes are too small, or rounds too few, to judge by."""
        self.reach, self.goals = "", []

    def value(self, who=None):
        """The median of a contestant, of our first build if none is named."""
        return self.results.get(who or label(BUILDS[0]), {}).get("value")

    def rounds(self, who=None):
        return self.results.get(who or label(BUILDS[0]), {}).get("rounds", [])

    def peers(self):
        ours = {label(build) for build in BUILDS}
        return [who for who in self.results if who not in ours and who not in self.ceilings]

    def best(self):
        """The best of the peers that did not fail."""
        whole = [who for who in self.peers() if self.value(who) is not None]
        pick = min if self.better == "less" else max
        return pick(whole, key=self.value) if whole and self.better != "fair" else None

    def ratio(self):
        """How many times better ours is than the best peer, or its share over the fair one."""
        ours, best = self.value(), self.best()
        if ours is None:
            return None
        if self.better == "fair":
            return ours / self.fair
        if best is None:
            return None
        above, below = (ours, self.value(best)) if self.better == "more" else (self.value(best), ours)
        return above / below if below else None

    def failed(self):
        """Whether ours came to no value."""
        return self.value() is None

    def verdict(self):
        """`met` only if each round meets each goal; `missed` by the median, and where ours failed; nothing where no goal is."""
        if self.failed():
            return "missed"
        verdicts = [self.verdict_on(goal) for goal in self.goals]
        if not verdicts and self.met is not None:
            return "met" if self.met else "missed"
        return next((each for each in ("missed", "no verdict", "within the spread", "met") if each in verdicts), "")

    def is_missed(self):
        return self.verdict() == "missed"

    def verdict_on(self, goal):
        if goal.of and self.value(goal.of) is None:
            return "no verdict"
        if self.short_by(goal):
            return "missed"
        if self.of_all_rounds:
            return "met"
        theirs = self.rounds(goal.of) if goal.of else [1.0] * len(self.rounds())
        return "within the spread" if any(goal.short_by(*pair) for pair in zip(self.rounds(), theirs)) else "met"

    def short_by(self, goal):
        return goal.short_by(self.value(), self.value(goal.of) if goal.of else 1.0)

    def judged(self):
        """The verdict in words: by how much a goal is missed, and from how few rounds it is met."""
        verdict = self.verdict()
        if verdict == "missed" and not self.failed():
            short = max((self.short_by(goal) for goal in self.goals if self.verdict_on(goal) == "missed" and goal.has_bounds()), default=0)
            return f"missed by {100 * short:.{0 if short >= 0.1 else 1}f} %" if short else verdict
        if verdict == "no verdict":
            return f"no verdict without {', '.join(goal.of for goal in self.goals if goal.of and self.value(goal.of) is None)}"
        if verdict == "met" and not self.of_all_rounds and len(self.rounds()) < 2:
            return "met in one round" if self.rounds() else "met by the median"
        return verdict

    def as_json(self):
        fields = {name: value for name, value in dataclasses.asdict(self).items() if name != "met"}
        return {**fields, "ratio": self.ratio(), "best_peer": self.best(), "verdict": self.verdict()}

    @staticmethod
    def from_json(row):
        names = {field.name for field in dataclasses.fields(Row)}
        made = Row(**{name: value for name, value in row.items() if name in names})
        if "goals" in row:
            made.goals = [Goal(**goal) for goal in row["goals"]]
        else:
            made.goals, made.of_all_rounds = stated(made.reach), made.scenario == "incast"
        return made

    def cells(self):
        """Scenario, case, ours with its unit, ratio, best peer, others, reach."""
        show = lambda who: f"{who} {shown(self.results[who], of_all_rounds=self.of_all_rounds)}"
        best, ratio = self.best(), self.ratio()
        others = [show(who) for who in self.results if who not in (best, label(BUILDS[0]))]
        ours = shown(self.results.get(label(BUILDS[0]), {"value": None}), self.unit, self.of_all_rounds)
        reach = f"{self.reach}: {self.judged()}" if self.reach else self.judged()
        return [self.scenario, self.case, ours, f"{ratio:.2f}" if ratio else "-", show(best) if best else "-", ", ".join(others), reach]


# Goals of rows from before these had numbers for them.
STATED = [
    (r"no slower than TCP BBR$", lambda: Goal(least=1.0, of="bbr")),
    (r"<= ([\d.]+)x nginx$", lambda times: Goal(most=float(times), of="nginx and curl")),
    (r"<= ([\d.]+)x healthy \(([\d.]+) s\)$", lambda times, healthy: Goal(most=float(times) * float(healthy))),
    (r">= ([\d.]+)% of the line$", lambda percent: Goal(least=float(percent))),
    (r"within 2x \(([\d.]+)-([\d.]+) %\)$", lambda least, most: Goal(float(least), float(most))),
    (r"([\d.]+)-([\d.]+) %$", lambda least, most: Goal(float(least), float(most))),
    (r">= ([\d.]+)( %| Gbit/s| s/GB| s)?$", lambda least, _: Goal(least=float(least))),
    (r"<= ([\d.]+)( %| Gbit/s| s/GB| s)?$", lambda most, _: Goal(most=float(most))),
]


def stated(reach):
    """Goals that words state; lines are of 100 Mbit/s."""
    for pattern, goal in STATED:
        if found := re.match(pattern, reach):
            return [goal(*found.groups())]
    return []


def number(value):
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def shown(result, unit="", of_all_rounds=False):
    """A value, how many rounds it is from, and the least and the most of them."""
    value, rounds = result["value"], result.get("rounds", [])
    if value is None:
        return f"({result.get('note', 'failed')})"
    text = f"{number(value)} {unit}".rstrip()
    said = []
    if len(rounds) > 1 and not of_all_rounds:
        low, high = number(min(rounds)), number(max(rounds))
        said.append(f"{len(rounds)}: {low}" if low == high else f"{len(rounds)}: {low}-{high}")
    if result.get("note"):
        said.append(result["note"])
    return f"{text} ({'; '.join(said)})" if said else text


WIDTHS = (9, 26, 30, 6, 30)


def print_row(row, head):
    """A line of the table, and the line above the first."""
    line = lambda cells: "  ".join([*(f"{cell:<{width}}" for cell, width in zip(cells, WIDTHS)), "; ".join(filter(None, cells[5:]))])
    if head:
        print(line(["scenario", "case", "ours (rounds: range)", "ratio", "best peer", "others", "reach"]))
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
                failures[who] = f"{failure}, in round {turn + 1} of {rounds}" if turn > 0 else str(failure)
                continue
            if turn >= 0:
                taken[who].append(took)
    return {who: {"value": None, "note": failures[who]} if who in failures else middle(all_rounds) for who, all_rounds in taken.items()}


def middle(all_rounds):
    """Medians of what rounds took, and each round's; a quantity that a round lacks has none."""
    quantities = dict.fromkeys(name for took in all_rounds for name, value in took.items() if name != "note" and not isinstance(value, bool))
    each = {name: [took.get(name) for took in all_rounds] for name in quantities}
    each = {name: values for name, values in each.items() if all(value is None or isinstance(value, (int, float)) for value in values)}
    result = {name: None if None in values else statistics.median(values) for name, values in each.items()}
    result |= {"rounds": [value for value in each["value"] if value is not None], "each": {name: values for name, values in each.items() if name != "value"}}
    if notes := [took["note"] for took in all_rounds if took.get("note")]:
        result["note"] = notes[0]
    return result


def of(results, name):
    """The same results, with another quantity as their value; peers that have none are left out, and ours has failed without."""
    ours = {label(build) for build in BUILDS}
    of_one = lambda result: {**result, "value": result.get(name), "rounds": [each for each in result.get("each", {}).get(name, []) if each is not None]}
    results = {who: result if result["value"] is None or result.get(name) is not None else {**result, "note": "too short to tell"}
               for who, result in results.items()}
    return {who: of_one(result) for who, result in results.items() if result["value"] is None or name in result or who in ours}
