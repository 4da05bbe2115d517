"""Simulations as tables."""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import interrupted
from wellspring import sim
from wellspring.sweep import RunFailed, sweep

SMALL = {"topology.k": 4, "workload.senders": [2, 3], "workload.size": "70KB", "protocol.name": "scdp"}


def test_every_parameter_is_a_column() -> None:
    result = sim.run("scdp-12a", seeds=[5, 7], set=SMALL, flows=True)
    assert result.runs["workload.senders"] == [2, 2, 3, 3]
    assert result.runs["seed"] == [5, 7, 5, 7]
    assert set(result.runs["topology.k"]) == {4} and set(result.runs["workload.size"]) == {"70000B"}
    assert result.runs["completed"] == [2, 2, 3, 3]
    incast = [flow for flow in result.flows.rows() if flow["kind"] == "transfer"]
    assert len(incast) == 10 and {flow["bytes"] for flow in incast} == {70_000}
    assert all(flow["end_s"] > flow["start_s"] and flow["reason"] == "" for flow in incast)
    assert result.queues.height == 0


def test_same_seed_same_digest_whatever_the_threads() -> None:
    one = sim.run("scdp-12a", seeds=2, set=SMALL, threads=1)
    many = sim.run("scdp-12a", seeds=2, set=SMALL, threads=4)
    assert dict(one.runs) == dict(many.runs)


def test_scenarios_are_names_files_and_mappings(tmp_path: Path) -> None:
    names = sim.scenarios()["name"]
    assert "scdp-12a" in names
    (tmp_path / "mine.toml").write_text(sim.show("scdp-12a"))
    mapping = {
        "name": "mine",
        "topology": {"k": 4, "delay": "1us"},
        "protocol": {"name": "ndp"},
        "workload": {"kind": "incast", "senders": 3, "size": "70KB"},
        "run": {"seeds": [1], "sample": "10us"},
    }
    by_name, by_file = (
        sim.jobs(one, seeds=1, set=SMALL) for one in ("scdp-12a", str(tmp_path / "mine.toml"))
    )
    assert [job.hash for job in by_name] == [job.hash for job in by_file]
    result = sim.run(mapping)
    assert result.runs["protocol"] == ["ndp"] and result.queues.height > 0


def test_files_of_a_scenario_are_named_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.txt").write_text("host a b\nlink a b 1Gbit/s 1us\n")
    workload = {"kind": "single", "from": 0, "to": 1, "size": "1KB"}
    mapping = {"name": "mine", "topology": {"kind": "graph", "graph_file": "net.txt"}, "workload": workload}
    [of_mapping] = sim.jobs(mapping, seeds=1)
    bare = {"name": "mine", "topology": {"kind": "graph", "graph": "host c d\nlink c d 1Gbit/s 1us\n"}}
    [of_set] = sim.jobs(bare | {"workload": workload}, seeds=1, set={"topology.graph_file": "net.txt"})
    assert of_mapping == of_set
    with pytest.raises(ValueError, match="nowhere.txt"):
        sim.jobs(mapping, seeds=1, set={"topology.graph_file": "nowhere.txt"})
    assert sim.run(mapping, seeds=1).runs["delay_us"] == [None]


def test_a_value_that_is_there_twice_is_run_once() -> None:
    jobs = sim.jobs("scdp-12a", seeds=2, set={**SMALL, "workload.senders": [2, 2, 3]})
    assert len(jobs) == len({(job.hash, job.seed) for job in jobs}) == 4


def test_what_no_flow_has_is_none() -> None:
    [long] = sim.run("scdp-12a", seeds=1, set={**SMALL, "workload.senders": 2, "workload.size": "2MB"}).runs.rows()
    assert long["fct_mean"] > 0 and long["fct_mean_100kb"] is None and long["beside_fct_mean"] is None


