"""Wellspring below data frames, model files and Dask."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from conftest import Fetched, HostProcess
from wellspring import sim
from wellspring.sweep import DASK_SETTINGS, sweep

Hosts = tuple[Path, list[HostProcess]]

pytestmark = pytest.mark.full

SMALL = {"topology.k": 4, "workload.senders": [2, 3, 4], "workload.size": "70KB"}


def url(hosts: list[HostProcess], path: str) -> str:
    return "wellspring://" + ",".join(host.address for host in hosts) + "/" + path


def test_parquet_is_read_from_three_hosts_one_of_which_dies(three_hosts: Hosts) -> None:
    import fsspec
    import pandas
    import polars

    served, hosts = three_hosts
    frame = pandas.DataFrame({"n": range(200_000), "word": [f"word {n % 97}" for n in range(200_000)]})
    frame.to_parquet(served / "table.parquet")
    options: dict[str, Any] = {"timeout": 2}
    pandas.testing.assert_frame_equal(
        pandas.read_parquet(url(hosts, "table.parquet"), storage_options=options), frame
    )
    hosts[2].kill()
    assert pandas.read_parquet(url(hosts, "table.parquet"), columns=["n"], storage_options=options)["n"].sum() == sum(
        range(200_000)
    )
    with fsspec.open(url(hosts, "table.parquet"), **options) as file:
        assert polars.read_parquet(file)["n"].to_list() == frame["n"].to_list()


def test_a_table_in_partitions_is_written_to_a_host_and_read_from_it(tmp_path: Path) -> None:
    import pandas

    frame = pandas.DataFrame({"year": [2024, 2025, 2025], "n": [1, 2, 3]})
    host = HostProcess(tmp_path)
    try:
        name = url([host], "tables/counts")
        frame.to_parquet(name, partition_cols=["year"])
        assert len(list((tmp_path / "tables/counts/year=2025").glob("*.parquet"))) == 1
        assert sorted(pandas.read_parquet(name)["n"]) == [1, 2, 3]
    finally:
        host.kill()


def test_one_column_of_a_table_and_one_tensor_of_a_model_are_fetched_alone(
    three_hosts: Hosts, fetched: Fetched
) -> None:
    import json

    import fsspec
    import numpy as np
    import pandas
    from safetensors.numpy import save_file

    served, hosts = three_hosts
    random = np.random.default_rng(1)
    columns = {f"column {n}": random.standard_normal(300_000) for n in range(10)}
    table, model = served / "wide.parquet", served / "large.safetensors"
    pandas.DataFrame(columns).to_parquet(table)
    column = pandas.read_parquet(url(hosts, "wide.parquet"), columns=["column 4"])["column 4"]
    assert (column == columns["column 4"]).all()
    print(f"one of ten columns: {fetched.bytes} of {table.stat().st_size} bytes")
    assert 0 < fetched.bytes < table.stat().st_size / 3
    fetched.bytes = 0
    save_file(columns, model)
    with fsspec.open(url(hosts, "large.safetensors")) as file:
        header = int.from_bytes(file.read(8), "little")
        start, end = json.loads(file.read(header))["column 7"]["data_offsets"]
        file.seek(8 + header + start)
        tensor = np.frombuffer(file.read(end - start))
    assert (tensor == columns["column 7"]).all()
    print(f"one of ten tensors: {fetched.bytes} of {model.stat().st_size} bytes")
    assert 0 < fetched.bytes < model.stat().st_size / 4


def test_a_model_is_read_from_three_hosts_one_of_which_dies(three_hosts: Hosts) -> None:
    import fsspec
    import numpy as np
    from safetensors.numpy import load, save_file

    served, hosts = three_hosts
    tensors = {f"layer {n}": np.random.default_rng(n).standard_normal((300, 200)) for n in range(5)}
    save_file(tensors, served / "model.safetensors")
    hosts[1].kill()
    with fsspec.open(url(hosts, "model.safetensors"), timeout=2) as file:
        loaded = load(file.read())
    assert all(np.array_equal(loaded[name], tensor) for name, tensor in tensors.items())


def test_tables_go_by_the_arrow_interface() -> None:
    import polars
    import pyarrow

    result = sim.run("scdp-12a", seeds=2, set=SMALL, flows=True)
    frame = polars.DataFrame(result.runs)
    assert frame["workload.senders"].to_list() == result.runs["workload.senders"]
    assert pyarrow.table(result.flows).num_rows == result.flows.height
    assert list(result.runs.to_pandas()["digest"]) == result.runs["digest"]


def test_plots_are_drawn_in_one_call(tmp_path: Path) -> None:
    from wellspring import plots

    result = sim.run("scdp-12a", seeds=2, set={**SMALL, "run.sample": "100us"}, flows=True)
    figures = {
        "metric": plots.metric(result, "workload.senders", "goodput_mean"),
        "goodput": plots.goodput_by_rank(result),
        "times": plots.completion_times(result),
        "queues": plots.queues(result),
    }
    for name, figure in figures.items():
        path = tmp_path / f"{name}.png"
        figure.savefig(path)
        assert path.stat().st_size > 5_000
        [axes] = figure.axes
        assert axes.get_xlabel() and axes.get_ylabel() and axes.lines
    assert figures["metric"].axes[0].get_ylabel() == "goodput_mean [Gbit/s]"
    bare = sim.run("scdp-12a", seeds=1, set=SMALL)
    with pytest.raises(ValueError, match="flows=True"):
        plots.goodput_by_rank(bare)
    with pytest.raises(ValueError, match="run.sample"):
        plots.queues(bare)


def test_runs_without_a_value_are_not_in_a_mean() -> None:
    from wellspring import plots

    runs = sim.Table({"protocol.name": ["scdp"] * 4, "senders": [2, 2, 4, 8], "fct_mean": [0.5, None, 0.25, None]})
    [axes] = plots.metric(sim.Result(runs, sim.Table({}), sim.Table({})), "senders", "fct_mean").axes
    assert [list(map(float, point)) for point in axes.lines[0].get_xydata()] == [[2, 0.5], [4, 0.25]]


def test_a_figure_is_drawn_as_its_report_draws_it(tmp_path: Path) -> None:
    from wellspring import plots

    reproduced = sim.reproduce("scdp-12d", quick=True)
    figure = plots.figure(reproduced)
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert [axes.get_title() for axes in figure.axes] == [plot["title"] for plot in reproduced.plots]
    for axes, plot in zip(figure.axes, reproduced.plots, strict=True):
        assert axes.get_ylabel() == plot["y"]["label"]
        named = {text.get_text() for text in axes.get_legend().get_texts()}
        assert named == {curve["name"] for curve in plot["curves"] if curve["points"]}
    with pytest.raises(ValueError, match="has no plots"):
        plots.figure(sim.Figure("none", "none", (), sim.Table({}), ()))


RECORDS = sorted((Path(__file__).parents[2] / "results").glob("*.json"))


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_every_record_can_be_drawn(record: Path) -> None:
    from wellspring import plots

    figure = sim.Figure.read(record)
    assert figure.name == record.stem and figure.checks.height > 0
    if figure.plots:
        assert plots.figure(figure).axes


def test_dask_runs_a_sweep_and_a_killed_worker_loses_its_run_alone(tmp_path: Path) -> None:
    import dask
    from distributed import Client, LocalCluster

    # A key that Dask does not know would be ignored.
    assert [key for key in DASK_SETTINGS if dask.config.get(key, None) is None] == []
    killed: list[int] = []
    with (
        dask.config.set(DASK_SETTINGS),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):

        def kill_one(done: int, total: int) -> None:
            if done == 2 and not killed:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        result = sweep(
            "scdp-12a", seeds=4, set=SMALL, executor=client.get_executor(), folder=tmp_path, progress=kill_one
        )
    assert killed
    alone = sim.run("scdp-12a", seeds=4, set=SMALL)
    assert dict(result.runs) == dict(alone.runs)


def test_slurm_is_given_a_script_that_starts_workers() -> None:
    from dask_jobqueue import SLURMCluster

    options = {"dashboard_address": None}
    with SLURMCluster(
        cores=1, memory="1GB", queue="normal", walltime="00:10:00", interface="lo", scheduler_options=options
    ) as cluster:
        script = cluster.job_script()
    assert "#SBATCH -p normal" in script and "distributed.cli.dask_worker" in script


def test_kubernetes_is_told_of_a_cluster_with_this_package() -> None:
    from dask_kubernetes.operator import make_cluster_spec

    spec = make_cluster_spec(name="sweep", image="registry.example/wellspring-dask:1", n_workers=10)
    assert spec["kind"] == "DaskCluster" and spec["spec"]["worker"]["replicas"] == 10
    [container] = spec["spec"]["worker"]["spec"]["containers"]
    assert container["image"] == "registry.example/wellspring-dask:1" and "dask-worker" in str(container["args"])
