"""One bottleneck with delay and loss: a fetch and a put alone, and beside TCP."""

import itertools
import json
import time

from . import peers
from .networks import A, B, LongLink
from .rows import Row, in_turns, label, of
from .system import BUILDS, LAB, Failure, number, numbers, random_file

GROUP = "239.255.87.1:4720"
# Cases that are measured if none are named: round trips [ms], and losses of the links where nothing else uses them.
ALONE, PUT = ("2,80,240", "0,0.01,0.05"), ("2,100", "0,0.01")
BESIDE = {"get": "0.2,10,60", "put": "10,60", "group": "0.2,2,60,100"}
WAYS = "get,group"


def percent(part):
    return f"{part * 100:g} %"


def case_alone(rtt, loss):
    return f"RTT {rtt:g} ms, {percent(loss)} lost"


def case_beside(way, flows, congestion, rtt):
    return f"{way} beside {flows} {congestion}, {rtt:g} ms"


def case_put(hosts, rtt, loss):
    return f"{hosts} host{'s'[:hosts - 1]}, {case_alone(rtt, loss)}"


def progress(lines):
    """When how many bytes had arrived, by what `--json-progress` said."""
    steps = [(at, json.loads(line)) for at, line in lines if '"moving"' in line]
    return [(at, step["done"]) for at, step in steps]


def rate_between(steps, start, end):
    """Mbit/s between two times of the day [s], by what had arrived when; nothing if that is less than half a second."""
    steps = [(at, done) for at, done in steps if start <= at <= end]
    if len(steps) < 2 or steps[-1][0] - steps[0][0] < 0.5:
        return None
    return (steps[-1][1] - steps[0][1]) * 8 / (steps[-1][0] - steps[0][0]) / 1e6


class Link(LongLink):
    """The link, with an object at a, and the programs of both hosts."""

    def __init__(self, args, size):
        self.args, self.size = args, number(size)
        super().__init__()

    def build(self):
        super().build()
        self.objects = self.dir / "objects"
        self.objects.mkdir()
        random_file(self.objects / "object", self.size)

    def emulate(self, rtt, loss=0.0):
        self.link(self.args.rate, rtt, loss, self.args.queue, self.args.seed)

    def serve_object(self):
        for index, program in enumerate(BUILDS):
            peers.serve(self, "a", program, A, self.objects, port=4711 + index)

    def serve_puts(self, program, ports):
        for port in ports:
            folder = self.dir / f"put-{port}"
            folder.mkdir(exist_ok=True)
            (folder / "object").unlink(missing_ok=True)
            yield peers.serve(self, "b", program, B, folder, "--allow-put", "--interface", B, port=port)

    def check(self, path):
        if path.read_bytes() != (self.objects / "object").read_bytes():
            raise SystemExit("the bytes differ")

    def fetch(self, program, start=0.0):
        """Mbit/s of a fetch from a to b, all of it and after `start` seconds, with its begin and end."""
        copy, port = self.dir / "copy", 4711 + BUILDS.index(program)
        copy.unlink(missing_ok=True)
        begin, lines = time.time(), []
        out = self.run("b", *peers.get(program, [f"{A}:{port}"], "object", copy, *self.control(), "--json-progress"),
                       patience=self.args.patience, said=lambda line: lines.append((time.time(), line)))
        end = time.time()
        self.check(copy)
        steps = progress(lines)
        return {"value": json.loads(out)["goodput_bits_per_second"] / 1e6, "begin": begin, "end": end, "steps": steps,
                "settled_mbps": rate_between(steps, begin + start, end)}

    def control(self):
        """Options for what chooses the rate: LTTP's own is TFRC."""
        chosen = [] if self.args.congestion == "tfrc" else ["--congestion", self.args.congestion]
        return ["--protocol", self.args.protocol, *chosen]

    def put(self, program, hosts):
        """Mbit/s that each of so many hosts at b gets; from two on as a group."""
        ports = [4721 + index for index in range(hosts)]
        servers = list(self.serve_puts(program, ports))
        group = ["--group", GROUP, "--interface", A] if hosts > 1 else []
        begin, lines = time.time(), []
        try:
            out = self.run("a", program, "-q", "put", str(self.objects / "object"), ",".join(f"{B}:{port}" for port in ports), "--insecure",
                           "--json", "--cache", str(self.dir / "cache-a"), "--congestion", self.args.congestion,
                           "--json-progress", *group, patience=self.args.patience, said=lambda line: lines.append((time.time(), line)))
            end = time.time()
        finally:
            for server in servers:
                self.stop(server)
        for port in ports:
            self.check(self.dir / f"put-{port}/object")
        report = json.loads(out.splitlines()[-1])
        slowest = max(receiver["seconds"] for receiver in report["receivers"])
        return {"value": self.size * 8 / slowest / 1e6, "begin": begin, "end": end, "steps": progress(lines),
                "beyond_percent": 100 * (report["symbols_sent"] / report["symbols_needed"] - 1),
                "detached": sum(bool(receiver.get("detached_because")) for receiver in report["receivers"])}

    def file(self, congestion, streams=1):
        """Mbit/s of each of so many fetches over the kernel's TCP at once."""
        return peers.tcp_files(self, congestion, self.objects, "object", self.args.patience_peer, A, streams)

    def quic(self, congestion):
        port = {"cubic": 4433, "bbr": 4434}[congestion]
        server = peers.quic(self, "a", A, self.objects, congestion, port)
        try:
            out = self.run("b", LAB, "quic", "get", f"{A}:{port}", "object", "-o", str(self.dir / "copy"), "--json", "--patience",
                           str(self.args.patience_peer), patience=self.args.patience_peer + 10)
        finally:
            self.stop(server)
        report = json.loads(out)
        if report["whole"]:
            self.check(self.dir / "copy")
        note = None if report["whole"] else f"cut at {self.args.patience_peer:g} s"
        return {"value": report["goodput_bits_per_second"] / 1e6, "note": note}


