"""Programs that move files, ours among them: how to start each, and which of them are here."""

import functools
import json
import shutil
import signal
import subprocess
import sys
import time

from .rows import label
from .system import BUILDS, LAB, Failure, number, same_bytes

# Debian's package of each peer's programs.
PACKAGES = {"iperf3": "iperf3", "nginx": "nginx-light", "curl": "curl", "aria2c": "aria2", "uftp": "uftp", "uftpd": "uftp",
            "udp-sender": "udpcast", "udp-receiver": "udpcast", "rsync": "rsync", "socat": "socat"}
NGINX = """user root; worker_processes {workers}; {master} pid {dir}/nginx-{port}.pid; error_log {dir}/nginx.log; daemon off;
events {{ worker_connections 1024; }}
http {{ access_log off; sendfile on; client_body_temp_path {dir}; proxy_temp_path {dir}; fastcgi_temp_path {dir};
uwsgi_temp_path {dir}; scgi_temp_path {dir}; keepalive_requests 10000; server {{ listen {address}:{port}; root {folder}; }} }}
"""


@functools.cache
def present(*programs):
    """Whether a peer is here; says once what is missing."""
    for program in programs:
        if program == "quic":
            if subprocess.run([LAB, "quic", "--help"], capture_output=True).returncode:
                print("quic is left out: build wellspring-lab with `--features quic`", file=sys.stderr)
                return False
        elif not shutil.which(program):
            print(f"{program} is left out: install {PACKAGES[program]}", file=sys.stderr)
            return False
    return True


def with_builds(function):
    """`function(program)` for each of our builds."""
    return {label(program): functools.partial(function, program) for program in BUILDS}


def cache(spaces, program):
    """A build has a cache of digests of its own."""
    return str(spaces.dir / f"cache-{BUILDS.index(program)}")


def serve(spaces, part, program, address, folder, *options, port=4711):
    """`wellspring serve`, as one process."""
    server = spaces.start(part, program, "-q", "serve", "--insecure", "--bind", f"{address}:{port}", "--cache", cache(spaces, program),
                          str(folder), *options)
    spaces.listening(part, port)
    return server


def nginx(spaces, part, address, folder, port=8080, processes="auto"):
    config = spaces.dir / f"nginx-{part}-{port}.conf"
    master = "master_process off;" if processes == 1 else ""
    config.write_text(NGINX.format(workers=processes, master=master, dir=spaces.dir, address=address, port=port, folder=folder))
    server = spaces.start(part, "nginx", "-c", str(config), "-p", str(spaces.dir))
    spaces.listening(part, port)
    return server


def quic(spaces, part, address, folder, congestion, port=4433):
    server = spaces.start(part, LAB, "quic", "serve", str(folder), "--bind", f"{address}:{port}", "--congestion", congestion)
    spaces.listening(part, port)
    return server


def get(program, hosts, name, output, *options):
    """The command that fetches by ours."""
    return [program, "-q", "get", f"{','.join(hosts)}/{name}", "-o", str(output), "--insecure", "--force", "--no-resume", "--json", *options]


def timed(function):
    """Seconds that it takes, and what it gives."""
    started = time.monotonic()
    result = function()
    return time.monotonic() - started, result


def tcp(spaces, congestion, size, patience, address, streams=1, back=True):
    """Mbit/s of kernel TCP from part a to part b; of as much as was moved, if patience [s] runs out."""
    server = spaces.start("a", "iperf3", "-s", "-1", "-p", "5201")
    spaces.listening("a", 5201)
    client = spaces.start("b", "iperf3", "-c", address, "-p", "5201", *(["-R"] if back else []), "-C", congestion, "-n", str(number(size)),
                          "-P", str(streams), "-i", "0.5", "--json", stdout=subprocess.PIPE, text=True)
    note = None
    try:
        out = client.communicate(timeout=patience)[0]
    except subprocess.TimeoutExpired:
        client.send_signal(signal.SIGINT)
        out, note = client.communicate()[0], f"cut at {patience:g} s"
    finally:
        spaces.stop(client)
        spaces.stop(server)
    try:
        report = json.loads(out)
        if note:
            sums = [each["sum"] for each in report["intervals"]]
            rate = sum(each["bytes"] for each in sums) * 8 / sum(each["seconds"] for each in sums)
        else:
            rate = report["end"]["sum_received"]["bits_per_second"]
    except (KeyError, ZeroDivisionError, json.JSONDecodeError):
        raise Failure("iperf3 gave no result") from None
    if not rate:
        # It sends nothing before all of its connections are there, whatever its flows could do.
        raise Failure(f"iperf3 had not all connections in {patience:g} s")
    return {"value": rate / 1e6, "note": note}


