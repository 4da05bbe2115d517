"""Options, updates and reports of transfers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, TypedDict

__all__ = [
    "Access",
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
    "TreeReport",
    "Update",
]


class Bar(Protocol):
    """What a progress bar of ``tqdm`` offers."""

    total: Any
    n: Any

    def refresh(self) -> Any: ...


@dataclass(frozen=True)
class Update:
    """Something that happens during a transfer."""

    event: str
    """``hashing``, ``started``, ``moving``, ``lost``, ``back``, ``altered``, ``shortened`` (it begins again with shorter
    symbols, since a path carries no longer ones), ``straggler``, ``complete``, ``quorum`` or ``verifying``."""
    done: int = 0
    """Bytes in place."""
    total: int = 0
    """Bytes of the object, or of the range that is fetched."""
    host: str | None = None
    reason: str | None = None


Progress: TypeAlias = Callable[[Update], object] | Bar | None


Range: TypeAlias = tuple[int, int | None]
"""Start and end as of slices: the end is excluded, ``None`` is the object's; with it a negative start counts from
there."""


Priority: TypeAlias = Literal["urgent", "normal", "background"]
"""``urgent`` goes before the other transfers of the client, which alone knows of it; ``background`` behind them, and at
the hosts behind their other transfers, too."""


class ReadOptions(TypedDict, total=False):
    """Options of :func:`read` and :func:`read_into`."""

    range: Range
    """Fetch only these bytes, as of slices: ``(0, 100)``, ``(100, None)``, ``(-100, None)``."""
    digest: str | None
    """The BLAKE3 digest that the object must have: hosts with other bytes are passed over."""
    priority: Priority
    """Its turns among other transfers: ``"normal"`` unless given."""
    progress: Progress
    """Called with each :class:`Update`, or a bar of ``tqdm``."""


class GetOptions(ReadOptions, total=False):
    """Options of :func:`get`."""

    force: bool
    """Replace the file if it exists."""
    delete: bool
    """Of a directory: remove what the hosts do not have."""
    checksum: bool
    """Of a directory: compare files by digests, too."""


class LsOptions(TypedDict, total=False):
    """Options of :func:`ls`."""

    recursive: bool
    """All that is anywhere in the directory."""
    digests: bool
    """The BLAKE3 digests of files. All of the directory is listed then, also without ``recursive``, and hosts read each
    file whose digest they do not know yet: that may take them minutes."""


class PutOptions(TypedDict, total=False):
    """Options of :func:`put`."""

    name: str | None
    """Its name at the hosts, unless that of the file or directory; of a directory, ``""`` is all that they serve."""
    force: bool
    """Replace what is there under that name."""
    group: str | None
    """Multicast group and port: ``239.1.2.3:4711``."""
    quorum: int | None
    """Succeed once so many hosts have the object, verified and in place."""
    finish_rest: bool
    """Go on with the other hosts after that, as a directory does anyway."""
    delete: bool
    """Of a directory: remove at the hosts what it does not have, with ``force``."""
    checksum: bool
    """Of a directory: compare files by digests, too."""
    copy_unsafe_links: bool
    """Of a directory: send, under the names of links that lead out of it, the files that they lead to, as in caches of
    models; without it they are skipped."""
    priority: Priority
    """Its turns among other transfers: ``"normal"`` unless given. Members of a group get it as any."""
    progress: Progress
    """As for :func:`get`."""


class Access(TypedDict, total=False):
    """Options of the client that a function opens for itself, as :class:`wellspring.Client` has them."""

    keys: str | os.PathLike[str] | None
    """The directory of the keys."""
    insecure: bool
    """Go without keys."""
    timeout: float
    """Seconds for which a host may be silent before it counts as gone: 10 unless given."""
    rate: float | None
    """Bits a second that are sent at most by a :func:`put`."""


class GetCall(GetOptions, Access, total=False):
    """Options of :func:`get` by itself."""


class ReadCall(ReadOptions, Access, total=False):
    """Options of :func:`read` and :func:`read_into` by themselves."""


class LsCall(LsOptions, Access, total=False):
    """Options of :func:`ls` by itself."""


class PutCall(PutOptions, Access, total=False):
    """Options of :func:`put` by itself."""


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
    seconds_silent: float
    """How long nothing had come from it when the fetch ended."""


@dataclass(frozen=True)
class FetchReport:
    """The account of a fetch."""

    size: int
    """Bytes of the object."""
    start: int
    end: int
    """The bytes that were fetched of it: from ``start`` up to ``end``, which is not among them."""
    digest: str
    """The object's BLAKE3 digest, under which the bytes are verified."""
    seconds: float
    goodput: float
    """Bits a second."""
    resumed: int
    """Bytes that an earlier fetch had left."""
    symbol_size: int
    blocks: int | None
    """Blocks that hold these bytes."""
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
class PutTreeReport:
    """The account of a directory that was put."""

    files: int
    bytes: int
    files_sent: int
    bytes_sent: int
    skipped: tuple[tuple[str, str], ...]
    seconds: float
    complete: int
    """Hosts that have it."""
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


@dataclass(frozen=True)
class ObjectStat:
    """What hosts say of an object without moving it."""

    size: int
    digest: str


def fetch_report(text: str) -> FetchReport:
    fields = json.loads(text)
    replicas = tuple(Replica(**replica) for replica in fields.pop("replicas"))
    return FetchReport(**fields, replicas=replicas)


def tree_report(text: str) -> TreeReport:
    fields = json.loads(text)
    skipped = tuple((path, reason) for path, reason in fields.pop("skipped"))
    return TreeReport(**fields, skipped=skipped)


def put_report(text: str) -> PutReport:
    fields = json.loads(text)
    receivers = tuple(Receiver(**receiver) for receiver in fields.pop("receivers"))
    return PutReport(**fields, receivers=receivers)


def put_tree_report(text: str) -> PutTreeReport:
    fields = json.loads(text)
    receivers = tuple(Receiver(**receiver) for receiver in fields.pop("receivers"))
    skipped = tuple((path, reason) for path, reason in fields.pop("skipped"))
    return PutTreeReport(**fields, skipped=skipped, receivers=receivers)


def entries(text: str) -> list[Entry]:
    return [Entry(**entry) for entry in json.loads(text)]


def object_stat(text: str) -> ObjectStat:
    return ObjectStat(**json.loads(text))