def alone(args):
    """A fetch over the long link, and as much by the kernel's TCP and QUIC."""
    size = args.size or "60M"
    with Link(args, size) as link:
        link.serve_object()
        for rtt in numbers(args.rtt or ALONE[0]):
            for loss in numbers(args.loss or ALONE[1]):
                link.emulate(rtt, loss)
                contestants = peers.with_builds(lambda program, start=rtt / 100: link.fetch(program, start))
                for congestion in args.peer.split(","):
                    if peers.present("nginx", "curl"):
                        contestants[congestion] = lambda cc=congestion: link.file(cc)
                    if peers.present("quic"):
                        contestants[f"quic {congestion}"] = lambda cc=congestion: link.quic(cc)
                case = case_alone(rtt, loss)
                results = in_turns(contestants, args.rounds or 3)
                yield Row("alone", case, "Mbit/s", "more", results).ask("no slower than TCP BBR", least=1.0, of="bbr")
                settled = of({label(build): results[label(build)] for build in BUILDS}, "settled_mbps")
                part = {0.0: 0.9, 0.01: 0.85}.get(loss, 0.75)
                yield Row("alone", f"{case}, after ten round trips", "Mbit/s", "more", settled).ask(
                    f">= {part:.0%} of the line", least=part * number(args.rate) / 1e6)


