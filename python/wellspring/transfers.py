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
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from . import _native
from .errors import UsageError

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._native import Memory

__all__ = [
    "Client",
    "Entry",
    "FetchReport",
    "PutReport",
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
    "serve",
]

_Path: TypeAlias = str | os.PathLike[str]

_PATIENCE = 0.1
"""Seconds between two looks at signals and updates."""


class _Bar(Protocol):
    """What a progress bar of ``tqdm`` offers."""

    total: Any
    n: Any

    def refresh(self) -> Any: ...


@dataclass(frozen=True)
class Update:
    """Something that happens during a transfer."""

    event: str
    """``hashing``, ``started``, ``moving``, ``lost``, ``back``, ``altered``, ``straggler``, ``complete``,
    ``quorum`` or ``verifying``."""
    done: int = 0
    """Bytes in place."""
    total: int = 0
    """Bytes of the object."""
    host: str | None = None
    reason: str | None = None


_Progress: TypeAlias = Callable[[Update], object] | _Bar | None


@dataclass(frozen=True)
class Replica:
    """One replica of a fetch."""

    host: str
    address: str | None
    state: str
    """``served``, ``lost``, ``unused`` or ``excluded``."""
    reason: str | None
    symbols: int
    """Its symbols that were of use."""
    losses: int
    altered: int


@dataclass(frozen=True)
class FetchReport:
    """The account of a fetch."""

    size: int
    digest: str
    """BLAKE3, verified."""
    seconds: float
    goodput: float
    """Bits a second."""
    resumed: int
    """Bytes that an earlier fetch had left."""
    symbol_size: int
    blocks: int | None
    blocks_decoded: int | None
    overhead: float | None
    """Symbols sent beyond the object's own, as a part of these."""
    replicas: tuple[Replica, ...]


@dataclass(frozen=True)
class TreeReport:
    """The account of a directory that was fetched."""

    files: int
    bytes: int
    files_fetched: int
    bytes_fetched: int
    removed: int
    skipped: tuple[tuple[str, str], ...]
    seconds: float


@dataclass(frozen=True)
class Receiver:
    """One receiver of a put."""

    host: str
    address: str | None
    state: str
    """``complete``, ``failed`` or ``unfinished``."""
    reason: str | None
    seconds: float | None


@dataclass(frozen=True)
class PutReport:
    """The account of a put."""

    size: int
    digest: str
    seconds: float
    goodput: float | None
    complete: int
    """Hosts that have the object."""
    overhead: float | None
    receivers: tuple[Receiver, ...]


@dataclass(frozen=True)
class Entry:
    """Something in a directory that a host serves."""

    path: str
    kind: str
    """``file``, ``directory``, ``link`` or ``skipped``."""
    size: int | None
    mode: int
    modified: float
    """Seconds since 1970."""
    digest: str | None
    detail: str | None
    """A link's target, or why something is not served."""


def _fetch_report(text: str) -> FetchReport:
    fields = json.loads(text)
    replicas = tuple(Replica(**replica) for replica in fields.pop("replicas"))
    return FetchReport(**fields, replicas=replicas)


def _tree_report(text: str) -> TreeReport:
    fields = json.loads(text)
    skipped = tuple((path, reason) for path, reason in fields.pop("skipped"))
    return TreeReport(**fields, skipped=skipped)


def _put_report(text: str) -> PutReport:
    fields = json.loads(text)
    receivers = tuple(Receiver(**receiver) for receiver in fields.pop("receivers"))
    return PutReport(**fields, receivers=receivers)


def _entries(text: str) -> list[Entry]:
    return [Entry(**entry) for entry in json.loads(text)]


def _split(source: str) -> tuple[list[str], str]:
    hosts, slash, name = source.removeprefix("wellspring://").partition("/")
    if not slash or not hosts:
        raise UsageError(f"`{source}` names no object: write HOST/OBJECT or HOST,HOST/OBJECT")
    return hosts.split(","), name


def _hosts(hosts: str | Iterable[str]) -> list[str]:
    return hosts.split(",") if isinstance(hosts, str) else list(hosts)


def _tell(transfer: _native.Transfer, progress: _Progress) -> None:
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


def _finish_bar(progress: _Progress) -> None:
    if progress is not None and not callable(progress) and progress.total:
        progress.n = progress.total
        progress.refresh()


def _wait(transfer: _native.Transfer, progress: _Progress) -> str:
    try:
        while not transfer.wait(_PATIENCE):
            _tell(transfer, progress)
        _tell(transfer, progress)
    except BaseException:
        transfer.cancel()
        raise
    result = transfer.result()
    _finish_bar(progress)
    return result


async def _wait_async(transfer: _native.Transfer, progress: _Progress) -> str:
    loop = asyncio.get_running_loop()
    over = asyncio.Event()

    def on_done() -> None:
        try:
            loop.call_soon_threadsafe(over.set)
        except RuntimeError:
            pass  # The loop is closed: nobody waits.

    transfer.on_done(on_done)
    try:
        while not over.is_set():
            try:
                await asyncio.wait_for(over.wait(), _PATIENCE)
            except TimeoutError:
                pass
            _tell(transfer, progress)
    except BaseException:
        transfer.cancel()
        raise
    result = transfer.result()
    _finish_bar(progress)
    return result


