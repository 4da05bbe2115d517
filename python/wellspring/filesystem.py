"""``wellspring://HOST,HOST/PATH`` for whatever reads through fsspec: pandas, polars, pyarrow, safetensors, Dask.

Listings come from the hosts. A file that is opened for reading is fetched from all its hosts at once, verified,
into a cache of this process, and read there at any offset: ranges cost nothing once it is there. A file that is
opened for writing is put to all the hosts when it is closed.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
import threading
from typing import IO, Any, cast

from fsspec import AbstractFileSystem

from .errors import NoHost
from .transfers import Entry, get, ls, put

__all__ = ["WellspringFileSystem"]


class WellspringFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Files of hosts that run ``wellspring serve``.

    ``keys``, ``insecure`` and ``timeout`` are those of :class:`wellspring.Client`. ``cache`` is a directory for
    fetched files; without it they are kept in a temporary one until the file system is no longer used.
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
        if cache is None:
            # Removed with this file system.
            self._temporary = tempfile.TemporaryDirectory(prefix="wellspring-")
            cache = self._temporary.name
        self._cache: str = cache
        self._lock = threading.Lock()
        self._states: dict[str, tuple[int | None, float]] = {}

    def _info(self, directory: str, entry: Entry) -> dict[str, Any]:
        kind = {"file": "file", "directory": "directory", "link": "link"}.get(entry.kind, "other")
        return {
            "name": f"{directory.rstrip('/')}/{entry.path}",
            "size": entry.size,
            "type": kind,
            "mtime": entry.modified,
            "mode": entry.mode,
        }

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        """What is in a directory, or the file itself."""
        path = cast(str, self._strip_protocol(path))
        try:
            infos = [self._info(path, entry) for entry in ls(f"{path}/", **self._access)]
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
            entries = ls(f"{parent}/", **self._access)
        except NoHost as error:
            raise FileNotFoundError(str(error)) from error
        for entry in entries:
            if entry.path == name:
                return self._info(parent, entry)
        raise FileNotFoundError(f"{name} is not in {parent}/")

    def _fetched(self, path: str) -> str:
        """The path of a copy of what the hosts have now."""
        info = self.info(path)
        if info["type"] == "directory":
            raise IsADirectoryError(path)
        state = (info["size"], info["mtime"])
        local = os.path.join(self._cache, path.replace("%", "%25").replace("/", "%2F"))
        with self._lock:
            if self._states.get(path) != state or not os.path.exists(local):
                get(path, local, force=True, **self._access)
                self._states[path] = state
        return local

    def _open(self, path: str, mode: str = "rb", **options: Any) -> IO[bytes]:
        path = cast(str, self._strip_protocol(path))
        if mode == "rb":
            return open(self._fetched(path), "rb")
        if mode in ("wb", "xb"):
            return _Upload(path, mode == "wb", self._access)
        raise ValueError(f"mode {mode}: files are read (rb) or written as a whole (wb, xb)")

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        """The bytes of a file, or a range of them."""
        with self._open(path) as file:
            size = file.seek(0, io.SEEK_END)
            first, last, _ = slice(start, end).indices(size)
            file.seek(first)
            return file.read(max(last - first, 0))

    def get_file(self, rpath: str, lpath: str, **options: Any) -> None:
        """Fetches a file."""
        if self.isdir(rpath):
            os.makedirs(lpath, exist_ok=True)
        else:
            get(cast(str, self._strip_protocol(rpath)), lpath, force=True, **self._access)

    def put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        """Puts a file to all the hosts."""
        if not os.path.isdir(lpath):
            hosts, _, name = cast(str, self._strip_protocol(rpath)).partition("/")
            put(lpath, hosts, name=name, force=True, **self._access)

    def created(self, path: str) -> Any:
        """As :meth:`modified`: hosts tell no other time."""
        return self.modified(path)

    def modified(self, path: str) -> Any:
        """When a file was last changed."""
        from datetime import UTC, datetime

        return datetime.fromtimestamp(self.info(path)["mtime"], UTC)


class _Upload(io.BufferedRandom):
    """A file that is put to its hosts when it is closed, unless by an error."""

    def __init__(self, path: str, replace: bool, access: dict[str, Any]) -> None:
        self._folder = tempfile.mkdtemp(prefix="wellspring-")
        self._local = os.path.join(self._folder, "file")
        self._path, self._replace, self._access = path, replace, access
        # fsspec's own `with` closes a file without a word of the error that ends it.
        self._handled = sys.exception()
        super().__init__(io.FileIO(self._local, "w+"))

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        try:
            if sys.exception() is self._handled:
                hosts, _, name = self._path.partition("/")
                try:
                    put(self._local, hosts, name=name, **self._access)
                except NoHost as error:
                    # Replacing takes a right of its own at the hosts, which a new file does not need.
                    if not self._replace or not any(host.kind == "refused" for host in error.hosts):
                        raise
                    put(self._local, hosts, name=name, force=True, **self._access)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
