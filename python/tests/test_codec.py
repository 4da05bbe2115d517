"""RaptorQ on lent memory."""

from __future__ import annotations

import pickle
import random
import threading

import numpy as np
import pytest

import wellspring
from wellspring.errors import TooFewSymbols

K, T = 100, 96


@pytest.fixture(scope="module")
def code() -> wellspring.Code:
    return wellspring.Code(K)


@pytest.fixture
def source(data: random.Random) -> bytes:
    return data.randbytes(K * T)


@pytest.mark.parametrize("lost", [0, 1, 10, 50, 100])
def test_any_symbols_give_the_block_back(
    code: wellspring.Code, source: bytes, data: random.Random, lost: int
) -> None:
    encoder = code.encoder(source, T)
    missing = set(data.sample(range(K), lost))
    decoder = code.decoder(T)
    for esi in range(K):
        if esi not in missing:
            assert decoder.add(esi, source[esi * T :][:T])
    assert decoder.missing == sorted(missing)
    esi = K
    while not decoder.decode():
        assert decoder.add(esi, encoder.encode(esi))
        esi += 1
    assert bytes(decoder.block) == source
    assert decoder.received == K - lost + esi - K and K <= decoder.received <= K + 3


def as_array(memory: bytearray) -> np.ndarray:
    return np.frombuffer(memory, dtype=np.uint8)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda b: np.frombuffer(b, np.uint8).reshape(K, T)])
def test_every_kind_of_memory_can_be_lent(code: wellspring.Code, source: bytes, kind: type) -> None:
    encoder = code.encoder(kind(source), T)
    symbols = np.zeros((12, T), dtype=np.uint8)
    encoder.encode_into(K, symbols)
    assert symbols.tobytes() == encoder.encode(K, count=12)
    block = np.zeros((K, T), dtype=np.uint8)
    block[10:] = np.frombuffer(source, np.uint8).reshape(K, T)[10:]
    decoder = code.decoder(T, block)
    assert decoder.block is block
    assert decoder.recover(range(10), np.arange(K, K + 12, dtype=np.uint32), symbols)
    assert block.tobytes() == source, "decoded in place"


def test_ids_come_from_lists_ranges_and_arrays(code: wellspring.Code, source: bytes) -> None:
    repairs = code.encoder(source, T).encode(K, count=12)
    for ids in ([*range(K, K + 12)], range(K, K + 12), np.arange(K, K + 12), np.arange(K, K + 12, dtype=np.uint32)):
        decoder = code.decoder(T)
        decoder.add_many(range(10, K), source[10 * T :])
        assert decoder.add_many(ids, repairs) == 12
        assert decoder.decode()


def test_a_block_may_end_within_its_last_symbol(code: wellspring.Code, source: bytes) -> None:
    source = source[:-5]
    encoder = code.encoder(source, T)
    decoder = code.decoder(T, bytearray(len(source)))
    decoder.add_many(range(K, 2 * K + 3), encoder.encode(K, count=K + 3))
    assert decoder.decode() and bytes(decoder.block) == source


def test_encoder_and_decoder_turn_to_other_blocks(code: wellspring.Code, data: random.Random) -> None:
    first, second = data.randbytes(K * T), data.randbytes(K * T)
    encoder, decoder = code.encoder(first, T), code.decoder(T)
    for source in (first, second, first):
        encoder.reset(source)
        decoder.reset()
        decoder.add_many(range(K, 2 * K + 3), encoder.encode(K, count=K + 3))
        assert decoder.decode() and bytes(decoder.block) == source


def test_what_arrived_is_counted(code: wellspring.Code, source: bytes) -> None:
    decoder = code.decoder(T)
    assert decoder.add(3, source[3 * T :][:T]) and not decoder.add(3, source[3 * T :][:T])
    assert (decoder.received, decoder.wanted, decoder.complete) == (1, K - 1, False)
    decoder.mark(range(K))
    assert decoder.complete and decoder.decode() and decoder.missing == []


