"""Four hosts on a switch of 1 Gbit/s: a put to three, a fetch from three, one of them in trouble."""

import json
import os
import signal
import time

from . import peers
from .networks import Hosts
from .rows import Row, in_turns, label, of
from .system import BUILDS, Failure, number, numbers, random_file, same_bytes

GROUP = "239.255.47.11"
OTHERS = ("h1", "h2", "h3")
# The one in trouble.
LAST = "h3"


class Four(Hosts):
    """Four hosts on a bridge, and an object."""

    def __init__(self, args, size):
        self.args, self.size = args, number(size)
        super().__init__(4)

    def build(self):
        super().build()
        self.bridge("1G")
        self.objects = self.dir / "objects"
        self.objects.mkdir()
        self.object = self.objects / "object"
        random_file(self.object, self.size)
        for host in self.hosts:
            (self.dir / host).mkdir()

    def same(self, *copies, least=None):
        """All copies, or so many of them, are the object; then they are removed."""
        there = [copy for copy in copies if copy.exists()]
        whole = sum(same_bytes(self.object, copy) for copy in there)
        for copy in there:
            copy.unlink()
        if whole < (least or len(copies)):
            raise Failure(f"{whole} whole copies of {len(copies)}")

    def copies(self):
        return [self.dir / host / "object" for host in OTHERS]

    def with_servers(self, start, work):
        """`work` while `start(host)` runs on the three others."""
        servers = {host: start(host) for host in OTHERS}
        try:
            return work(servers)
        finally:
            for server in servers.values():
                self.stop(server)

    def put(self, program, *options, patience=None):
        """Seconds until the group has the object: all of it, or its quorum."""
        serve = lambda host: peers.serve(self, host, program, self.address(host), self.dir / host, "--allow-put", "--allow-overwrite")
        hosts = ",".join(map(self.address, OTHERS))

        def work(_):
            seconds, out = peers.timed(lambda: self.run(
                "h0", program, "-q", "put", str(self.object), hosts, "--insecure", "--group", GROUP, "--interface", "eth0", "--force",
                "--no-resume", "--json", "--cache", peers.cache(self, program), *options, patience=patience or self.args.patience))
            report = json.loads(out.splitlines()[-1])
            return {"value": seconds, "sent_beyond_percent": 100 * (report["symbols_sent"] / report["symbols_needed"] - 1)}
        took = self.with_servers(serve, work)
        self.same(*self.copies(), least=2 if options else 3)
        return took

    def until(self, senders, done, enough, patience):
        """Seconds until so many hosts are done, unless a sender fails before."""
        started = time.monotonic()
        while done() < enough:
            if time.monotonic() - started > patience:
                raise Failure(f"not in {patience:g} s")
            if failed := [sender.returncode for sender in senders if sender.poll()]:
                raise Failure(f"exit status {failed[0]}")
            time.sleep(0.005)
        return time.monotonic() - started

    def uftp(self, patience, enough):
        # In the foreground it logs to its standard error.
        def serve(host):
            with open(self.dir / f"uftpd-{host}", "w") as log:
                return self.start(host, "uftpd", "-d", "-D", str(self.dir / host), "-I", "eth0", stderr=log)

        def work(_):
            time.sleep(0.5)
            # Round trips as in a LAN: those that it assumes by default are of half a second. And by -q it ends if one of three fails.
            sender = self.start("h0", "uftp", "-R", "900000", "-r", "0.01:0.01:15", "-I", "eth0", *(["-q"] if enough == 3 else []), "-L",
                                str(self.dir / "uftp-log"), str(self.object))
            logs = [self.dir / f"uftpd-{host}" for host in OTHERS]
            received = lambda: sum(log.exists() and b"File transfer complete" in log.read_bytes() for log in logs)
            ended = lambda: 3 if sender.poll() == 0 else 0
            try:
                return self.until([sender], ended if enough == 3 else received, enough, patience)
            finally:
                self.stop(sender)
                for log in logs:
                    log.unlink()
        seconds = self.with_servers(serve, work)
        self.same(*self.copies(), least=enough)
        return {"value": seconds}

    def udpcast(self, patience, enough):
        serve = lambda host: self.start(host, "udp-receiver", "--file", str(self.dir / host / "object"), "--interface", "eth0", "--nokbd",
                                        "--nosync")

        def work(receivers):
            time.sleep(0.3)
            sender = self.start("h0", "udp-sender", "--file", str(self.object), "--interface", "eth0", "--min-receivers", "3", "--nokbd",
                                "--full-duplex")
            received = lambda: sum(receiver.poll() == 0 for receiver in receivers.values())
            try:
                return self.until([sender], received, enough, patience)
            finally:
                self.stop(sender)
        seconds = self.with_servers(serve, work)
        self.same(*self.copies(), least=enough)
        return {"value": seconds}

    def rsync(self, patience, enough):
        """Three copies at one time, over TCP with the kernel's default congestion control: a namespace may not choose."""
        def serve(host):
            config = self.dir / f"rsyncd-{host}.conf"
            config.write_text(f"use chroot = no\nuid = root\ngid = root\n[to]\npath = {self.dir / host}\nread only = no\n")
            server = self.start(host, "rsync", "--daemon", "--no-detach", "--config", str(config), "--port", "8730")
            self.listening(host, 8730)
            return server

        def work(_):
            command = ["rsync", "--whole-file", "--inplace", str(self.object)]
            senders = [self.start("h0", *command, f"rsync://{self.address(host)}:8730/to/") for host in OTHERS]
            ended = lambda: sum(sender.poll() == 0 for sender in senders)
            try:
                return self.until(senders, ended, enough, patience)
            finally:
                for sender in senders:
                    self.stop(sender)
        seconds = self.with_servers(serve, work)
        self.same(*self.copies(), least=enough)
        return {"value": seconds}

    def group_peers(self, patience, enough=3):
        """Peers that bring the object to so many of the three, as ours with a quorum."""
        contestants = {}
        if peers.present("uftp", "uftpd"):
            contestants["uftp"] = lambda: self.uftp(patience, enough)
        if peers.present("udp-sender", "udp-receiver"):
            contestants["udpcast"] = lambda: self.udpcast(patience, enough)
        if peers.present("rsync"):
            contestants["rsync x3"] = lambda: self.rsync(patience, enough)
        return contestants


