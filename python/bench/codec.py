"""Times a block's decoding here and by PyPI's `raptorq`, in turns: K = 100, T = 1,500, ten symbols lost.

    python bench/codec.py [ROUNDS [SEED]]

Prints the median and the least of the rounds in microseconds, of wall-clock and of processor time; the second holds
on a busy machine, too. Needs numpy and raptorq. Both answers are checked first.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import raptorq

import wellspring

K, T, LOST, SPARE = 100, 1_500, 10, 2
CALLS = 200


def timed(work: Callable[[], object], calls: int) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.thread_time()
    for _ in range(calls):
        work()
    return (time.perf_counter() - wall) / calls * 1e6, (time.thread_time() - cpu) / calls * 1e6


def cases(seed: int = 1) -> dict[str, tuple[Callable[[], object], int]]:
    rng = random.Random(seed)
    source = rng.randbytes(K * T)
    code = wellspring.Code(K)
    encoder = code.encoder(source, T)
    repairs = np.frombuffer(encoder.encode(K, count=LOST + SPARE), np.uint8)
    esis = np.arange(K, K + LOST + SPARE, dtype=np.uint32)
    # Patterns differ from call to call: no branch predictor learns them.
    patterns = [np.array(sorted(rng.sample(range(K), LOST)), dtype=np.uint32) for _ in range(64)]
    symbols = np.frombuffer(source, np.uint8).reshape(K, T)
    received = []
    for lost in patterns:
        kept = np.setdiff1d(np.arange(K, dtype=np.uint32), lost)
        received.append((np.concatenate([kept, esis]), np.concatenate([symbols[kept].ravel(), repairs])))
    block = bytearray(source)
    decoder, copying = code.decoder(T, block), code.decoder(T)
    turn = iter(range(1 << 62))

    def in_place() -> None:
        assert decoder.recover(patterns[next(turn) % 64], esis, repairs)

    def by_copies() -> None:
        ids, data = received[next(turn) % 64]
        copying.reset(block)
        copying.add_many(ids, data)
        assert copying.decode()

    out = bytearray(5 * T)

    def encode() -> None:
        encoder.reset(source)
        encoder.encode_into(K, out)

    theirs = raptorq.Encoder.with_defaults(source, T)
    packets = theirs.get_encoded_packets(LOST + SPARE)
    del packets[5 : 5 + LOST]

    def their_decode() -> None:
        other = raptorq.Decoder.with_defaults(K * T, T)
        for packet in packets:
            if (result := other.decode(packet)) is not None:
                break
        assert result is not None and len(result) == K * T

    for at in (int(esi) for esi in patterns[0]):
        block[at * T : (at + 1) * T] = bytes(T)
    in_place()
    assert block == source
    return {
        "decode in place, 10 lost": (in_place, CALLS),
        "decode from copies, 10 lost": (by_copies, CALLS),
        "encode 5 repair symbols": (encode, CALLS),
        "raptorq: decode, 10 lost": (their_decode, CALLS // 10),
        "raptorq: encode 5 repair symbols": (
            lambda: raptorq.Encoder.with_defaults(source, T).get_encoded_packets(5),
            CALLS // 10,
        ),
    }


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    measured: dict[str, list[tuple[float, float]]] = {}
    all_cases = cases(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    for _ in range(rounds):
        for name, (work, calls) in all_cases.items():
            measured.setdefault(name, []).append(timed(work, calls))
    print(f"{'us a block of K = 100, T = 1,500':34} {'median':>8} {'least':>8} {'CPU median':>11} {'CPU least':>10}")
    for name, times in measured.items():
        wall, cpu = zip(*times, strict=True)
        columns = (statistics.median(wall), min(wall), statistics.median(cpu), min(cpu))
        print(f"{name:34} {columns[0]:8.1f} {columns[1]:8.1f} {columns[2]:11.1f} {columns[3]:10.1f}")


if __name__ == "__main__":
    main()
