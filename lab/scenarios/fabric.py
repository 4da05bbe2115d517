"""Parallel paths, and a port with a short queue that many send to."""

import itertools
import json
import shutil
import statistics
import threading

from . import peers
from .networks import HOMES_A, PATHS_A, Homes, Hosts, Paths
from .rows import Row, in_turns, label
from .system import BUILDS, Failure, number, random_file, same_bytes

# A symbol's payload, and its bytes on a path with the headers of SCDP, UDP, IP and Ethernet.
PAYLOAD, ON_WIRE = 1376, 1376 + 24 + 28 + 14


def paths(args):
    """A fetch (or put) through routers with equal paths, with all of them up and with one dead."""
    size = args.size or "200M"
    with Paths(args.lines, args.path_rate, 4.0) as net:
        objects, copy = net.dir / "objects", net.dir / "copy"
        objects.mkdir()
        random_file(objects / "object", number(size))
        for index, program in enumerate(BUILDS):
            peers.serve(net, "a", program, PATHS_A, objects, "--allow-put", "--allow-overwrite", port=4711 + index)
        worth = number(args.path_rate) * PAYLOAD / ON_WIRE

        def move(program, ports, way):
            before, server = net.carried(), f"{PATHS_A}:{4711 + BUILDS.index(program)}"
            arrived = copy if way == "get" else objects / "taken"
            # Of an object that is there already nothing would be sent.
            arrived.unlink(missing_ok=True)
            command = peers.get(program, [server], "object", copy) if way == "get" else [
                program, "-q", "put", str(objects / "object"), server, "--name", "taken", "--insecure", "--json", "--cache",
                str(net.dir / "cache-b")]
            report = json.loads(net.run("b", *command, "--paths", str(ports), patience=args.patience))
            if arrived.read_bytes() != (objects / "object").read_bytes():
                raise SystemExit("the bytes differ")
            used = [now - then for now, then in zip(net.carried(), before)]
            return {"value": report["goodput_bits_per_second"] / worth, "paths": sum(each > max(used) / 20 for each in used),
                    "cpu_s_per_gb": report["cpu_seconds"] / (number(size) / 1e9)}

        def tcp(congestion, flows, way):
            if way == "get":
                took = peers.tcp_ranges(net, congestion, objects, "object", args.patience_peer, PATHS_A, flows)
            else:
                took = peers.tcp(net, congestion, size, args.patience_peer, PATHS_A, flows, back=False)
            return {**took, "value": took["value"] * 1e6 / worth}
        for dead in (None, 0)[:1 if args.lines == 1 else 2]:
            net.kill_path(dead)
            for way, ports in itertools.product((args.way or "get").split(","), map(int, args.ports.split(","))):
                contestants = {label(program): lambda program=program: move(program, ports, way) for program in BUILDS}
                for congestion in args.peer.split(",") if way == "put" or peers.present("nginx", "curl") else []:
                    contestants[f"{congestion} x{ports}"] = lambda cc=congestion: tcp(cc, ports, way)
                case = f"{way}, {args.lines} paths, {ports} port{'s'[:ports - 1]}" + ("" if dead is None else ", one dead")
                row = Row("paths", case, "paths", "more", in_turns(contestants, args.rounds or 3))
                if (way, ports, args.lines) == ("get", 16, 4):
                    least = 3.6 if dead is None else 2.7
                    row.ask(f">= {least}", least)
                yield row


def homes(args):
    """A fetch from (or put to) a server with two addresses, each over a link of its own: both up, one dead, one that dies."""
    size = args.size or "50M"
    with Homes(args.link_rate, 20.0) as net:
        objects, copy = net.dir / "objects", net.dir / "copy"
        objects.mkdir()
        random_file(objects / "object", number(size))
        for index, program in enumerate(BUILDS):
            peers.serve(net, "a", program, "0.0.0.0", objects, "--allow-put", "--allow-overwrite", "--also-at", ",".join(HOMES_A),
                        port=4711 + index)
        worth = number(args.link_rate) * PAYLOAD / ON_WIRE
        half = number(size) * 8 / worth / 4

        def move(program, way, trouble):
            before, server = net.carried(), f"{HOMES_A[0]}:{4711 + BUILDS.index(program)}"
            arrived = copy if way == "get" else objects / "taken"
            # Of an object that is there already nothing would be sent.
            arrived.unlink(missing_ok=True)
            command = peers.get(program, [server], "object", copy) if way == "get" else [
                program, "-q", "put", str(objects / "object"), server, "--name", "taken", "--insecure", "--json", "--cache",
                str(net.dir / "cache-b")]
            net.cut(1 if trouble == "the second dead" else None)
            dies = {"the first dies": 0, "the second dies": 1}.get(trouble)
            timer = threading.Timer(half, net.cut, [dies]) if dies is not None else None
            if timer:
                timer.start()
            try:
                report = json.loads(net.run("b", *command, *(["--paths", "1"] if trouble == "one used" else []), patience=args.patience))
            finally:
                if timer:
                    timer.cancel()
                    timer.join()
                net.cut(None)
            if arrived.read_bytes() != (objects / "object").read_bytes():
                raise SystemExit("the bytes differ")
            used = [now - then for now, then in zip(net.carried(), before)]
            return {"value": report["goodput_bits_per_second"] / worth, "paths": sum(each > max(used) / 20 for each in used)}

        def tcp(congestion, way):
            took = peers.tcp(net, congestion, size, args.patience_peer, HOMES_A[0], 1, back=way == "get")
            return {**took, "value": took["value"] * 1e6 / worth}
        goals = {"both up": 1.8, "the second dead": 0.9}
        for way, trouble in itertools.product((args.way or "get,put").split(","), ("one used", "both up", "the second dead",
                                                                                  "the second dies", "the first dies")):
            contestants = {label(program): lambda program=program: move(program, way, trouble) for program in BUILDS}
            if trouble == "one used":
                contestants.update({congestion: lambda cc=congestion: tcp(cc, way) for congestion in args.peer.split(",")})
            row = Row("homes", f"{way}, two links, {trouble}", "links", "more", in_turns(contestants, args.rounds or 3))
            if trouble in goals:
                row.ask(f">= {goals[trouble]}", goals[trouble])
            yield row