def group(args):
    """A put by multicast to three hosts, which lose part of what comes."""
    with Four(args, args.size or "100M") as four:
        for loss in numbers(args.loss or "0,0.01,0.05"):
            for host in OTHERS:
                four.lose(host, loss)
            contestants = {**peers.with_builds(four.put), **four.group_peers(args.patience)}
            results = in_turns(contestants, args.rounds or 3, warm=1)
            row = Row("group", f"put to 3, {loss * 100:g} % lost", "s", "less", results)
            limit = {0.0: 0.92, 0.01: 0.97, 0.05: 1.05}.get(loss)
            if limit and four.size == 100_000_000:
                row.ask(f"<= {limit} s", most=limit)
            yield row
            limit = {0.0: 2, 0.01: 4, 0.05: 9}.get(loss)
            ours = of({label(build): results[label(build)] for build in BUILDS}, "sent_beyond_percent")
            row = Row("group", f"put to 3, {loss * 100:g} % lost: sent", "% beyond", "less", ours)
            if limit:
                row.ask(f"<= {limit} %", most=limit)
            yield row


def slow(args):
    """The same with a member of 2 Mbit/s: when the two others have it."""
    with Four(args, args.size or "100M") as four:
        quorum = ("--quorum", "2")
        healthy = in_turns(peers.with_builds(lambda program: four.put(program, *quorum)), args.rounds or 3, warm=1)
        four.rates("1G", **{LAST: "2M"})
        results = in_turns({**peers.with_builds(lambda program: four.put(program, *quorum)), **four.group_peers(args.patience_peer, 2)},
                           args.rounds or 3)
        alone = healthy[label(BUILDS[0])]["value"]
        yield Row("slow", "put, a member of 2 Mbit/s", "s to 2 of 3", "less", results).ask(
            f"<= 1.1x healthy ({alone:.2f} s)" if alone else "<= 1.1x healthy", most=alone and 1.1 * alone)


class Trouble:
    """What befalls the last server in the course of a fetch, and how it starts again."""

    def __init__(self, four, kind, start):
        self.four, self.kind, self.start = four, kind, start
        self.servers = {host: start(host) for host in OTHERS}

    def strike(self):
        if self.kind not in ("killed", "frozen", "restarted"):
            return
        time.sleep(0.3 * self.four.size / 100e6)
        last = self.servers[LAST]
        if self.kind == "frozen":
            last.send_signal(signal.SIGSTOP)
            return
        self.four.stop(last, signal.SIGKILL)
        if self.kind == "restarted":
            self.servers[LAST] = self.start(LAST)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers.values():
            self.four.stop(server, signal.SIGKILL)


def fetch(args):
    """A fetch from three hosts at once, one of them slow, killed, frozen, or restarted."""
    with Four(args, args.size or "100M") as four:
        for host in OTHERS:
            os.link(four.object, four.dir / host / "object")
        copy = four.dir / "copy"

        def ours(program, kind):
            serve = lambda host: peers.serve(four, host, program, four.address(host), four.dir / host)
            command = peers.get(program, map(four.address, OTHERS), "object", copy)
            return attempt(four, kind, serve, command, copy)

        def aria2(kind):
            serve = lambda host: peers.nginx(four, host, four.address(host), four.dir / host, processes=1)
            urls = [f"http://{four.address(host)}:8080/object" for host in OTHERS]
            command = ["aria2c", "-q", "-d", str(four.dir), "-o", "copy", "-x", "1", "-s", "3", "-k", "1M", "--file-allocation=none",
                       "--allow-overwrite=true", "--timeout=10", "--connect-timeout=10", "--auto-file-renaming=false", *urls]
            return attempt(four, kind, serve, command, copy)
        for program in BUILDS:
            ours(program, "healthy")
        for kind in (args.trouble or "healthy,slow,killed,frozen,restarted").split(","):
            four.rates("1G", **({LAST: "100M"} if kind == "slow" else {}))
            contestants = {label(program): lambda program=program: ours(program, kind) for program in BUILDS}
            if peers.present("aria2c", "nginx"):
                contestants["aria2c"] = lambda: aria2(kind)
            row = Row("fetch", "from 3, " + {"slow": "one at 100 Mbit/s", "healthy": "all healthy"}.get(kind, f"one {kind}"), "Mbit/s",
                      "more", in_turns(contestants, args.rounds or 3))
            row.ask(">= 900", 900)
            yield row


def attempt(four, kind, serve, command, copy):
    """Mbit/s of a fetch by a command, from its start to its end, while something befalls a server."""
    with Trouble(four, kind, serve) as trouble:
        seconds, _ = peers.timed(lambda: four.run("h0", *command, patience=four.args.patience, meanwhile=trouble.strike))
    four.same(copy)
    return {"value": four.size * 8 / seconds / 1e6}
