"""Files of hosts that are open: one that is read piece by piece, and one that is put when it is closed."""

from __future__ import annotations

import dis
import io
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, cast

from .errors import NoHost, TargetExists
from .reports import FetchReport, PutTreeReport
from .transfers import Client

if TYPE_CHECKING:
    from ._native import Memory

__all__ = ["BLOCK", "Reader", "Remote", "Sized", "Upload", "close_together", "in_words", "put"]

BLOCK = 128 * 1024
"""What is fetched at least: a block of SCDP's."""

_LONGEST_AHEAD = 64 * 1024 * 1024
"""What is fetched beyond what was asked for, at most."""

_LEAVES_BY_ERROR = dis.opmap["WITH_EXCEPT_START"]
"""The instruction by which a `with` statement calls `__exit__` with an error."""

_ERROR = "an error left its `with` statement: write it again"
_DROPPED = "nobody closed it: open it by `with`, or close it"
_OWED = "putting it failed, and nobody closed it once more: write it again"


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
        raise OSError(f"not all of {local} was put, the rest is in place: {in_words(report.skipped)}")


def in_words(skipped: tuple[tuple[str, str], ...]) -> str:
    """Some of what a transfer of a directory left out, and why."""
    return "; ".join(f"{path} {reason}" for path, reason in skipped[:3])


