"""Transfers over real sockets."""

from __future__ import annotations

import asyncio
import io
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from tqdm import tqdm

import wellspring
from wellspring import errors, reports

from conftest import HostProcess, interrupted, own_address

Hosts = tuple[Path, list[HostProcess]]
Served = tuple[Path, wellspring.Server]


def test_an_object_comes_from_three_hosts(three_hosts: Hosts, tmp_path: Path, data: random.Random) -> None:
    served, hosts = three_hosts
    content = data.randbytes(3_000_000)
    (served / "object").write_bytes(content)
    seen: list[wellspring.Update] = []
    source = ",".join(host.address for host in hosts) + "/object"
    report = wellspring.get(source, tmp_path / "here", progress=seen.append)
    assert (tmp_path / "here").read_bytes() == content
    assert report.size == len(content) and len(report.replicas) == 3
    assert sum(replica.symbols for replica in report.replicas) >= 3_000_000 // report.symbol_size
    assert {"started", "verifying"} <= {update.event for update in seen}
    assert wellspring.read(source, digest=report.digest) == content


def test_one_of_three_is_killed_on_the_way(slow_hosts: Hosts, data: random.Random) -> None:
    served, hosts = slow_hosts
    content = data.randbytes(6_000_000)
    (served / "object").write_bytes(content)
    killed = threading.Event()

    def kill_when_it_moves(update: wellspring.Update) -> None:
        if update.event == "moving" and 0 < update.done < update.total and not killed.is_set():
            hosts[1].kill()
            killed.set()

    into = bytearray(len(content))
    with wellspring.Client(timeout=2) as client:
        source = ",".join(host.address for host in hosts) + "/object"
        report = client.read_into(source, into, progress=kill_when_it_moves)
    assert killed.is_set() and into == content and report.size == len(content)


def test_a_range_goes_to_bytes_to_memory_and_to_a_file(
    three_hosts: Hosts, tmp_path: Path, data: random.Random
) -> None:
    served, hosts = three_hosts
    content = data.randbytes(3_000_000)
    (served / "object").write_bytes(content)
    source = ",".join(host.address for host in hosts) + "/object"
    with wellspring.Client() as client:
        for part in ((0, 1), (1_000_000, 1_500_001), (2_999_999, None), (-5, None), (2_000_000, 9_000_000)):
            assert client.read(source, range=part) == content[slice(*part)]
        memory = bytearray(150_000)
        report = client.read_into(source, memory, range=(130_000, 270_000))
        assert memory[:140_000] == content[130_000:270_000] and memory[140_000:] == bytes(10_000)
        assert (report.start, report.end, report.size, report.blocks) == (130_000, 270_000, 3_000_000, 3)
        assert all(replica.seconds_silent >= 0 for replica in report.replicas)
        assert asyncio.run(client.read_async(source, range=(7, 70))) == content[7:70]
    wellspring.get(source, tmp_path / "part", range=(10, 20))
    assert (tmp_path / "part").read_bytes() == content[10:20]
    assert wellspring.read_into(source, memory, range=(5, 6), digest=report.digest).end == 6
    with pytest.raises(errors.NoSuchRange, match="3000000 bytes, and none in the range 3000000-"):
        wellspring.read(source, range=(3_000_000, None))
    for wrong in ((5, 5), (-5, 7), (5, -1)):
        with pytest.raises(errors.UsageError, match="has no bytes"):
            wellspring.read(source, range=wrong)
    with pytest.raises(errors.UsageError, match="name of a file"):
        wellspring.get(source, tmp_path, range=(0, 5))
    with pytest.raises(errors.UsageError, match="not of a directory"):
        wellspring.get(source + "/", tmp_path, range=(0, 5))
    with pytest.raises(TypeError, match="no option forced: known are .*force"):
        wellspring.get(source, tmp_path, forced=True)  # type: ignore[call-arg]


def test_bytes_go_into_lent_memory(server: Served, data: random.Random) -> None:
    served, host = server
    content = data.randbytes(100_000)
    (served / "object").write_bytes(content)
    with wellspring.Client() as client:
        memory = bytearray(120_000)
        client.read_into(f"{host.address}/object", memory)
        assert memory[:100_000] == content and memory[100_000:] == bytes(20_000)
        memory.append(1)  # It is given back.
        with pytest.raises(errors.SystemFailed, match="longer than the 10 bytes"):
            client.read_into(f"{host.address}/object", bytearray(10))
        with pytest.raises(BufferError, match="read-only"):
            client.read_into(f"{host.address}/object", bytes(120_000))


