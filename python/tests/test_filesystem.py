"""``wellspring://`` through fsspec."""

from __future__ import annotations

import os
import random
from pathlib import Path

import fsspec
import pytest

import wellspring
from conftest import Fetched, HostProcess, own_address

Hosts = tuple[Path, list[HostProcess]]


def url(hosts: list[HostProcess], path: str) -> str:
    return "wellspring://" + ",".join(host.address for host in hosts) + "/" + path


@pytest.fixture
def content(three_hosts: Hosts, data: random.Random) -> bytes:
    served, _ = three_hosts
    content = data.randbytes(300_000)
    (served / "deep").mkdir()
    (served / "deep" / "object").write_bytes(content)
    return content


def test_files_are_read_at_any_offset_while_a_host_dies(three_hosts: Hosts, content: bytes) -> None:
    _, hosts = three_hosts
    with fsspec.open(url(hosts, "deep/object"), timeout=2) as file:
        file.seek(-10, 2)
        assert file.read() == content[-10:]
        hosts[0].kill()
        file.seek(100)
        assert file.read(50) == content[100:150]
    fs, path = fsspec.url_to_fs(url(hosts, "deep/object"), timeout=2)
    assert fs.cat_file(path, 5, 25) == content[5:25]
    assert fs.cat_file(path, -7) == content[-7:] and fs.cat_file(path, 9, 3) == b""
    assert fs.cat_file(path, 300_000) == b"" and fs.cat_file(path, 299_000, 400_000) == content[299_000:]
    assert fs.cat_file(path, 7, -7) == content[7:-7] and fs.cat_file(path) == content
    with pytest.raises(FileNotFoundError):
        fs.cat_file(path + "s", 0, 5)


def test_only_what_is_read_is_fetched(three_hosts: Hosts, data: random.Random, fetched: Fetched) -> None:
    served, hosts = three_hosts
    content = data.randbytes(20_000_000)
    (served / "large").write_bytes(content)
    with fsspec.open(url(hosts, "large")) as file:
        for _ in range(20):
            at = data.randrange(len(content))
            file.seek(at)
            assert file.read(100) == content[at : at + 100]
        assert 0 < fetched.bytes <= 20 * 4 * 128 * 1024
        file.seek(1_000_000)
        fetched.calls = fetched.bytes = 0
        assert file.read(5_000_000) == content[1_000_000:6_000_000]
        # The last of the short pieces may hold where this one begins.
        assert 1 <= fetched.calls <= 2 and 5_000_000 - 2 * 128 * 1024 <= fetched.bytes <= 6_000_000
    fetched.calls = 0
    with fsspec.open(url(hosts, "large")) as file:
        pieces = list(iter(lambda: file.read(10_000), b""))
    assert b"".join(pieces) == content
    assert 1 <= fetched.calls <= 10, "who reads on gets ever longer pieces"
    with fsspec.open(url(hosts, "large"), "rt", encoding="latin-1", newline="") as text:
        assert text.read(30_000) == content[:30_000].decode("latin-1")


def test_a_file_that_changes_while_it_is_read_is_not_mixed(three_hosts: Hosts, content: bytes) -> None:
    served, hosts = three_hosts
    with fsspec.open(url(hosts[:1], "deep/object")) as file:
        assert file.read(10) == content[:10]
        (served / "deep" / "object").write_bytes(bytes(300_000))
        file.seek(290_000)
        with pytest.raises(wellspring.errors.NoHost):
            file.read(10)


def test_a_file_that_shrinks_before_its_first_piece_comes_is_to_be_opened_again(
    three_hosts: Hosts, content: bytes
) -> None:
    served, hosts = three_hosts
    for at, shorter in ((0, 200_000), (140_000, 150_000)):
        with fsspec.open(url(hosts[:1], "deep/object")) as file:
            (served / "deep" / "object").write_bytes(content[:shorter])
            file.seek(at)
            with pytest.raises(OSError, match=f"has {shorter} bytes now, .*open it again"):
                file.read()
        with fsspec.open(url(hosts[:1], "deep/object")) as file:
            assert file.read() == content[:shorter]


def test_a_file_that_grows_before_its_first_piece_comes_is_to_be_opened_again(
    three_hosts: Hosts, content: bytes
) -> None:
    served, hosts = three_hosts
    longer = content + b"more"
    # The whole, a piece of some blocks, one that is shorter than a block, and the last bytes.
    for at, length in ((0, -1), (0, 200_000), (0, 10), (299_990, -1)):
        (served / "deep" / "object").write_bytes(content)
        with fsspec.open(url(hosts[:1], "deep/object")) as file:
            (served / "deep" / "object").write_bytes(longer)
            file.seek(at)
            with pytest.raises(OSError, match="has 300004 bytes now, not 300000: open it again"):
                file.read(length)
        with fsspec.open(url(hosts[:1], "deep/object")) as file:
            assert file.read() == longer


