"""Namespaces, the programs in them, and their processor time."""

import functools
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILDS = (os.environ.get("WELLSPRING") or str(ROOT / "target/release/wellspring")).split(",")
LAB = os.environ.get("WELLSPRING_LAB") or str(pathlib.Path(BUILDS[0]).with_name("wellspring-lab"))
UNITS = {"K": 10**3, "M": 10**6, "G": 10**9}
SILENT = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class Failure(Exception):
    """A transfer did not succeed."""


def leave(*_):
    """Ctrl-C and SIGTERM: to the end by way of all that cleans up, and only once."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    sys.exit(130)


def sh(*command, check=True, stdin=None):
    return subprocess.run(command, check=check, capture_output=True, text=True, input=stdin).stdout


def number(text):
    return int(float(text[:-1]) * UNITS[text[-1]]) if text[-1] in UNITS else int(text)


def numbers(text):
    return [float(each) for each in text.split(",")]


def need(**packages):
    """Ends unless all programs are there and the user is root; each program with what installs it."""
    for program in (*BUILDS, LAB):
        if not shutil.which(program):
            sys.exit(f"no {program}: build with `cargo build --release`")
    for program, package in {"ip": "iproute2", "tc": "iproute2", "chrt": "util-linux", **packages}.items():
        if not shutil.which(program):
            sys.exit(f"no {program}: install {package}")
    if os.geteuid():
        sys.exit("network namespaces need root")
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, leave)


def need_congestion(controls):
    """Ends unless TCP in namespaces may use these congestion controls of the kernel."""
    setting = pathlib.Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
    allowed = setting.read_text().split()
    if missing := [each for each in controls if each not in allowed]:
        words = " ".join(allowed + missing)
        sys.exit(f"TCP in namespaces may not use {', '.join(missing)} here: allow it with "
                 f"`sysctl -w net.ipv4.{setting.name}='{words}'`, or choose others by --peer and --beside")


@functools.cache
def before_others():
    """What starts a program that runs before others: nothing where that is not allowed, as in many containers."""
    first = ("chrt", "-f", "10")
    if subprocess.run([*first, "true"], capture_output=True).returncode == 0:
        return first
    print("no real-time scheduling here (chrt -f): emulated links are late at times", file=sys.stderr)
    return ()


def random_file(path, size):
    with open(path, "wb") as file:
        while size > 0:
            size -= file.write(os.urandom(min(size, 1 << 20)))


def same_bytes(one, other):
    """Whether two files hold the same. `filecmp` would remember what it said of files of the same length and time."""
    with open(one, "rb") as ours, open(other, "rb") as theirs:
        while True:
            here, there = ours.read(1 << 20), theirs.read(1 << 20)
            if here != there:
                return False
            if not here:
                return True


def children_cpu():
    """CPU seconds of all children that have ended and been waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def running_cpu(program):
    """CPU seconds of a process and those it started, so far."""
    ticks, pids = 0, [program.pid]
    while pids:
        pid = pids.pop()
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            pids += map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Spaces:
    """Network namespaces and the programs in them, until the end of a `with` block."""

    def __init__(self, kind, parts):
        self.tag = f"ws{kind}{os.getpid()}"
        self.parts = list(parts)
        # A disk would be measured otherwise.
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix=f"{kind}-lab-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
        self.running = []
        try:
            for part in self.parts:
                sh("ip", "netns", "add", self.tag + part)
                self.ip(part, "link", "set", "lo", "up")
            self.build()
        except BaseException:
            self.close()
            raise

    def build(self):
        """The cables; a kind of network overrides it."""

    def inside(self, part):
        return ("ip", "netns", "exec", self.tag + part)

    def ip(self, part, *command):
        sh("ip", "-n", self.tag + part, *command)

    def set(self, part, **values):
        """Settings of the kernel, their dots as underscores behind `net.ipv4`."""
        for name, value in values.items():
            sh(*self.inside(part), "sysctl", "-qw", f"net.ipv4.{name}={value}")

    def wire(self, part, name, other, there, address=None, plain=True):
        """A cable; `plain` without offloads: a packet is a frame."""
        self.ip(part, "link", "add", name, "type", "veth", "peer", "name", there, "netns", self.tag + other)
        if address:
            self.ip(part, "addr", "add", address, "brd", "+", "dev", name)
        for where, device in ((part, name), (other, there)):
            if plain:
                sh(*self.inside(where), LAB, "lab", "plain", device)
            self.ip(where, "link", "set", device, "up")

    def start(self, part, *command, **options):
        program = subprocess.Popen([*self.inside(part), *command], **{**SILENT, **options})
        self.running.append(program)
        return program

    def run(self, part, *command, patience, meanwhile=None, said=None):
        """What a program prints; a failure if it fails or takes longer than `patience` [s]. `said` gets each line of its standard
        error as it comes."""
        program = self.start(part, *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            if meanwhile:
                meanwhile()
            if said:
                timer = threading.Timer(patience, program.kill)
                timer.start()
                lines = [said(line) or line for line in program.stderr]
                out, errors = program.stdout.read(), "".join(lines)
                if timer.finished.is_set():
                    raise Failure(f"not in {patience:g} s")
                timer.cancel()
                program.wait(timeout=patience)
            else:
                out, errors = program.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            raise Failure(f"not in {patience:g} s") from None
        finally:
            self.stop(program)
        if program.returncode:
            raise Failure((errors.strip().splitlines() or [f"exit status {program.returncode}"])[-1])
        return out

    def listening(self, part, *ports):
        """Waits until something listens at all of these ports, of TCP or UDP."""
        until = time.monotonic() + 10
        while time.monotonic() < until:
            lines = sh(*self.inside(part), "ss", "-Hlntu").splitlines()
            taken = {line.split()[4].rsplit(":", 1)[1] for line in lines}
            if {str(port) for port in ports} <= taken:
                return
            time.sleep(0.02)
        sys.exit(f"nothing listens at port {', '.join(map(str, ports))}")

    def stop(self, program, how=signal.SIGTERM):
        if program not in self.running:
            return
        self.running.remove(program)
        if program.poll() is None:
            program.send_signal(how)
            # One that was frozen goes on with its end.
            program.send_signal(signal.SIGCONT)
        try:
            program.wait(timeout=10)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()

    def close(self):
        for program in list(self.running):
            self.stop(program, signal.SIGKILL)
        for part in self.parts:
            # Workers outlive a program that was killed, such as nginx.
            for pid in sh("ip", "netns", "pids", self.tag + part, check=False).split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    continue
            sh("ip", "netns", "del", self.tag + part, check=False)
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
