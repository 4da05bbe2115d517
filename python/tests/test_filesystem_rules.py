"""``wellspring://`` by the rules of fsspec: options, modes, listings, and what hosts cannot do."""

from __future__ import annotations

import threading
from pathlib import Path

import fsspec
import pytest

import wellspring
from conftest import own_address
from wellspring import transfers
from wellspring.errors import NoHost

filesystem = pytest.importorskip("wellspring.filesystem")


def test_options_that_do_nothing_are_refused(tmp_path: Path) -> None:
    (tmp_path / "object").write_bytes(b"bytes")
    with wellspring.serve(tmp_path, own_address()) as host:
        name = f"wellspring://{host.address}/object"
        with fsspec.open(name, rate=1e8, paths=4, use_listings_cache=False, skip_instance_cache=True) as file:
            assert file.read() == b"bytes"
        for wrong in ({"timeuot": 5}, {"anon": True}):
            with pytest.raises(TypeError, match=f"no option {next(iter(wrong))}: known are cache, insecure, keys, paths"):
                fsspec.open(name, **wrong)
        with pytest.raises(ValueError, match="ports"):
            fsspec.open(name, paths=0).open()
        with pytest.raises(ValueError, match="rate"):
            fsspec.open(name, rate=-1.0).open()


@pytest.mark.filterwarnings("ignore:.* was not put:RuntimeWarning")
def test_what_is_to_be_new_replaces_nothing_also_in_transactions(tmp_path: Path) -> None:
    served = tmp_path / "served"
    served.mkdir()
    (served / "there").write_bytes(b"first")
    (tmp_path / "local").write_bytes(b"second")
    with wellspring.serve(served, own_address(), allow_put=True, allow_overwrite=True) as host:
        fs, root = fsspec.url_to_fs(f"wellspring://{host.address}")
        with pytest.raises(FileExistsError, match="choose another name"):
            fs.pipe_file(f"{root}/there", b"third", mode="create")

        def comes_meanwhile(path: str, **_: object) -> bool:
            """Somebody else puts it just after this client looked."""
            (served / path.rpartition("/")[2]).write_bytes(b"first")
            return False

        local = str(tmp_path / "local")
        fs.exists = comes_meanwhile
        for put in (
            lambda: fs.pipe_file(f"{root}/new", b"third", mode="create"),
            lambda: fs.put_file(local, f"{root}/new", mode="create"),
            lambda: fs.put(local, f"{root}/new", mode="create"),
        ):
            (served / "new").unlink(missing_ok=True)
            with pytest.raises((NoHost, FileExistsError)):
                put()
            (served / "new").unlink()
            with pytest.raises((NoHost, FileExistsError)), fs.transaction:
                put()
            assert (served / "new").read_bytes() == b"first"
        del fs.exists
        with fs.transaction:
            fs.put_file(local, f"{root}/newer", mode="create")
            fs.pipe_file(f"{root}/there", b"third")
        assert (served / "newer").read_bytes() == b"second" and (served / "there").read_bytes() == b"third"


class Slow:
    """Stands in for a transfer that takes minutes."""

    def __init__(self) -> None:
        self.rounds, self.cancelled = 600, threading.Event()

    def wait(self, seconds: float) -> bool:
        self.rounds -= 1
        return self.cancelled.wait(seconds) or self.rounds == 0

    def cancel(self) -> None:
        self.cancelled.set()

    def result(self) -> str:
        return "all of it"


def test_an_interrupt_ends_the_transfers_of_many_files() -> None:
    begun, ended = threading.Barrier(4), []

    def fetch(path: str) -> str:
        begun.wait()
        if path == "first":
            raise KeyboardInterrupt
        transfer = Slow()
        try:
            return transfers._Pending(transfer, str).wait()
        finally:
            ended.append(transfer.cancelled.is_set())

    with pytest.raises(KeyboardInterrupt):
        filesystem._together(fetch, ["first", "second", "third", "fourth"])
    assert ended == [True] * 3


def test_what_fsspec_asks_of_files_and_directories(tmp_path: Path) -> None:
    served = tmp_path / "served"
    (served / "deep").mkdir(parents=True)
    (served / "deep/object").write_bytes(b"one\ntwo\nthree\n")
    (served / "deep/link").symlink_to("object")
    (served / "deep/out").symlink_to("/etc/passwd")
    with wellspring.serve(served, own_address(), allow_put=True) as host:
        fs, root = fsspec.url_to_fs(f"wellspring://{host.address}", timeout=1)
        name = f"{root}/deep/object"
        for cache in (None, str(tmp_path / "cache")):
            cached, _ = fsspec.url_to_fs(f"wellspring://{root}", timeout=1, cache=cache)
            assert cached.read_block(name, 4, 4) == b"two\n" == cached.read_block(name, 2, 4, delimiter=b"\n")
            assert cached.read_block(name, 4, None) == b"two\nthree\n"
        assert fs.du(root) == fs.du(root, withdirs=True) == fs.du(f"{root}/deep") == 14
        assert fs.find(root) == fs.glob(f"{root}/deep/*") == fs.ls(f"{root}/deep", detail=False) == [name]
        assert fs.info(f"{root}/deep/link")["type"] == "link" and not fs.isfile(f"{root}/deep/link")
        with pytest.raises(FileExistsError):
            fs.open(f"{root}/deep/link", "xb")
        for remove in (fs.rmdir, fs.rm_file):
            with pytest.raises(NotImplementedError, match="hosts remove"):
                remove(f"{root}/deep")
        assert fs.exists(root) and fs.isdir(root) and fs.isdir(f"{root}/deep")
    with pytest.raises(NoHost):
        fs.exists(root)