class Port(Hosts):
    """Senders h1, h2, ... and the receiver h0 on a software switch."""

    def __init__(self, senders, size):
        self.size = size
        super().__init__(senders + 1)

    def build(self):
        super().build()
        self.objects, self.copies = self.dir / "objects", self.dir / "copies"
        self.objects.mkdir()
        for host in self.hosts[1:]:
            random_file(self.objects / f"object-{host}", self.size)

    def serve(self, start):
        return [start(host) for host in self.hosts[1:]]

    def round(self, command, patience):
        """Seconds of a command on the receiver that fetches the objects of all senders."""
        shutil.rmtree(self.copies, ignore_errors=True)
        self.copies.mkdir()
        seconds, _ = peers.timed(lambda: self.run("h0", *command, patience=patience))
        for host in self.hosts[1:]:
            if (self.copies / f"object-{host}").read_bytes() != (self.objects / f"object-{host}").read_bytes():
                raise Failure("the bytes differ")
        return seconds


def incast(args):
    """256 KB from each of many senders at one time, through a port that holds 20 packets."""
    size = number(args.size or "256K")
    for senders in map(int, args.senders.split(",")):
        ideal = senders * size * ON_WIRE / PAYLOAD * 8 / 1e9
        with Port(senders, size) as port:
            for trims in (True, False):
                port.soft_switch("1G", 20, drop=not trims)
                fabric = "trimming" if trims else "shared"
                running, commands = [], {}
                for index, program in enumerate(BUILDS):
                    at = 4711 + index
                    running += port.serve(lambda host: peers.serve(port, host, program, port.address(host), port.objects, "--fabric", fabric,
                                                                   port=at))
                    hosts = [f"{port.address(host)}:{at}/object-{host}" for host in port.hosts[1:]]
                    commands[label(program)] = [program, "-q", "get", *hosts, "-o", str(port.copies), "--insecure", "--force", "--fabric",
                                                fabric, "--link-rate", "1G"]
                if not trims and peers.present("nginx", "curl"):
                    running += port.serve(lambda host: peers.nginx(port, host, port.address(host), port.objects, processes=1))
                    whole = [each for host in port.hosts[1:] for each in
                             ("-o", str(port.copies / f"object-{host}"), f"http://{port.address(host)}:8080/object-{host}")]
                    commands["nginx and curl"] = ["curl", "-sf", "-Z", "--parallel-max", str(senders), "--parallel-immediate", *whole]
                contestants = {who: lambda who=who: {"value": port.round(commands[who], args.patience) / ideal} for who in commands}
                results = in_turns(contestants, args.rounds or 15, warm=1)
                for server in running:
                    port.stop(server)
            # Rounds of both switches stay apart.
                case, limits = f"{senders} x {size / 1000:g} KB, {'trims' if trims else 'drops'}", (1.15, 1.4) if trims else (1.3, 2.0)
                for what, value, limit in (("p50", statistics.median, limits[0]), ("p99", max, limits[1])):
                    ranked = {who: {**result, "value": result["value"] and value(result["rounds"])} for who, result in results.items()}
                    yield Row("incast", f"{case}, {what}", "of ideal", "less", ranked, of_all_rounds=True).ask(f"<= {limit}", most=limit)


def pulls(args):
    """A fetch from three through a port of 200 Mbit/s that holds 8 packets: pulls at its rate and at twice its rate."""
    size = number(args.size or "60M")
    with Port(3, 1) as port:
        random_file(port.objects / "object", size)
        copy = port.dir / "copy"
        for trims in (True, False):
            port.soft_switch("200M", 8, drop=not trims)
            fabric = "trimming" if trims else "shared"
            for times in (1, 2):
                def fetch(program):
                    servers = port.serve(lambda host: peers.serve(port, host, program, port.address(host), port.objects, "--fabric", fabric))
                    try:
                        out = port.run("h0", *peers.get(program, map(port.address, port.hosts[1:]), "object", copy, "--fabric", fabric,
                                                        "--link-rate", f"{200 * times}M"), patience=args.patience)
                    finally:
                        for server in servers:
                            port.stop(server)
                    if not same_bytes(copy, port.objects / "object"):
                        raise Failure("the bytes differ")
                    report = json.loads(out)
                    return {"value": 100 * report["overhead_sent"], "mbps": report["goodput_bits_per_second"] / 1e6}
                row = Row("pulls", f"at {times}x the port, {'trims' if trims else 'drops'}", "% beyond", "less",
                          in_turns(peers.with_builds(fetch), args.rounds or 3))
                if trims and times == 2:
                    row.ask("<= 10 %", most=10)
                yield row