@pytest.mark.parametrize("seeds", [[1.5, 2.7], "12", b"12", [1, "2"], 1.5, [None]])
def test_seeds_are_whole_numbers(seeds: Any) -> None:
    with pytest.raises(TypeError, match="seeds are whole numbers"):
        sim.jobs("scdp-12a", seeds=seeds)
    with pytest.raises(TypeError, match="seeds are whole numbers"):
        sim.reproduce("scdp-12d", quick=True, seeds=seeds)
    assert [job.seed for job in sim.jobs("scdp-12a", seeds=[np.int64(7)], set=SMALL)] == [7, 7]


@pytest.mark.parametrize("name", ["x\U0001f600", "\x7f", "\x00\t\"\\", "Übung"])
def test_texts_are_what_was_given(name: str) -> None:
    [job] = sim.jobs("scdp-12a", seeds=1, set={**SMALL, "workload.senders": 2, "name": name})
    assert job.name == name
    mapping = {"name": "x", "about": name, "workload": {"kind": "permutation", "size": "1KB"}}
    assert sim.jobs(mapping, seeds=1)[0].seed == 1


@pytest.mark.parametrize(
    ("scenario", "changes", "error", "says"),
    [
        ("scdp-99", {}, ValueError, "scenarios()"),
        ("no/such/file.toml", {}, ValueError, "no/such/file.toml"),
        ("scdp-12a", {"workload.sendrs": 3}, ValueError, "sendrs"),
        ("scdp-12a", {"workload.senders": -1}, ValueError, "senders|invalid"),
        ("scdp-12a", {"topology.delay": float("nan")}, ValueError, "nan"),
        ("scdp-12a", {"topology.delay": object()}, TypeError, "numbers"),
        ("scdp-12a", {"workload.senders": 1_000_000}, ValueError, "between 1 and"),
        ({"name": "x"}, {}, ValueError, "workload"),
    ],
)
def test_wrong_scenarios_are_refused_in_words(
    scenario: Any, changes: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        sim.run(scenario, seeds=1, set=changes)


def test_figures_are_reproduced_with_their_checks_and_plots(tmp_path: Path) -> None:
    assert "scdp-12d" in sim.figures()["name"]
    figure = sim.reproduce("scdp-12d", quick=True)
    assert figure.name == "scdp-12d" and figure.seeds == (1,)
    assert set(figure.checks["verdict"]) <= {"not-judged", "reported"}, "quick ones judge nothing"
    assert figure.plots and all(plot["curves"] for plot in figure.plots)
    record = {"figure": "scdp-12d", "title": figure.title, "seeds": [1]}
    record |= {"checks": list(figure.checks.rows()), "plots": list(figure.plots)}
    (tmp_path / "scdp-12d.json").write_text(json.dumps(record))
    assert sim.Figure.read(tmp_path / "scdp-12d.json") == figure
    with pytest.raises(ValueError, match="sim.figures"):
        sim.reproduce("scdp-99")


@pytest.mark.parametrize("call", ["run('scdp-5', seeds=2)", "run('scdp-5', threads=1)", "reproduce('scdp-5')", "reproduce('scdp-raptorq')"])
def test_control_c_ends_a_run(call: str) -> None:
    assert interrupted(f"sim.{call}") == ("interrupted\n", 0)


def test_a_sweep_runs_what_is_missing(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    with ThreadPoolExecutor(2) as pool:
        first = sweep("scdp-12a", seeds=1, set=SMALL, executor=pool, folder=tmp_path)
        kept = tmp_path / "runs.jsonl"
        assert len(kept.read_text().splitlines()) == 2
        # Cut off within a line, as by a kill.
        with kept.open("a") as file:
            file.write('{"hash": "12')
        again = sweep(
            "scdp-12a", seeds=2, set=SMALL, executor=pool, folder=tmp_path, progress=lambda *how: calls.append(how)
        )
    assert calls[0] == (2, 4) and calls[-1] == (4, 4), "two were there"
    assert len(kept.read_text().splitlines()) == 4
    alone = sim.run("scdp-12a", seeds=2, set=SMALL)
    assert dict(again.runs) == dict(alone.runs)
    assert again.runs["digest"][::2] == first.runs["digest"]


@pytest.mark.parametrize(
    "foreign",
    ["my notes\n", "my notes", '{"a": 1}\n', '{"hash": "1", "seed": 1, "outcome": 5}\n', "[]\n{}\n", 'notes\n{"hash": "1'],
)
def test_a_sweep_leaves_a_file_alone_that_is_not_its_own(tmp_path: Path, foreign: str) -> None:
    table = tmp_path / "runs.jsonl"
    table.write_text(foreign)
    with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="line 1 is no run of a sweep"):
        sweep("scdp-12a", seeds=1, set=SMALL, executor=pool, folder=tmp_path)
    assert table.read_text() == foreign


def test_a_damaged_line_costs_none_of_the_others(tmp_path: Path) -> None:
    table = tmp_path / "runs.jsonl"
    with ThreadPoolExecutor(1) as pool:
        sweep("scdp-12a", seeds=1, set=SMALL, executor=pool, folder=tmp_path)
        first, second = table.read_text().splitlines(keepends=True)
        damaged = f"{first}{first[:40]}\n{second}"
        table.write_text(damaged)
        with pytest.raises(ValueError, match="line 2"):
            sweep("scdp-12a", seeds=1, set=SMALL, executor=pool, folder=tmp_path)
    assert table.read_text() == damaged


class Second(ThreadPoolExecutor):
    """Begins another sweep in the folder for each run of its own, as another process may."""

    def __init__(self, folder: Path) -> None:
        super().__init__(1)
        self.folder, self.seeds = folder, iter(range(100, 200))

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        with ThreadPoolExecutor(1) as pool:
            sweep("scdp-12a", seeds=[next(self.seeds)], set=SMALL, executor=pool, folder=self.folder)
        # The first has written half a line meanwhile, and was killed.
        with (self.folder / "runs.jsonl").open("a") as file:
            file.write('{"hash": "12')
        return super().submit(fn, *args, **kwargs)


def test_sweeps_in_one_folder_lose_no_runs(tmp_path: Path) -> None:
    with Second(tmp_path) as pool:
        sweep("scdp-12a", seeds=3, set=SMALL, executor=pool, folder=tmp_path)
    with ThreadPoolExecutor(1) as pool:
        sweep("scdp-12a", seeds=1, set=SMALL, executor=pool, folder=tmp_path)
    lines = (tmp_path / "runs.jsonl").read_text().splitlines()
    runs = {(entry["hash"], entry["seed"]) for entry in map(json.loads, lines)}
    assert {1, 2, 3, 100} <= {seed for _, seed in runs}
    assert len(lines) == len(runs)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_a_sweep_waits_for_another_that_writes(tmp_path: Path) -> None:
    import fcntl

    table = tmp_path / "runs.jsonl"
    with ThreadPoolExecutor(1) as pool:
        sweep("scdp-12a", seeds=1, set=SMALL, executor=pool, folder=tmp_path)
        whole = table.read_bytes()
        end = whole.index(b"\n") - 9
        with table.open("r+b", buffering=0) as other, ThreadPoolExecutor(1) as apart, ThreadPoolExecutor(1) as inner:
            fcntl.flock(other, fcntl.LOCK_EX)
            other.truncate(end)
            waits = apart.submit(sweep, "scdp-12a", seeds=[2], set=SMALL, executor=inner, folder=tmp_path)
            # Time enough to do harm, if it did not wait; it never fails by that.
            pytest.raises(TimeoutError, waits.result, 1)
            other.seek(end)
            other.write(whole[end:])
            fcntl.flock(other, fcntl.LOCK_UN)
            waits.result(120)
    assert len(table.read_text().splitlines()) == 4
    assert table.read_bytes().startswith(whole)


def test_flows_that_are_not_asked_for_are_none(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        some = sweep("scdp-12a", seeds=1, set=SMALL, executor=pool, folder=tmp_path, flows=True)
        more = sweep("scdp-12a", seeds=2, set=SMALL, executor=pool, folder=tmp_path)
    assert some.flows.height > 0 and more.runs.height == 4
    assert more.flows.height == 0, "not those of the first seed alone"


def test_a_killed_process_loses_its_run_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The first worker that comes by here finds no file, leaves one and dies.
    (tmp_path / "sitecustomize.py").write_text(
        "import multiprocessing, os, sys\n"
        "if any('spawn_main' in word for word in sys.orig_argv):\n"
        "    try:\n"
        f"        os.close(os.open({str(tmp_path / 'died')!r}, os.O_CREAT | os.O_EXCL))\n"
        "    except FileExistsError:\n"
        "        pass\n"
        "    else:\n"
        "        os.kill(os.getpid(), 9)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    result = sweep("scdp-12a", seeds=2, set=SMALL, workers=2, folder=tmp_path / "results")
    assert (tmp_path / "died").exists(), "a worker died"
    assert dict(result.runs) == dict(sim.run("scdp-12a", seeds=2, set=SMALL).runs)


class Patient(ThreadPoolExecutor):
    """Begins when it has so many tasks, as a large cluster would need to be busy, or after half a minute."""

    def __init__(self, runs: int) -> None:
        self.missing, self.enough = runs, threading.Event()
        self.waits_in_vain = False
        super().__init__(1, initializer=self.wait)

    def wait(self) -> None:
        self.waits_in_vain = not self.enough.wait(30)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.missing -= 1
        if self.missing == 0:
            self.enough.set()
        return super().submit(fn, *args, **kwargs)


def test_a_large_cluster_is_kept_busy() -> None:
    with Patient(300) as pool:
        result = sweep("scdp-12a", seeds=150, set={**SMALL, "workload.size": "10KB"}, executor=pool)
        assert not pool.waits_in_vain, "no more were handed over until some were done"
    assert result.runs.height == 300


class Counting(ThreadPoolExecutor):
    """Counts the runs of each task; the first task of several loses its worker."""

    def __init__(self) -> None:
        self.tasks: list[int] = []
        super().__init__(2)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.tasks.append(len(args[0]))
        if len(args[0]) > 1 and max(self.tasks[:-1]) == 1:
            future: Future[Any] = Future()
            future.set_exception(OSError("the worker went away"))
            return future
        return super().submit(fn, *args, **kwargs)


def test_short_runs_are_handed_over_some_at_a_time_and_alone_when_they_have_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # However slow this machine is: they are short beside that.
    for name in ("_SHORT", "_TASK"):
        monkeypatch.setattr(sys.modules["wellspring.sweep"], name, 3600.0)
    short = {**SMALL, "workload.size": "10KB"}
    with Counting() as pool:
        result = sweep("scdp-12a", seeds=40, set=short, executor=pool)
    assert result.runs.height == 80
    assert dict(result.runs) == dict(sim.run("scdp-12a", seeds=40, set=short).runs)
    lost = next(runs for runs in pool.tasks if runs > 1)
    assert sum(pool.tasks) == 80 + lost and len(pool.tasks) < 80


class Flaky(ThreadPoolExecutor):
    """Fails each run's first tries."""

    def __init__(self, failures: int) -> None:
        super().__init__(1)
        self.failures, self.tries = failures, {}  # type: ignore[var-annotated]

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        [job] = args[0]
        self.tries[job] = self.tries.get(job, 0) + 1
        if self.tries[job] <= self.failures:
            future: Future[Any] = Future()
            future.set_exception(OSError("the worker went away"))
            return future
        return super().submit(fn, *args, **kwargs)


def test_failed_runs_are_tried_again_so_often() -> None:
    with Flaky(2) as pool:
        assert sweep("scdp-12a", seeds=1, set=SMALL, executor=pool).runs.height == 2
    with Flaky(3) as pool, pytest.raises(RunFailed, match="seed 1 failed 3 times"):
        sweep("scdp-12a", seeds=1, set=SMALL, executor=pool)
