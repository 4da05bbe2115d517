"""``wellspring://HOST,HOST/PATH`` for whatever reads through fsspec: pandas, polars, pyarrow, safetensors, Dask.

Listings come from the hosts. Of a file that is opened for reading only what is read is fetched, from all its hosts at
once, in the blocks of 128 KiB that hold it, each verified under the digest that the file had at first. Who reads on gets
ever longer pieces. With ``cache=DIR`` a file is fetched there as a whole when it is opened, for readers who come again. A
file that is opened for writing is put to all the hosts when it is closed.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

from fsspec import AbstractFileSystem

from .errors import NoHost, NoSuchRange, ReplicasDiffer, TargetExists
from .reports import FetchReport, ObjectStat, PutTreeReport
from .transfers import Client, Entry

if TYPE_CHECKING:
    from ._native import Memory

__all__ = ["WellspringFileSystem"]

_BLOCK = 128 * 1024
"""What is fetched at least: a block of SCDP's."""

_LONGEST_AHEAD = 64 * 1024 * 1024
"""What is fetched beyond what was asked for, at most."""


_AT_ONCE = 8
"""Files that are fetched or put at one time."""

_STAYS = "hosts remove, rename and copy nothing of theirs (a put of a directory with delete=True removes what it lacks)"

_T = TypeVar("_T")


