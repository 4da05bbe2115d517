"""Files of hosts that are open: one that is read piece by piece, and one that is put when it is closed."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from .errors import NoHost, TargetExists
from .reports import FetchReport, PutTreeReport
from .transfers import Client

if TYPE_CHECKING:
    from ._native import Memory

__all__ = ["BLOCK", "Remote", "Upload", "put"]

BLOCK = 128 * 1024
"""What is fetched at least: a block of SCDP's."""

_LONGEST_AHEAD = 64 * 1024 * 1024
"""What is fetched beyond what was asked for, at most."""


def put(client: Client, local: str, path: str, replace: bool = True) -> None:
    """Puts a file or a directory to its hosts."""
    hosts, _, name = path.partition("/")
    try:
        report = client.put(local, hosts, name=name)
    except (NoHost, TargetExists) as error:
        # Replacing takes a right of its own at the hosts, which what is new does not need.
        is_there = isinstance(error, TargetExists) or any(host.kind == "refused" for host in error.hosts)
        if not replace or not is_there:
            raise
        report = client.put(local, hosts, name=name, force=True)
    if isinstance(report, PutTreeReport) and report.skipped:
        skipped = "; ".join(f"{path} {reason}" for path, reason in report.skipped[:3])
        raise OSError(f"not all of {local} was put: {skipped}")


class Remote(io.RawIOBase):
    """A file of which what is read is fetched. All of it is of one digest, that of the first piece."""

    def __init__(self, client: Callable[[], Client], path: str, size: int) -> None:
        self._client, self._path, self._size = client, path, size
        self._at = 0
        self._digest: str | None = None
        self._start, self._piece = 0, memoryview(b"")
        self._ahead = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if at < 0:
            raise ValueError(f"position {at} lies before the file's beginning")
        self._at = at
        return at

    def readall(self) -> bytes:
        first, end = self._at, self._size
        is_here = self._start <= first < self._start + len(self._piece)
        if end - first < BLOCK or is_here:
            rest = bytearray(max(end - first, 0))
            self.readinto(rest)
            return bytes(rest)
        content = self._read(first, end)
        self._at = end
        return content

    def readinto(self, buffer: Memory, /) -> int:
        into = memoryview(cast(Any, buffer)).cast("B")[: max(self._size - self._at, 0)]
        filled = self._copy(into)
        if filled < len(into):
            self._fetch(into[filled:])
        return len(into)

    def _copy(self, into: memoryview) -> int:
        """Copies what is here already of what is to be read next, and goes on behind it."""
        part = self._piece[self._at - self._start :][: len(into)] if self._at >= self._start else self._piece[:0]
        into[: len(part)] = part
        self._at += len(part)
        return len(part)

    def _fetch(self, into: memoryview) -> None:
        """Fetches what is to be read next: a long piece in its place, a short one with what follows."""
        reads_on = self._at == self._start + len(self._piece)
        self._ahead = min(max(2 * self._ahead, BLOCK), _LONGEST_AHEAD) if reads_on else 0
        first, end = self._at, self._at + len(into)
        if len(into) >= self._ahead and len(into) >= BLOCK:
            report = self._client().read_into(self._path, into, range=(first, end), digest=self._digest)
            self._heed(report, end)
            self._at = end
            self._start, self._piece = end, memoryview(b"")
            return
        # The block that holds the first byte comes as a whole anyway, and so does the last.
        first = first // BLOCK * BLOCK
        end = min(max(-(-end // BLOCK) * BLOCK, end + self._ahead), self._size)
        self._start, self._piece = first, memoryview(self._read(first, end))
        self._copy(into)

    def _read(self, first: int, end: int) -> bytes:
        content, report = self._client().read_exactly(self._path, first, end, self._digest)
        self._heed(report, end)
        return content

    def _heed(self, report: FetchReport, end: int) -> None:
        if report.end < end:
            raise OSError(f"{self._path} has {report.size} bytes now, not {self._size}: open it again")
        self._digest = report.digest


class Upload(io.BufferedRandom):
    """A file that is put to its hosts when it is closed, or at the end of a transaction, unless by an error."""

    def __init__(self, path: str, replace: bool, client: Callable[[], Client], autocommit: bool) -> None:
        self._folder = tempfile.mkdtemp(prefix="wellspring-")
        self._local = os.path.join(self._folder, "file")
        self._path, self._replace, self._client = path, replace, client
        self._autocommit, self._process = autocommit, os.getpid()
        # fsspec's own `with` closes a file without a word of the error that ends it.
        self._handled = sys.exception()
        super().__init__(io.FileIO(self._local, "w+"))

    def close(self) -> None:
        if self.closed:
            return
        if os.getpid() != self._process:
            # A child of `fork` has a copy of it, and what it holds is still being written: it is the parent's.
            self.raw.close()
            return
        try:
            super().close()
        except BaseException:
            self.discard()
            raise
        if sys.exception() is not self._handled:
            self.discard()
        elif self._autocommit:
            self.commit()

    def commit(self) -> None:
        """Puts it, unless it was discarded."""
        try:
            super().close()
            if os.path.exists(self._local):
                put(self._client(), self._local, self._path, self._replace)
        finally:
            self.discard()

    def discard(self) -> None:
        """Forgets what was written."""
        shutil.rmtree(self._folder, ignore_errors=True)
