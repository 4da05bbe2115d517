"""RaptorQ (RFC 6330) on lent memory: blocks, and whole objects by all cores; LTTP's LT codes.

A block of K symbols gives any number of encoding symbols, the first K of which are the block itself. Any K of
them, rarely one or two more, give it back:

>>> import wellspring
>>> code = wellspring.Code(100)                      # what depends on K alone: make it once, share it
>>> source = bytes(range(250)) * 40                  # 100 symbols of 100 bytes
>>> encoder = code.encoder(source, symbol_size=100)
>>> decoder = code.decoder(symbol_size=100)
>>> decoder.add_many(range(10, 100), source[1_000:]) # the first ten are lost
90
>>> decoder.add_many(range(100, 112), encoder.encode(100, count=12))
12
>>> decoder.decode()
True
>>> bytes(decoder.block) == source
True

Arguments that are memory may be ``bytes``, a ``bytearray``, a ``memoryview`` or a C-contiguous NumPy array of
``uint8`` in any shape. They are read and written in place, without the interpreter's lock. Nothing else may
change them during a call. An encoder keeps what it computed of its source: that must stay as it is between calls,
too, until ``reset`` turns the encoder to what stands there by then, or elsewhere. Repair symbols after a change
without ``reset`` are of neither block, and no error tells.

>>> memory = bytearray(source)
>>> encoder = code.encoder(memory, symbol_size=100)
>>> before = encoder.encode(100, count=102)
>>> memory[:] = source[::-1]                         # another block in the same memory
>>> encoder.reset(memory)
>>> decoder.reset()
>>> decoder.add_many(range(100, 202), encoder.encode(100, count=102))
102
>>> decoder.decode() and bytes(decoder.block) == source[::-1]
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from ._native import (
    Code,
    Decoder,
    Encoder,
    LtCode,
    LtDecoder,
    LtEncoder,
    ObjectDecoder,
    ObjectInformation,
)
from ._native import decode_object as _decode_object
from ._native import encode_object as _encode_object
from ._native import encoded_length

if TYPE_CHECKING:
    from ._native import Memory

_Out = TypeVar("_Out", bound="Memory")

__all__ = [
    "Code",
    "Decoder",
    "Encoder",
    "LtCode",
    "LtDecoder",
    "LtEncoder",
    "ObjectDecoder",
    "ObjectInformation",
    "decode_object",
    "encode_object",
    "encoded_length",
    "object_information",
]

_MAX_BLOCKS = 255
"""Source blocks of an object: their number has 8 bits (RFC 6330 section 3.2)."""

_WANTED_SYMBOLS = 256
"""Symbols of a block unless the object needs larger ones: what decodes fastest."""


def object_information(
    length: int, symbol_size: int = 1_400, symbols_per_block: int = _WANTED_SYMBOLS
) -> ObjectInformation:
    """How an object of ``length`` bytes is cut: into blocks of about so many symbols.

    An object has at most 255 blocks, so those of a large one have more symbols.

    >>> object_information(1_000_000, symbol_size=1_000).source_blocks
    4
    """
    if symbol_size < 1 or symbols_per_block < 1:
        raise ValueError(f"symbols of {symbol_size} bytes, {symbols_per_block} a block: give at least 1")
    symbols = -(-length // symbol_size)
    blocks = min(max(-(-symbols // symbols_per_block), 1), _MAX_BLOCKS)
    return ObjectInformation(length, symbol_size, blocks)


@overload
def encode_object(
    data: Memory,
    *,
    repair: int,
    symbol_size: int = 1_400,
    symbols_per_block: int = _WANTED_SYMBOLS,
    information: ObjectInformation | None = None,
    out: None = None,
    threads: int = 0,
) -> bytes: ...


@overload
def encode_object(
    data: Memory,
    *,
    repair: int,
    symbol_size: int = 1_400,
    symbols_per_block: int = _WANTED_SYMBOLS,
    information: ObjectInformation | None = None,
    out: _Out,
    threads: int = 0,
) -> _Out: ...


def encode_object(
    data: Memory,
    *,
    repair: int,
    symbol_size: int = 1_400,
    symbols_per_block: int = _WANTED_SYMBOLS,
    information: ObjectInformation | None = None,
    out: Any = None,
    threads: int = 0,
) -> Any:
    """All source symbols of an object and ``repair`` repair symbols of each block, in RFC 6330's format.

    That is what ``wellspring fec encode`` writes: 12 bytes of Object Transmission Information, then packets of a
    4-byte Payload ID and a symbol. ``information`` replaces the two sizes. They are written to ``out`` (which is
    returned then) of :func:`encoded_length` bytes, or are new bytes. ``threads`` 0 is as many as there are cores.

    >>> packets = encode_object(b"seven bytes" * 1_000, repair=3, symbol_size=100)
    >>> decode_object(packets[:12] + packets[12 + 3 * 104:]) == b"seven bytes" * 1_000
    True
    """
    if information is None:
        information = object_information(_length(data), symbol_size, symbols_per_block)
    return _encode_object(data, information, repair, out, threads)


@overload
def decode_object(packets: Memory, *, out: None = None, threads: int = 0) -> bytes: ...


@overload
def decode_object(packets: Memory, *, out: _Out, threads: int = 0) -> _Out: ...


def decode_object(packets: Memory, *, out: Any = None, threads: int = 0) -> Any:
    """The object from RFC 6330's format, with packets missing, reordered or doubled.

    It is written to ``out`` (which is returned then), or is new bytes. Raises
    :class:`~wellspring.errors.TooFewSymbols` if a block cannot be decoded.
    """
    return _decode_object(packets, out, threads)


def _length(data: Memory) -> int:
    # A NumPy array has the buffer protocol, whatever its types say.
    return memoryview(cast("bytes", data)).nbytes