class Remote(io.RawIOBase):
    """A file of which what is read is fetched. All of it is of one digest, that of the first piece."""

    def __init__(self, client: Callable[[], Client], path: str, size: int) -> None:
        self._client, self._path, self.size = client, path, size
        self._at = 0
        self._digest: str | None = None
        self._start, self._piece = 0, memoryview(b"")
        self._ahead = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        if at < 0:
            raise ValueError(f"position {at} lies before the file's beginning")
        self._at = at
        return at

    def tell(self) -> int:
        return self._at

    def readall(self) -> bytes:
        first, end = self._at, self.size
        is_here = self._start <= first < self._start + len(self._piece)
        if end - first < BLOCK or is_here:
            rest = bytearray(max(end - first, 0))
            self.readinto(rest)
            return bytes(rest)
        content = self._read(first, end)
        self._at = end
        return content

    def readinto(self, buffer: Memory, /) -> int:
        into = memoryview(cast(Any, buffer)).cast("B")[: max(self.size - self._at, 0)]
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
            self._heed(report)
            self._at = end
            self._start, self._piece = end, memoryview(b"")
            return
        # The block that holds the first byte comes as a whole anyway, and so does the last.
        first = first // BLOCK * BLOCK
        end = min(max(-(-end // BLOCK) * BLOCK, end + self._ahead), self.size)
        self._start, self._piece = first, memoryview(self._read(first, end))
        self._copy(into)

    def _read(self, first: int, end: int) -> bytes:
        content, report = self._client().read_exactly(self._path, first, end, self._digest)
        self._heed(report)
        return content

    def _heed(self, report: FetchReport) -> None:
        # A shorter file has no such bytes, and of a longer one the reader would take a part for all of it.
        if report.size != self.size:
            raise OSError(f"{self._path} has {report.size} bytes now, not {self.size}: open it again")
        self._digest = report.digest


class Sized(io.BufferedReader):
    """A file that is read, with its length as fsspec asks for it."""

    def __init__(self, raw: io.RawIOBase, size: int, buffer: int = io.DEFAULT_BUFFER_SIZE) -> None:
        self.size = size
        super().__init__(raw, buffer)


class Reader(Sized):
    """The buffer above a :class:`Remote`. A call that fails leaves the position where it was.

    Buffers of Python forget what they held when a read below them fails: so does this one's own class, and so do text
    files and decompression above it. None of them would skip bytes without a word: after a failure nothing is read
    until somebody says by an absolute ``seek`` where to go on.
    """

    def __init__(self, remote: Remote) -> None:
        self._has_failed = False
        # Counted here: to ask the buffer for it costs as much as a short line.
        self._next = 0
        super().__init__(remote, remote.size, BLOCK)

    def _may_read(self) -> None:
        if self._has_failed:
            raise OSError(
                f"an earlier read failed, and what was held above it is lost: go on by seek({self._next}), where that read "
                "began (a text or compressed file: where you were there), or open the file again"
            )

    def _fail(self, error: BaseException) -> None:
        super().seek(self._next)
        # Arguments of a wrong type are refused before anything is read.
        self._has_failed = not isinstance(error, TypeError)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._next = super().seek(offset, whence)
        self._has_failed = self._has_failed and whence == io.SEEK_CUR
        return self._next

    def _bytes(self, call: Callable[..., bytes], size: int | None) -> bytes:
        self._may_read()
        try:
            part = call(size)
        except BaseException as error:
            self._fail(error)
            raise
        self._next += len(part)
        return part

    def _count(self, call: Callable[..., int], buffer: Any) -> int:
        self._may_read()
        try:
            count = call(buffer)
        except BaseException as error:
            self._fail(error)
            raise
        self._next += count
        return count

    def read(self, size: int | None = -1, /) -> bytes:
        return self._bytes(super().read, size)

    def read1(self, size: int = -1, /) -> bytes:
        return self._bytes(super().read1, size)

    def peek(self, size: int = 0, /) -> bytes:
        at = self._next
        part = self._bytes(super().peek, size)
        self._next = at
        return part

    def readinto(self, buffer: Any, /) -> int:
        return self._count(super().readinto, buffer)

    def readinto1(self, buffer: Any, /) -> int:
        return self._count(super().readinto1, buffer)

    def readline(self, size: int | None = -1, /) -> bytes:
        # As `_bytes`, which would cost half as much again for each line.
        if self._has_failed:
            self._may_read()
        try:
            line = super().readline(size)
        except BaseException as error:
            self._fail(error)
            raise
        self._next += len(line)
        return line


def _left_by_errors() -> int:
    """How many `with` statements around the caller are being left by an error right now.

    Who closes a file there need not say so: fsspec's own `with`, text files and pandas call `close` alone. An exception
    that is being handled does not tell, since a file that is closed in an `except` clause may well be whole.
    """
    count = 0
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        count += frame.f_code.co_code[frame.f_lasti] == _LEAVES_BY_ERROR
        frame = frame.f_back
    return count


class _Local(io.FileIO):
    """The local file of an upload. What a child of ``fork`` does to it goes nowhere.

    A child shares the position of its parent's file, and has copies of what buffers above it still hold, which they
    write when they are closed there, or forgotten.
    """

    def __init__(self, path: str) -> None:
        self._process = os.getpid()
        super().__init__(path, "w+")

    def _leave_to_parent(self) -> None:
        if os.getpid() != self._process:
            with open(os.devnull, "r+b", buffering=0) as nowhere:
                os.dup2(nowhere.fileno(), super().fileno())
            self._process = os.getpid()

    def fileno(self) -> int:
        self._leave_to_parent()
        return super().fileno()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._leave_to_parent()
        return super().seek(offset, whence)

    def write(self, data: Any, /) -> int:
        self._leave_to_parent()
        return super().write(data)

    def truncate(self, size: int | None = None, /) -> int:
        self._leave_to_parent()
        return super().truncate(size)

    def readinto(self, buffer: Any, /) -> int:
        self._leave_to_parent()
        return super().readinto(buffer)

    def readall(self) -> bytes:
        self._leave_to_parent()
        return super().readall()


class Upload(io.BufferedRandom):
    """A file that is put to its hosts when it is closed, or at the end of a transaction.

    If an error leaves its `with` statement, or nobody closes it, it is not whole: nothing is put, and a warning says so.
    If its put fails it is kept, and counts as open until another ``close`` has put it or it is dropped.
    """

    def __init__(self, path: str, replace: bool, client: Callable[[], Client], autocommit: bool) -> None:
        self._folder = tempfile.mkdtemp(prefix="wellspring-")
        self._local = os.path.join(self._folder, "file")
        self._path, self._replace, self._client = path, replace, client
        self._autocommit, self._process = autocommit, os.getpid()
        self._errors_before, self._is_dropped, self._is_owed = _left_by_errors(), False, False
        super().__init__(_Local(self._local))

    @property
    def closed(self) -> bool:
        return super().closed and not self._is_owed

    def flush(self) -> None:
        # Text files flush what is below whenever they are closed, also once more.
        if not self._is_owed:
            super().flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.closed:
            self._end(_ERROR if error is not None else None)

    def close(self) -> None:
        if self.closed:
            return
        if self._is_dropped:
            self._end(_DROPPED)
        elif self._is_owed:
            self._end(None)
        else:
            self._end(_ERROR if _left_by_errors() > self._errors_before else None)

    def __del__(self) -> None:
        # The finalizer of files would close it, as if it were whole. Without `raw` it was never open.
        if self.raw is not None and not self.closed:
            self._end(_DROPPED)

    def _dealloc_warn(self, source: object) -> None:
        """What text files that nobody closed call on what is below before they close it."""
        self._is_dropped = True

    def _end(self, unfinished: str | None) -> None:
        """Closes it and puts it, unless something is said to be the reason why it is not whole."""
        if os.getpid() != self._process:
            # A child of `fork` has a copy of it, and what it holds is still being written: it is the parent's.
            self._is_owed = False
            self.raw.close()
            return
        if self._is_owed and unfinished == _DROPPED:
            unfinished = _OWED
        try:
            super().close()
        except BaseException:
            self.discard()
            raise
        if unfinished is not None:
            was_kept = os.path.exists(self._local)
            self.discard()
            if was_kept:
                warnings.warn(f"{self._path} was not put, since {unfinished}", RuntimeWarning, stacklevel=3)
        elif self._autocommit:
            self.commit()

    def commit(self) -> None:
        """Puts it, unless it was discarded. What is still open lacks what text or compression above it holds."""
        if os.getpid() != self._process:
            return
        if not super().closed:
            self._end(_DROPPED)
        elif os.path.exists(self._local):
            self._is_owed = True
            put(self._client(), self._local, self._path, self._replace)
            self.discard()

    def discard(self) -> None:
        """Forgets what was written."""
        if os.getpid() == self._process:
            self._is_owed = False
            shutil.rmtree(self._folder, ignore_errors=True)


def close_together(outer: Any, inner: Upload) -> None:
    """Has what compresses into a file close that, too, be open as long as that, and hand on that it was dropped."""
    close, kind = outer.close, type(outer)

    def close_both() -> None:
        close()
        # Set by the finalizer of files: nobody closed it.
        if not getattr(outer, "_finalizing", False):
            inner.close()

    outer.close, outer._dealloc_warn = close_both, inner._dealloc_warn
    closed = property(lambda both: kind.closed.__get__(both) and inner.closed)
    try:
        # A text file above it, when it is closed once more, asks whether there is something to close.
        outer.__class__ = type(kind.__name__, (kind,), {"closed": closed})
    except TypeError:
        pass  # A class that is not Python's own.