def beside(args):
    """Our share of a bottleneck that TCP uses too, fetching from it or putting to one host or a group."""
    size = args.size or "40M"
    ways = {"get": Link.fetch, "put": lambda link, program: link.put(program, 1), "group": lambda link, program: link.put(program, 3)}
    with Link(args, size) as link:
        link.serve_object()
        for way in (args.way or WAYS).split(","):
            for rtt in numbers(args.rtt or BESIDE[way]):
                for congestion, flows in beside_what(args, way):
                    link.emulate(rtt)
                    share = lambda run, *more: beside_share(link, args, congestion, flows, run, *more)
                    contestants = {label(program): lambda program=program: share(ways[way], link, program) for program in BUILDS}
                    if way == "get":
                        # A TCP flow in our place shows what these flows leave to one of their kind.
                        for other in args.peer.split(","):
                            contestants[f"{other} instead"] = lambda cc=other: share(timed_flow, link, cc)
                    fair = 100 / (flows + 1)
                    least, most = {1: (40, 60), 4: (15, 25)}.get(flows, (0.8 * fair, 1.2 * fair))
                    reach = f"{least:g}-{most:g} %"
                    if congestion != "cubic":
                        least, most = 100 / (1 + 2 * flows), 100 * 2 / (2 + flows)
                        reach = f"within 2x ({least:.0f}-{most:.0f} %)"
                    yield Row("beside", case_beside(way, flows, congestion, rtt), "% of both", "fair",
                              in_turns(contestants, args.rounds or 3), fair=fair).ask(reach, least, most)


def expected():
    """Cases by scenario that are measured if none are named."""
    lossy = lambda defaults: itertools.product(numbers(defaults[0]), numbers(defaults[1]))
    flows = {"get": [("cubic", 1), ("cubic", 4), ("bbr", 1)], "group": [("cubic", 1)]}
    return {"alone": [case_alone(rtt, loss) for rtt, loss in lossy(ALONE)],
            "beside": [case_beside(way, count, congestion, rtt) for way in WAYS.split(",") for rtt in numbers(BESIDE[way])
                       for congestion, count in flows[way]],
            "put": [case_put(hosts, rtt, loss) for rtt, loss in lossy(PUT) for hosts in (1, 3)]}


def beside_what(args, way):
    flows = [int(each) for each in args.flows.split(",")]
    if args.beside:
        return [(congestion, count) for congestion in args.beside.split(",") for count in flows]
    if way == "group":
        return [("cubic", 1)]
    return [("cubic", count) for count in flows] + [("bbr", 1)]


def timed_flow(link, congestion):
    """A TCP flow for eight seconds."""
    begin = time.time()
    flow = peers.Background(link, congestion, 1, A, port=5203)
    time.sleep(8)
    end = time.time()
    flow.stop()
    return {"rate": flow.rate, "begin": begin, "end": end}


# What is left out of a share at the begin and at the end of a transfer [s]: until it is under way, and its last losses.
OPENING, CLOSING = 1.0, 0.5


def beside_share(link, args, congestion, flows, run, *arguments):
    """Percent of what both get that `run` gets in the same time, once both are under way."""
    background = peers.Background(link, congestion, flows, A)
    try:
        time.sleep(args.lead)
        took = run(*arguments)
    finally:
        background.stop()
    window = took["begin"] + OPENING, took["end"] - CLOSING
    ours, theirs = took["rate"](*window) if "rate" in took else rate_between(took["steps"], *window), background.rate(*window)
    if ours is None:
        raise Failure("too short to tell a share")
    return {"value": 100 * ours / (ours + theirs), "ours_mbps": ours, "theirs_mbps": theirs, "whole_mbps": took.get("value")}


def put(args):
    """A put over the long link to one host and to a group of three there, and as much by the kernel's TCP to each."""
    size = args.size or "20M"
    with Link(args, size) as link:
        for rtt in numbers(args.rtt or PUT[0]):
            for loss in numbers(args.loss or PUT[1]):
                for hosts in (1, 3):
                    link.emulate(rtt, loss)
                    contestants = {label(program): lambda program=program: link.put(program, hosts) for program in BUILDS}
                    for congestion in args.peer.split(","):
                        if peers.present("nginx", "curl"):
                            contestants[congestion] = lambda cc=congestion, hosts=hosts: link.file(cc, hosts)
                    yield Row("put", case_put(hosts, rtt, loss), "Mbit/s", "more",
                              in_turns(contestants, args.rounds or 3))