def test_memory_is_filled_without_a_file_between(
    three_hosts: Hosts, data: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, hosts = three_hosts
    content = data.randbytes(9_000_000)
    (served / "object").write_bytes(content)
    (served / "empty").write_bytes(b"")
    source = ",".join(host.address for host in hosts)
    monkeypatch.setenv("TMPDIR", "/nowhere")  # Where such files would be.
    with wellspring.Client() as client:
        assert client.read(f"{source}/object") == content
        for part in ((-6_000_000, None), (1, 8_000_000), (3_000_000, 99_000_000)):
            assert client.read(f"{source}/object", range=part) == content[slice(*part)]
        assert client.read(f"{source}/empty") == b""


def test_new_bytes_are_handed_out_once_all_of_them_have_come(server: Served, data: random.Random) -> None:
    served, host = server
    content = data.randbytes(5_000_000)
    (served / "object").write_bytes(content)
    with wellspring.Client() as client:
        for first, end in ((0, len(content)), (1_000_000, 1_000_001), (9, 4_999_999)):
            got, report = client.read_exactly(f"{host.address}/object", first, end, None)
            assert got == content[first:end] and (report.start, report.end) == (first, end)
        got, report = client.read_exactly(f"{host.address}/object", 4_000_000, 6_000_000, None)
        assert got == b"" and report.end == 5_000_000
        for length in (2**62, 2**63):
            with pytest.raises(MemoryError):
                client._native.fetch([host.address], "object", length=length)

        def fetch() -> Any:
            return client._native.fetch([host.address], "object", range=(4_000_000, 6_000_000), length=2_000_000)

        early, short, ended = fetch(), fetch(), fetch()
        with pytest.raises(RuntimeError, match="not all there"):
            early.take_bytes()
        while not short.wait(1):
            pass
        short.result()
        with pytest.raises(RuntimeError, match="not all there"):
            short.take_bytes()
        ended.cancel()
        with pytest.raises(RuntimeError, match="not all there"):
            ended.take_bytes()
        lent = client._native.fetch([host.address], "object", into=bytearray(5_000_000))
        with pytest.raises(RuntimeError, match="memory that was lent"):
            lent.take_bytes()


@pytest.mark.parametrize("priority", ["urgent", "normal", "background"])
def test_all_priorities_come_to_the_end(
    priority: reports.Priority, server: Served, tmp_path: Path, data: random.Random
) -> None:
    served, host = server
    content = data.randbytes(1_000_000)
    (served / "object").write_bytes(content)
    with wellspring.Client() as client:
        source = f"{host.address}/object"
        client.get(source, tmp_path / "here", priority=priority)
        assert (tmp_path / "here").read_bytes() == content == client.read(source, priority=priority)
        into = bytearray(len(content))
        client.read_into(source, into, priority=priority)
        assert into == content
        client.put(tmp_path / "here", host.address, name="there", priority=priority)
        assert (served / "there").read_bytes() == content
        (tmp_path / "tree").mkdir()
        client.get(f"{host.address}/", tmp_path / "tree", priority=priority)
        client.put(tmp_path / "tree", host.address, name="copy", priority=priority)
        assert (served / "copy/there").read_bytes() == content


def test_put_and_listing(server: Served, tmp_path: Path, data: random.Random) -> None:
    served, host = server
    (tmp_path / "new").write_bytes(data.randbytes(50_000))
    (served / "deep/er").mkdir(parents=True)
    report = wellspring.put(tmp_path / "new", host.address, name="deep/er/new")
    assert report.complete == 1 and report.receivers[0].state == "complete"
    assert (served / "deep/er/new").read_bytes() == (tmp_path / "new").read_bytes()
    [directory] = wellspring.ls(f"{host.address}/")
    assert (directory.path, directory.kind) == ("deep", "directory")
    entries = wellspring.ls(host.address, recursive=True, digests=True)
    assert [entry.path for entry in entries] == ["deep", "deep/er", "deep/er/new"]
    assert entries[-1].digest == report.digest and entries[-1].size == 50_000
    stat = wellspring.stat(f"{host.address}/{entries[-1].path}")
    assert (stat.size, stat.digest) == (50_000, report.digest)
    (tmp_path / "other").write_bytes(b"other")
    with pytest.raises(errors.NoHost, match="nothing of it was sent") as caught:
        wellspring.put(tmp_path / "other", host.address, name="deep/er/new", force=True)
    assert "--allow-overwrite" in caught.value.hint
    assert any("Received" in event for event in host.events())


def test_a_directory_is_put_and_only_what_changed_again(server: Served, tmp_path: Path) -> None:
    served, host = server
    source = tmp_path / "source"
    (source / "a").mkdir(parents=True)
    for name in ("a/1", "a/2", "3"):
        (source / name).write_bytes(name.encode())
    first = wellspring.put(source, host.address)
    assert (first.files, first.files_sent, first.complete, first.skipped) == (3, 3, 1, ())
    assert first.receivers[0].state == "complete"
    assert (served / "source/a/2").read_bytes() == b"a/2"
    (source / "new").write_bytes(b"new")
    again = wellspring.put(source, [host.address], name="source/")
    assert again.files_sent == 1 and (served / "source/new").read_bytes() == b"new"
    elsewhere = wellspring.put(source, host.address, name="x/y", quorum=1)
    assert elsewhere.files_sent == 4 and (served / "x/y/a/1").read_bytes() == b"a/1"
    (source / "3").write_bytes(b"other")
    with pytest.raises(errors.TargetExists, match="other bytes"):
        wellspring.put(source, host.address)
    with pytest.raises(errors.UsageError, match="force=True"):
        wellspring.put(source, host.address, delete=True)
    with pytest.raises(errors.UsageError, match="of a directory"):
        wellspring.put(source / "3", host.address, checksum=True)
    with pytest.raises(errors.NoHost) as caught:
        wellspring.put(source, "none.invalid", timeout=2)
    assert caught.value.hosts[0].kind == "unresolved"
    assert (served / "source/3").read_bytes() == b"3"


def test_links_out_of_a_directory_are_skipped_or_sent_as_files(server: Served, tmp_path: Path) -> None:
    served, host = server
    (tmp_path / "blob").write_bytes(b"weights")
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot/model").symlink_to("../blob")
    put = wellspring.put(tmp_path / "snapshot", host.address)
    assert [path for path, _ in put.skipped] == ["model"]
    put = wellspring.put(tmp_path / "snapshot", host.address, copy_unsafe_links=True)
    assert (put.skipped, (served / "snapshot/model").read_bytes()) == ((), b"weights")


def test_a_directory_comes_and_only_what_changed_again(server: Served, tmp_path: Path) -> None:
    served, host = server
    (served / "a").mkdir()
    for name in ("a/1", "a/2", "3"):
        (served / name).write_bytes(name.encode())
    first = wellspring.get(f"{host.address}/", tmp_path / "copy")
    assert (first.files, first.files_fetched) == (3, 3)
    assert (tmp_path / "copy/a/2").read_bytes() == b"a/2"
    (served / "3").write_bytes(b"changed")
    again = wellspring.get(f"{host.address}/", tmp_path / "copy")
    assert again.files_fetched == 1 and (tmp_path / "copy/3").read_bytes() == b"changed"
    with pytest.raises(errors.UsageError, match="second argument"):
        wellspring.get(f"{host.address}/")
    with pytest.raises(errors.UsageError, match="digest is of one object"):
        wellspring.get(f"{host.address}/", tmp_path / "other", digest="00" * 32)
    with pytest.raises(errors.UsageError, match="are of a directory"):
        wellspring.get(f"{host.address}/3", tmp_path / "other", delete=True)
    assert not (tmp_path / "other").exists()


def test_exceptions_are_named_after_exit_statuses(server: Served, tmp_path: Path) -> None:
    served, host = server
    (served / "object").write_bytes(b"bytes")
    with pytest.raises(errors.NoHost) as caught:
        wellspring.get(f"{host.address}/nothing", tmp_path / "x")
    assert caught.value.exit_status == 4 and caught.value.hosts[0].kind == "not found"
    assert "spelling of the object" in str(caught.value)
    (tmp_path / "x").write_bytes(b"mine")
    with pytest.raises(errors.TargetExists) as caught_exists:
        wellspring.get(f"{host.address}/object", tmp_path / "x")
    assert caught_exists.value.exit_status == 8 and isinstance(caught_exists.value, FileExistsError)
    assert (tmp_path / "x").read_bytes() == b"mine"
    wellspring.get(f"{host.address}/object", tmp_path / "x", force=True)
    assert (tmp_path / "x").read_bytes() == b"bytes"
    with pytest.raises(errors.NoHost):
        wellspring.read(f"{host.address}/object", digest="00" * 32)
    other = tmp_path / "other"
    other.mkdir()
    (other / "object").write_bytes(b"other")
    with wellspring.serve(other, own_address()) as second, pytest.raises(errors.ReplicasDiffer) as differ:
        wellspring.read(f"{host.address},{second.address}/object")
    assert differ.value.exit_status == 5
    with pytest.raises(errors.NoHost) as closed:
        wellspring.read(f"{second.address}/object", timeout=1)
    assert closed.value.hosts[0].kind in ("port closed", "silent")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: wellspring.read("host"), "HOST/OBJECT"),
        (lambda: wellspring.read("/object"), "HOST/OBJECT"),
        (lambda: wellspring.read("a:b:c/object"), "NAME:PORT"),
        (lambda: wellspring.read("a/../x"), "bad name"),
        (lambda: wellspring.read("a/x", digest="no"), "64 hexadecimal"),
        (lambda: wellspring.Client(timeout=0), "timeout is 0ns; 100ms to"),
        (lambda: wellspring.Client(timeout=-1), r"timeout=-1\.0 .*0\.1 to 600"),
        (lambda: wellspring.Client(timeout=float("nan")), "timeout=NaN "),
        (lambda: wellspring.Client(timeout=float("inf")), "timeout=inf "),
        (lambda: wellspring.Client(timeout=1e300), "timeout=1e300 "),
        (lambda: wellspring.Client(rate=0), "bits a second"),
        (lambda: wellspring.serve(".", rate=float("inf")), "bits a second"),
        (lambda: wellspring.Client(keys="/nowhere/at/all"), "no keys"),
        (lambda: wellspring.Client(keys="/", insecure=True), "exclude"),
        (lambda: wellspring.serve(".", "no address"), "IP:PORT"),
        (lambda: wellspring.serve(".", "10.1.2.3:0"), "loopback only"),
        (lambda: wellspring.serve(".", "[::]:0", insecure=True), "everybody"),
        (lambda: wellspring.put("x", "a", group="nonsense"), "ADDRESS:PORT"),
        (lambda: wellspring.put(__file__, "a,b", quorum=3), "quorum"),
        (lambda: wellspring.read("a/x", priority="high"), "urgent, normal or background"),
        (lambda: wellspring.put(__file__, "a", priority=""), "urgent, normal or background"),
    ],
)
def test_wrong_arguments_are_refused_in_words(call: object, says: str) -> None:
    with pytest.raises(errors.UsageError, match=says) as caught:
        call()  # type: ignore[operator]
    assert caught.value.exit_status == 2 and isinstance(caught.value, ValueError)


