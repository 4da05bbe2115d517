"""Measures this package beside what people use today, a row for each comparison.

    python bench/reach.py [--size BYTES] [--runs N] [--command PATH] [--wheel PATH] [--rows codec,get,...]

Rows: `decode`, `object`, `get`, `fsspec`, `sweep`, `install`. Each says what was measured, and leaves out what is
not here: peers `raptorq`, `zfec`, `reedsolo`; the command by --command; nginx; `distributed`. Needs numpy and fsspec. Every
answer is checked. A row takes at most about a minute and a half with 1 GB and two cores; peers run for a few seconds on
pieces, and are scaled by bytes. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
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
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import wellspring

K, T, LOST = 100, 1_500, 10
BLOCK = K * T
ROUNDS = 3
PEER_SECONDS = 5.0


def row(what: str, *figures: str) -> None:
    print(f"{what:48} " + "   ".join(figures), flush=True)


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


def decode(_: argparse.Namespace) -> None:
    if not is_here("raptorq"):
        return row("decode K = 100, T = 1,500, 10 lost", "NOT MEASURED: no raptorq")
    import codec

    cases = codec.cases()
    times: dict[str, list[float]] = {}
    for _ in range(9):
        for name in ("decode in place, 10 lost", "raptorq: decode, 10 lost"):
            work, calls = cases[name]
            times.setdefault(name, []).append(codec.timed(work, calls)[0])
    ours, theirs = (statistics.median(found) for found in times.values())
    row("decode K = 100, T = 1,500, 10 lost", f"{ours:.1f} us", f"raptorq {theirs:.1f} us", f"{theirs / ours:.1f} times")


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


def whole_object(arguments: argparse.Namespace) -> None:
    """Ours: a tenth of the source symbols of each block is lost, and as many repair symbols and two more are there."""
    piece = min(arguments.size, 255 * BLOCK)
    data = np.random.default_rng(1).integers(0, 256, piece, dtype=np.uint8)
    out, spent, done = bytearray(piece), 0.0, 0
    while done < arguments.size:
        began = time.perf_counter()
        packets = np.frombuffer(
            wellspring.encode_object(data, repair=LOST + 2, symbol_size=T, symbols_per_block=K), np.uint8
        )
        spent += time.perf_counter() - began
        head, body = packets[:12], packets[12:].reshape(-1, T + 4)
        number = body[:, 1].astype(np.uint32) << 16 | body[:, 2].astype(np.uint32) << 8 | body[:, 3]
        kept = np.concatenate([head, body[number >= LOST].ravel()])
        spent += timed(lambda kept=kept: wellspring.decode_object(kept, out=out))  # type: ignore[misc]
        assert out == data.tobytes()
        done += piece
    ours = done / spent
    figures = [f"{ours / 1e6:.0f} MB/s"]
    cores = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(cores) as pool:
        for name in PEERS:
            if is_here(name):
                rate = sum(pool.map(peer_share, [(name, seed) for seed in range(cores)]))
                figures.append(f"{name} {rate / 1e6:.2f} MB/s ({ours / rate:.1f} times)")
            else:
                figures.append(f"NOT MEASURED: no {name}")
    row(f"encode and decode {done / 1e9:.2f} GB, {cores} cores, 10 % lost", *figures)


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
    """A folder with a file of that size, its host, and the digest of the file by SHA-256."""
    with tempfile.TemporaryDirectory(prefix="wellspring-") as name:
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


def get(arguments: argparse.Namespace) -> None:
    what = f"get {arguments.size / 1e9:.2f} GB: Python against the command"
    if arguments.command is None:
        return row(what, "NOT MEASURED: no --command")
    with served(arguments) as (folder, source, digest):
        out = folder / "out"
        times: dict[str, list[float]] = {"python": [], "command": []}
        command = [arguments.command, "-q", "get", "--force", source, "-o", str(out)]
        for _ in range(ROUNDS):
            times["python"].append(timed(lambda: wellspring.get(source, out, force=True)))
            times["command"].append(timed(lambda: subprocess.run(command, check=True, stderr=subprocess.DEVNULL)))
        with open(out, "rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == digest
    ours, theirs = (statistics.median(found) for found in times.values())
    row(what, f"{ours:.2f} s", f"command {theirs:.2f} s", f"{theirs / ours:.2f} of its rate")


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
            for _ in range(100):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/object"
        finally:
            process.terminate()


def read_http(url: str) -> bytes:
    with urllib.request.urlopen(url) as answer:
        return bytes(answer.read())


def fsspec_read(arguments: argparse.Namespace) -> None:
    import fsspec

    what = f"read {arguments.size / 1e9:.2f} GB through fsspec, verified"
    if shutil.which("nginx") is None:
        return row(what, "NOT MEASURED: no nginx")
    with served(arguments) as (folder, source, digest), nginx(folder) as url:

        def ours() -> None:
            with fsspec.open(f"wellspring://{source}") as file:
                contents.append(file.read())

        def http() -> None:
            contents.append(read_http(url))

        def http_and_hash() -> None:
            contents.append(read_http(url))
            hashlib.sha256(contents[-1]).digest()

        contents: list[bytes] = []
        times: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            for work in (ours, http, http_and_hash):
                times.setdefault(work.__name__, []).append(timed(work))
                assert hashlib.sha256(contents.pop()).hexdigest() == digest
    seconds = {name: statistics.median(found) for name, found in times.items()}
    row(what, f"{seconds['ours']:.2f} s", f"http {seconds['http']:.2f} s", f"and SHA-256 {seconds['http_and_hash']:.2f} s")


PLAN = {"topology.k": 4, "workload.senders": 8, "workload.size": "4MB", "protocol.name": "scdp"}


def sweep_on_dask(arguments: argparse.Namespace) -> None:
    what = f"{arguments.runs} runs, 4 Dask workers, one killed"
    if not is_here("distributed"):
        return row(what, "NOT MEASURED: no distributed")
    from distributed import Client, LocalCluster

    from wellspring import sim
    from wellspring.sweep import sweep

    cores = min(4, len(os.sched_getaffinity(0)))
    seeds = range(1, arguments.runs + 1)
    [alone] = sim.jobs("scdp-12a", seeds=[1], set=PLAN)
    sim.run_job(alone)
    sample = sim.jobs("scdp-12a", seeds=range(1, max(arguments.runs // 20, 2) + 1), set=PLAN)
    with ProcessPoolExecutor(cores) as pool:
        list(pool.map(sim.run_job, sample[:cores]))
        each = timed(lambda: list(pool.map(sim.run_job, sample))) / len(sample)
    killed: list[int] = []
    with (
        LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        Client(cluster) as client,
    ):

        def kill_one(done: int, total: int) -> None:
            if done >= total // 2 and not killed:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        began = time.perf_counter()
        result = sweep("scdp-12a", seeds=seeds, set=PLAN, executor=client.get_executor(), progress=kill_one)
        spent = time.perf_counter() - began
    assert killed
    checked = sweep("scdp-12a", seeds=seeds[: len(sample)], set=PLAN)
    same = checked.runs["digest"] == result.runs["digest"][: len(sample)]
    efficiency = each * arguments.runs / spent
    digests = f"{len(sample)} digests {'as' if same else 'UNLIKE'} those of one machine"
    row(what, f"{spent:.1f} s", f"efficiency {efficiency:.1%} of {cores} processes", digests)


FIRST_FIGURE = """
from wellspring import plots, sim
result = sim.run("scdp-12a", seeds=2, set={"topology.k": 4, "workload.senders": [2, 4, 8], "workload.size": "70KB"})
plots.metric(result, "workload.senders", "goodput_mean").savefig("first.png")
"""


def install(arguments: argparse.Namespace) -> None:
    what = "pip install of the wheel to the first figure"
    if arguments.wheel is None:
        return row(what, "NOT MEASURED: no --wheel")
    with tempfile.TemporaryDirectory(prefix="wellspring-") as name:
        venv.create(name, with_pip=True)
        python = f"{name}/bin/python"
        began = time.perf_counter()
        subprocess.run([python, "-m", "pip", "install", "-q", f"{arguments.wheel}[plots]"], check=True)
        installed = time.perf_counter() - began
        subprocess.run([python, "-c", FIRST_FIGURE], check=True, cwd=name)
        spent = time.perf_counter() - began
        assert (Path(name) / "first.png").stat().st_size > 5_000
    row(what, f"{spent:.1f} s", f"of which pip {installed:.1f} s")


ROWS: dict[str, Callable[[argparse.Namespace], None]] = {
    "decode": decode,
    "object": whole_object,
    "get": get,
    "fsspec": fsspec_read,
    "sweep": sweep_on_dask,
    "install": install,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1_000_000_000)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--command", help="the command `wellspring`, of the same build")
    parser.add_argument("--wheel", type=Path, help="the wheel")
    parser.add_argument("--rows", default=",".join(ROWS))
    arguments = parser.parse_args()
    for name in arguments.rows.split(","):
        ROWS[name](arguments)


if __name__ == "__main__":
    main()
