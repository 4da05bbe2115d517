"""Servers of tests."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import wellspring


@pytest.fixture(autouse=True)
def no_keys_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WELLSPRING_KEYS", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def seed() -> int:
    seed = int(os.environ.get("SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
    print(f"SEED={seed}")
    return seed


@pytest.fixture
def data(seed: int, request: pytest.FixtureRequest) -> random.Random:
    return random.Random(f"{seed} {request.node.name}")


class HostProcess:
    """A server in a process of its own, which can be killed."""

    def __init__(self, directory: Path, slow: bool = False) -> None:
        code = (
            "import sys, wellspring\n"
            "server = wellspring.serve(sys.argv[1], '127.0.0.1:0', allow_put=True, allow_overwrite=True)\n"
            "print(server.address, flush=True)\n"
            "sys.stdin.read()\n"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", code, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        assert self.address, "the server did not start"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def three_hosts(tmp_path: Path) -> Iterator[tuple[Path, list[HostProcess]]]:
    """Three hosts that serve one directory's content, each from a copy of its own is not needed: they only read."""
    served = tmp_path / "served"
    served.mkdir()
    hosts = [HostProcess(served) for _ in range(3)]
    yield served, hosts
    for host in hosts:
        host.kill()


class Fetched:
    """How many bytes of blocks file systems have fetched."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls, self.bytes = 0, 0
        read_into = wellspring.Client.read_into

        def counting(client: wellspring.Client, *args: Any, **options: Any) -> Any:
            report = read_into(client, *args, **options)
            self.calls, self.bytes = self.calls + 1, self.bytes + (report.blocks or 0) * 128 * 1024
            return report

        monkeypatch.setattr(wellspring.Client, "read_into", counting)


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> Fetched:
    return Fetched(monkeypatch)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Path, wellspring.Server]]:
    served = tmp_path / "served"
    served.mkdir()
    with wellspring.serve(served, "127.0.0.1:0", allow_put=True) as server:
        yield served, server
