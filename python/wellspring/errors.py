"""Exceptions of transfers and codes, named after the meanings of the command's exit statuses."""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "BadDigest",
    "Cancelled",
    "HostTrouble",
    "NoHost",
    "NoSuchRange",
    "ReplicasDiffer",
    "ReplicasLost",
    "SystemFailed",
    "TargetExists",
    "TooFewReceivers",
    "TooFewSymbols",
    "UsageError",
    "WellspringError",
]


class HostTrouble(NamedTuple):
    """The trouble with one host."""

    host: str
    reason: str
    kind: str
    """``silent``, ``port closed``, ``unresolved``, ``not found``, ``not allowed`` (the key has no right to it),
    ``refused`` or ``no room`` (a put), ``changed`` (since it was listed), ``keys``, ``in clear`` (another
    machine, and no keys here) or ``other``."""


class WellspringError(Exception):
    """A transfer or a code that did not succeed."""

    exit_status: int = 1
    """The status with which the command ends for the same reason."""
    hint: str = ""
    """What can be done about it."""
    hosts: tuple[HostTrouble, ...] = ()
    """The hosts at fault, and why."""

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\n{self.hint}" if self.hint else message


class SystemFailed(WellspringError, OSError):
    """Disk, network or system failed (status 1)."""

    exit_status = 1


class UsageError(WellspringError, ValueError):
    """An argument is wrong (status 2)."""

    exit_status = 2


class NoSuchRange(UsageError):
    """The object has none of the bytes that were asked for (status 2)."""


class TooFewSymbols(WellspringError):
    """Too few symbols to decode a block (status 3)."""

    exit_status = 3
    hint = "Give more packets, whichever: any K symbols of a block, rarely one or two more, decode it."


class NoHost(WellspringError):
    """No host has the object, or takes it (status 4)."""

    exit_status = 4


class ReplicasDiffer(WellspringError):
    """Hosts hold different bytes under one name (status 5)."""

    exit_status = 5
    hint = "Name only hosts that hold the same bytes, or say which bytes you want by digest=."


class ReplicasLost(WellspringError):
    """Every replica was lost on the way (status 6)."""

    exit_status = 6
    hint = "Start one of them again and repeat the call: it goes on from where it was. timeout= waits longer."


class BadDigest(WellspringError):
    """The bytes are not those that were announced (status 7)."""

    exit_status = 7
    hint = "A replica's file may have changed, or its memory may be at fault. Nothing was written."


class TargetExists(WellspringError, FileExistsError):
    """The file to be written exists (status 8)."""

    exit_status = 8
    hint = "Choose another name, or replace it by force=True."


class TooFewReceivers(WellspringError):
    """Fewer hosts than were needed have the object (status 9)."""

    exit_status = 9
    hint = "Repeat the call: hosts that have the object already are done at once."


class Cancelled(WellspringError):
    """The transfer was cancelled (status 130)."""

    exit_status = 130


_HINTS = {
    "silent": "A host that does not answer: is its name right, does `wellspring serve` of this version run there "
    "at this port, and does a firewall let UDP through?",
    "port closed": "Start `wellspring serve` there, or name the port that it prints when it starts: HOST:PORT.",
    "unresolved": "Check the spelling of the host: NAME, NAME:PORT or [IPV6]:PORT.",
    "not found": "Check the spelling of the object: its name is its path below the directory that is served there.",
    "not allowed": "Hosts say what a key may do: `wellspring key --help`. A client that was opened before keys changed "
    "reads them again by reload_keys().",
    "refused": "Hosts take objects when they run `wellspring serve --allow-put`; one of that name is replaced only with "
    "force=True here and --allow-overwrite there.",
    "no room": "Free some space there, or have more allowed: `wellspring serve --help` has the limits.",
    "changed": "Try again when nobody writes to the directory there: what is in place is not moved again.",
    "keys": "Both hosts must trust each other's key: `wellspring key --help` says how; keys= names their directory.",
    "in clear": "Make keys here (`wellspring key new`) and have both hosts trust each other's (`wellspring key trust`), name "
    "their directory by keys=, or go without by insecure=True: then nothing is encrypted, and whoever answers is believed.",
}


def make(kind: str, message: str, hosts: list[tuple[str, str, str]]) -> WellspringError:
    """The exception of that name, for the native module."""
    error: WellspringError = globals()[kind](message)
    error.hosts = tuple(HostTrouble(*host) for host in hosts)
    hints = dict.fromkeys(_HINTS[host.kind] for host in error.hosts if host.kind in _HINTS)
    if kind in ("NoHost", "UsageError") and hints:
        error.hint = "\n".join(hints)
    return error