def _together(function: Callable[[str], _T], paths: Iterable[str]) -> list[_T]:
    """What the function gives for each of many paths, some of them at a time."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(function, paths))


def _put(client: Client, local: str, path: str, replace: bool = True) -> None:
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


def _no_such_file(error: NoHost) -> bool:
    """Whether all hosts that are there say that they have none of that name."""
    return {host.kind for host in error.hosts} - {"silent", "port closed", "unresolved"} == {"not found"}


class WellspringFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Files of hosts that run ``wellspring serve``.

    ``keys``, ``insecure`` and ``timeout`` are those of :class:`wellspring.Client`. With ``cache``, a
    directory, files are fetched as a whole and kept there; without it only what is read is fetched.
    """

    protocol = "wellspring"
    root_marker = ""

    def __init__(
        self,
        keys: str | None = None,
        insecure: bool = False,
        timeout: float = 10.0,
        cache: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._access: dict[str, Any] = {"keys": keys, "insecure": insecure, "timeout": timeout}
        self._cache = cache
        self._lock = threading.Lock()
        self._client: tuple[int, Client] | None = None
        self._digests: dict[str, str] = {}

    def _info(self, directory: str, entry: Entry) -> dict[str, Any]:
        kind = {"file": "file", "directory": "directory", "link": "link"}.get(entry.kind, "other")
        return {
            "name": f"{directory.rstrip('/')}/{entry.path}",
            "size": entry.size,
            "type": kind,
            "mtime": entry.modified,
            "mode": entry.mode,
        }

    def _list(self, directory: str) -> list[Entry]:
        """What a directory has. Hosts may differ there, and do in times unless these were copied, too: then it has what
        any of them has, as the first of these says. The bytes of files are compared when they are read."""
        try:
            return self._own_client().ls(f"{directory}/")
        except ReplicasDiffer:
            pass
        hosts, slash, name = directory.partition("/")
        found: dict[str, Entry] = {}
        for host in hosts.split(","):
            try:
                entries = self._own_client().ls(f"{host}{slash}{name}/")
            except NoHost:
                continue
            for entry in entries:
                found.setdefault(entry.path, entry)
        return [found[path] for path in sorted(found)]

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        """What is in a directory, or the file itself."""
        path = cast(str, self._strip_protocol(path))
        try:
            infos = [self._info(path, entry) for entry in self._list(path)]
        except NoHost as error:
            if "/" not in path:
                raise FileNotFoundError(str(error)) from error
            infos = [self.info(path)]
        return infos if detail else [info["name"] for info in infos]

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        """Size and times of a file or directory."""
        path = cast(str, self._strip_protocol(path))
        parent, slash, name = path.rpartition("/")
        if not slash:
            return {"name": path, "size": None, "type": "directory"}
        try:
            entries = self._list(parent)
        except NoHost as error:
            raise FileNotFoundError(str(error)) from error
        for entry in entries:
            if entry.path == name:
                return self._info(parent, entry)
        raise FileNotFoundError(f"{name} is not in {parent}/")

    def _own_client(self) -> Client:
        """The client of this process: after a fork the child has one of its own."""
        with self._lock:
            if self._client is None or self._client[0] != os.getpid():
                self._client = (os.getpid(), Client(**self._access))
            return self._client[1]

    def _stat(self, path: str) -> ObjectStat:
        """Length and digest of a file."""
        if "/" not in path:
            raise IsADirectoryError(path)
        try:
            return self._own_client().stat(path)
        except NoHost as error:
            if not _no_such_file(error):
                raise
            if self.isdir(path):
                raise IsADirectoryError(path) from error
            raise FileNotFoundError(str(error)) from error

    def _fetched(self, path: str, cache: str, digest: str) -> str:
        """The path of a copy of what the hosts have now."""
        local = os.path.join(cache, path.replace("%", "%25").replace("/", "%2F"))
        client = self._own_client()
        with self._lock:
            if self._digests.get(path) != digest or not os.path.exists(local):
                client.get(path, local, force=True)
                self._digests[path] = digest
        return local

    def _open(self, path: str, mode: str = "rb", **options: Any) -> IO[bytes]:
        path = cast(str, self._strip_protocol(path))
        if mode == "rb":
            stat = self._stat(path)
            if self._cache is not None:
                return open(self._fetched(path, self._cache, stat.digest), "rb")
            return io.BufferedReader(_Remote(self._own_client(), path, stat.size), _BLOCK)
        if mode in ("wb", "xb"):
            return _Upload(path, mode == "wb", self._own_client)
        raise ValueError(f"mode {mode}: files are read (rb) or written as a whole (wb, xb)")

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        """The bytes of a file, or a range of them."""
        path = cast(str, self._strip_protocol(path))
        if self._cache is not None or (end or 0) < 0 or ((start or 0) < 0 and end is not None):
            with self._open(path) as file:
                first, last, _ = slice(start, end).indices(file.seek(0, io.SEEK_END))
                file.seek(first)
                return file.read(max(last - first, 0))
        if end is not None and end <= (start or 0):
            return b""
        try:
            if not start and end is None:
                return self._own_client().read(path)
            return self._own_client().read(path, range=(start or 0, end))
        except NoSuchRange:
            return b""
        except NoHost as error:
            if _no_such_file(error):
                raise FileNotFoundError(str(error)) from error
            raise

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **options: Any) -> Any:
        """The bytes of a file, or those of many by their paths; several are fetched at one time."""
        paths = self.expand_path(path, recursive=recursive)
        if isinstance(path, str) and paths == [self._strip_protocol(path)]:
            return self.cat_file(paths[0], **options)

        def content(path: str) -> bytes | Exception:
            try:
                return self.cat_file(path, **options)
            except Exception as error:
                if on_error == "raise":
                    raise
                return error

        contents = zip(paths, _together(content, paths), strict=True)
        return {path: content for path, content in contents if on_error != "omit" or isinstance(content, bytes)}

    def get(self, rpath: Any, lpath: Any, recursive: bool = False, **options: Any) -> None:
        """Fetches files; a directory, unless options say otherwise, by one transfer."""
        is_one = isinstance(rpath, str) and isinstance(lpath, str) and not any(each in rpath for each in "*?[")
        if recursive and is_one and not options and self.isdir(rpath):
            path = cast(str, self._strip_protocol(rpath))
            # By fsspec's rules: into a directory that is there, unless its content is meant.
            inside = os.path.isdir(lpath) and not rpath.endswith("/")
            target = os.path.join(lpath, path.rpartition("/")[2]) if inside else lpath
            try:
                self._own_client().get(f"{path}/", target)
                return
            except ReplicasDiffer:
                pass  # In other files, maybe, or in times: then each file has to agree.
        super().get(rpath, lpath, recursive=recursive, **options)

    def get_file(self, rpath: str, lpath: str, **options: Any) -> None:
        """Fetches a file, or makes a directory."""
        path = cast(str, self._strip_protocol(rpath))
        if os.path.isdir(lpath):
            if not self.isdir(path):
                raise IsADirectoryError(lpath)
            return
        os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
        try:
            self._own_client().get(path, lpath, force=True)
        except NoHost as error:
            if not _no_such_file(error):
                raise
            if not self.isdir(path):
                raise FileNotFoundError(str(error)) from error
            os.makedirs(lpath, exist_ok=True)

    def put(self, lpath: Any, rpath: Any, recursive: bool = False, **options: Any) -> None:
        """Puts files; a directory, unless options say otherwise, by one transfer."""
        is_one = isinstance(lpath, str | os.PathLike) and isinstance(rpath, str) and os.path.isdir(lpath)
        if recursive and is_one and not options:
            local, path = os.fspath(lpath), cast(str, self._strip_protocol(rpath))
            # By fsspec's rules: into a directory that is there, unless its content is meant.
            inside = (rpath.endswith("/") or self.isdir(path)) and not local.endswith("/")
            _put(self._own_client(), local, f"{path}/{os.path.basename(local)}" if inside else path)
        else:
            super().put(lpath, rpath, recursive=recursive, **options)

    def put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        """Puts a file to all the hosts."""
        if not os.path.isdir(lpath):
            _put(self._own_client(), lpath, cast(str, self._strip_protocol(rpath)))

    def pipe(self, path: Any, value: bytes | None = None, **options: Any) -> None:
        """Writes the bytes of a file, or those of many by their paths, several at one time."""
        if isinstance(path, dict):
            contents = {cast(str, self._strip_protocol(one)): content for one, content in path.items()}
            _together(lambda one: self.pipe_file(one, contents[one], **options), contents)
        else:
            super().pipe(path, value, **options)

    def rm_file(self, path: str) -> None:
        """Hosts remove nothing."""
        raise NotImplementedError(_STAYS)

    def cp_file(self, path1: str, path2: str, **options: Any) -> None:
        """Hosts copy nothing."""
        raise NotImplementedError(_STAYS)

    def created(self, path: str) -> Any:
        """As :meth:`modified`: hosts tell no other time."""
        return self.modified(path)

    def modified(self, path: str) -> Any:
        """When a file was last changed."""
        from datetime import UTC, datetime

        return datetime.fromtimestamp(self.info(path)["mtime"], UTC)