def test_system_errors_are_python_s(tmp_path: Path, server: Served) -> None:
    served, host = server
    with pytest.raises(OSError):
        wellspring.serve(tmp_path / "nowhere", own_address())
    with pytest.raises(OSError):
        wellspring.serve(served, host.address)
    with pytest.raises(OSError):
        wellspring.put(tmp_path / "nothing", host.address)


def test_closed_things_say_so(server: Served) -> None:
    _, host = server
    client = wellspring.Client()
    client.close()
    client.close()
    with pytest.raises(ValueError, match="client is closed"):
        client.read(f"{host.address}/object")
    host.close()
    host.close()


def test_async_twins(server: Served, tmp_path: Path, data: random.Random) -> None:
    served, host = server
    contents = [data.randbytes(30_000 + n) for n in range(4)]
    for n, content in enumerate(contents):
        (served / str(n)).write_bytes(content)

    async def all_at_once() -> None:
        with wellspring.Client() as client:
            got = await asyncio.gather(*(client.read_async(f"{host.address}/{n}") for n in range(4)))
            assert got == contents
            report = await client.get_async(f"{host.address}/1", tmp_path / "here")
            assert report.size == len(contents[1])
        assert len(await wellspring.ls_async(f"{host.address}/")) == 4
        put = await wellspring.put_async(tmp_path / "here", [host.address], name="five")
        assert put.complete == 1

    asyncio.run(all_at_once())
    assert (served / "five").read_bytes() == contents[1]


