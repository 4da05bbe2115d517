"""Networks: a long link, hosts on a switch, parallel paths."""

import json
import sys
import time

from .system import BUILDS, LAB, Spaces, before_others, number, sh

A, B = "10.87.0.1", "10.87.0.2"
KNOCK = "import socket, sys; s = socket.socket(); s.settimeout(2); print(s.connect_ex((sys.argv[1], 1)))"


class LongLink(Spaces):
    """Two hosts a and b, and an emulated link between them."""

    def __init__(self):
        self.emulator = None
        super().__init__("l", "amb")

    def build(self):
        for part, address in (("a", A), ("b", B)):
            self.wire(part, "eth0", "m", f"to-{part}", address + "/24")
            self.ip(part, "route", "add", "224.0.0.0/4", "dev", "eth0")
            # Long paths need room in TCP's buffers; defaults end at 6 MB. And each flow begins anew.
            self.set(part, tcp_rmem="4096 131072 67108864", tcp_wmem="4096 131072 67108864", tcp_no_metrics_save=1)

    def link(self, rate, rtt, loss=0.0, queue=1.0, seed=1):
        """The link, anew: a rate such as 100M, a round trip [ms], a queue in bandwidth-delay products."""
        if self.emulator:
            self.stop(self.emulator)
        length = int(max(64_000, queue * number(rate) / 8 * rtt / 1e3))
        self.emulator = self.start("m", *before_others(), LAB, "lab", "link", "to-a", "to-b", "--delay", str(rtt / 2), "--rate", rate,
                                   "--queue", str(length), "--loss", str(loss), "--seed", str(seed))
        # Once a port that is closed answers so, the hosts know each other's addresses.
        for _ in range(100):
            if sh(*self.inside("b"), sys.executable, "-c", KNOCK, A).strip() == "111":
                return
            time.sleep(0.05)
        sys.exit("the other host cannot be reached over the emulated link")


class Hosts(Spaces):
    """Hosts h0, h1, ... on one switch: a bridge of the kernel with buckets, or `wellspring switch`."""

    def __init__(self, count, plain=True):
        self.hosts, self.plain, self.switch = [f"h{index}" for index in range(count)], plain, None
        super().__init__("h", ["m", *self.hosts])

    @staticmethod
    def address(host):
        return f"10.88.0.{int(host[1:]) + 1}"

    def build(self):
        for host in self.hosts:
            self.wire(host, "eth0", "m", f"to-{host}", self.address(host) + "/24", self.plain)
            self.ip(host, "route", "add", "224.0.0.0/4", "dev", "eth0")

    def bridge(self, rate, **others):
        """A bridge whose links carry `rate` both ways; `others` by host. Queues hold 512 kB."""
        if self.switch:
            self.stop(self.switch)
        self.ip("m", "link", "add", "bridge", "type", "bridge", "mcast_snooping", "0")
        self.ip("m", "link", "set", "bridge", "up")
        # A switch does not run each frame through the IP firewall, as a bridge does by default where that is compiled in.
        for family in ("iptables", "ip6tables", "arptables"):
            sh(*self.inside("m"), "sysctl", "-qw", f"net.bridge.bridge-nf-call-{family}=0", check=False)
        for host in self.hosts:
            self.ip("m", "link", "set", f"to-{host}", "master", "bridge")
        self.rates(rate, **others)

    def rates(self, rate, **others):
        for host in self.hosts:
            for part, device in (("m", f"to-{host}"), (host, "eth0")):
                sh(*self.inside(part), "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate",
                   f"{number(others.get(host, rate))}bit", "burst", "64kb", "limit", "512kb")

    def lose(self, host, part):
        """A host loses part of all frames that come to it."""
        sh(*self.inside(host), "nft", "flush", "ruleset")
        if part:
            rules = ["table ip lab {", "chain lossy {", "type filter hook input priority 0",
                     f"iifname eth0 numgen random mod 10000 < {round(part * 10000)} drop", "}", "}"]
            sh(*self.inside(host), "nft", "-f", "-", stdin="\n".join(rules))

    def soft_switch(self, rate, queue, drop):
        """`wellspring switch` between all hosts, which trims or drops."""
        if self.switch:
            self.stop(self.switch)
        self.switch = self.start("m", BUILDS[0], "switch", *(f"to-{host}" for host in self.hosts), "--rate", rate, "--queue",
                                 str(queue), *(["--drop"] if drop else []))
        for host in self.hosts[1:]:
            for _ in range(100):
                if sh(*self.inside(self.hosts[0]), sys.executable, "-c", KNOCK, self.address(host)).strip() == "111":
                    break
                time.sleep(0.05)
            else:
                sys.exit(f"{host} cannot be reached over the software switch")


