"""What the laboratory's scripts make of measurements: verdicts, windows, comparisons. The scripts themselves need root."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

LAB = Path(__file__).parents[2] / "lab"
sys.path.insert(0, str(LAB))

from scenarios import long_link, page, peers, rows, system, trees


def script(name: str) -> Any:
    loader = SourceFileLoader(f"lab_{name}", str(LAB / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def row(value: float | None, rounds: list[float], **peers: Any) -> Any:
    ours = {rows.label(system.BUILDS[0]): {"value": value, "rounds": rounds}}
    return rows.Row("scenario", "case", "s", "less", ours | peers)


def test_a_goal_is_met_only_if_each_round_meets_it() -> None:
    assert row(1.0, [0.9, 1.0, 1.05]).ask("<= 1.1 s", most=1.1).verdict() == "met"
    assert row(1.06, [0.99, 1.06, 1.85]).ask("<= 1.1 s", most=1.1).verdict() == "within the spread"
    assert row(1.2, [1.0, 1.2, 1.3]).ask("<= 1.1 s", most=1.1).judged() == "missed by 9.1 %"
    assert row(1.0, [1.0]).ask("<= 1.1 s", most=1.1).judged() == "met in one round"
    assert row(1.0, []).ask("<= 1.1 s", most=1.1).judged() == "met by the median"


def test_a_failure_of_ours_misses_whatever_is_asked() -> None:
    assert row(None, []).ask("<= 1.1 s", most=1.1).is_missed()
    assert row(None, []).is_missed()
    assert row(1.0, [1.0]).ask("<= 1.1x healthy", most=None).is_missed()


def test_a_goal_of_a_peer_that_is_not_there_has_no_verdict() -> None:
    one = row(1.0, [1.0], bbr={"value": None, "note": "not in 10 s"})
    assert one.ask("no slower than bbr", most=1, of="bbr").judged() == "no verdict without bbr"
    assert not one.is_missed()
    assert row(1.0, [1.0, 1.0], bbr={"value": 1.2, "rounds": [1.2, 0.9]}).ask("", most=1, of="bbr").verdict() == "within the spread"


def test_nothing_moved_again_is_the_best_a_peer_can_do() -> None:
    assert row(1.0, [1.0], rsync={"value": 0.0, "rounds": [0.0]}).best() == "rsync"


def test_a_quantity_that_a_round_lacks_has_no_median() -> None:
    result = rows.middle([{"value": 2.0, "settled": 1.0}, {"value": 4.0, "settled": None}])
    assert result["value"] == 3.0 and result["settled"] is None
    ours = rows.label(system.BUILDS[0])
    assert rows.of({ours: result, "peer": {"value": 1.0}}, "settled")[ours]["value"] is None


def test_rates_are_of_the_same_seconds() -> None:
    # Nothing for a second, then 1 MB every half of one.
    steps = [(100.0, 0)] + [(101 + half / 2, half * 1_000_000) for half in range(8)]
    assert long_link.rate_between(steps, 101.0, 104.0) == 16.0
    assert long_link.rate_between(steps, 104.4, 106.0) is None
    intervals = [{"sum": {"start": at, "end": at + 1, "seconds": 1, "bytes": 1_000_000 * at}} for at in range(5)]
    report: dict[str, Any] = {"start": {"timestamp": {"timesecs": 100}}, "intervals": intervals}
    assert peers.rate_of_intervals(report, 100.7, 101.0, 103.8) == 12.0
    report["start"]["timestamp"]["timemillisecs"] = 100_200
    assert peers.rate_of_intervals(report, 100.1, 101.1, 103.3) == 12.0


def test_a_copy_that_ends_too_early_is_another(tmp_path: Path) -> None:
    for name, content in (("one", b"bytes"), ("short", b"byte"), ("other", b"bytez")):
        (tmp_path / name).write_bytes(content)
        os.utime(tmp_path / name, (1, 1))
    assert system.same_bytes(tmp_path / "one", tmp_path / "one")
    assert not system.same_bytes(tmp_path / "one", tmp_path / "short")
    assert not system.same_bytes(tmp_path / "one", tmp_path / "other")


def test_trees_differ_by_bytes_names_and_times(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for tree in (one, other):
        (tree / "below").mkdir(parents=True)
        (tree / "below" / "file").write_bytes(b"bytes")
        (tree / "link").symlink_to("below")
        for path in (tree / "below" / "file", tree / "below"):
            os.utime(path, (1, 1))
        os.utime(tree / "link", (1, 1), follow_symlinks=False)
    assert not [*trees.differences(one, other)]
    assert [*trees.differences(one, tmp_path / "none")]
    os.utime(other / "below" / "file", (2, 2))
    assert [*trees.differences(one, other)] and not [*trees.differences(one, other, attributes=False)]
    # Of the same length and the same time.
    (other / "below" / "file").write_bytes(b"bytez")
    os.utime(other / "below" / "file", (1, 1))
    assert [*trees.differences(one, other, attributes=False)] == [str(other / "below" / "file")]


def test_a_program_that_had_ended_was_not_killed() -> None:
    ended = subprocess.Popen([sys.executable, "-c", "pass"])
    ended.wait()
    assert not trees.still_running(ended)
    assert trees.still_running(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]))


def test_processors_of_one_name_are_told_apart_by_their_model() -> None:
    two = "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC\n"
    assert page.processor(two) == "AMD EPYC (family 25, model 1)"
    assert page.processor("model name : ARM\n") == "ARM"
    assert page.processor("") == "unknown processor"


def test_rows_of_another_machine_stay_beside_and_early_goals_are_judged_by_their_words(tmp_path: Path) -> None:
    def head(machine: str) -> dict[str, Any]:
        return {"date": "2026-11-26", "machine": machine, "kernel": "6", "commit": "1", "quick": False, "command": "lab/net"}

    def early(value: float, bbr: float) -> dict[str, Any]:
        results = {"wellspring": {"value": value, "rounds": [value]}, "bbr": {"value": bbr, "rounds": [bbr]}}
        return {"scenario": "alone", "case": "RTT 2 ms, 0 % lost", "unit": "Mbit/s", "better": "more", "results": results,
                "reach": "no slower than TCP BBR", "met": True, "fair": None, "ceilings": []}

    record = tmp_path / "record.jsonl"
    lines = [head("one"), early(90.0, 80.0), early(92.3, 94.0), head("other"), early(95.0, 94.0)]
    record.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [each.judged() for each in page.read(record)] == ["missed by 1.8 %", "met in one round"]
    text = page.text(record)
    assert "| 1 | 92.3 Mbit/s" in text and "| 2 | 95 Mbit/s" in text
    assert "RTT 240 ms, 5 % lost" in text and "each number is of one round" in text


def test_a_record_keeps_goals_and_rounds(tmp_path: Path) -> None:
    made = row(1.0, [0.9, 1.0, 1.2]).ask("<= 1.1 s", most=1.1)
    again = rows.Row.from_json(json.loads(json.dumps(made.as_json())))
    assert again.goals == made.goals and again.verdict() == made.verdict() == "within the spread"


@pytest.mark.parametrize(
    ("lines", "met"),
    [
        ([(1, "alone"), (1, 0), (1, "alone"), (1, 0)], True),
        ([(1, "alone"), (1, 0), (1, "alone"), (1, 1)], False),
        ([(1, "alone"), (1, 0), (1, "alone"), None], False),
        ([(1, "alone"), (1, 0)], False),
    ],
)
def test_a_flood_that_kills_a_transfer_is_missed(lines: list[tuple[int, Any] | None], met: bool) -> None:
    def line(told: tuple[int, Any] | None) -> str | None:
        if told is None:
            return None
        rate, what = told
        flood = what if what == "alone" else "beside 100 hostile datagrams (50/s)"
        losses = 0 if what == "alone" else what
        return f"with keys, round 1: {rate}.00 Gbit/s, {flood}; 3 refused, 0 lost by full sockets, {losses} losses of the server"

    assert script("trust").row_of_flood(map(line, lines), 1)["met"] is met