class Client:
    """A socket for any number of transfers, also from several threads.

    The functions of this module open one for each call. ``timeout`` is how long a host may be silent, in seconds,
    before it counts as gone; ``paths`` the number of UDP ports that a transfer uses.
    """

    def __init__(
        self, *, keys: _Path | None = None, insecure: bool = False, timeout: float = 10.0, paths: int = 1
    ) -> None:
        self._native = _native.Client(keys, insecure, timeout, paths)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the socket."""
        self._native.close()

    def _start_get(
        self, source: str, output: _Path | None, force: bool, digest: str | None, delete: bool, checksum: bool
    ) -> tuple[_native.Transfer, bool]:
        hosts, name = _split(source)
        if name == "" or name.endswith("/"):
            if output is None:
                raise UsageError("a directory goes to a directory: name it as the second argument")
            directory = name.rstrip("/") or None
            return self._native.fetch_tree(hosts, directory, output, delete, checksum), True
        path = os.fspath(output) if output is not None else name.rpartition("/")[2]
        if os.path.isdir(path):
            path = os.path.join(path, name.rpartition("/")[2])
        return self._native.fetch(hosts, name, path, None, force, digest), False

    def get(
        self,
        source: str,
        output: _Path | None = None,
        *,
        force: bool = False,
        digest: str | None = None,
        delete: bool = False,
        checksum: bool = False,
        progress: _Progress = None,
    ) -> FetchReport | TreeReport:
        """Fetches an object into a file, or (``HOST/DIR/``) a directory into a directory.

        The file appears complete, verified and synced, or not at all. A call that was interrupted is gone on with
        by the next one. ``progress`` is called with each :class:`Update`, or is a bar of ``tqdm``.
        """
        transfer, is_tree = self._start_get(source, output, force, digest, delete, checksum)
        report = _wait(transfer, progress)
        return _tree_report(report) if is_tree else _fetch_report(report)

    async def get_async(
        self,
        source: str,
        output: _Path | None = None,
        *,
        force: bool = False,
        digest: str | None = None,
        delete: bool = False,
        checksum: bool = False,
        progress: _Progress = None,
    ) -> FetchReport | TreeReport:
        """As :meth:`get`; cancelling the task ends the transfer."""
        transfer, is_tree = self._start_get(source, output, force, digest, delete, checksum)
        report = await _wait_async(transfer, progress)
        return _tree_report(report) if is_tree else _fetch_report(report)

    def read(self, source: str, *, digest: str | None = None, progress: _Progress = None) -> bytes:
        """An object's bytes, verified."""
        hosts, name = _split(source)
        transfer = self._native.fetch(hosts, name, None, None, False, digest)
        _wait(transfer, progress)
        return transfer.take_bytes()

    async def read_async(self, source: str, *, digest: str | None = None, progress: _Progress = None) -> bytes:
        """As :meth:`read`."""
        hosts, name = _split(source)
        transfer = self._native.fetch(hosts, name, None, None, False, digest)
        await _wait_async(transfer, progress)
        return transfer.take_bytes()

    def read_into(
        self, source: str, buffer: Memory, *, digest: str | None = None, progress: _Progress = None
    ) -> FetchReport:
        """Fetches an object into memory that may be longer than it, without another copy.

        If the call fails, what was written so far is verified but not all there is.
        """
        hosts, name = _split(source)
        transfer = self._native.fetch(hosts, name, None, buffer, False, digest)
        return _fetch_report(_wait(transfer, progress))

    def ls(self, source: str, *, recursive: bool = False, digests: bool = False) -> list[Entry]:
        """What the hosts serve in a directory: ``HOST/DIR/``, or ``HOST/`` for all."""
        hosts, name = _split(source if "/" in source.removeprefix("wellspring://") else source + "/")
        return _entries(_wait(self._native.list(hosts, name.rstrip("/") or None, recursive, digests), None))

    async def ls_async(self, source: str, *, recursive: bool = False, digests: bool = False) -> list[Entry]:
        """As :meth:`ls`."""
        hosts, name = _split(source if "/" in source.removeprefix("wellspring://") else source + "/")
        transfer = self._native.list(hosts, name.rstrip("/") or None, recursive, digests)
        return _entries(await _wait_async(transfer, None))

    def _start_put(
        self,
        path: _Path,
        hosts: str | Iterable[str],
        name: str | None,
        force: bool,
        group: str | None,
        quorum: int | None,
        finish_rest: bool,
    ) -> _native.Transfer:
        name = name if name is not None else os.path.basename(os.fspath(path))
        return self._native.put(path, _hosts(hosts), name, force, group, quorum, finish_rest)

    def put(
        self,
        path: _Path,
        hosts: str | Iterable[str],
        *,
        name: str | None = None,
        force: bool = False,
        group: str | None = None,
        quorum: int | None = None,
        finish_rest: bool = False,
        progress: _Progress = None,
    ) -> PutReport:
        """Puts a file to hosts that run ``wellspring serve --allow-put``, by multicast if ``group`` is given.

        With ``quorum`` it succeeds once so many hosts have the object, verified and in place.
        """
        transfer = self._start_put(path, hosts, name, force, group, quorum, finish_rest)
        return _put_report(_wait(transfer, progress))

    async def put_async(
        self,
        path: _Path,
        hosts: str | Iterable[str],
        *,
        name: str | None = None,
        force: bool = False,
        group: str | None = None,
        quorum: int | None = None,
        finish_rest: bool = False,
        progress: _Progress = None,
    ) -> PutReport:
        """As :meth:`put`."""
        transfer = self._start_put(path, hosts, name, force, group, quorum, finish_rest)
        return _put_report(await _wait_async(transfer, progress))


