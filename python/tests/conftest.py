"""Servers of tests."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import random
import signal
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


def own_address() -> str:
    """A loopback address and port 0, for one server: where it was nobody else listens once it is gone.

    Ports that the system chooses are taken again at once, also by other tests that run meanwhile: a client whose
    server was killed would meet theirs. Not of the seed, which those may have, too.
    """
    number = random.SystemRandom().randrange(0x7F10_0000, 0x7FFF_FFFF)
    return f"{ipaddress.IPv4Address(number)}:0"


class HostProcess:
    """A server in a process of its own, which can be killed. With a rate [bit/s] transfers last as long as that takes."""

    def __init__(self, directory: Path, rate: float | None = None) -> None:
        code = (
            "import sys, wellspring\n"
            "rate = float(sys.argv[3]) if len(sys.argv) > 3 else None\n"
            "server = wellspring.serve(*sys.argv[1:3], allow_put=True, allow_overwrite=True, rate=rate)\n"
            "print(server.address, flush=True)\n"
            "sys.stdin.read()\n"
        )
        arguments = [str(directory), own_address(), *([str(rate)] if rate else [])]
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", code, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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


def hosts_of(tmp_path: Path, rate: float | None = None) -> Iterator[tuple[Path, list[HostProcess]]]:
    served = tmp_path / "served"
    served.mkdir()
    hosts = [HostProcess(served, rate) for _ in range(3)]
    yield served, hosts
    for host in hosts:
        host.kill()


@pytest.fixture
def three_hosts(tmp_path: Path) -> Iterator[tuple[Path, list[HostProcess]]]:
    """Three hosts that serve one directory."""
    yield from hosts_of(tmp_path)


@pytest.fixture
def slow_hosts(tmp_path: Path) -> Iterator[tuple[Path, list[HostProcess]]]:
    """The same with 2 MB a second each: what happens during a transfer happens before its end on any machine."""
    yield from hosts_of(tmp_path, rate=16e6)


def interrupted(call: str) -> tuple[str, int]:
    """What a process prints in which this is interrupted by Ctrl-C once it has begun, and its exit status."""
    code = (
        "import signal\n"
        "import wellspring\n"
        "from wellspring import sim\n"
        # A shell starts what runs in the background with this signal ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "try:\n"
        "    print('begun', flush=True)\n"
        f"    {call}\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    try:
        out, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    return out, process.returncode


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
    with wellspring.serve(served, own_address(), allow_put=True) as server:
        yield served, server
