"""Measures this package beside what people use today: a table of what is reached, a row for each comparison.

    python bench/reach.py [--size BYTES] [--runs N] [--command PATH] [--wheel PATH] [--rows decode,get,...] [--json FILE]

`make python-reach` builds all that is needed, and runs it. Rows: `decode`, `object`, `get`, `fsspec`, `sweep`,
`install`. What is not here is left out and said so: peers `raptorq`, `zfec`, `reedsolo`, `s3fs` with `moto`, fsspec's http
(`aiohttp`) with nginx; the command by --command; `distributed`. Every answer is checked. With 1 GB and two cores a row
takes some minutes at most; block codes of peers run for a few seconds on pieces, and are scaled by bytes. Run it on a
machine that does nothing else.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import multiprocessing
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import wellspring

K, T, LOST = 100, 1_500, 10
BLOCK = K * T
ROUNDS = 3
PEER_SECONDS = 5.0


@dataclass
class Row:
    """What was measured, beside its peer, and whether the goal is reached."""

    what: str
    ours: str = ""
    peers: str = ""
    ratio: str = ""
    goal: str = ""
    reached: bool | None = None

    def print(self) -> None:
        verdict = {True: "reached", False: "MISSED", None: "NOT MEASURED"}[self.reached]
        print(f"{self.what}\n    {self.ours:34} {verdict}: {self.ratio} (goal {self.goal})\n    {self.peers}", flush=True)


def is_here(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def decode(_: argparse.Namespace) -> Row:
    row = Row("decode K = 100, T = 1,500, 10 lost, code kept", goal="<= 14 us, 20 times raptorq")
    if not is_here("raptorq"):
        row.peers = "no raptorq"
        return row
    import codec

    cases = codec.cases()
    times: dict[str, list[float]] = {}
    for _ in range(9):
        for name in ("decode in place, 10 lost", "raptorq: decode, 10 lost"):
            work, calls = cases[name]
            times.setdefault(name, []).append(codec.timed(work, calls)[0])
    ours, theirs = (statistics.median(found) for found in times.values())
    row.ours, row.peers, row.ratio = f"{ours:.1f} us", f"raptorq {theirs:.1f} us", f"{theirs / ours:.1f} times"
    row.reached = ours <= 14
    return row


def raptorq_block(data: bytes) -> bytes | None:
    import raptorq

    packets = raptorq.Encoder.with_defaults(data, T).get_encoded_packets(LOST + 2)
    decoder, decoded = raptorq.Decoder.with_defaults(len(data), T), None
    for packet in packets[LOST:]:
        if (decoded := decoder.decode(packet)) is not None:
            break
    return decoded


def zfec_block(data: bytes) -> bytes:
    import zfec

    parts = [data[at : at + T] for at in range(0, len(data), T)]
    coded = zfec.Encoder(K, K + LOST).encode(parts)
    numbers = [*range(LOST, K + LOST)]
    # zfec wants source symbols in their places: repairs fill those of the lost ones.
    numbers = numbers[-LOST:] + numbers[:-LOST]
    return b"".join(zfec.Decoder(K, K + LOST).decode([coded[n] for n in numbers], numbers))


def reedsolo_block(data: bytes) -> bytes:
    import reedsolo

    code = reedsolo.RSCodec(2 * LOST, nsize=K + 2 * LOST)
    coded = bytearray(code.encode(data[: 10 * K]))
    lost = [word * (K + 2 * LOST) + n for word in range(10) for n in range(LOST)]
    for at in lost:
        coded[at] = 0
    return b"".join(
        bytes(code.decode(coded[at : at + K + 2 * LOST], erase_pos=list(range(LOST)))[0])
        for at in range(0, len(coded), K + 2 * LOST)
    )


PEERS: dict[str, tuple[Callable[[bytes], bytes | None], int]] = {
    "raptorq": (raptorq_block, BLOCK),
    "zfec": (zfec_block, BLOCK),
    "reedsolo": (reedsolo_block, 10 * K),
}


def peer_share(job: tuple[str, int]) -> float:
    """Bytes that a process encodes and decodes in a second with a peer."""
    name, seed = job
    work, length = PEERS[name]
    data = random.Random(seed).randbytes(length)
    assert work(data) == data, f"{name} gave back other bytes"
    began, blocks = time.perf_counter(), 0
    while (spent := time.perf_counter() - began) < PEER_SECONDS:
        work(data)
        blocks += 1
    return blocks * length / spent


TOGETHER: Any = None
"""Where the processes of :func:`in_place` wait for each other, so that all use the memory at the same time."""


def share_barrier(barrier: Any) -> None:
    global TOGETHER
    TOGETHER = barrier


def in_place_share(job: tuple[int, int]) -> float:
    """Seconds that a process takes to encode so many blocks, and when all are encoded to decode them where they are."""
    blocks, seed = job
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 256, (blocks, K, T), dtype=np.uint8)
    before = hashlib.sha256(data).digest()
    # Each block loses others, so that no branch predictor learns which.
    lost = np.sort(rng.random((blocks, K)).argsort(axis=1)[:, :LOST]).astype(np.uint32)
    repairs = np.ones((blocks, LOST + 2, T), np.uint8)
    esis = np.arange(K, K + LOST + 2, dtype=np.uint32)
    code = wellspring.Code(K)
    encoder, decoder = code.encoder(data[0], T), code.decoder(T, data[0])

    def encode() -> None:
        for block, repair in zip(data, repairs, strict=True):
            encoder.reset(block)
            encoder.encode_into(K, repair)

    def decode() -> None:
        for block, missing, repair in zip(data, lost, repairs, strict=True):
            decoder.reset(block)
            if not decoder.recover(missing, esis, repair):
                raise AssertionError("two spare symbols were too few")

    TOGETHER.wait()
    spent = timed(encode)
    for block, missing in zip(data, lost, strict=True):
        block[missing] = 0
    TOGETHER.wait()
    spent += timed(decode)
    assert hashlib.sha256(data).digest() == before, "other bytes came back"
    return spent


def in_place(size: int, cores: int) -> float:
    """Bytes a second by :class:`wellspring.Encoder` and :class:`wellspring.Decoder`, block by block, a process a core."""
    blocks = size // BLOCK // cores
    barrier = multiprocessing.Barrier(cores)
    with ProcessPoolExecutor(cores, initializer=share_barrier, initargs=(barrier,)) as pool:
        return blocks * cores * BLOCK / max(pool.map(in_place_share, [(blocks, seed) for seed in range(cores)]))


def in_format(size: int) -> float:
    """Bytes a second by :func:`wellspring.encode_object` and :func:`wellspring.decode_object`, in RFC 6330's format, where
    source symbols are copied into packets and out of them."""
    piece = min(size, 255 * BLOCK)
    data = np.random.default_rng(1).integers(0, 256, piece, dtype=np.uint8)
    information = wellspring.object_information(piece, T, K)
    packets = np.zeros(wellspring.encoded_length(information, LOST + 2), np.uint8)
    out, spent, done = bytearray(piece), 0.0, 0
    random_ranks = np.random.default_rng(2).random((information.source_blocks, K)).argsort(axis=1)
    lost = np.pad(random_ranks < LOST, ((0, 0), (0, 1)))

    def encode() -> None:
        wellspring.encode_object(data, repair=LOST + 2, information=information, out=packets)

    while done < size:
        spent += timed(encode)
        head, body = packets[:12], packets[12:].reshape(-1, T + 4)
        number = body[:, 1].astype(np.uint32) << 16 | body[:, 2].astype(np.uint32) << 8 | body[:, 3]
        kept = np.concatenate([head, body[~lost[body[:, 0], np.minimum(number, K)]].ravel()])
        spent += timed(lambda kept=kept: wellspring.decode_object(kept, out=out))  # type: ignore[misc]
        assert out == data.tobytes()
        done += piece
    return done / spent


def whole_object(arguments: argparse.Namespace) -> Row:
    """A tenth of the source symbols of each block is lost, and as many repair symbols and two more are there.

    Ours goes through all of the bytes, so that they come from memory; peers work on one block in the cache.
    """
    cores = len(os.sched_getaffinity(0))
    ours, ours_in_format = in_place(arguments.size, cores), in_format(arguments.size)
    rates = {}
    with ProcessPoolExecutor(cores) as pool:
        for name in filter(is_here, PEERS):
            rates[name] = sum(pool.map(peer_share, [(name, seed) for seed in range(cores)]))
    row = Row(f"encode and decode {arguments.size / 1e9:.2f} GB, {cores} cores, 10 % lost", goal=">= 20 times raptorq")
    row.ours = f"{ours / 1e6:.0f} MB/s in place, {ours_in_format / 1e6:.0f} as packets"
    row.peers = ", ".join(f"{name} {rate / 1e6:.2f} MB/s ({ours / rate:.1f} times)" for name, rate in rates.items())
    if "raptorq" in rates:
        as_packets = ours_in_format / rates["raptorq"]
        row.ratio = f"{ours / rates['raptorq']:.1f} times in place, {as_packets:.1f} as packets"
        row.reached = ours >= 20 * rates["raptorq"]
    return row


@contextmanager
def host(directory: Path) -> Iterator[str]:
    code = (
        "import sys, wellspring\n"
        "server = wellspring.serve(sys.argv[1], '127.0.0.1:0')\n"
        "print(server.address, flush=True)\n"
        "sys.stdin.read()\n"
    )
    arguments = [sys.executable, "-P", "-c", code, str(directory)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@contextmanager
def served(arguments: argparse.Namespace) -> Iterator[tuple[Path, str, str]]:
    """A folder with a file of that size, its host, and the digest of the file by SHA-256. In memory where there is room: a
    disk's syncs, which take now one second and now four, would be measured otherwise."""
    memory = "/dev/shm"
    fits = os.path.isdir(memory) and shutil.disk_usage(memory).free > 4 * arguments.size
    with tempfile.TemporaryDirectory(prefix="wellspring-", dir=memory if fits else None) as name:
        folder, digest = Path(name), hashlib.sha256()
        (folder / "served").mkdir()
        random_bytes = random.Random(1)
        with open(folder / "served" / "object", "wb") as file:
            for at in range(0, arguments.size, 1 << 24):
                piece = random_bytes.randbytes(min(1 << 24, arguments.size - at))
                digest.update(piece)
                file.write(piece)
        with host(folder / "served") as address:
            wellspring.read(f"{address}/object", range=(0, 1))  # The host computes its digest once.
            yield folder, f"{address}/object", digest.hexdigest()