def get(
    source: str,
    output: _Path | None = None,
    *,
    keys: _Path | None = None,
    insecure: bool = False,
    timeout: float = 10.0,
    **options: Any,
) -> FetchReport | TreeReport:
    """:meth:`Client.get` by a client of its own."""
    with Client(keys=keys, insecure=insecure, timeout=timeout) as client:
        return client.get(source, output, **options)


async def get_async(
    source: str,
    output: _Path | None = None,
    *,
    keys: _Path | None = None,
    insecure: bool = False,
    timeout: float = 10.0,
    **options: Any,
) -> FetchReport | TreeReport:
    """:meth:`Client.get_async` by a client of its own."""
    with Client(keys=keys, insecure=insecure, timeout=timeout) as client:
        return await client.get_async(source, output, **options)


def read(
    source: str, *, keys: _Path | None = None, insecure: bool = False, timeout: float = 10.0, **options: Any
) -> bytes:
    """:meth:`Client.read` by a client of its own."""
    with Client(keys=keys, insecure=insecure, timeout=timeout) as client:
        return client.read(source, **options)


async def read_async(
    source: str, *, keys: _Path | None = None, insecure: bool = False, timeout: float = 10.0, **options: Any
) -> bytes:
    """:meth:`Client.read_async` by a client of its own."""
    with Client(keys=keys, insecure=insecure, timeout=timeout) as client:
        return await client.read_async(source, **options)


def ls(
    source: str, *, keys: _Path | None = None, insecure: bool = False, timeout: float = 10.0, **options: Any
) -> list[Entry]:
    """:meth:`Client.ls` by a client of its own."""
    with Client(keys=keys, insecure=insecure, timeout=timeout) as client:
        return client.ls(source, **options)


async def ls_async(
    source: str, *, keys: _Path | None = None, insecure: bool = False, timeout: float = 10.0, **options: Any
) -> list[Entry]:
    """:meth:`Client.ls_async` by a client of its own."""
    with Client(keys=keys, insecure=insecure, timeout=timeout) as client:
        return await client.ls_async(source, **options)


def put(
    path: _Path,
    hosts: str | Iterable[str],
    *,
    keys: _Path | None = None,
    insecure: bool = False,
    timeout: float = 10.0,
    **options: Any,
) -> PutReport:
    """:meth:`Client.put` by a client of its own."""
    with Client(keys=keys, insecure=insecure, timeout=timeout) as client:
        return client.put(path, hosts, **options)


async def put_async(
    path: _Path,
    hosts: str | Iterable[str],
    *,
    keys: _Path | None = None,
    insecure: bool = False,
    timeout: float = 10.0,
    **options: Any,
) -> PutReport:
    """:meth:`Client.put_async` by a client of its own."""
    with Client(keys=keys, insecure=insecure, timeout=timeout) as client:
        return await client.put_async(path, hosts, **options)


class Server:
    """A running server; :func:`serve` makes one."""

    def __init__(self, native: _native.Server) -> None:
        self._native = native

    @property
    def address(self) -> str:
        """Where it listens: ``IP:PORT``."""
        return self._native.address

    def events(self) -> Iterator[str]:
        """What happened since the last call, in words for people."""
        yield from self._native.events()

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
) -> Server:
    """Serves the files of a directory until it is closed, or its ``with`` block ends.

    It listens at ``bind`` (``IP:PORT``, port 0 lets the system choose), unless given at port 4711 of this machine
    alone. Without keys only loopback is allowed, or with ``insecure=True`` one private address. With ``allow_put``
    it takes objects, too.
    """
    return Server(_native.Server(directory, bind, allow_put, allow_overwrite, allow_hidden, keys, insecure))


def new_cluster_key(directory: _Path) -> None:
    """Makes a cluster key in a directory: hosts that have a copy of its file trust each other.

    The same as ``wellspring key new --cluster --keys DIR``, which see for keys of single hosts and for rights.
    """
    _native.new_cluster_key(directory)
