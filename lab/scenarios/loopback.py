"""One machine: the speed of a large object, many clients, many small objects, the first byte."""

import contextlib
import json
import shutil
import subprocess
import time

from . import peers
from .rows import Row, in_turns, label, of
from .system import BUILDS, LAB, Failure, Spaces, children_cpu, number, random_file, running_cpu

ADDRESS = "127.0.0.1"
NGINX, QUIC = 8080, 4433


class Loopback(Spaces):
    """A namespace with a loopback alone, and objects."""

    def __init__(self, args, objects):
        self.args, self.sizes, self.servers = args, objects, {}
        super().__init__("s", "o")

    def build(self):
        self.objects = self.dir / "objects"
        self.objects.mkdir()
        for name, size in self.sizes.items():
            random_file(self.objects / name, size)

    def serve(self, count=1, but=()):
        """All servers: `count` of each of our builds, and those of the peers that are here."""
        for index, program in enumerate(BUILDS):
            self.servers[label(program)] = [
                peers.serve(self, "o", program, ADDRESS, self.objects, port=self.port(program, nth)) for nth in range(count)]
        if count == 1 and "curl" not in but and peers.present("nginx", "curl"):
            self.servers["nginx and curl"] = [peers.nginx(self, "o", ADDRESS, self.objects, NGINX)]
        if count == 1 and peers.present("quic"):
            self.servers["quic"] = [peers.quic(self, "o", ADDRESS, self.objects, "cubic", QUIC)]
        return self.servers

    @staticmethod
    def port(program, nth=0):
        return 4711 + 10 * BUILDS.index(program) + nth

    def hosts(self, program):
        return [f"{ADDRESS}:{self.port(program, nth)}" for nth in range(len(self.servers[label(program)]))]

    def get(self, who, name, output):
        """The command that fetches one object."""
        if who == "nginx and curl":
            return ["curl", "-sf", "-o", str(output), f"http://{ADDRESS}:{NGINX}/{name}"]
        if who == "quic":
            return [LAB, "quic", "get", f"{ADDRESS}:{QUIC}", name, "-o", str(output)]
        program = next(each for each in BUILDS if label(each) == who)
        return peers.get(program, self.hosts(program), name, output)

    def measure(self, who, commands, outputs, size):
        """Seconds, Gbit/s and CPU seconds for each GB of programs that run at one time, their servers included."""
        for output in outputs:
            output.unlink(missing_ok=True)
        cpu = lambda: children_cpu() + sum(map(running_cpu, self.servers[who]))
        before, started = cpu(), time.monotonic()
        running = [self.start("o", *command, stderr=subprocess.PIPE, text=True) for command in commands]
        until = started + self.args.patience
        try:
            for program in running:
                program.wait(timeout=max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Failure(f"not in {self.args.patience:g} s") from None
        finally:
            for program in running:
                self.stop(program)
        seconds, used = time.monotonic() - started, cpu() - before
        failed = [program.stderr.read().strip() for program in running if program.returncode]
        if failed:
            raise Failure(f"{len(failed)} of {len(running)} failed: {failed[0]}")
        if any(output.stat().st_size != size for output in outputs):
            raise Failure("the bytes differ")
        moved = size * len(outputs)
        return {"value": seconds, "gbps": moved * 8 / seconds / 1e9, "cpu_s_per_gb": used / (moved / 1e9)}


def iperf3(place):
    """What the kernel's TCP moves without files: a bound."""
    server = place.start("o", "iperf3", "-s", "-1")
    place.listening("o", 5201)
    before = children_cpu()
    size = place.sizes["large"]
    out = place.run("o", "iperf3", "-c", ADDRESS, "-n", str(size), "--json", patience=place.args.patience)
    place.stop(server)
    seconds = json.loads(out)["end"]["sum_received"]["seconds"]
    return {"value": seconds, "gbps": size * 8 / seconds / 1e9, "cpu_s_per_gb": (children_cpu() - before) / (size / 1e9)}


def speed(args):
    """A large object over loopback, from one server and from three."""
    size = number(args.size or "1G")
    medians = {}
    for count in (1, 3):
        with Loopback(args, {"large": size}) as place:
            place.serve(count)
            copy = place.dir / "copy"
            run = lambda who: place.measure(who, [place.get(who, "large", copy)], [copy], size)
            contestants = {who: lambda who=who: run(who) for who in place.servers}
            if count == 1 and peers.present("iperf3"):
                contestants["iperf3"] = lambda: iperf3(place)
            results = in_turns(contestants, args.rounds or 5, warm=1)
        what = "1 server" if count == 1 else "3 servers"
        row = Row("speed", f"loopback, {what}", "Gbit/s", "more", of(results, "gbps"), ceilings=("iperf3",))
        medians[count] = row.value()
        if count == 1:
            row.ask(">= 10 Gbit/s", 10)
        else:
            row.ask(">= 0.8 of one", medians[1] and 0.8 * medians[1])
        yield row
        row = Row("speed", f"loopback, {what}: CPU", "s/GB", "less", of(results, "cpu_s_per_gb"), ceilings=("iperf3",))
        if count == 1:
            row.ask("<= 1.0 s/GB", most=1)
        yield row


def many(args):
    """Many clients at once, each of which fetches an object of 50 MB."""
    size = number(args.size or "50M")
    with Loopback(args, {"middle": size}) as place:
        place.serve()
        copies = [place.dir / f"copy-{client}" for client in range(args.clients)]
        run = lambda who: place.measure(who, [place.get(who, "middle", copy) for copy in copies], copies, size)
        results = in_turns({who: lambda who=who: run(who) for who in place.servers}, args.rounds or 3, warm=1)
    case = f"{args.clients} x {size / 1e6:g} MB"
    yield Row("many", case, "s", "less", results).ask("<= 1.3x nginx", most=1.3, of="nginx and curl")
    yield Row("many", f"{case}: CPU", "s/GB", "less", of(results, "cpu_s_per_gb")).ask("<= 1.5 s/GB", most=1.5)


def small(args):
    """A thousand objects of 4 KB in one call."""
    names = [f"small-{index:04}" for index in range(args.objects)]
    with Loopback(args, dict.fromkeys(names, 4096)) as place:
        place.serve()
        folder = place.dir / "folder"
        outputs = [folder / name for name in names]
        lists = {who: place.dir / f"list-{index}" for index, who in enumerate([*place.servers, "aria2c", "curl -Z"])}
        commands = {}
        for program in BUILDS:
            who, at = label(program), place.hosts(program)[0]
            lists[who].write_text("".join(f"{at}/{name}\n" for name in names))
            commands[who] = [program, "-q", "get", "--from", str(lists[who]), "-o", str(folder), "--force"]
        urls = [f"http://{ADDRESS}:{NGINX}/{name}" for name in names]
        if "nginx and curl" in place.servers:
            whole = "".join(f'url = "{url}"\noutput = "{output}"\n' for url, output in zip(urls, outputs))
            for who, more in (("nginx and curl", []), ("curl -Z", ["-Z"])):
                lists[who].write_text(whole)
                commands[who] = ["curl", "-sf", *more, "-K", str(lists[who])]
                place.servers[who] = place.servers["nginx and curl"]
            if peers.present("aria2c"):
                lists["aria2c"].write_text("".join(url + "\n" for url in urls))
                commands["aria2c"] = ["aria2c", "-q", "-d", str(folder), "-i", str(lists["aria2c"]), "-j", "16", "--file-allocation=none"]
                place.servers["aria2c"] = place.servers["nginx and curl"]
        if "quic" in place.servers:
            lists["quic"].write_text("".join(name + "\n" for name in names))
            commands["quic"] = [LAB, "quic", "get", f"{ADDRESS}:{QUIC}", "--from", str(lists["quic"]), "-o", str(folder)]

        def run(who):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            return place.measure(who, [commands[who]], outputs, 4096)
        results = in_turns({who: lambda who=who: run(who) for who in commands}, args.rounds or 5, warm=1)
    row = Row("small", f"{args.objects} objects of 4 KB", "s", "less", results)
    if args.objects == 1000:
        row.ask("<= 0.2 s", most=0.2)
    yield row


def first(args):
    """The first byte of an object of 4 KB, from the start of the program to a pipe."""
    with Loopback(args, {"tiny": 4096}) as place:
        place.serve()
        content = (place.objects / "tiny").read_bytes()

        def run(who):
            started = time.monotonic()
            program = place.start("o", *place.get(who, "tiny", "-"), stdout=subprocess.PIPE)
            with contextlib.closing(program.stdout):
                byte = program.stdout.read(1)
                seconds = time.monotonic() - started
                rest = program.stdout.read()
            status = program.wait(timeout=args.patience)
            place.stop(program)
            if status:
                raise Failure(f"exit status {status}")
            if byte + rest != content:
                raise Failure("the bytes differ")
            return {"value": seconds * 1e3}

        def nothing():
            started = time.monotonic()
            place.run("o", "true", patience=10)
            return {"value": (time.monotonic() - started) * 1e3}
        contestants = {who: lambda who=who: run(who) for who in place.servers}
        results = in_turns({**contestants, "true": nothing}, args.rounds or 21, warm=2)
    yield Row("first", "byte of 4 KB, idle server", "ms", "less", results, ceilings=("true",))
