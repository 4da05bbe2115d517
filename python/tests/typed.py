"""What the types promise, checked by mypy: a wrong one here is an error of `make python-test`."""

import numpy as np

import wellspring
from wellspring import sim
from wellspring.sweep import sweep


def codec() -> bytes:
    code = wellspring.Code(10)
    encoder = code.encoder(np.zeros(100, np.uint8), symbol_size=10)
    decoder = code.decoder(10, bytearray(100))
    decoder.add_many(range(10), memoryview(bytes(100)))
    decoder.add_many(np.arange(3, dtype=np.uint32), bytes(30))
    done: bool = decoder.recover([1], [10, 11], encoder.encode(10, count=2))
    code.encoder("text", 10)  # type: ignore[arg-type]
    return wellspring.encode_object(bytes(5), repair=1) if done else b""


async def transfers() -> int:
    data: bytes = await wellspring.read_async("a/x", insecure=True)
    with wellspring.Client(timeout=1) as client:
        report = client.put("x", ["a", "b"], quorum=1)
    return len(data) + report.complete


def tables() -> list[object]:
    result: sim.Result = sweep("scdp-5", seeds=[1], set={"workload.sessions": 10})
    return [*result.runs["seed"]]
