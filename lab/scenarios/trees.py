"""Trees: made, moved by ours and by the peers, and compared."""

import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from . import peers
from .hosts import GROUP, OTHERS
from .networks import Hosts
from .rows import Row, in_turns, label
from .system import BUILDS, ROOT, SILENT, Failure, need, same_bytes

MB = 1_000_000
# Longest time that a transfer may take [s].
PATIENCE = 3_600


class Place:
    """A folder for one scenario, and the servers on loopback that read it, until the end of a `with` block."""

    def __init__(self, args):
        if not shutil.which(BUILDS[0]):
            sys.exit(f"no {BUILDS[0]}: build with `cargo build --release`")
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="trees-lab-", dir=args.dir))
        self.source, self.copy = self.dir / "source", self.dir / "copy"
        self.source.mkdir()
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for program in self.running:
            program.kill()
            program.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def serve(self, program, *options):
        """A server; its address, and itself. Its metrics are at `self.metrics`."""
        server = subprocess.Popen([program, "serve", "--insecure", "--json", "--bind", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--cache",
                                   str(self.dir / f"cache-{BUILDS.index(program)}"), str(self.source), *options],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=clean_environment())
        self.running.append(server)
        told = json.loads(server.stdout.readline())
        # A server whose events nobody reads waits for its reader.
        threading.Thread(target=shutil.copyfileobj, args=(server.stdout, open(os.devnull, "w")), daemon=True).start()
        self.metrics = told["metrics"]
        return told["address"], server

    def symbols_sent(self):
        """Symbols that the server has sent, by its own account."""
        with urllib.request.urlopen(f"http://{self.metrics}/metrics") as page:
            lines = page.read().decode().splitlines()
        return sum(int(line.split()[-1]) for line in lines if line.startswith("wellspring_symbols_sent_total{"))

    def stop(self, server):
        self.running.remove(server)
        server.terminate()
        server.wait()

    def rsync_daemon(self):
        """An rsync daemon that serves the source; its address."""
        config = self.dir / "rsyncd.conf"
        user = f"uid = {os.getuid()}\ngid = {os.getgid()}\n"
        config.write_text(f"use chroot = no\n{user}[from]\npath = {self.source}\nread only = yes\n")
        port = free_port()
        self.running.append(subprocess.Popen(["rsync", "--daemon", "--no-detach", "--config", str(config), "--address", "127.0.0.1",
                                              "--port", str(port)], **SILENT))
        for _ in range(200):
            if not subprocess.run(["rsync", f"rsync://127.0.0.1:{port}/"], **SILENT).returncode:
                return f"rsync://127.0.0.1:{port}/from/"
            time.sleep(0.05)
        raise Failure("the daemon does not answer")

    def forget_copy(self):
        shutil.rmtree(self.copy, ignore_errors=True)

    def compare(self):
        """The copy is the source: names, bytes, modes and times of modification, but for those of its own folder."""
        if differ := next(differences(self.source, self.copy), None):
            raise Failure(f"the copy differs: {differ}")


def differences(one, other, attributes=True):
    """Paths below two folders that are not alike: names, kinds, bytes, and if asked for modes and times of modification."""
    for folder, below, names in os.walk(one):
        here = pathlib.Path(folder)
        beside = other / here.relative_to(one)
        there = set(os.listdir(beside)) if beside.is_dir() and not beside.is_symlink() else set()
        yield from (str(beside / name) for name in sorted(there ^ {*below, *names}))
        yield from (str(beside / name) for name in sorted(there & {*below, *names}) if not alike(here / name, beside / name, attributes))


def alike(one, other, attributes):
    ours, theirs = one.lstat(), other.lstat()
    if stat.S_IFMT(ours.st_mode) != stat.S_IFMT(theirs.st_mode):
        return False
    if stat.S_ISLNK(ours.st_mode) and os.readlink(one) != os.readlink(other):
        return False
    if stat.S_ISREG(ours.st_mode) and not same_bytes(one, other):
        return False
    # Not all that move trees bring fractions of a second.
    return not attributes or (ours.st_mode, int(ours.st_mtime)) == (theirs.st_mode, int(theirs.st_mtime))


