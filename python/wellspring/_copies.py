"""Copies of remote files in a directory, for readers who come again, also in other processes."""

from __future__ import annotations

import os
from collections.abc import Callable

from ._locks import lock_of

__all__ = ["copy_of"]

_LONGEST = 100
"""Bytes of a file's own name in that of its copy, at most: there is room for the digest, and for more."""


def _name(path: str, digest: str) -> str:
    """The name of a copy: whoever finds the digest there has the bytes, and what follows is for people."""
    end = os.fsencode(path.rpartition("/")[2])[-_LONGEST:].decode(errors="ignore")
    return f"{digest}-{end}"


def copy_of(path: str, digest: str, directory: str, fetch: Callable[[str], object]) -> str:
    """The path of a copy with that digest in a directory. Unless it is there, ``fetch`` makes it, all at once."""
    local = os.path.join(directory, _name(path, digest))
    with lock_of(local):
        if not os.path.exists(local):
            os.makedirs(directory, exist_ok=True)
            fetch(local)
    return local
