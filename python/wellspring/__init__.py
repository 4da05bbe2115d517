"""Wellspring for Python: fountain codes, transfers from many replicas at once, simulations.

- :mod:`wellspring.codec`: RaptorQ on bytes, memoryviews and NumPy arrays.
- :mod:`wellspring.transfers`: ``get``, ``read``, ``put``, ``ls``, ``stat``, ``serve`` and their async twins.
- :mod:`wellspring.filesystem`: ``wellspring://HOST,HOST/PATH`` for whatever reads through fsspec.
- :mod:`wellspring.sim`: the packet-level simulator, results as tables.
- :mod:`wellspring.sweep`: many simulations by any executor, resumable.
- :mod:`wellspring.errors`: exceptions.
"""

import os as _os

from . import _native, errors, sim
from .codec import (
    Code,
    Decoder,
    Encoder,
    LtCode,
    LtDecoder,
    LtEncoder,
    ObjectDecoder,
    ObjectInformation,
    decode_object,
    encode_object,
    encoded_length,
    object_information,
)
from .errors import WellspringError
from .transfers import (
    Client,
    Server,
    Update,
    get,
    get_async,
    ls,
    ls_async,
    new_cluster_key,
    put,
    put_async,
    read,
    read_async,
    read_into,
    read_into_async,
    serve,
    stat,
    stat_async,
)

__all__ = [
    "Client",
    "Code",
    "Decoder",
    "Encoder",
    "LtCode",
    "LtDecoder",
    "LtEncoder",
    "ObjectDecoder",
    "ObjectInformation",
    "Server",
    "Update",
    "WellspringError",
    "decode_object",
    "encode_object",
    "encoded_length",
    "errors",
    "get",
    "get_async",
    "ls",
    "ls_async",
    "new_cluster_key",
    "object_information",
    "put",
    "put_async",
    "read",
    "read_async",
    "read_into",
    "read_into_async",
    "serve",
    "sim",
    "stat",
    "stat_async",
]

if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_native.after_fork_in_child)
