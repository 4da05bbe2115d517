"""``wellspring://`` through fsspec where something is in the way: hosts, keys, rights, forks, other people's rules."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest

import wellspring
from conftest import HostProcess, own_address
from wellspring.errors import NoHost, ReplicasDiffer

Hosts = tuple[Path, list[HostProcess]]


def url(hosts: list[HostProcess], path: str) -> str:
    return "wellspring://" + ",".join(host.address for host in hosts) + "/" + path


def looks(fs: Any, root: str) -> list[Callable[[], object]]:
    """Ways to look at what hosts have in a directory ``deep``."""
    return [
        lambda: fs.ls(root),
        lambda: fs.ls(f"{root}/deep"),
        lambda: fs.info(f"{root}/deep/object"),
        lambda: fs.exists(f"{root}/deep/object"),
        lambda: fs.isfile(f"{root}/deep/object"),
        lambda: fs.glob(f"{root}/deep/*"),
        lambda: fs.glob(f"{root}/deep/object"),
        lambda: fs.glob(f"{root}/**"),
        lambda: fs.find(f"{root}/deep"),
        lambda: list(fs.walk(f"{root}/deep")),
        lambda: fs.get(f"{root}/deep", "/nowhere", recursive=True),
    ]


def test_hosts_that_do_not_answer_have_not_lost_their_files(three_hosts: Hosts) -> None:
    served, hosts = three_hosts
    (served / "deep").mkdir()
    (served / "deep" / "object").write_bytes(b"bytes")
    fs, root = fsspec.url_to_fs(url(hosts[:2], ""), timeout=1)
    hosts[0].kill()
    assert fs.glob(f"{root}/deep/*") == [f"{root}/deep/object"], "one of them answers"
    assert fs.glob(f"{root}/none/*") == fs.find(f"{root}/none") == [] and not fs.exists(f"{root}/deep/none")
    assert fs.ls(f"{root}/deep/object", detail=False) == [f"{root}/deep/object"]
    assert not fs.exists(f"{root}/deep/object/below")
    with pytest.raises(FileNotFoundError):
        fs.ls(f"{root}/none")
    hosts[1].kill()
    for look in [*looks(fs, root), lambda: fs.isdir(f"{root}/deep")]:
        with pytest.raises(NoHost, match="wellspring serve"):
            look()


def test_hosts_that_do_not_trust_the_key_have_not_lost_their_files(tmp_path: Path) -> None:
    for name in ("keys", "others"):
        (tmp_path / name).mkdir(mode=0o700)
        wellspring.new_cluster_key(tmp_path / name)
    (tmp_path / "served/deep").mkdir(parents=True)
    (tmp_path / "served/deep/object").write_bytes(b"bytes")
    with wellspring.serve(tmp_path / "served", own_address(), keys=tmp_path / "keys") as host:
        for access, kind in (({"insecure": True}, "not allowed"), ({"keys": str(tmp_path / "others")}, "keys")):
            fs, root = fsspec.url_to_fs(f"wellspring://{host.address}", timeout=1, **access)
            for look in looks(fs, root):
                with pytest.raises(NoHost) as caught:
                    look()
                assert caught.value.hosts[0].kind == kind
        with pytest.raises(NoHost):
            fs.isdir(f"{root}/deep")
        # The keys become those of the host.
        (tmp_path / "keys/cluster").rename(tmp_path / "others/cluster")
        fs.reload_keys()
        assert fs.find(root) == [f"{root}/deep/object"]


def test_keys_that_cannot_be_read_are_no_missing_files(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir(mode=0o700)
    wellspring.new_cluster_key(tmp_path / "keys")
    (tmp_path / "keys/cluster").chmod(0o644)
    fs, root = fsspec.url_to_fs("wellspring://127.0.0.1:9", keys=str(tmp_path / "keys"))
    for look in looks(fs, root):
        with pytest.raises(OSError, match="cluster"):
            look()


def test_hosts_that_differ_and_then_are_gone_have_no_empty_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / name).write_bytes(b"bytes")
    hosts = [HostProcess(tmp_path / name) for name in ("one", "two")]
    ls = wellspring.Client.ls

    def last(client: wellspring.Client, source: str, **options: Any) -> Any:
        try:
            return ls(client, source, **options)
        except ReplicasDiffer:
            for host in hosts:
                host.kill()
            raise

    monkeypatch.setattr(wellspring.Client, "ls", last)
    fs, root = fsspec.url_to_fs(url(hosts, "deep"), timeout=1)
    with pytest.raises(NoHost) as caught:
        fs.ls(root)
    assert {host.host for host in caught.value.hosts} == {host.address for host in hosts}


def test_a_key_with_rights_to_some_directories_reads_and_puts_there(tmp_path: Path) -> None:
    for name in ("keys", "host"):
        (tmp_path / name).mkdir(mode=0o700)
    wellspring.new_cluster_key(tmp_path / "keys")
    text = (tmp_path / "keys/cluster").read_text()
    assert "read put serve" in text
    (tmp_path / "host/cluster").write_text(text.replace("read put serve", "read=deep put=in"))
    (tmp_path / "host/cluster").chmod(0o600)
    for name in ("deep", "other", "in"):
        (tmp_path / "served" / name).mkdir(parents=True)
        (tmp_path / "served" / name / "object").write_bytes(b"bytes")
    keys = str(tmp_path / "keys")
    with wellspring.serve(tmp_path / "served", own_address(), allow_put=True, keys=tmp_path / "host") as host:
        fs, root = fsspec.url_to_fs(f"wellspring://{host.address}", timeout=2, keys=keys)
        assert fs.isdir(f"{root}/deep") and fs.exists(f"{root}/deep") and fs.glob(f"{root}/deep/*")
        fs.get(f"{root}/deep", str(tmp_path / "copy"), recursive=True)
        assert (tmp_path / "copy/object").read_bytes() == b"bytes"
        for look in (fs.exists, fs.isfile, fs.ls, fs.find, fs.glob):
            with pytest.raises(NoHost, match="no right to read"):
                look(f"{root}/other/object")
        fs.put(str(tmp_path / "copy"), f"{root}/in/new", recursive=True)
        fs.put(str(tmp_path / "copy/object"), f"{root}/in/one")
        assert (tmp_path / "served/in/new/object").exists() and (tmp_path / "served/in/one").exists()
        with fs.open(f"{root}/in/two", "xb") as file:
            file.write(b"bytes")
        with pytest.raises(NoHost), fs.open(f"{root}/in/two", "xb") as file:
            file.write(b"other")
        assert (tmp_path / "served/in/two").read_bytes() == b"bytes"


def test_what_is_to_be_new_replaces_nothing(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    (tmp_path / "served/there").write_bytes(b"first")
    (tmp_path / "local").write_bytes(b"second")
    with wellspring.serve(tmp_path / "served", own_address(), allow_put=True, allow_overwrite=True) as host:
        fs, root = fsspec.url_to_fs(f"wellspring://{host.address}")
        with pytest.raises(FileExistsError):
            fs.put_file(str(tmp_path / "local"), f"{root}/there", mode="create")
        with pytest.raises(FileExistsError):
            fs.put(str(tmp_path / "local"), f"{root}/there", mode="create")
        for mode in ("xb", "x"):
            with pytest.raises(FileExistsError, match="choose another name"):
                fs.open(f"{root}/there", mode)
        assert (tmp_path / "served/there").read_bytes() == b"first"
        with fs.open(f"{root}/newer", "xb") as file:
            file.write(b"third")
        assert (tmp_path / "served/newer").read_bytes() == b"third"
        fs.put_file(str(tmp_path / "local"), f"{root}/new", mode="create")
        fs.put_file(str(tmp_path / "local"), f"{root}/there")
        assert {(tmp_path / "served" / name).read_bytes() for name in ("new", "there")} == {b"second"}


def test_a_transaction_puts_all_or_nothing(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    (tmp_path / "local").write_bytes(b"local")
    with wellspring.serve(tmp_path / "served", own_address(), allow_put=True) as host:
        fs, root = fsspec.url_to_fs(f"wellspring://{host.address}")

        def write() -> None:
            with fs.open(f"{root}/one", "wb") as file:
                file.write(b"one")
            fs.pipe_file(f"{root}/two", b"two")
            fs.put(str(tmp_path / "local"), f"{root}/three")
            assert list((tmp_path / "served").iterdir()) == []

        with pytest.raises(RuntimeError, match="changed my mind"), fs.transaction:
            write()
            raise RuntimeError("changed my mind")
        assert list((tmp_path / "served").iterdir()) == []
        with fs.transaction:
            write()
        there = {path.name: path.read_bytes() for path in (tmp_path / "served").iterdir()}
        assert there == {"one": b"one", "two": b"two", "three": b"local"}


def test_a_directory_comes_to_where_fsspec_has_it_whether_or_not_hosts_differ(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "set").mkdir(parents=True)
        (tmp_path / name / "set/object").write_bytes(b"bytes")
        os.utime(tmp_path / name / "set/object", (1, 1))
        os.utime(tmp_path / name / "set", (1, 1))
    hosts = [HostProcess(tmp_path / name) for name in ("one", "two")]
    try:
        fs, root = fsspec.url_to_fs(url(hosts, ""), timeout=2)
        for place in ("alike", "different"):
            for target in ("new/", "new/", "deep/er/new", "deep/er/new"):
                fs.get(f"{root}/set", str(tmp_path / place / target) + "/" * target.endswith("/"), recursive=True)
            found = {str(path.relative_to(tmp_path / place)) for path in (tmp_path / place).rglob("object")}
            assert found == {"new/set/object", "deep/er/new/object", "deep/er/new/set/object"}, place
            (tmp_path / "two/set/other").write_bytes(b"more")
    finally:
        for host in hosts:
            host.kill()


def test_what_is_left_out_of_a_directory_is_an_error_whether_or_not_hosts_differ(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "set").mkdir(parents=True)
        (tmp_path / name / "set/object").write_bytes(b"bytes")
        (tmp_path / name / "set/link").symlink_to("/etc/passwd")
        for path in ("set/object", "set"):
            os.utime(tmp_path / name / path, (1, 1))
        os.utime(tmp_path / name / "set/link", (1, 1), follow_symlinks=False)
    hosts = [HostProcess(tmp_path / name) for name in ("one", "two")]
    try:
        fs, root = fsspec.url_to_fs(url(hosts, ""), timeout=2)
        with pytest.raises(OSError, match="set was fetched, the rest is in .*alike: link is a link that leads out"):
            fs.get(f"{root}/set", str(tmp_path / "alike"), recursive=True)
        assert (tmp_path / "alike/object").read_bytes() == b"bytes"
        (tmp_path / "two/set/other").write_bytes(b"more")
        with pytest.raises(OSError, match="link"):
            fs.get(f"{root}/set", str(tmp_path / "different"), recursive=True)
    finally:
        for host in hosts:
            host.kill()


def test_hosts_may_be_addresses_with_brackets(tmp_path: Path) -> None:
    (tmp_path / "served/deep").mkdir(parents=True)
    (tmp_path / "served/deep/object").write_bytes(b"bytes")
    with wellspring.serve(tmp_path / "served", "[::1]:0", allow_put=True) as host:
        # In full: two colons are fsspec's, between file systems.
        address = "wellspring://" + host.address.replace("::1", "0:0:0:0:0:0:0:1")
        fs, root = fsspec.url_to_fs(address)
        [found] = fs.glob(f"{address}/*/ob[a-j]ect")
        assert fs.cat(found) == fs.cat(f"{address}/deep/object") == b"bytes"
        assert list(fs.cat([f"{root}/deep/object"]).values()) == [b"bytes"]
        with fsspec.open(fs.unstrip_protocol(found)) as file:
            assert file.read() == b"bytes"
        [opened] = fsspec.open_files(f"{address}/deep/*")
        with opened as file:
            assert file.read() == b"bytes"
        fs.get(f"{address}/deep/object", str(tmp_path / "one"))
        fs.get(f"{address}/deep", str(tmp_path / "all"), recursive=True)
        assert (tmp_path / "one").read_bytes() == (tmp_path / "all/object").read_bytes() == b"bytes"
        fs.put(str(tmp_path / "one"), f"{address}/new")
        assert (tmp_path / "served/new").read_bytes() == b"bytes"


def test_a_file_goes_into_one_that_is_open(three_hosts: Hosts) -> None:
    served, hosts = three_hosts
    (served / "object").write_bytes(b"bytes")
    fs, path = fsspec.url_to_fs(url(hosts, "object"))
    into = io.BytesIO()
    fs.get_file(path, into)
    assert into.getvalue() == b"bytes"


@pytest.mark.parametrize("cache", ["simplecache", "filecache"])
def test_fsspec_keeps_whole_files_in_caches_of_its_own(three_hosts: Hosts, tmp_path: Path, cache: str) -> None:
    served, hosts = three_hosts
    (served / "object").write_bytes(b"bytes")
    options: dict[str, Any] = {cache: {"cache_storage": str(tmp_path / "cache")}}
    with fsspec.open(f"{cache}::{url(hosts, 'object')}", **options) as file:
        assert file.read() == b"bytes"
    with fsspec.open(f"{cache}::{url(hosts[:1], 'new')}", "wb", **options) as file:
        file.write(b"more")
    assert (served / "new").read_bytes() == b"more"


def test_a_copy_is_for_everybody_who_comes_again(
    three_hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, hosts = three_hosts
    name = "/".join(["n" * 200] * 3) + "/" + "ä" * 100 + ".parquet"
    (served / name).parent.mkdir(parents=True)
    (served / name).write_bytes(b"bytes")
    cache = tmp_path / "made" / "cache"

    def content() -> Any:
        with fsspec.open(url(hosts, name), cache=str(cache), skip_instance_cache=True) as file:
            return file.read()

    assert content() == b"bytes"
    [copy] = cache.iterdir()
    assert copy.name.startswith(wellspring.stat(url(hosts, name)).digest) and copy.name.endswith("ä.parquet")
    with monkeypatch.context() as patch:
        # As another process has it: nothing is known of the copy but its name.
        patch.setattr(wellspring.Client, "get", lambda *_, **__: pytest.fail("fetched again"))
        assert content() == b"bytes"
    (served / name).write_bytes(b"changed")
    assert content() == b"changed" and len(list(cache.iterdir())) == 2


def test_a_copy_under_way_keeps_nobody_else_waiting(
    three_hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, hosts = three_hosts
    for name in ("slow", "quick"):
        (served / name).write_bytes(name.encode())
    begun, others_are_done = threading.Event(), threading.Event()
    get = wellspring.Client.get
    ended: list[object] = []

    def waiting(client: wellspring.Client, source: str, *args: Any, **options: Any) -> Any:
        if source.endswith("slow"):
            begun.set()
            ended.append(others_are_done.wait(30))
        return get(client, source, *args, **options)

    monkeypatch.setattr(wellspring.Client, "get", waiting)
    fs, root = fsspec.url_to_fs(url(hosts, ""), cache=str(tmp_path / "cache"))
    threads = [threading.Thread(target=lambda: ended.append(fs.cat_file(f"{root}/slow"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    begun.wait()
    assert fs.cat_file(f"{root}/quick") == b"quick"
    others_are_done.set()
    for thread in threads:
        thread.join()
    assert ended == [True, b"slow", b"slow"], "it was fetched once, and nobody waited"
