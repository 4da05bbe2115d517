"""``wellspring://HOST,HOST/PATH`` for whatever reads through fsspec: pandas, polars, pyarrow, safetensors, Dask.

Listings come from the hosts. Of a file that is opened for reading only what is read is fetched, from all its hosts at
once, in the blocks of 128 KiB that hold it, each verified under the digest that the file had at first. Who reads on gets
ever longer pieces. With ``cache=DIR`` a file is fetched there as a whole when it is opened, for readers who come again. A
file that is opened for writing is put to all the hosts when it is closed, unless an error leaves its ``with``.
"""

from __future__ import annotations

import io
import os
import shutil
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import IO, Any, TypeVar, cast

from fsspec import AbstractFileSystem
from fsspec.compression import compr
from fsspec.core import get_compression
from fsspec.utils import isfilelike

from ._copies import copy_of
from ._locks import lock_of
from ._open_files import Reader, Remote, Sized, Upload, close_together, in_words, put
from .errors import NoHost, NoSuchRange, ReplicasDiffer, make
from .reports import ObjectStat, TreeReport
from .transfers import Client, Entry, until

__all__ = ["WellspringFileSystem"]

_AT_ONCE = 8
"""Files that are fetched or put at one time."""

_STAYS = "hosts remove, rename and copy nothing of theirs (a put of a directory with delete=True removes what it lacks)"

_OPTIONS = ("keys", "insecure", "timeout", "paths", "rate", "cache")
_OPTIONS_OF_FSSPEC = (
    "asynchronous",
    "listings_expiry_time",
    "loop",
    "max_paths",
    "skip_instance_cache",
    "use_listings_cache",
)

_T = TypeVar("_T")


def _together(function: Callable[[str], _T], paths: Iterable[str]) -> list[_T]:
    """What the function gives for each of many paths, some at a time. An error, or Ctrl-C, ends the others."""
    ended = threading.Event()
    with ThreadPoolExecutor(_AT_ONCE, initializer=until, initargs=(ended,)) as pool:
        try:
            return list(pool.map(function, paths))
        except BaseException:
            ended.set()
            raise


def _all_say(kind: str, error: NoHost) -> bool:
    """Whether that is the trouble with all hosts that are there."""
    return {host.kind for host in error.hosts} - {"silent", "port closed", "unresolved"} == {kind}


def _no_such_file(error: NoHost) -> bool:
    """Whether all hosts that are there say that they have none of that name."""
    return _all_say("not found", error)


def _is_no_object(entry: Entry) -> bool:
    """Whether it is a link, a device or the like. A file that hosts cannot read is one, and an error to readers."""
    return entry.kind == "link" or (entry.kind == "skipped" and (entry.detail or "").startswith("is a "))


class WellspringFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Files of hosts that run ``wellspring serve``.

    ``keys``, ``insecure``, ``timeout``, ``paths`` and ``rate`` are those of :class:`wellspring.Client`. With ``cache``,
    a directory, files are fetched as a whole and kept there; without it only what is read is fetched.
    """

    protocol = "wellspring"
    root_marker = ""

    def __init__(
        self,
        keys: str | None = None,
        insecure: bool = False,
        timeout: float = 10.0,
        cache: str | None = None,
        *,
        paths: int = 1,
        rate: float | None = None,
        **options: Any,
    ) -> None:
        for name in options.keys() - set(_OPTIONS_OF_FSSPEC):
            known = f"{', '.join(sorted(_OPTIONS))}; of fsspec's own {', '.join(_OPTIONS_OF_FSSPEC)}"
            raise TypeError(f"the file system has no option {name}: known are {known}")
        super().__init__(**options)
        access = {"keys": keys, "insecure": insecure, "timeout": timeout, "paths": paths, "rate": rate}
        self._access: dict[str, Any] = access
        self._cache = cache
        self._client: tuple[int, Client] | None = None

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        """Without the protocol. The brackets of IPv6 addresses become %5B and %5D: to fsspec they are a pattern's."""
        stripped = super()._strip_protocol(path)
        if isinstance(stripped, list):
            return stripped
        hosts, slash, name = stripped.partition("/")
        return hosts.replace("[", "%5B").replace("]", "%5D") + slash + name

    def _info(self, directory: str, entry: Entry) -> dict[str, Any]:
        kind = {"file": "file", "directory": "directory", "link": "link"}.get(entry.kind, "other")
        return {
            "name": f"{directory.rstrip('/')}/{entry.path}",
            # What has no bytes of its own has none for those who add them up.
            "size": entry.size or 0,
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
        names, slash, name = directory.partition("/")
        found: dict[str, Entry] = {}
        hosts, failed = names.split(","), list[NoHost]()
        for host in hosts:
            try:
                entries = self._own_client().ls(f"{host}{slash}{name}/")
            except NoHost as error:
                failed.append(error)
                continue
            for entry in entries:
                found.setdefault(entry.path, entry)
        if len(failed) == len(hosts):
            text = "".join(f"\n  {host.host}: {host.reason}" for error in failed for host in error.hosts)
            raise make("NoHost", f"no host lists {directory}/ any more:{text}", [h for e in failed for h in e.hosts])
        return [found[path] for path in sorted(found)]

    def _no_objects(self, directory: str, depth: int | None) -> list[tuple[str, str]]:
        """What is anywhere in a directory that hosts do not serve, and why, as deep as that."""
        found = list[tuple[str, str]]()
        for entry in self._list(directory):
            path = f"{directory}/{entry.path}"
            if _is_no_object(entry):
                found.append((path, "is a link" if entry.kind == "link" else entry.detail or ""))
            elif entry.kind == "directory" and depth != 1:
                found += self._no_objects(path, depth and depth - 1)
        return found

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        """The files and directories in a directory, or the file itself. Links are no objects: ``info`` has them."""
        path = cast(str, self._strip_protocol(path))
        try:
            entries = self._list(path)
            infos = [self._info(path, entry) for entry in entries if not _is_no_object(entry)]
        except NoHost as error:
            if "/" not in path or not _no_such_file(error):
                raise
            infos = [self.info(path)]
        return infos if detail else [info["name"] for info in infos]

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        """Size and times of a file or directory."""
        path = cast(str, self._strip_protocol(path))
        parent, slash, name = path.rpartition("/")
        directory = {"name": path, "size": 0, "type": "directory"}
        try:
            entries = self._list(parent if slash else path)
        except NoHost as error:
            if _all_say("not allowed", error):
                if slash:
                    self._list(path)  # A directory to which the rights of a key begin.
                return directory
            if _no_such_file(error):
                raise FileNotFoundError(str(error)) from error
            raise
        if not slash:
            return directory
        for entry in entries:
            if entry.path == name:
                return self._info(parent, entry)
        raise FileNotFoundError(f"{name} is not in {parent}/")

    # fsspec's own take every trouble for a no.

    def exists(self, path: str, **options: Any) -> bool:
        """Whether hosts have something of that name."""
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def isfile(self, path: str) -> bool:
        """Whether it is a file."""
        try:
            return bool(self.info(path)["type"] == "file")
        except FileNotFoundError:
            return False

    def isdir(self, path: str) -> bool:
        """Whether it is a directory. To a key that may put but not list it is none, so that it may put."""
        try:
            return bool(self.info(path)["type"] == "directory")
        except FileNotFoundError:
            return False
        except NoHost as error:
            if not _all_say("not allowed", error):
                raise
            return False

    def walk(
        self, path: str, maxdepth: int | None = None, topdown: bool = True, on_error: Any = "omit", **options: Any
    ) -> Any:
        """As fsspec's; what is gone meanwhile is left out, and what cannot be looked at is an error."""

        def omit_gone(error: OSError) -> None:
            if not isinstance(error, FileNotFoundError):
                raise error

        on_error = omit_gone if on_error == "omit" else on_error
        return super().walk(path, maxdepth=maxdepth, topdown=topdown, on_error=on_error, **options)

    def _own_client(self) -> Client:
        """The client of this process: after a fork the child has one of its own."""
        with lock_of(id(self)):
            if self._client is None or self._client[0] != os.getpid():
                self._client = (os.getpid(), Client(**self._access))
            return self._client[1]

    def reload_keys(self) -> None:
        """Reads the keys again, as after a change of the cluster key."""
        self._own_client().reload_keys()

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

    def _check_new(self, path: str) -> None:
        """Refuses a name that hosts have. A key that may put but not list is told so by their answer to the put."""
        try:
            is_there = self.exists(path)
        except NoHost as error:
            if not _all_say("not allowed", error):
                raise
            is_there = False
        if is_there:
            raise FileExistsError(f"hosts have {path}: choose another name, or have it replaced (mode wb or overwrite)")

    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        cache_options: dict[str, Any] | None = None,
        compression: str | None = None,
        **options: Any,
    ) -> Any:
        """As fsspec's; whoever closes a file that is compressed while it is written closes all of it."""
        codec = get_compression(path, compression)
        is_packed = codec is not None and "b" in mode and "r" not in mode
        file = super().open(path, mode, block_size, cache_options, None if is_packed else codec, **options)
        if not is_packed:
            return file
        packed = compr[codec](file, mode=mode[0])
        close_together(packed, file)
        return packed

    def _open(self, path: str, mode: str = "rb", autocommit: bool = True, **options: Any) -> IO[bytes]:
        path = cast(str, self._strip_protocol(path))
        if mode == "rb":
            stat = self._stat(path)
            if self._cache is not None:
                fetch = partial(self._own_client().get, path, force=True, digest=stat.digest)
                return Sized(io.FileIO(copy_of(path, stat.digest, self._cache, fetch)), stat.size)
            return Reader(Remote(self._own_client, path, stat.size))
        if mode in ("wb", "xb"):
            if mode == "xb":
                self._check_new(path)
            return Upload(path, mode == "wb", self._own_client, autocommit)
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
        if isinstance(rpath, str):
            rpath = self._strip_protocol(rpath) + "/" * rpath.endswith("/")
        is_one = isinstance(rpath, str) and isinstance(lpath, str) and not any(each in rpath for each in "*?[")
        is_directory = recursive and is_one and self.isdir(rpath)
        path = rpath.rstrip("/") if is_directory else ""
        if is_directory and not options:
            # By fsspec's rules: into a directory that is there or is said to be one, unless its content is meant.
            inside = (os.path.isdir(lpath) or lpath.endswith("/")) and not rpath.endswith("/")
            target = os.path.join(lpath, path.rpartition("/")[2]) if inside else lpath
            try:
                report = self._own_client().get(f"{path}/", target)
                if isinstance(report, TreeReport) and report.skipped:
                    text = f"not all of {path} was fetched, the rest is in {target}: {in_words(report.skipped)}"
                    raise OSError(text)
                return
            except ReplicasDiffer:
                pass  # In other files, maybe, or in times: then each file has to agree.
        super().get(rpath, lpath, recursive=recursive, **options)
        if is_directory and (left_out := self._no_objects(path, options.get("maxdepth"))):
            skipped = tuple((each.removeprefix(f"{path}/"), reason) for each, reason in left_out)
            raise OSError(f"not all of {path} was fetched, the rest is in {lpath}: {in_words(skipped)}")

    def get_file(self, rpath: str, lpath: Any = None, **options: Any) -> None:
        """Fetches a file, or makes a directory; into a file that is open, too."""
        if isfilelike(lpath) or options.get("outfile") is not None:
            super().get_file(rpath, lpath, **options)
            return
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
        if recursive and is_one and not options and not self._intrans:
            local, path = os.fspath(lpath), cast(str, self._strip_protocol(rpath))
            # By fsspec's rules: into a directory that is there, unless its content is meant.
            inside = (rpath.endswith("/") or self.isdir(path)) and not local.endswith("/")
            put(self._own_client(), local, f"{path}/{os.path.basename(local)}" if inside else path)
        else:
            super().put(lpath, rpath, recursive=recursive, **options)

    def put_file(self, lpath: str, rpath: str, mode: str = "overwrite", **options: Any) -> None:
        """Puts a file to all the hosts; with ``mode="create"`` one that is not there yet."""
        if os.path.isdir(lpath):
            return
        is_new = mode == "create"
        if self._intrans:
            with open(lpath, "rb") as source, self.open(rpath, "xb" if is_new else "wb") as target:
                shutil.copyfileobj(source, target)
            return
        if is_new:
            self._check_new(rpath)
        put(self._own_client(), lpath, cast(str, self._strip_protocol(rpath)), replace=not is_new)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        """Writes the bytes of a file; with ``mode="create"`` one that is not there yet."""
        with self.open(path, "xb" if mode == "create" else "wb", **options) as file:
            file.write(value)

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

    def rmdir(self, path: str) -> None:
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
