"""Reads of remote files that fail once: what comes after them skips no byte without a word."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from wellspring.errors import ReplicasLost

filesystem = pytest.importorskip("wellspring.filesystem")

FAILURES = [ReplicasLost("all replicas were lost"), KeyboardInterrupt()]


class Replicas:
    """Stands in for a client. Its next fetch fails if it has an error."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.error: BaseException | None = None

    def stat(self, path: str) -> Any:
        return SimpleNamespace(size=len(self.content), digest="digest")

    def read_into(self, path: str, into: memoryview, range: tuple[int, int], digest: str | None) -> Any:
        error, self.error = self.error, None
        if error is not None:
            into[: len(into) // 2] = bytes(len(into) // 2)
            raise error
        into[:] = self.content[slice(*range)]
        return self.stat(path)

    def read_exactly(self, path: str, first: int, end: int, digest: str | None) -> tuple[bytes, Any]:
        content = bytearray(end - first)
        report = self.read_into(path, memoryview(content), (first, end), digest)
        return bytes(content), report


def opened(content: bytes) -> tuple[Replicas, Any]:
    replicas = Replicas(content)
    fs = filesystem.WellspringFileSystem(skip_instance_cache=True)
    fs._own_client = lambda: replicas
    return replicas, fs._open("host/object")


def until_it_fails(read: Callable[[], object], replicas: Replicas, error: BaseException, at: Callable[[], int]) -> int:
    """Where the call began that failed."""
    replicas.error = error
    with pytest.raises(type(error)):
        while True:
            before = at()
            read()
    return before


CALLS: dict[str, Callable[[Any], object]] = {
    "1,000 bytes": lambda file: file.read(1_000),
    "300,000 bytes": lambda file: file.read(300_000),
    "the rest": lambda file: file.read(),
    "a piece": lambda file: file.read1(1_000),
    "into memory": lambda file: file.readinto(bytearray(1_000)),
    "into much memory": lambda file: file.readinto(bytearray(300_000)),
    "a line": lambda file: next(file),
    "lines": lambda file: file.readlines(100_000),
}


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("name", CALLS)
def test_a_read_that_failed_skips_nothing(data: random.Random, name: str, error: BaseException) -> None:
    content = data.randbytes(1_000_000)
    replicas, file = opened(content)
    assert file.read(100) == content[:100] and file.size == len(content)
    at = until_it_fails(lambda: CALLS[name](file), replicas, error, file.tell)
    for _ in range(2):
        assert name == "lines" or file.tell() == at, "it stays where it was"
        with pytest.raises(OSError, match=r"seek\(\d+\)"):
            CALLS[name](file)
    at = file.tell()
    file.seek(at)
    assert file.read() == content[at:]


def test_what_a_peek_could_not_see_is_read_later(data: random.Random) -> None:
    content = data.randbytes(300_000)
    replicas, file = opened(content)
    replicas.error = FAILURES[0]
    with pytest.raises(ReplicasLost):
        file.peek()
    file.seek(0)
    assert file.peek(1) and file.read() == content


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
def test_text_and_decompression_above_it_skip_nothing(data: random.Random, error: BaseException) -> None:
    content = data.randbytes(400_000)
    above: list[tuple[bytes, Callable[[Any], Any], Callable[[bytes], Any]]] = [
        (content, lambda file: io.TextIOWrapper(file, "latin-1", newline=""), lambda got: got.decode("latin-1")),
        (gzip.compress(content), lambda file: gzip.GzipFile(fileobj=file), lambda got: got),
    ]
    for served, wrap, expected in above:
        replicas, file = opened(served)
        wrapper = wrap(file)
        assert wrapper.read(10) == expected(content[:10])
        until_it_fails(lambda: wrapper.read(777), replicas, error, lambda: 0)
        for _ in range(2):
            with pytest.raises(OSError, match="an earlier read failed"):
                while wrapper.read(777):
                    pass
        wrapper.seek(0)
        assert wrapper.read() == expected(content)


def test_a_wrong_argument_is_no_failed_read(data: random.Random) -> None:
    content = data.randbytes(1_000)
    _, file = opened(content)
    for wrong in (lambda: file.read("5"), lambda: file.readinto(b"not writable")):
        with pytest.raises(TypeError):
            wrong()
    assert file.read() == content
