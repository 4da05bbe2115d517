"""Children of ``fork``: what they inherit says so, and what they open themselves works."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest

import wellspring
from conftest import own_address
from wellspring import sim

Served = tuple[Path, wellspring.Server]

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),
]


def in_child(work: Callable[[], bool]) -> int:
    """0 if it is true in a child; a child that waits for ever is ended by a signal."""
    child = os.fork()
    if child == 0:
        status = 3
        try:
            signal.alarm(60)
            status = 0 if work() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def is_told(call: Callable[[], object]) -> bool:
    try:
        call()
    except RuntimeError as error:
        return "forked" in str(error)
    return False


def test_a_child_is_told_and_opens_its_own(server: Served, data: random.Random) -> None:
    served, host = server
    content = data.randbytes(10_000)
    (served / "object").write_bytes(content)
    source = f"{host.address}/object"
    with wellspring.Client() as client:
        assert client.read(source) == content
        assert in_child(lambda: is_told(lambda: client.read(source)) and wellspring.read(source) == content) == 0
        assert client.read(source) == content


def test_a_server_and_a_transfer_stay_with_their_process(server: Served, data: random.Random) -> None:
    _, host = server
    # Nobody answers at this address of a network for documentation.
    client = wellspring.Client(timeout=60, insecure=True)
    transfer = client._native.fetch(["192.0.2.1:9"], "object")
    calls: list[Callable[[], object]] = [
        transfer.updates,
        transfer.result,
        transfer.take_bytes,
        lambda: transfer.wait(0),
        lambda: transfer.on_done(print),
        lambda: list(host.events()),
        host.close,
        client.close,
    ]

    def inherited() -> bool:
        transfer.cancel()  # Ends nothing, and waits for nobody.
        return all(is_told(call) for call in calls)

    assert in_child(inherited) == 0
    transfer.cancel()
    assert transfer.wait(60)
    with pytest.raises(wellspring.errors.Cancelled) as cancelled:
        transfer.result()
    assert cancelled.value.exit_status == 130
    client.close()


def test_a_child_hashes_serves_and_fetches_large_files(tmp_path: Path, data: random.Random) -> None:
    # More than one thread hashes these: the child has none of its parent's.
    content = data.randbytes(5_000_000)
    for name in ("parent", "child"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "object").write_bytes(content)
    with wellspring.serve(tmp_path / "parent", own_address()) as host:
        assert wellspring.read(f"{host.address}/object") == content

        def serves() -> bool:
            with wellspring.serve(tmp_path / "child", own_address()) as own:
                return wellspring.read(f"{own.address}/object") == content

        assert in_child(serves) == 0


def test_a_child_reads_what_its_parent_is_copying(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, host = server
    (served / "object").write_bytes(b"bytes")
    begun, done = threading.Event(), threading.Event()
    get = wellspring.Client.get

    def waiting(client: wellspring.Client, *args: Any, **options: Any) -> Any:
        if not begun.is_set():
            begun.set()
            done.wait()
        return get(client, *args, **options)

    monkeypatch.setattr(wellspring.Client, "get", waiting)
    fs, root = fsspec.url_to_fs(f"wellspring://{host.address}", cache=str(tmp_path / "copies"))
    thread = threading.Thread(target=lambda: fs.cat_file(f"{root}/object"))
    thread.start()
    begun.wait()
    try:
        assert in_child(lambda: fs.cat_file(f"{root}/object") == b"bytes") == 0
    finally:
        done.set()
        thread.join()


def test_open_files_are_read_by_children_and_written_by_the_parent_alone(server: Served, data: random.Random) -> None:
    served, host = server
    content = data.randbytes(1_000_000)
    (served / "object").write_bytes(content)
    fs, root = fsspec.url_to_fs(f"wellspring://{host.address}")

    def close(file: Any) -> bool:
        file.close()
        return not (served / "new").exists()

    with fs.open(f"{root}/object") as reader, fs.open(f"{root}/new", "wb") as writer:
        assert reader.read(10) == content[:10]
        writer.write(b"first, ")
        for _ in range(2):
            assert in_child(lambda: reader.read() == content[10:]) == 0
            assert in_child(lambda: close(writer)) == 0
        writer.write(b"last")
    assert (served / "new").read_bytes() == b"first, last"


@pytest.mark.parametrize("packing", [None, "gzip", "bz2", "xz"])
@pytest.mark.parametrize("mode", ["wb", "w"])
def test_what_a_child_inherits_of_a_file_goes_nowhere(server: Served, mode: str, packing: str | None) -> None:
    served, host = server
    fs, root = fsspec.url_to_fs(f"wellspring://{host.address}")
    first, last, half = ("first, ", "last", "half") if mode == "w" else (b"first, ", b"last", b"half")

    def close(file: Any, ends: Any) -> bool:
        file.write(half)
        file.flush()
        ends.close()
        return list(served.iterdir()) == there

    for number, make in enumerate((fs.open, fsspec.open)):
        path, there = f"wellspring://{root}/new{number}", list(served.iterdir())
        with (opened := make(path, mode, compression=packing)) as writer:
            writer.write(first)
            for _ in range(2):
                assert in_child(lambda: close(writer, opened)) == 0
            writer.write(last)
        with fs.open(path, mode.replace("w", "r"), compression=packing) as reader:
            assert reader.read() == first + last


def test_a_transaction_is_ended_by_the_parent_alone(server: Served) -> None:
    served, host = server
    fs, root = fsspec.url_to_fs(f"wellspring://{host.address}")
    with fs.transaction:
        with fs.open(f"{root}/new", "wb") as file:
            file.write(b"bytes")

        def end() -> bool:
            for end in (file.commit, file.discard):
                end()
            return not (served / "new").exists()

        assert in_child(end) == 0
    assert (served / "new").read_bytes() == b"bytes"


def test_memory_that_a_thread_was_using_is_free_in_the_child() -> None:
    code = wellspring.Code(1_000)
    memory = bytearray(1_000 * 64)
    stop = threading.Event()

    def use() -> None:
        encoder = code.encoder(memory, 64)
        while not stop.is_set():
            encoder.encode_into(0, bytearray(1_000 * 64))

    thread = threading.Thread(target=use)
    thread.start()
    other = code.encoder(bytes(1_000 * 64), 64)

    def write() -> bool:
        other.encode_into(0, memory)
        return True

    try:
        assert [in_child(write) for _ in range(30)] == [0] * 30
    finally:
        stop.set()
        thread.join()


def test_a_child_codes_objects_while_its_parent_does(data: random.Random) -> None:
    content = data.randbytes(20_000)
    packets = wellspring.encode_object(content, repair=5, symbol_size=100)
    stop = threading.Event()

    def use() -> None:
        while not stop.is_set():
            wellspring.encode_object(content, repair=5, symbol_size=100)

    def code() -> bool:
        again = wellspring.encode_object(content, repair=5, symbol_size=100)
        return again == packets and wellspring.decode_object(packets[:12] + packets[12 + 5 * 104 :]) == content

    thread = threading.Thread(target=use)
    thread.start()
    try:
        assert [in_child(code) for _ in range(30)] == [0] * 30
    finally:
        stop.set()
        thread.join()


def run_one(seed: int) -> str:
    return str(sim.run("scdp-12a", seeds=[seed], set={"topology.k": 4, "workload.senders": 2}).runs["digest"])


def test_forked_workers_simulate(data: random.Random) -> None:
    alone = [run_one(seed) for seed in range(4)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(run_one, range(4)) == alone
