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
    lent: bytearray = wellspring.decode_object(wellspring.encode_object(bytes(5), repair=1), out=bytearray(5))
    made: bytes = wellspring.encode_object(lent, repair=1, out=bytearray(5))  # type: ignore[assignment]
    return wellspring.encode_object(bytes(5), repair=1) if done else made


async def transfers() -> int:
    data: bytes = await wellspring.read_async("a/x", insecure=True, range=(0, None))
    wellspring.get("a/x", "x", force=True, range=(0, 5), timeout=2)
    wellspring.get("a/x", force="yes")  # type: ignore[arg-type]
    wellspring.read("a/x", recursive=True)  # type: ignore[call-arg]
    part = await wellspring.read_into_async("a/x", bytearray(5), range=(-5, None))
    silent: list[float] = [replica.seconds_silent for replica in part.replicas] + [float(part.end - part.start)]
    names: list[str] = [entry.path for entry in wellspring.ls("a/", digests=True)] * len(silent)
    with wellspring.Client(timeout=1) as client:
        report = client.put("x", ["a", "b"], quorum=1)
    return len(data) + report.complete + len(names)


def tables() -> list[object]:
    result: sim.Result = sweep("scdp-5", seeds=[1], set={"workload.sessions": 10})
    return [*result.runs["seed"]]
