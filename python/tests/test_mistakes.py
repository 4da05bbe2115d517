"""Memory that cannot be lent, and threads that share what is one thread's: each an exception in words."""

from __future__ import annotations

import mmap
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wellspring

K, T = 100, 96


def released() -> memoryview:
    view = memoryview(bytearray(K * T))
    view.release()
    return view


def closed_mapping() -> mmap.mmap:
    mapping = mmap.mmap(-1, K * T)
    mapping.close()
    return mapping


WRONG: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "wide elements": (lambda: np.zeros(K * T // 8), TypeError, r"elements of 8 bytes.*view\(numpy.uint8\)"),
    "gaps": (lambda: np.zeros((K, 2 * T), np.uint8)[:, ::2], BufferError, "ascontiguousarray"),
    "backwards": (lambda: np.zeros(K * T, np.uint8)[::-1], BufferError, "ascontiguousarray"),
    "by column": (lambda: np.zeros((T, K), np.uint8).T, BufferError, "ascontiguousarray"),
    "a text": (lambda: "text", TypeError, "of type str: give bytes"),
    "nothing": (lambda: None, TypeError, "of type NoneType: give bytes"),
    "a list": (lambda: [1, 2, 3], TypeError, "of type list: give bytes"),
    "dates": (lambda: np.zeros(K, "datetime64[s]"), ValueError, "cannot be lent.*array of uint8"),
    "a view that was released": (released, ValueError, "cannot be lent.*open memoryview"),
    "a mapping that was closed": (closed_mapping, ValueError, "cannot be lent.*open memoryview"),
}


def calls() -> dict[str, Callable[[Any], object]]:
    """Everything that takes memory."""
    code = wellspring.Code(K)
    encoder, decoder = code.encoder(bytes(K * T), T), code.decoder(T)
    information = wellspring.object_information(K * T, T)
    lt = wellspring.LtCode(K)
    return {
        "encoder": lambda memory: code.encoder(memory, T),
        "encoder.reset": encoder.reset,
        "encoder.encode_into": lambda memory: encoder.encode_into(K, memory),
        "decoder": lambda memory: code.decoder(T, bytearray(0) if memory is None else memory),
        "decoder.add": lambda memory: decoder.add(0, memory),
        "decoder.add_many": lambda memory: decoder.add_many([0], memory),
        "decoder.recover": lambda memory: decoder.recover([0], [K], memory),
        "encode_object": lambda memory: wellspring.encode_object(memory, repair=1, information=information),
        "decode_object": wellspring.decode_object,
        "information": wellspring.ObjectInformation.from_bytes,
        "object decoder": wellspring.ObjectDecoder(information, 1 << 20).add,
        "LT encoder": lambda memory: lt.encoder(memory, T),
        "LT decoder.add": lambda memory: lt.decoder(T).add(1, memory),
        "LT decoder.decode_into": lt.decoder(T).decode_into,
    }


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("call", calls())
def test_memory_that_cannot_be_lent_is_refused_in_words(call: str, wrong: str) -> None:
    make, error, says = WRONG[wrong]
    if (call, wrong) == ("decoder", "nothing"):
        error, says = ValueError, "last symbol"  # There it means new memory.
    with pytest.raises(error, match=says):
        calls()[call](make())


@pytest.mark.parametrize(
    ("ids", "error", "says"),
    [
        (np.zeros(1), TypeError, "uint32"),
        (np.zeros(1, complex), TypeError, "uint32"),
        (5, TypeError, "uint32"),
        (None, TypeError, "uint32"),
        ([2**70], TypeError, "uint32"),
        (np.array([-3]), ValueError, "holds -3"),
        (np.array([2**24], np.uint32), ValueError, "symbol ID"),
    ],
)
def test_what_is_no_symbol_id_is_refused_in_words(ids: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        wellspring.Code(K).decoder(T).add_many(ids, bytes(T))


def test_memory_is_lent_and_not_copied(data: random.Random) -> None:
    memory = bytearray(data.randbytes(K * T))
    code = wellspring.Code(K)
    encoder = code.encoder(memory, T)
    encoder.prepare()
    memory[:] = data.randbytes(K * T)
    # Memory that has other bytes is lent again: what was computed is of those before.
    encoder.reset(memory)
    assert encoder.encode(0) == memory[:T], "it reads what stands there, and has no copy"
    decoder = code.decoder(T)
    decoder.add_many(range(K, 2 * K + 3), encoder.encode(K, count=K + 3))
    assert decoder.decode() and decoder.block == memory
    with pytest.raises(BufferError):
        memory.append(1)  # As long as it is lent it stays in its place.
    del encoder
    memory.append(1)


def seen_from_outside(compute: Callable[[], object]) -> list[str]:
    """How far a thread that computes is, when another thread runs again."""
    steps: list[str] = []

    def work() -> None:
        steps.append("begun")
        compute()
        steps.append("ended")

    thread = threading.Thread(target=work)
    thread.start()
    while not steps:
        thread.join(0.001)
    seen = list(steps)
    thread.join()
    return seen


def test_other_threads_run_while_a_call_computes() -> None:
    code = wellspring.Code(20_000)
    content = bytes(20_000 * 64)
    interval = sys.getswitchinterval()
    # A thread goes on until it gives up the interpreter by itself: between the two steps only the call can.
    sys.setswitchinterval(1_000)
    try:
        # On a busy machine the other thread may come too late, but not every time.
        seen = (seen_from_outside(code.encoder(content, 64).prepare) for _ in range(100))
        assert ["begun"] in seen
        held = lambda: sum(range(100_000))  # noqa: E731
        assert ["begun"] not in [seen_from_outside(held) for _ in range(5)] or not is_locked()
    finally:
        sys.setswitchinterval(interval)


def is_locked() -> bool:
    """Whether the interpreter has a lock."""
    return getattr(sys, "_is_gil_enabled", lambda: True)()


def together(work: Callable[[], object]) -> list[str]:
    """What four threads are told that do the same at once."""
    told: list[str] = []
    barrier = threading.Barrier(4)

    def many() -> None:
        barrier.wait()
        for _ in range(30):
            try:
                work()
            except RuntimeError as error:
                told.append(str(error))

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


def test_what_one_thread_is_using_is_refused_to_others(data: random.Random) -> None:
    content = data.randbytes(400_000)
    code = wellspring.Code(4_000)
    encoder = code.encoder(content, 100)
    repairs = encoder.encode(4_000, count=4_000)
    decoder = code.decoder(100)
    packets = wellspring.encode_object(content, repair=5, symbol_size=100)
    objects = wellspring.ObjectDecoder(wellspring.ObjectInformation.from_bytes(packets[:12]), 1 << 22)
    lt = wellspring.LtCode(1_000).decoder(100)
    symbol = bytes(100)

    def decode() -> None:
        decoder.reset()
        decoder.add_many(range(4_000, 8_000), repairs)
        decoder.decode()

    short: tuple[Callable[[], object], ...] = (lambda: objects.add(packets[12:116]), lambda: lt.add(1, symbol))
    long: tuple[Callable[[], object], ...] = (decode, lambda: encoder.encode(4_000, count=100))
    for work in (*short, *long):
        assert all("give each thread its own" in text for text in together(work))
    for work in long:
        # Whether threads meet is the scheduler's choice, but not every time.
        assert any(together(work) for _ in range(100))
    shared = bytearray(100 * 4_000)

    def write() -> None:
        code.encoder(content, 100).encode_into(0, shared)

    assert all("another thread is working in it" in text for text in together(write))
    assert any(together(write) for _ in range(100))
    assert shared == content