class _Remote(io.RawIOBase):
    """A file of which what is read is fetched. All of it is of one digest, that of the first piece."""

    def __init__(self, client: Client, path: str, size: int) -> None:
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
        if end - first < _BLOCK or is_here:
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
        self._ahead = min(max(2 * self._ahead, _BLOCK), _LONGEST_AHEAD) if reads_on else 0
        first, end = self._at, self._at + len(into)
        if len(into) >= self._ahead and len(into) >= _BLOCK:
            report = self._client.read_into(self._path, into, range=(first, end), digest=self._digest)
            self._heed(report, end)
            self._at = end
            self._start, self._piece = end, memoryview(b"")
            return
        # The block that holds the first byte comes as a whole anyway, and so does the last.
        first = first // _BLOCK * _BLOCK
        end = min(max(-(-end // _BLOCK) * _BLOCK, end + self._ahead), self._size)
        self._start, self._piece = first, memoryview(self._read(first, end))
        self._copy(into)

    def _read(self, first: int, end: int) -> bytes:
        content, report = self._client.read_exactly(self._path, first, end, self._digest)
        self._heed(report, end)
        return content

    def _heed(self, report: FetchReport, end: int) -> None:
        if report.end < end:
            raise OSError(f"{self._path} has {report.size} bytes now, not {self._size}: open it again")
        self._digest = report.digest


class _Upload(io.BufferedRandom):
    """A file that is put to its hosts when it is closed, unless by an error."""

    def __init__(self, path: str, replace: bool, client: Callable[[], Client]) -> None:
        self._folder = tempfile.mkdtemp(prefix="wellspring-")
        self._local = os.path.join(self._folder, "file")
        self._path, self._replace, self._client = path, replace, client
        # fsspec's own `with` closes a file without a word of the error that ends it.
        self._handled = sys.exception()
        super().__init__(io.FileIO(self._local, "w+"))

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        try:
            if sys.exception() is self._handled:
                _put(self._client(), self._local, self._path, self._replace)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
