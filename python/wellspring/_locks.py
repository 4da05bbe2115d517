"""Locks by name that a child of ``fork`` finds free, whatever threads of its parent were doing."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable
from typing import Any
from weakref import WeakValueDictionary

__all__ = ["lock_of"]

_lock = threading.Lock()
_locks: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()


def lock_of(name: Hashable) -> threading.Lock:
    """The lock of that name, which is the same as long as somebody has it."""
    with _lock:
        lock: threading.Lock = _locks.setdefault(name, threading.Lock())
        return lock


def _forget() -> None:
    """A child has none of the threads that hold them."""
    global _lock, _locks
    _lock, _locks = threading.Lock(), WeakValueDictionary()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