def tcp_files(spaces, congestion, folder, name, patience, address, streams=1):
    """Mbit/s of each of so many copies of a file that curl fetches from nginx at part a, from its start to its end."""
    # A listening socket keeps what it was opened with.
    spaces.set("a", tcp_congestion_control=congestion)
    server = nginx(spaces, "a", address, folder)
    command = ["curl", "-sf", "--max-time", str(patience), "-w", "%{size_download} %{time_total}", f"http://{address}:8080/{name}"]
    copies = [spaces.dir / f"copy-{index}" for index in range(streams)]
    clients = [spaces.start("b", *command, "-o", str(copy), stdout=subprocess.PIPE, text=True) for copy in copies]
    try:
        told = [client.communicate(timeout=patience + 10)[0].split() for client in clients]
        for client, copy in zip(clients, copies):
            if client.returncode not in (0, 28):
                raise Failure(f"curl: exit status {client.returncode}")
            if client.returncode == 0 and not same_bytes(copy, folder / name):
                raise Failure("the bytes differ")
    finally:
        for program in (*clients, server):
            spaces.stop(program)
        for copy in copies:
            copy.unlink(missing_ok=True)
    cut = any(client.returncode for client in clients)
    rate = sum(float(size) for size, _ in told) * 8 / max(float(seconds) for _, seconds in told)
    return {"value": rate / streams / 1e6, "note": f"cut at {patience:g} s" if cut else None}


def tcp_ranges(spaces, congestion, folder, name, patience, address, connections):
    """Mbit/s of a file that curl fetches from nginx at part a in as many parts at once. Who is not connected in half a second tries
    again from another port, as those that are on a dead path must."""
    spaces.set("a", tcp_congestion_control=congestion)
    server = nginx(spaces, "a", address, folder)
    size = (folder / name).stat().st_size
    starts = [size * index // connections for index in range(connections)]
    parts = [spaces.dir / f"part-{index}" for index in range(connections)]
    command = ["curl", "-sf", "--connect-timeout", "0.5", "--retry", "20", "--retry-delay", "1", "--retry-max-time", str(round(patience)),
               "--max-time", str(patience), f"http://{address}:8080/{name}"]
    started = time.monotonic()
    clients = [spaces.start("b", *command, "-r", f"{first}-{after - 1}", "-o", str(part))
               for part, first, after in zip(parts, starts, [*starts[1:], size])]
    try:
        for client in clients:
            client.wait(timeout=max(0.0, started + patience - time.monotonic()))
        seconds = time.monotonic() - started
        if failed := [client.returncode for client in clients if client.returncode]:
            raise Failure(f"curl: exit status {failed[0]}")
        whole = spaces.dir / "parts"
        with open(whole, "wb") as out:
            for part in parts:
                out.write(part.read_bytes())
        if not same_bytes(whole, folder / name):
            raise Failure("the bytes differ")
        whole.unlink()
    except subprocess.TimeoutExpired:
        ended = sum(client.poll() == 0 for client in clients)
        raise Failure(f"{ended} of {connections} parts in {patience:g} s") from None
    finally:
        for program in (*clients, server):
            spaces.stop(program)
        for part in parts:
            part.unlink(missing_ok=True)
    return {"value": size * 8 / seconds / 1e6}


class Background:
    """Kernel TCP from part a to part b, in so many flows, until it is stopped."""

    def __init__(self, spaces, congestion, flows, address, port=5202):
        self.spaces, self.path = spaces, spaces.dir / f"background-{port}.json"
        self.server = spaces.start("a", "iperf3", "-s", "-1", "-p", str(port))
        spaces.listening("a", port)
        self.started = time.time()
        with open(self.path, "w") as out:
            self.client = spaces.start("b", "iperf3", "-c", address, "-p", str(port), "-R", "-C", congestion, "-t", "600", "-i", "0.5",
                                       "-P", str(flows), "--json", stdout=out)

    def stop(self):
        self.spaces.stop(self.client, signal.SIGINT)
        self.spaces.stop(self.server)

    def rate(self, start, end):
        """Mbit/s between two times of the day [s]."""
        try:
            report = json.loads(self.path.read_text())
        except json.JSONDecodeError:
            raise Failure("iperf3 gave no result") from None
        return rate_of_intervals(report, self.started, start, end)


def rate_of_intervals(report, started, start, end):
    """Mbit/s between two times of the day [s], by a report of iperf3 that was started at another."""
    stamp = report["start"]["timestamp"]
    # Versions without milliseconds give whole seconds: the flow is a few round trips younger than its program.
    began = stamp["timemillisecs"] / 1e3 if "timemillisecs" in stamp else max(started, stamp["timesecs"])
    sums = [each["sum"] for each in report["intervals"]]
    sums = [each for each in sums if began + each["start"] >= start and began + each["end"] <= end]
    if not sums:
        raise Failure("too short to tell a share")
    return sum(each["bytes"] for each in sums) * 8 / sum(each["seconds"] for each in sums) / 1e6