def test_replicas_that_differ_have_no_one_digest(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "object").write_bytes(bytes([number]))
    (tmp_path / "2" / "one").write_bytes(b"alone")
    with wellspring.serve(tmp_path / "1", own_address()) as a, wellspring.serve(tmp_path / "2", own_address()) as b:
        both = f"{a.address},{b.address}"
        with pytest.raises(errors.ReplicasDiffer):
            wellspring.stat(f"{both}/object")
        assert asyncio.run(wellspring.stat_async(f"{both}/one")) == wellspring.stat(f"{b.address}/one")
        with pytest.raises(errors.NoHost):
            wellspring.stat(f"{both}/none")


def test_a_cancelled_task_ends_its_transfer(tmp_path: Path) -> None:
    async def cancelled() -> None:
        with wellspring.Client(timeout=60, insecure=True) as client:
            # Nobody answers at this address of a network for documentation.
            task = asyncio.create_task(client.read_async("192.0.2.1:9/object"))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(cancelled())


def test_control_c_ends_a_transfer() -> None:
    read = "wellspring.read('192.0.2.1:9/object', timeout=600, insecure=True)"
    assert interrupted(read) == ("interrupted\n", 0)


def test_many_threads_use_one_client(server: Served, data: random.Random) -> None:
    served, host = server
    content = data.randbytes(40_000)
    (served / "object").write_bytes(content)
    got: list[bytes] = []
    with wellspring.Client() as client:
        threads = [
            threading.Thread(target=lambda: got.append(client.read(f"{host.address}/object"))) for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert got == [content] * 6


def test_a_progress_bar_is_filled(server: Served, data: random.Random) -> None:
    served, host = server
    (served / "object").write_bytes(data.randbytes(500_000))
    shown = io.StringIO()
    bar = tqdm(unit="B", file=shown)
    with wellspring.Client() as client:
        client.read(f"{host.address}/object", progress=bar)
    assert (bar.total, bar.n) == (500_000, 500_000)
    bar.close()
    assert "100%" in shown.getvalue()


def test_all_replicas_are_lost(slow_hosts: Hosts, tmp_path: Path, data: random.Random) -> None:
    served, hosts = slow_hosts
    (served / "object").write_bytes(data.randbytes(60_000_000))

    def kill_all(update: wellspring.Update) -> None:
        if update.event == "moving" and 0 < update.done < update.total:
            for host in hosts:
                host.kill()

    source = ",".join(host.address for host in hosts) + "/object"
    with wellspring.Client(timeout=1) as client, pytest.raises(errors.ReplicasLost, match="repeat the call") as lost:
        client.get(source, tmp_path / "here", progress=kill_all)
    assert lost.value.exit_status == 6 and len(lost.value.hosts) == 3
    assert not (tmp_path / "here").exists()


def test_too_few_receivers(tmp_path: Path, data: random.Random) -> None:
    hosts = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        hosts.append(HostProcess(tmp_path / name))
    content = data.randbytes(10_000_000)
    (tmp_path / "object").write_bytes(content)

    def kill_one(update: wellspring.Update) -> None:
        if update.event == "moving" and 0 < update.done < update.total:
            hosts[1].kill()

    try:
        # Slow enough to see it on its way.
        with wellspring.Client(timeout=1, rate=50e6) as client, pytest.raises(errors.TooFewReceivers, match="done at once") as few:
            client.put(tmp_path / "object", [host.address for host in hosts], progress=kill_one)
    finally:
        for host in hosts:
            host.kill()
    assert few.value.exit_status == 9 and [host.host for host in few.value.hosts] == [hosts[1].address]
    assert (tmp_path / "one" / "object").read_bytes() == content


def test_a_client_that_is_closed_meanwhile_ends_its_calls(server: Served, data: random.Random) -> None:
    served, host = server
    content = data.randbytes(20_000_000)
    (served / "object").write_bytes(content)
    client = wellspring.Client()
    ended: list[object] = []

    def read() -> None:
        try:
            ended.append(client.read(f"{host.address}/object") == content)
        except (errors.WellspringError, ValueError) as error:
            ended.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    client.close()
    thread.join()
    assert ended == [True] or isinstance(ended[0], Exception)


def test_transfers_say_that_they_need_linux(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # As in the wheels for other systems, whose native module lacks these.
    for name in ("Client", "Server", "new_cluster_key"):
        monkeypatch.delattr(wellspring._native, name)
    calls = (wellspring.Client, lambda: wellspring.serve(tmp_path), lambda: wellspring.read("a/x"))
    for call in (*calls, lambda: wellspring.new_cluster_key(tmp_path)):
        with pytest.raises(NotImplementedError, match="need Linux.*codec and the simulator"):
            call()