def test_codes_travel_to_other_processes(code: wellspring.Code) -> None:
    again = pickle.loads(pickle.dumps(code))
    assert (again.k, again.extended_symbols) == (code.k, code.extended_symbols)


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        (np.zeros(K * T // 8), TypeError, "view"),
        ("text", TypeError, "bytearray"),
        (np.zeros((K, 2 * T), np.uint8)[:, ::2], BufferError, "ascontiguousarray"),
        (bytes(K * T + 1), ValueError, "last symbol"),
        (bytes((K - 1) * T), ValueError, "last symbol"),
        (None, TypeError, "bytearray"),
    ],
)
def test_wrong_sources_are_refused_in_words(
    code: wellspring.Code, wrong: object, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        code.encoder(wrong, T)  # type: ignore[arg-type]


def test_wrong_targets_are_refused_in_words(code: wellspring.Code, source: bytes) -> None:
    with pytest.raises(BufferError, match="read-only"):
        code.decoder(T, source)
    encoder = code.encoder(source, T)
    with pytest.raises(BufferError, match="read-only"):
        encoder.encode_into(K, bytes(T))
    with pytest.raises(ValueError, match="symbol of 5 bytes"):
        encoder.encode_into(K, bytearray(T + 5))
    memory = bytearray(source)
    with pytest.raises(RuntimeError, match="shares memory"):
        code.encoder(memory, T).encode_into(K, memoryview(memory)[:T])


def test_wrong_ids_are_refused_in_words(code: wellspring.Code, source: bytes) -> None:
    encoder, decoder = code.encoder(source, T), code.decoder(T)
    for esi in (2**24, 2**32 - 1):
        with pytest.raises(ValueError, match="symbol ID"):
            encoder.encode(esi)
    with pytest.raises(ValueError, match="symbol ID"):
        decoder.add(2**24, bytes(T))
    with pytest.raises(ValueError, match="holds -1"):
        decoder.add_many([-1], bytes(T))
    with pytest.raises(TypeError, match="uint32"):
        decoder.add_many(["one"], bytes(T))  # type: ignore[list-item]
    with pytest.raises(ValueError, match="2 ESIs"):
        decoder.add_many([1, 2], bytes(T))
    with pytest.raises(ValueError):
        decoder.recover([K], [K + 1], bytes(T))
    for k in (0, 56_404):
        with pytest.raises(ValueError, match="56403"):
            wellspring.Code(k)
    for size in (0, 65_536):
        with pytest.raises(ValueError):
            code.decoder(size)
    for count in (2**36, 2**60):
        with pytest.raises(ValueError, match="at most"):
            encoder.encode(K, count=count)


def test_a_decoder_is_one_threads_at_a_time() -> None:
    code = wellspring.Code(10_000)
    source = np.random.default_rng(1).integers(0, 256, 10_000 * 64, dtype=np.uint8)
    encoder = code.encoder(source, 64)
    refused, made = [], []
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        for _ in range(20):
            try:
                made.append(encoder.encode(10_000, count=50))
            except RuntimeError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) + len(refused) == 80 and len(set(made)) == 1
    assert all("give each thread its own" in text for text in refused)


def test_threads_share_a_code(code: wellspring.Code, source: bytes) -> None:
    expected = code.encoder(source, T).encode(K, count=5)
    results: list[bytes] = []

    def work() -> None:
        encoder = code.encoder(source, T)
        for _ in range(50):
            results.append(encoder.encode(K, count=5))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 200 and set(results) == {expected}


def lose(packets: bytes, symbol_size: int, data: random.Random, share: float) -> bytes:
    step = symbol_size + 4
    kept = [packets[at : at + step] for at in range(12, len(packets), step) if data.random() >= share]
    data.shuffle(kept)
    return packets[:12] + b"".join(kept + kept[:3])


@pytest.mark.parametrize("length", [0, 1, 99, 100, 12_345, 100_000])
@pytest.mark.parametrize("threads", [1, 3])
def test_objects_survive_loss_reordering_and_copies(length: int, threads: int, data: random.Random) -> None:
    content = data.randbytes(length)
    packets = wellspring.encode_object(content, repair=60, symbol_size=100, symbols_per_block=200, threads=threads)
    received = lose(packets, 100, data, 0.1)
    assert wellspring.decode_object(received, threads=threads) == content
    out = bytearray(length)
    assert wellspring.decode_object(received, out=out, threads=threads) is out and out == content
    information = wellspring.ObjectInformation.from_bytes(packets[:12])
    used = bytearray(b"x" * wellspring.encoded_length(information, repair=60))
    assert wellspring.encode_object(content, repair=60, information=information, out=used, threads=threads) is used
    assert used == packets, "whatever stood there"
    with pytest.raises(ValueError, match=f"give {len(packets)}"):
        wellspring.encode_object(content, repair=60, information=information, out=used + b"x")
    for other in (bytes(length + 1), bytes(abs(length - 1))):
        with pytest.raises(ValueError, match="its information says"):
            wellspring.encode_object(other, repair=60, information=information)