def get(arguments: argparse.Namespace) -> Row:
    row = Row(f"get {arguments.size / 1e9:.2f} GB by Python and by the command", goal=">= 0.97 of its rate")
    if arguments.command is None:
        row.peers = "no --command"
        return row
    with served(arguments) as (folder, source, digest):
        out = folder / "out"
        times: dict[str, list[float]] = {"python": [], "command": []}
        command = [arguments.command, "-q", "get", "--force", source, "-o", str(out)]
        for _ in range(2 * ROUNDS + 1):
            times["python"].append(timed(lambda: wellspring.get(source, out, force=True)))
            times["command"].append(timed(lambda: subprocess.run(command, check=True, stderr=subprocess.DEVNULL)))
        with open(out, "rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == digest
    ours, theirs = (statistics.median(found) for found in times.values())
    row.ours, row.peers, row.ratio = f"{ours:.2f} s", f"command {theirs:.2f} s", f"{theirs / ours:.3f}"
    row.reached = theirs / ours >= 0.97
    return row


@contextmanager
def nginx(folder: Path) -> Iterator[str]:
    port, place = free_port(), folder / "nginx"
    place.mkdir()
    (place / "conf").write_text(
        f"daemon off; pid {place}/pid; error_log {place}/error; worker_processes 1; events {{}}\n"
        f"http {{ access_log off; sendfile on; client_body_temp_path {place}; proxy_temp_path {place};\n"
        f"fastcgi_temp_path {place}; uwsgi_temp_path {place}; scgi_temp_path {place};\n"
        f"server {{ listen 127.0.0.1:{port}; root {folder}/served; }} }}\n"
    )
    folder.chmod(0o755)
    program = ["nginx", "-p", str(place), "-c", str(place / "conf"), "-e", str(place / "error")]
    with subprocess.Popen(program) as process:
        try:
            wait_for(port)
            yield f"http://127.0.0.1:{port}/object"
        finally:
            process.terminate()


@contextmanager
def s3(folder: Path) -> Iterator[dict[str, object]]:
    """A local S3 server that has the object in a bucket, and how s3fs finds it."""
    port = free_port()
    program = [sys.executable, "-P", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(port)
            endpoint = {"endpoint_url": f"http://127.0.0.1:{port}"}
            options: dict[str, object] = {"key": "key", "secret": "secret", "client_kwargs": endpoint}
            import s3fs

            files = s3fs.S3FileSystem(**options)
            files.mkdir("bucket")
            files.put_file(str(folder / "served" / "object"), "bucket/object")
            yield options
        finally:
            process.terminate()


def wait_for(port: int) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)


def fsspec_read(arguments: argparse.Namespace) -> Row:
    """Ours verifies; the others are timed as they come, and with a digest of what they brought."""
    import fsspec

    row = Row(f"read {arguments.size / 1e9:.2f} GB through fsspec, verified", goal="faster than s3fs or http")
    with ExitStack() as stack:
        folder, source, digest = stack.enter_context(served(arguments))
        urls: dict[str, tuple[str, dict[str, object]]] = {"ours": (f"wellspring://{source}", {})}
        if shutil.which("nginx") and is_here("aiohttp"):
            urls["http (nginx)"] = (stack.enter_context(nginx(folder)), {})
        if is_here("s3fs") and is_here("moto"):
            urls["s3fs (moto)"] = ("s3://bucket/object", stack.enter_context(s3(folder)))
        times: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            for name, (url, options) in urls.items():
                began = time.perf_counter()
                with fsspec.open(url, **options) as file:
                    content = file.read()
                times.setdefault(name, []).append(time.perf_counter() - began)
                hashing = timed(lambda content=content: hashlib.sha256(content).digest())  # type: ignore[misc]
                if name != "ours":
                    times.setdefault(f"{name} and SHA-256", []).append(times[name][-1] + hashing)
                assert hashlib.sha256(content).hexdigest() == digest
                del content
        seconds = {name: statistics.median(found) for name, found in times.items()}
        if "http (nginx)" in urls:
            # Without fsspec, and so without its copies: no peer of this row, but how fast the machine is.
            with_urllib = lambda: urllib.request.urlopen(urls["http (nginx)"][0]).read()  # noqa: E731
            seconds["urllib, no fsspec"] = statistics.median(timed(with_urllib) for _ in range(ROUNDS))
    ours = seconds.pop("ours")
    row.ours, row.peers = f"{ours:.2f} s", ", ".join(f"{name} {spent:.2f} s" for name, spent in seconds.items())
    peers = [seconds[name] for name in urls if name != "ours"]
    if peers:
        row.ratio, row.reached = f"{min(peers) / ours:.2f} times the faster one", ours < min(peers)
    return row


PLAN = {"topology.k": 4, "workload.senders": 8, "workload.size": "4MB", "protocol.name": "scdp"}


def sweep_on_dask(arguments: argparse.Namespace, settings: dict[str, object] | None, how: str) -> Row:
    """Efficiency is the time of as many processes as there are cores (four at most), over Dask's with a worker killed."""
    row = Row(f"{arguments.runs} runs, 4 Dask workers, {how}, one killed", goal=">= 95 % efficiency, same digests")
    if not is_here("distributed"):
        row.peers = "no distributed"
        return row
    import dask
    from distributed import Client, LocalCluster

    from wellspring import sim
    from wellspring.sweep import DASK_SETTINGS, sweep

    cores = min(4, len(os.sched_getaffinity(0)))
    jobs = sim.jobs("scdp-12a", seeds=range(1, arguments.runs + 1), set=PLAN)
    with ProcessPoolExecutor(cores) as pool:
        list(pool.map(sim.run_job, jobs[:cores]))  # The processes are there, and have imported all.
        began = time.perf_counter()
        digests = [outcome["row"]["digest"] for outcome in pool.map(sim.run_job, jobs)]
        alone = time.perf_counter() - began
    killed: list[int] = []
    with (
        dask.config.set(DASK_SETTINGS if settings is None else settings),
        LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        Client(cluster) as client,
    ):

        def kill_one(done: int, total: int) -> None:
            if done >= total // 2 and not killed:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        client.run(sim.run_job, jobs[0])  # Workers have imported all, too.
        began = time.perf_counter()
        result = sweep(
            "scdp-12a", seeds=arguments.runs, set=PLAN, executor=client.get_executor(), progress=kill_one
        )
        spent = time.perf_counter() - began
    assert killed
    same = result.runs["digest"] == digests
    row.ours, row.peers = f"{spent:.1f} s", f"{cores} processes {alone:.1f} s"
    row.ratio = f"{alone / spent:.1%}, {len(digests)} digests {'the same' if same else 'UNLIKE'}"
    row.reached = alone / spent >= 0.95 and same
    return row


FIRST_FIGURE = """
from wellspring import plots, sim
result = sim.run("scdp-12a", seeds=2, set={"topology.k": 4, "workload.senders": [2, 4, 8], "workload.size": "70KB"})
plots.metric(result, "workload.senders", "goodput_mean").savefig("first.png")
"""


def install(arguments: argparse.Namespace) -> Row:
    row = Row("pip install of the wheel, to the first figure", goal="< 30 s")
    if arguments.wheel is None:
        row.peers = "no --wheel"
        return row
    with tempfile.TemporaryDirectory(prefix="wellspring-") as name:
        venv.create(name, with_pip=True)
        python = f"{name}/bin/python"
        began = time.perf_counter()
        subprocess.run([python, "-m", "pip", "install", "-q", f"{arguments.wheel}[plots]"], check=True)
        installed = time.perf_counter() - began
        subprocess.run([python, "-c", FIRST_FIGURE], check=True, cwd=name)
        spent = time.perf_counter() - began
        assert (Path(name) / "first.png").stat().st_size > 5_000
    row.ours, row.ratio, row.reached = f"{spent:.1f} s", f"of which pip {installed:.1f} s", spent < 30
    return row


ROWS: dict[str, Callable[[argparse.Namespace], Row]] = {
    "decode": decode,
    "object": whole_object,
    "get": get,
    "fsspec": fsspec_read,
    "sweep": partial(sweep_on_dask, settings={}, how="Dask's defaults"),
    "sweep-tuned": partial(sweep_on_dask, settings=None, how="DASK_SETTINGS"),
    "install": install,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1_000_000_000)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--command", help="the command `wellspring`, of the same build")
    parser.add_argument("--wheel", type=Path, help="the wheel")
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--json", type=Path, help="file for the rows")
    arguments = parser.parse_args()
    print(f"wellspring {wellspring._native.__version__}, Python {sys.version.split()[0]}, {os.cpu_count()} cores")
    rows = []
    for name in arguments.rows.split(","):
        rows.append(ROWS[name](arguments))
        rows[-1].print()
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