def test_a_cache_has_whole_files(three_hosts: Hosts, content: bytes, tmp_path: Path, fetched: Fetched) -> None:
    _, hosts = three_hosts
    for _ in range(2):
        with fsspec.open(url(hosts, "deep/object"), cache=str(tmp_path)) as file:
            file.seek(9)
            assert file.read() == content[9:]
        assert [path.read_bytes() for path in tmp_path.glob("*object")] == [content]
        for host in hosts[1:]:
            host.kill()
    assert fetched.calls == 0


def test_listings_and_kinds(three_hosts: Hosts, content: bytes) -> None:
    _, hosts = three_hosts
    fs, root = fsspec.url_to_fs(url(hosts, ""))
    assert fs.ls(root, detail=False) == [f"{root}/deep"]
    [info] = fs.ls(f"{root}/deep")
    assert (info["name"], info["size"], info["type"]) == (f"{root}/deep/object", 300_000, "file")
    assert fs.isdir(f"{root}/deep") and fs.isfile(f"{root}/deep/object")
    assert fs.find(root) == [f"{root}/deep/object"]
    assert not fs.exists(f"{root}/deep/nothing")
    for missing in ("deep/nothing", "nowhere/at/all"):
        with pytest.raises(FileNotFoundError):
            fs.open(f"{root}/{missing}")
    for directory in (f"{root}/deep", root):
        with pytest.raises(IsADirectoryError):
            fs.open(directory)


def test_a_changed_file_is_fetched_anew(three_hosts: Hosts, content: bytes) -> None:
    served, hosts = three_hosts
    fs, path = fsspec.url_to_fs(url(hosts[:1], "deep/object"))
    assert fs.cat_file(path) == content
    (served / "deep" / "object").write_bytes(b"changed")
    assert fs.cat_file(path) == b"changed"


def test_what_is_written_goes_to_every_host(tmp_path: Path, data: random.Random) -> None:
    content = data.randbytes(70_000)
    folders = [tmp_path / str(n) for n in range(2)]
    for folder in folders:
        folder.mkdir()
    hosts = [HostProcess(folder) for folder in folders]
    try:
        with fsspec.open(url(hosts, "checkpoint"), "wb") as file:
            file.write(content)
        assert [(folder / "checkpoint").read_bytes() for folder in folders] == [content] * 2
        with fsspec.open(url(hosts, "runs/7/checkpoint"), "wb") as file:
            file.write(content)
        assert [(folder / "runs/7/checkpoint").read_bytes() for folder in folders] == [content] * 2
        with pytest.raises(ValueError, match="as a whole"):
            fsspec.open(url(hosts, "checkpoint"), "ab").open()
    finally:
        for host in hosts:
            host.kill()


def test_replicas_may_differ_in_times_and_in_other_files(tmp_path: Path, data: random.Random) -> None:
    content = data.randbytes(300_000)
    folders = [tmp_path / str(n) for n in range(2)]
    for at, folder in enumerate(folders):
        (folder / "deep").mkdir(parents=True)
        for name in ("object", f"only at {at}"):
            (folder / "deep" / name).write_bytes(content)
        os.utime(folder / "deep" / "object", (at, at))
    hosts = [HostProcess(folder) for folder in folders]
    try:
        fs, root = fsspec.url_to_fs(url(hosts, "deep"), timeout=2)
        names = ["object", "only at 0", "only at 1"]
        assert fs.ls(root, detail=False) == [f"{root}/{name}" for name in names]
        for name in names:
            with fs.open(f"{root}/{name}") as file:
                assert file.read() == content
        (folders[1] / "deep" / "object").write_bytes(content[::-1])
        with pytest.raises(wellspring.errors.ReplicasDiffer), fs.open(f"{root}/object") as file:
            file.read()
    finally:
        for host in hosts:
            host.kill()


def test_a_new_file_needs_no_right_to_replace(tmp_path: Path) -> None:
    with wellspring.serve(tmp_path, own_address(), allow_put=True) as server:
        name = f"wellspring://{server.address}/new"
        with fsspec.open(name, "wb") as file:
            file.write(b"first")
        assert (tmp_path / "new").read_bytes() == b"first"
        with pytest.raises(wellspring.errors.NoHost, match="allow-overwrite"), fsspec.open(name, "wb") as file:
            file.write(b"second")
        assert (tmp_path / "new").read_bytes() == b"first"