def test_objects_may_have_as_many_blocks_as_have_numbers(data: random.Random) -> None:
    content = data.randbytes(255 * 40)
    packets = wellspring.encode_object(content, repair=2, symbol_size=10, symbols_per_block=4)
    assert wellspring.ObjectInformation.from_bytes(packets[:12]).source_blocks == 255
    assert wellspring.decode_object(packets) == content


def test_objects_may_have_sub_blocks(data: random.Random) -> None:
    content = data.randbytes(50_001)
    information = wellspring.ObjectInformation(50_001, 120, source_blocks=3, sub_blocks=4, alignment=4)
    packets = wellspring.encode_object(content, repair=40, information=information)
    assert wellspring.decode_object(lose(packets, 120, data, 0.05)) == content
    again = wellspring.ObjectInformation.from_bytes(packets[:12])
    assert again == information and pickle.loads(pickle.dumps(again)) == information


def test_too_few_symbols_say_so(data: random.Random) -> None:
    packets = wellspring.encode_object(data.randbytes(10_000), repair=0, symbol_size=100)
    with pytest.raises(TooFewSymbols, match="source block 0 has 99 symbols of 100") as caught:
        wellspring.decode_object(packets[:-104])
    assert caught.value.exit_status == 3 and "any K symbols" in str(caught.value)
    # The first bytes claim an object of a terabyte: nothing is allocated for it.
    huge = wellspring.ObjectInformation(900_000_000_000, 65_535, source_blocks=255).to_bytes()
    with pytest.raises(TooFewSymbols, match="900000000000"):
        wellspring.decode_object(huge + packets[12:])
    with pytest.raises(ValueError):
        wellspring.decode_object(b"short")


def test_hostile_objects_end_in_exceptions(data: random.Random) -> None:
    packets = bytearray(wellspring.encode_object(data.randbytes(3_000), repair=2, symbol_size=100))
    for _ in range(300):
        hostile = bytearray(packets)
        for _ in range(data.randrange(1, 6)):
            hostile[data.randrange(len(hostile))] = data.randrange(256)
        try:
            wellspring.decode_object(hostile[: data.randrange(len(hostile) + 1)])
        except (ValueError, MemoryError, TooFewSymbols):
            pass


def test_packets_are_taken_as_they_come(data: random.Random) -> None:
    content = data.randbytes(20_000)
    packets = wellspring.encode_object(content, repair=30, symbol_size=100, symbols_per_block=50)
    decoder = wellspring.ObjectDecoder(wellspring.ObjectInformation.from_bytes(packets[:12]), max_memory=1 << 20)
    received = lose(packets, 100, data, 0.1)
    for at in range(12, len(received), 104):
        decoder.add(received[at : at + 104])
    blocks = [decoder.take_block(sbn) for sbn in range(decoder.information.source_blocks)]
    assert b"".join(block for block in blocks if block is not None) == content
    small = wellspring.ObjectDecoder(decoder.information, max_memory=1_000)
    with pytest.raises(MemoryError, match="1000 allowed"):
        small.add(received[12:116])


@pytest.mark.parametrize("method", ["improved", "elimination"])
def test_lt_codes_give_the_block_back(data: random.Random, method: str) -> None:
    source = data.randbytes(64 * 16 - 3)
    code = pickle.loads(pickle.dumps(wellspring.LtCode(64, seed=data.randrange(2**64))))
    encoder, decoder = code.encoder(source, 16), code.decoder(16, method)
    block = bytearray(len(source))
    for id in data.sample(range(2**32), 400):
        decoder.add(id, encoder.encode(id))
        if decoder.decode_into(block):
            break
    assert decoder.complete and decoder.recovered == 64 and block == source
    first = code.neighbours(7)
    assert first == sorted(set(first)) and first[-1] < 64


def test_wrong_lt_codes_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="elimination"):
        wellspring.LtCode(10).decoder(4, "magic")
    for wrong in ({"k": 0}, {"k": 10, "c": float("nan")}, {"k": 10, "delta": 2.0}):
        with pytest.raises(ValueError):
            wellspring.LtCode(**wrong)
    code = wellspring.LtCode(10)
    with pytest.raises(ValueError, match="expected"):
        code.encoder(bytes(5), 4).encode(1)
    with pytest.raises(ValueError):
        code.decoder(4).add(1, bytes(3))