# Ends of the parallel paths.
PATHS_A, PATHS_B = "10.88.1.1", "10.88.2.1"


class Paths(Spaces):
    """Hosts a and b behind routers r and s, which have equal paths between them."""

    def __init__(self, lines, rate, queue_ms):
        self.lines, self.rate, self.queue = lines, number(rate), int(number(rate) / 8 * queue_ms / 1e3)
        super().__init__("p", "arsb")

    def build(self):
        for part, router, at, via in (("a", "r", PATHS_A, "10.88.1.254"), ("b", "s", PATHS_B, "10.88.2.254")):
            self.wire(part, "eth0", router, f"to-{part}", at + "/24", plain=False)
            self.ip(router, "addr", "add", via + "/24", "dev", f"to-{part}")
            self.ip(part, "route", "add", "default", "via", via)
            # By addresses and ports.
            self.set(router, ip_forward=1, fib_multipath_hash_policy=1)
        for line in range(self.lines):
            self.wire("r", f"p{line}", "s", f"q{line}", f"10.88.{100 + line}.1/24", plain=False)
            self.ip("s", "addr", "add", f"10.88.{100 + line}.2/24", "dev", f"q{line}")
            for part, device in (("r", f"p{line}"), ("s", f"q{line}")):
                sh(*self.inside(part), "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{self.rate}bit", "burst",
                   "32kb", "limit", str(self.queue))
        for part, net, end in (("r", "10.88.2.0/24", 2), ("s", "10.88.1.0/24", 1)):
            hops = [each for line in range(self.lines) for each in ("nexthop", "via", f"10.88.{100 + line}.{end}")]
            self.ip(part, "route", "add", net, *hops)

    def kill_path(self, line):
        """A path that loses all, and that no router knows to be dead; None: all are up."""
        sh(*self.inside("r"), "nft", "flush", "ruleset")
        if line is not None:
            rules = ["table ip lab {", "chain dead {", "type filter hook forward priority 0",
                     f"iifname p{line} drop", f"oifname p{line} drop", "}", "}"]
            sh(*self.inside("r"), "nft", "-f", "-", stdin="\n".join(rules))

    def carried(self):
        """Bytes that each path has brought or taken so far."""
        devices = json.loads(sh("ip", "-n", self.tag + "r", "-s", "-j", "link"))
        stats = {each["ifname"]: each["stats64"] for each in devices}
        return [sum(stats[f"p{line}"][way]["bytes"] for way in ("rx", "tx")) for line in range(self.lines)]


# Addresses of the ends of two links.
HOMES_A, HOMES_B = ("10.88.31.1", "10.88.32.1"), ("10.88.31.2", "10.88.32.2")


class Homes(Spaces):
    """Hosts a and b with two links between them, each between addresses of its own."""

    def __init__(self, rate, queue_ms):
        self.rate, self.queue = number(rate), int(number(rate) / 8 * queue_ms / 1e3)
        super().__init__("w", "ab")

    def build(self):
        for line, (here, there) in enumerate(zip(HOMES_A, HOMES_B)):
            self.wire("a", f"eth{line}", "b", f"eth{line}", here + "/24", plain=False)
            self.ip("b", "addr", "add", there + "/24", "dev", f"eth{line}")
            for part in "ab":
                sh(*self.inside(part), "tc", "qdisc", "add", "dev", f"eth{line}", "root", "tbf", "rate", f"{self.rate}bit", "burst",
                   "32kb", "limit", str(self.queue))

    def cut(self, line):
        """A link that loses all, and of which no host knows that it is dead; None: both are up."""
        sh(*self.inside("a"), "nft", "flush", "ruleset")
        if line is not None:
            rules = ["table ip lab {", "chain in { type filter hook input priority 0;", f"iifname eth{line} drop", "}",
                     "chain out { type filter hook output priority 0;", f"oifname eth{line} drop", "}", "}"]
            sh(*self.inside("a"), "nft", "-f", "-", stdin="\n".join(rules))

    def carried(self):
        """Bytes that each link has brought or taken so far."""
        devices = json.loads(sh("ip", "-n", self.tag + "a", "-s", "-j", "link"))
        stats = {each["ifname"]: each["stats64"] for each in devices}
        return [sum(stats[f"eth{line}"][way]["bytes"] for way in ("rx", "tx")) for line in range(2)]