def test_a_directory_is_put_by_one_transfer_to_where_fsspec_has_it(tmp_path: Path, data: random.Random) -> None:
    source, served = tmp_path / "source", tmp_path / "served"
    (source / "a" / "b").mkdir(parents=True)
    served.mkdir()
    contents = {f"a/b/f{n}": data.randbytes(2_000 + n) for n in range(40)}
    for name, content in contents.items():
        (source / name).write_bytes(content)
    with wellspring.serve(served, own_address(), allow_put=True, allow_overwrite=True) as server:
        fs, root = fsspec.url_to_fs(f"wellspring://{server.address}")
        fs.put(str(source), f"{root}/new/place", recursive=True)
        # It is there by now, and so what comes goes into it, unless the content alone is meant.
        fs.put(str(source), f"{root}/new/place", recursive=True)
        (source / "a/b/f0").write_bytes(b"another")
        fs.put(f"{source}/", f"{root}/new/place/", recursive=True)
        for place, first in (("new/place", b"another"), ("new/place/source", contents["a/b/f0"])):
            there = {name: (served / place / name).read_bytes() for name in contents}
            assert there == contents | {"a/b/f0": first}, place
        os.symlink("/etc/passwd", source / "link")
        with pytest.raises(OSError, match="link is a link that leads out"):
            fs.put(str(source), f"{root}/other", recursive=True)
        fs.pipe({f"{root}/many/{n}": bytes([n]) for n in range(20)})
        assert fs.cat(fs.find(f"{root}/many")) == {f"{root}/many/{n}": bytes([n]) for n in range(20)}
        for change in (lambda: fs.rm(f"{root}/many/0"), lambda: fs.mv(f"{root}/many/0", f"{root}/x")):
            with pytest.raises(NotImplementedError, match="hosts remove, rename and copy nothing"):
                change()
    with wellspring.serve(served, own_address(), allow_put=True) as server:
        fs, root = fsspec.url_to_fs(f"wellspring://{server.address}")
        fs.put(str(source / "a"), f"{root}/what/is/new", recursive=True)
        (source / "a/b/f1").write_bytes(b"another")
        with pytest.raises(wellspring.errors.NoHost, match="replaced"):
            fs.put(f"{source / 'a'}/", f"{root}/what/is/new", recursive=True)
        assert (served / "what/is/new/b/f1").read_bytes() == contents["a/b/f1"]


def test_many_files_and_whole_directories_come_at_once(tmp_path: Path, data: random.Random) -> None:
    contents = {f"f{n}": data.randbytes(2_000 + n) for n in range(40)}
    folders = [tmp_path / str(n) for n in range(2)]
    for folder in folders:
        (folder / "set" / "deep").mkdir(parents=True)
        for name, content in contents.items():
            (folder / "set" / name).write_bytes(content)
        (folder / "set" / "deep" / "last").write_bytes(b"last")
    hosts = [HostProcess(folder) for folder in folders]
    try:
        fs, root = fsspec.url_to_fs(url(hosts, "set"), timeout=2)
        paths = {f"{root}/{name}": content for name, content in contents.items()}
        assert fs.cat(list(paths)) == paths
        with pytest.raises(FileNotFoundError):
            fs.cat([*paths, f"{root}/none"])
        assert fs.cat([*paths, f"{root}/none"], on_error="omit") == paths
        # As fsspec has it: to a new directory, into one that is there, and the content of one; then file by file, since
        # the hosts differ in another one.
        for target, found in (("new", "new"), ("new", "new/set"), ("other", "other")):
            fs.get(f"{root}/" if target == "other" else root, str(tmp_path / target), recursive=True)
            for name, content in {**contents, "deep/last": b"last"}.items():
                assert (tmp_path / found / name).read_bytes() == content
            (folders[1] / "set" / "only here").write_bytes(b"more")
        assert (tmp_path / "other" / "only here").read_bytes() == b"more"
        fs.get(f"{root}/f1", str(tmp_path / "made" / "f1"))
        assert (tmp_path / "made" / "f1").read_bytes() == contents["f1"]
        with pytest.raises(IsADirectoryError):
            fs.get_file(f"{root}/f1", str(tmp_path / "made"))
    finally:
        for host in hosts:
            host.kill()
