"""Transfers: fetch an object from all its holders at once, put one to many hosts, list, serve.

Objects are named as in the command: ``HOST[,HOST...]/OBJECT``, where a host is ``NAME``, ``NAME:PORT`` or
``[IPV6]:PORT``. Keys are the command's, too: those of ``keys=DIR``, of ``$WELLSPRING_KEYS`` or of
``~/.config/wellspring``; ``insecure=True`` goes without. What arrives is verified against its BLAKE3 digest.

>>> import pathlib, tempfile
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> _ = (folder / "greeting").write_bytes(b"hello")
>>> with serve(folder, "127.0.0.1:0", insecure=True) as server:
...     read(f"{server.address}/greeting", insecure=True)
b'hello'
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeAlias, TypeVar, Unpack

from . import _native
from .errors import Cancelled, UsageError
from .reports import (
    Access,
    Entry,
    FetchReport,
    GetCall,
    GetOptions,
    LsCall,
    LsOptions,
    ObjectStat,
    Progress,
    PutCall,
    PutOptions,
    PutReport,
    PutTreeReport,
    ReadCall,
    ReadOptions,
    Receiver,
    Replica,
    TreeReport,
    Update,
    entries,
    fetch_report,
    object_stat,
    put_report,
    put_tree_report,
    tree_report,
)

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._native import Memory

__all__ = [
    "Access",
    "Client",
    "Entry",
    "FetchReport",
    "GetOptions",
    "LsOptions",
    "ObjectStat",
    "PutOptions",
    "PutReport",
    "PutTreeReport",
    "ReadOptions",
    "Receiver",
    "Replica",
    "Server",
    "TreeReport",
    "Update",
    "get",
    "get_async",
    "ls",
    "ls_async",
    "new_cluster_key",
    "put",
    "put_async",
    "read",
    "read_async",
    "read_into",
    "read_into_async",
    "serve",
    "stat",
    "stat_async",
]

_Path: TypeAlias = str | os.PathLike[str]

_PATIENCE = 0.1
"""Seconds between two looks at signals and updates."""


def _on_linux(name: str) -> Any:
    """What the native module has on Linux alone."""
    try:
        return getattr(_native, name)
    except AttributeError:
        raise NotImplementedError(
            f"transfers need Linux: on {sys.platform} this package has the codec and the simulator"
        ) from None


def _split(source: str) -> tuple[list[str], str]:
    hosts, slash, name = source.removeprefix("wellspring://").partition("/")
    if not slash or not hosts:
        raise UsageError(f"`{source}` names no object: write HOST/OBJECT or HOST,HOST/OBJECT")
    return _hosts(hosts), name


def _hosts(hosts: str | Iterable[str]) -> list[str]:
    # As in paths of fsspec, where brackets are a pattern's.
    return hosts.replace("%5B", "[").replace("%5D", "]").split(",") if isinstance(hosts, str) else list(hosts)


def _tell(transfer: _native.Transfer, progress: Progress) -> None:
    if progress is None:
        return
    for text in transfer.updates():
        fields: Mapping[str, Any] = json.loads(text)
        known = {key: fields[key] for key in ("done", "total", "host", "reason") if fields.get(key) is not None}
        update = Update(fields["event"], **known)
        if callable(progress):
            progress(update)
        elif update.event in ("started", "moving"):
            progress.total, progress.n = update.total, update.done
            progress.refresh()


def _check(given: Mapping[str, object], options: type) -> None:
    for name in given.keys() - options.__annotations__.keys():
        known = ", ".join(sorted(options.__annotations__))
        raise TypeError(f"there is no option {name}: known are {known}")


_T = TypeVar("_T")
_P = ParamSpec("_P")


class _Work(threading.local):
    """What a thread waits for a part of: it ends with it."""

    ended: threading.Event | None = None


_work = _Work()


def until(ended: threading.Event) -> None:
    """Has transfers that the calling thread waits for from now on be cancelled once this is set."""
    _work.ended = ended


@dataclass(frozen=True)
class _Pending(Generic[_T]):
    """A transfer under way, and what becomes of its report."""

    transfer: _native.Transfer
    result: Callable[[str], _T]
    progress: Progress = None

    def _end(self) -> _T:
        result = self.result(self.transfer.result())
        progress = self.progress
        if progress is not None and not callable(progress) and progress.total:
            progress.n = progress.total
            progress.refresh()
        return result

    def wait(self) -> _T:
        try:
            while not self.transfer.wait(_PATIENCE):
                if _work.ended is not None and _work.ended.is_set():
                    raise Cancelled("the call that this transfer was a part of has ended")
                _tell(self.transfer, self.progress)
            _tell(self.transfer, self.progress)
        except BaseException:
            self.transfer.cancel()
            raise
        return self._end()

    async def wait_async(self) -> _T:
        loop = asyncio.get_running_loop()
        over = asyncio.Event()

        def on_done() -> None:
            try:
                loop.call_soon_threadsafe(over.set)
            except RuntimeError:
                pass  # The loop is closed: nobody waits.

        self.transfer.on_done(on_done)
        try:
            # Where no thread could be started, nobody tells that it is over.
            while not over.is_set() and not self.transfer.wait(0):
                try:
                    await asyncio.wait_for(over.wait(), _PATIENCE)
                except TimeoutError:
                    pass
                _tell(self.transfer, self.progress)
        except BaseException:
            self.transfer.cancel()
            raise
        return self._end()


def _named(name: str, call: Any) -> None:
    call.__name__, call.__qualname__ = name, f"Client.{name}"


def _waiting(start: Callable[_P, _Pending[_T]]) -> Callable[_P, _T]:
    """A method that starts a transfer, and waits for it."""

    @functools.wraps(start)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        return start(*args, **kwargs).wait()

    _named(start.__name__.removeprefix("_"), call)
    return call


def _awaiting(start: Callable[_P, _Pending[_T]]) -> Callable[_P, Coroutine[Any, Any, _T]]:
    """Its twin for ``asyncio``; cancelling the task ends the transfer."""

    @functools.wraps(start)
    async def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await start(*args, **kwargs).wait_async()

    name = start.__name__.removeprefix("_")
    _named(f"{name}_async", call)
    call.__doc__ = f"As :meth:`{name}`; cancelling the task ends the transfer."
    return call


class Client:
    """A socket for any number of transfers, also from several threads.

    The functions of this module open one for each call. ``timeout`` is how long a host may be silent, in seconds,
    before it counts as gone; ``paths`` the number of UDP ports that a transfer uses; ``rate`` what it sends at most,
    all its puts together, in bits a second. Each method has a twin for ``asyncio``: ``get_async`` and so on.
    """

    def __init__(
        self,
        *,
        keys: _Path | None = None,
        insecure: bool = False,
        timeout: float = 10.0,
        paths: int = 1,
        rate: float | None = None,
    ) -> None:
        self._native: _native.Client = _on_linux("Client")(keys, insecure, timeout, paths, rate)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def reload_keys(self) -> None:
        """Reads the keys again, as after a change of the cluster key, for transfers that begin from now on."""
        self._native.reload_keys()

    def close(self) -> None:
        """Closes the socket."""
        self._native.close()

    def _get(
        self, source: str, output: _Path | None = None, **options: Unpack[GetOptions]
    ) -> _Pending[FetchReport | TreeReport]:
        """Fetches an object into a file, or (``HOST/DIR/``) a directory into a directory.

        The file appears complete, verified and synced, or not at all. A call that was interrupted is gone on with
        by the next one, unless it was for a ``range``. Options: :class:`GetOptions`.
        """
        _check(options, GetOptions)
        hosts, name = _split(source)
        progress, part, digest = options.get("progress"), options.get("range"), options.get("digest")
        delete, checksum = options.get("delete", False), options.get("checksum", False)
        priority = options.get("priority", "normal")
        if name == "" or name.endswith("/"):
            if output is None:
                raise UsageError("a directory goes to a directory: name it as the second argument")
            if part is not None:
                raise UsageError("a range is of one object, not of a directory")
            if digest is not None:
                raise UsageError("a digest is of one object, not of a directory: ls(digests=True) has its files'")
            directory = name.rstrip("/") or None
            tree = self._native.fetch_tree(hosts, directory, output, delete, checksum, priority)
            return _Pending(tree, tree_report, progress)
        if delete or checksum:
            raise UsageError("delete= and checksum= are of a directory: HOST/DIR/")
        path = os.fspath(output) if output is not None else name.rpartition("/")[2]
        if part is not None and (output is None or os.path.isdir(path)):
            raise UsageError("a range needs the name of a file: under the object's own it would look like the whole")
        if os.path.isdir(path):
            path = os.path.join(path, name.rpartition("/")[2])
        force = options.get("force", False)
        fetch = self._native.fetch(hosts, name, path, None, force, digest, range=part, priority=priority)
        return _Pending(fetch, fetch_report, progress)

    get = _waiting(_get)
    get_async = _awaiting(_get)

    def _read(self, source: str, **options: Unpack[ReadOptions]) -> _Pending[bytes]:
        """The bytes of an object, or a range of them, verified. Options: :class:`ReadOptions`."""
        _check(options, ReadOptions)
        hosts, name = _split(source)
        digest, part, priority = options.get("digest"), options.get("range"), options.get("priority", "normal")
        transfer = self._native.fetch(hosts, name, digest=digest, range=part, priority=priority)
        return _Pending(transfer, lambda _: transfer.take_bytes(), options.get("progress"))

    def read_exactly(self, source: str, first: int, end: int, digest: str | None) -> tuple[bytes, FetchReport]:
        """The bytes from ``first`` up to ``end``, without another copy, and the account of their fetch.

        If the object is shorter now, there are no bytes, and the report says its length.
        """
        hosts, name = _split(source)
        length = end - first
        transfer = self._native.fetch(hosts, name, digest=digest, range=(first, end), length=length)
        report = _Pending(transfer, fetch_report).wait()
        return transfer.take_bytes() if report.end == end else b"", report

    read = _waiting(_read)
    read_async = _awaiting(_read)

    def _read_into(
        self, source: str, buffer: Memory, **options: Unpack[ReadOptions]
    ) -> _Pending[FetchReport]:
        """Fetches an object, or a range of it, into memory that may be longer, without another copy.

        If the call fails, what was written so far is verified but not all there is. Options: :class:`ReadOptions`.
        """
        _check(options, ReadOptions)
        hosts, name = _split(source)
        digest, part, priority = options.get("digest"), options.get("range"), options.get("priority", "normal")
        transfer = self._native.fetch(hosts, name, into=buffer, digest=digest, range=part, priority=priority)
        return _Pending(transfer, fetch_report, options.get("progress"))

    read_into = _waiting(_read_into)
    read_into_async = _awaiting(_read_into)

    def _ls(self, source: str, **options: Unpack[LsOptions]) -> _Pending[list[Entry]]:
        """What the hosts serve in a directory: ``HOST/DIR/``, or ``HOST/`` for all. Options: :class:`LsOptions`."""
        _check(options, LsOptions)
        hosts, name = _split(source if "/" in source.removeprefix("wellspring://") else source + "/")
        recursive, digests = options.get("recursive", False), options.get("digests", False)
        return _Pending(self._native.list(hosts, name.rstrip("/") or None, recursive, digests), entries)

    ls = _waiting(_ls)
    ls_async = _awaiting(_ls)

    def _stat(self, source: str) -> _Pending[ObjectStat]:
        """The length and the digest of an object, in which all hosts that have it must agree. No byte of it moves."""
        hosts, name = _split(source)
        return _Pending(self._native.stat(hosts, name), object_stat)

    stat = _waiting(_stat)
    stat_async = _awaiting(_stat)

    def _put(
        self, path: _Path, hosts: str | Iterable[str], **options: Unpack[PutOptions]
    ) -> _Pending[PutReport | PutTreeReport]:
        """Puts a file, or a directory of which what differs moves, to hosts that run ``wellspring serve --allow-put``.

        Directories that are missing there are made. Options: :class:`PutOptions`.
        """
        _check(options, PutOptions)
        name, progress = options.get("name"), options.get("progress")
        force, group, quorum = options.get("force", False), options.get("group"), options.get("quorum")
        delete, checksum = options.get("delete", False), options.get("checksum", False)
        links, priority = options.get("copy_unsafe_links", False), options.get("priority", "normal")
        if os.path.isdir(path):
            if delete and not force:
                raise UsageError("delete=True removes what is there, and so needs force=True")
            place = os.path.basename(os.path.abspath(path)) if name is None else name.strip("/")
            tree = self._native.put_tree(
                path, _hosts(hosts), place or None, force, group, quorum, delete, checksum, links, priority
            )
            return _Pending(tree, put_tree_report, progress)
        if delete or checksum or links:
            raise UsageError("delete=, checksum= and copy_unsafe_links= are of a directory")
        finish_rest = options.get("finish_rest", False)
        name = name or os.path.basename(os.fspath(path))
        put = self._native.put(
            path, _hosts(hosts), name, force, group, quorum, finish_rest, priority=priority
        )
        return _Pending(put, put_report, progress)

    put = _waiting(_put)
    put_async = _awaiting(_put)


def _of_its_own(options: dict[str, Any]) -> Client:
    """The client of one call, which takes its options out of those of the call."""
    return Client(**{name: options.pop(name) for name in Access.__annotations__ if name in options})


def _alone(start: Callable[..., _Pending[_T]], *args: Any, **options: Any) -> _T:
    with _of_its_own(options) as client:
        return start(client, *args, **options).wait()


async def _alone_async(start: Callable[..., _Pending[_T]], *args: Any, **options: Any) -> _T:
    with _of_its_own(options) as client:
        return await start(client, *args, **options).wait_async()


def get(source: str, output: _Path | None = None, **options: Unpack[GetCall]) -> FetchReport | TreeReport:
    """:meth:`Client.get` by a client of its own. Options: :class:`GetOptions` and :class:`Access`."""
    return _alone(Client._get, source, output, **options)


async def get_async(
    source: str, output: _Path | None = None, **options: Unpack[GetCall]
) -> FetchReport | TreeReport:
    """As :func:`get`; cancelling the task ends the transfer."""
    return await _alone_async(Client._get, source, output, **options)


def read(source: str, **options: Unpack[ReadCall]) -> bytes:
    """:meth:`Client.read` by a client of its own. Options: :class:`ReadOptions` and :class:`Access`."""
    return _alone(Client._read, source, **options)


async def read_async(source: str, **options: Unpack[ReadCall]) -> bytes:
    """As :func:`read`; cancelling the task ends the transfer."""
    return await _alone_async(Client._read, source, **options)


def read_into(source: str, buffer: Memory, **options: Unpack[ReadCall]) -> FetchReport:
    """:meth:`Client.read_into` by a client of its own. Options: :class:`ReadOptions` and :class:`Access`."""
    return _alone(Client._read_into, source, buffer, **options)


async def read_into_async(source: str, buffer: Memory, **options: Unpack[ReadCall]) -> FetchReport:
    """As :func:`read_into`; cancelling the task ends the transfer."""
    return await _alone_async(Client._read_into, source, buffer, **options)


def ls(source: str, **options: Unpack[LsCall]) -> list[Entry]:
    """:meth:`Client.ls` by a client of its own. Options: :class:`LsOptions` and :class:`Access`."""
    return _alone(Client._ls, source, **options)


async def ls_async(source: str, **options: Unpack[LsCall]) -> list[Entry]:
    """As :func:`ls`; cancelling the task ends the transfer."""
    return await _alone_async(Client._ls, source, **options)


def stat(source: str, **options: Unpack[Access]) -> ObjectStat:
    """:meth:`Client.stat` by a client of its own. Options: :class:`Access`."""
    return _alone(Client._stat, source, **options)


async def stat_async(source: str, **options: Unpack[Access]) -> ObjectStat:
    """As :func:`stat`."""
    return await _alone_async(Client._stat, source, **options)


def put(path: _Path, hosts: str | Iterable[str], **options: Unpack[PutCall]) -> PutReport | PutTreeReport:
    """:meth:`Client.put` by a client of its own. Options: :class:`PutOptions` and :class:`Access`."""
    return _alone(Client._put, path, hosts, **options)


async def put_async(path: _Path, hosts: str | Iterable[str], **options: Unpack[PutCall]) -> PutReport | PutTreeReport:
    """As :func:`put`; cancelling the task ends the transfer."""
    return await _alone_async(Client._put, path, hosts, **options)


class Server:
    """A running server; :func:`serve` makes one."""

    def __init__(self, native: _native.Server) -> None:
        self._native = native

    @property
    def address(self) -> str:
        """Where it listens: ``IP:PORT``."""
        return self._native.address

    def events(self) -> Iterator[str]:
        """What happened since the last call, for logs: its words may be others in the next version."""
        yield from self._native.events()

    def reload_keys(self) -> None:
        """Reads the keys again, as after a change of the cluster key: no transfer ends."""
        self._native.reload_keys()

    def close(self) -> None:
        """Ends its transfers and tells their peers."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def serve(
    directory: _Path,
    bind: str | None = None,
    *,
    allow_put: bool = False,
    allow_overwrite: bool = False,
    allow_hidden: bool = False,
    keys: _Path | None = None,
    insecure: bool = False,
    rate: float | None = None,
) -> Server:
    """Serves the files of a directory until it is closed, or its ``with`` block ends.

    It listens at ``bind`` (``IP:PORT``, port 0 lets the system choose), unless given at port 4711 of this machine
    alone. Without keys only loopback is allowed, or with ``insecure=True`` one private address. With ``allow_put``
    it takes objects, too. ``rate`` is what it sends at most, over all transfers, in bits a second.
    """
    server = _on_linux("Server")
    return Server(server(directory, bind, allow_put, allow_overwrite, allow_hidden, keys, insecure, rate))


def new_cluster_key(directory: _Path) -> None:
    """Makes a cluster key in a directory: hosts that have a copy of its file trust each other.

    The same as ``wellspring key new --cluster --keys DIR``, which see for keys of single hosts and for rights.
    """
    _on_linux("new_cluster_key")(directory)