def clean_environment():
    return {**os.environ, "WELLSPRING_CONFIG": "", "WELLSPRING_KEYS": ""}


def free_port():
    import socket
    with socket.socket() as knock:
        knock.bind(("127.0.0.1", 0))
        return knock.getsockname()[1]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), timeout=PATIENCE)
    if done.returncode:
        raise Failure((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
    return done.stdout


def get(program, address, copy, *options):
    """The report of a fetch of all that is served there."""
    return json.loads(run(program, "-q", "get", f"{address}/", "-o", str(copy), "--json", *options).splitlines()[-1])


def small_files(folder, count, size=4_096):
    """Files of random bytes, a thousand a folder."""
    for index in range(count):
        if index % 1_000 == 0:
            below = folder / f"{index // 1_000:04}"
            below.mkdir()
        (below / f"{index:07}.bin").write_bytes(os.urandom(size) if size else b"")


def mixed_files(folder, size):
    """Half of the bytes in large files, the other half in files from 1 kB to 4 MB."""
    draw, left = random.Random(1), size // 2
    for index in range(8):
        with open(folder / f"large-{index}", "wb") as file:
            for _ in range(size // 16 // MB + 1):
                file.write(os.urandom(MB))
    for index in range(1 << 62):
        if left <= 0:
            return
        below = folder / f"{index % 100:02}"
        below.mkdir(exist_ok=True)
        length = min(left, int(1_000 * 4_000 ** draw.random()))
        (below / f"{index}").write_bytes(os.urandom(length))
        left -= length


def tar(place):
    """Seconds of tar over a TCP connection."""
    place.forget_copy()
    place.copy.mkdir()
    port = free_port()
    started = time.monotonic()
    receiver = subprocess.Popen(f"socat -b 1048576 -u TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr - | tar -x -C '{place.copy}'", shell=True)
    sender = subprocess.run(f"tar -c -C '{place.source}' . | socat -b 1048576 -u - TCP:127.0.0.1:{port},retry=200,interval=0.01", shell=True)
    if receiver.wait() or sender.returncode:
        raise Failure("tar or socat failed")
    return {"value": time.monotonic() - started}


def contestants(place, prepare):
    """Ours and rsync, each after `prepare()`."""
    def ours(program):
        address, server = place.serve(program)
        try:
            prepare()
            seconds, report = peers.timed(lambda: get(program, address, place.copy, "--force"))
        finally:
            place.stop(server)
        place.compare()
        return {"value": seconds, **{name: report[name] for name in ("files_fetched", "bytes_fetched") if name in report}}

    def rsync():
        prepare()
        seconds, _ = peers.timed(lambda: run("rsync", "-a", daemon, f"{place.copy}/"))
        return {"value": seconds}
    all_of_them = peers.with_builds(ours)
    if peers.present("rsync"):
        daemon = place.rsync_daemon()
        all_of_them["rsync"] = rsync
    return all_of_them


def first(args):
    """Small files for the first time."""
    with Place(args) as place:
        small_files(place.source, args.files)
        all_of_them = contestants(place, place.forget_copy)
        if peers.present("socat"):
            all_of_them["tar"] = lambda: tar(place)

        def without_a_network():
            place.forget_copy()
            return {"value": peers.timed(lambda: run("cp", "-r", str(place.source), str(place.copy)))[0]}
        all_of_them["cp -r"] = without_a_network
        results = in_turns(all_of_them, args.rounds, warm=1)
        row = Row("first", f"{args.files} files of 4 KB", "s", "less", results, ceilings=("cp -r",))
        for who, reach, most in (("tar", ">= 0.9 of tar", 1 / 0.9), ("rsync", ">= 3x rsync", 1 / 3)):
            theirs = row.value(who)
            row.ask(f"{reach} ({theirs / row.value():.2f})" if theirs and row.value() else reach, most=most, of=who)
        yield row


def again(args):
    """The same when nothing has changed, and when 1 % has."""
    with Place(args) as place:
        small_files(place.source, args.files)
        files = sorted(path for path in place.source.glob("*/*"))
        changed = random.Random(2).sample(files, max(1, args.files // 100))
        original = place.dir / "original"

        def nothing():
            pass

        def some():
            # Each finds the copy as it was before the change.
            for path in changed:
                there = place.copy / path.relative_to(place.source)
                shutil.copy2(original / path.name, there)
        run("rsync", "-a", f"{place.source}/", f"{place.copy}/")
        for case, prepare in (("nothing changed", nothing), ("1 % changed", some)):
            if prepare is some:
                original.mkdir()
                for path in changed:
                    shutil.copy2(path, original / path.name)
                    path.write_bytes(os.urandom(4_096))
            results = in_turns(contestants(place, prepare), args.rounds, warm=1)
            yield Row("again", f"{args.files} files, {case}", "s", "less", results).ask("<= rsync's time", most=1, of="rsync")


def still_running(child, how=signal.SIGKILL):
    """Ends a program; whether it had not ended by itself."""
    ran = child.poll() is None
    child.send_signal(how)
    # One that ended between the two is no other than one that had ended before.
    return child.wait() != 0 and ran


def killed(args):
    """A fetch that is killed when half is there, and run again: what is moved twice."""
    with Place(args) as place:
        mixed_files(place.source, args.mixed)
        size = sum(path.stat().st_size for path in place.source.rglob("*") if path.is_file())

        def ours(program):
            place.forget_copy()
            address, server = place.serve(program)
            child = subprocess.Popen([program, "get", f"{address}/", "-o", str(place.copy), "--json-progress"], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.PIPE, text=True, env=clean_environment())
            symbol = 0
            for line in filter(lambda line: line.startswith("{"), child.stderr):
                step = json.loads(line)
                symbol = step.get("symbol_size", symbol)
                if step.get("done", 0) >= size // 2:
                    break
            killed = still_running(child)
            # What was sent until then, and so at least what was there: what was on the way and what was sent for losses counts as
            # moved again.
            sent = place.symbols_sent() * symbol
            seconds, report = peers.timed(lambda: get(program, address, place.copy))
            moved = place.symbols_sent() * symbol - sent
            place.stop(server)
            place.compare()
            if not killed:
                raise Failure("the fetch had ended before it could be killed: take a larger tree")
            again = max(0, 100 * (sent + moved - size) / size)
            return {"value": again, "seconds": seconds, "sent_mb": sent / MB, "then_mb": moved / MB,
                    "fetched_mb": (report["bytes_fetched"] - report["bytes_resumed"]) / MB,
                    "note": f"{sent / MB:.0f} MB sent, then {moved / MB:.0f} MB"}

        def rsync():
            place.forget_copy()
            daemon = place.rsync_daemon()
            child = subprocess.Popen(["rsync", "-a", "--partial", daemon, f"{place.copy}/"], **SILENT)
            on_disk = lambda: sum(path.stat().st_size for path in place.copy.rglob("*") if path.is_file())
            there = 0
            while there < size // 2 and child.poll() is None:
                time.sleep(0.02)
                with contextlib.suppress(FileNotFoundError):
                    there = on_disk()
            if not still_running(child, signal.SIGTERM):
                raise Failure("the fetch had ended before it could be stopped: take a larger tree")
            there = on_disk()
            told = run("rsync", "-a", "--partial", "--stats", daemon, f"{place.copy}/")
            literal = next(line for line in told.splitlines() if line.startswith("Literal data"))
            moved = int("".join(filter(str.isdigit, literal.split(":")[1].split("bytes")[0])))
            place.compare()
            return {"value": 100 * max(0, there + moved - size) / size}
        all_of_them = peers.with_builds(ours)
        if peers.present("rsync"):
            all_of_them["rsync --partial"] = rsync
        results = in_turns(all_of_them, 1)
        yield Row("killed", f"{size / 1e9:.2g} GB, killed at half", "% again", "less", results).ask("<= 1 %", most=1)


def empty(args):
    """Empty files: the memory of each side."""
    with Place(args) as place:
        small_files(place.source, args.empty, 0)

        def ours(program):
            place.forget_copy()
            address, server = place.serve(program)
            child = os.posix_spawn(program, [program, "-q", "get", f"{address}/", "-o", str(place.copy)], clean_environment())
            started = time.monotonic()
            _, status, used = os.wait4(child, 0)
            seconds = time.monotonic() - started
            lines = pathlib.Path(f"/proc/{server.pid}/status").read_text().splitlines()
            peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
            place.stop(server)
            if status:
                raise Failure(f"exit status {os.waitstatus_to_exitcode(status)}")
            place.compare()
            here, there = used.ru_maxrss / 1_000, peak / 1_000
            return {"value": max(here, there), "seconds": seconds, "note": f"{here:.0f} here, {there:.0f} there, {seconds:.1f} s"}
        results = in_turns(peers.with_builds(ours), 1)
        yield Row("empty", f"{args.empty} empty files", "MB", "less", results).ask("<= 300 MB", most=300)


class Four(Hosts):
    """Four hosts with links of 1 Gbit/s, and a tree."""

    def __init__(self, size):
        self.size = size
        super().__init__(4)

    def build(self):
        super().build()
        self.bridge("1G")
        self.tree = self.dir / "tree"
        self.tree.mkdir()
        mixed_files(self.tree, self.size)

    def put(self, program, hosts, *options):
        servers = []
        for host in hosts:
            shutil.rmtree(self.dir / host, ignore_errors=True)
            (self.dir / host).mkdir()
            servers.append(peers.serve(self, host, program, self.address(host), self.dir / host, "--allow-put"))
        command = [program, "-q", "put", str(self.tree), ",".join(map(self.address, hosts)), "--insecure", *options]
        try:
            seconds, _ = peers.timed(lambda: self.run("h0", *command, patience=PATIENCE))
        finally:
            for server in servers:
                self.stop(server)
        for host in hosts:
            if differ := next(differences(self.tree, self.dir / host / "tree", attributes=False), None):
                raise Failure(f"{host} has another tree: {differ}")
        return {"value": seconds}


def group(args):
    """A tree to three hosts by multicast, and to one."""
    if os.geteuid():
        print("group is left out: namespaces need root", file=sys.stderr)
        return
    need()
    with Four(args.tree) as four:
        to_all = lambda program: four.put(program, OTHERS, "--group", GROUP, "--interface", "eth0")
        results = in_turns({**peers.with_builds(to_all), "to one": lambda: four.put(BUILDS[0], OTHERS[:1])}, args.rounds, warm=1)
        row = Row("group", f"{args.tree / MB:.0f} MB to three hosts", "s", "less", results)
        # The one is ours, too: if that failed, there is nothing of ours to compare with.
        one = row.value("to one")
        came = f" ({row.value() / one:.2f})" if one and row.value() else ""
        yield row.ask(f"<= 1.1x the time of one{came}", most=1.1 if one else None, of="to one" if one else None)


def clean(args):
    """From a package to the first fetch, in a root of its own."""
    dist = ROOT / args.dist
    if os.geteuid() or not list(dist.glob("*.deb")):
        print(f"clean is left out: it needs root, and what `make dist` builds in {dist}", file=sys.stderr)
        return
    seconds, _ = peers.timed(lambda: run(str(ROOT / "packaging/try"), str(dist)))
    row = Row("clean", ".deb and image, a fetch of each", "s", "less", {label(BUILDS[0]): {"value": seconds}})
    yield row.ask("< 60 s", most=60)
