"""The page of the book and its plots, made from a record."""

import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

from . import long_link
from .rows import Row
from .system import BUILDS, LAB, ROOT

# What each scenario is, and how to read its rows.
ABOUT = {
    "alone": ("A long link", "One object over an emulated link of 100 Mbit/s (queue: one bandwidth-delay product, and at least 64 kB, which are two "
              "and a half of them at 2 ms), alone. `cubic` and `bbr` are the kernel's TCP, which fetches the file by curl from nginx, `quic` is quinn with 64 MB windows. "
              "quinn ends a connection when what has come of a stream has more than 1,024 gaps, as it does once slow start overfills the "
              "queue of a long link. What did not end in time is rated by what had arrived."),
    "beside": ("Beside TCP", "Ours starts three seconds after TCP flows that have the same link to themselves until then. The number is "
               "our part of what both get in the same seconds, without the first and the last half of one; a fair part is 1 / (flows + 1), and `ratio` is ours over that. `instead` is a TCP flow in our place."),
    "put": ("Puts over a long link", "A put to one host, and to a group of three hosts behind the link, whose symbols cross it once. "
            "TCP sends a copy to each: the number is what each host gets."),
    "paths": ("Parallel paths", "A fetch through two routers with four equal paths of 250 Mbit/s that choose by addresses and ports; "
              "TCP fetches as many parts at once by curl from nginx. The number is how many paths' worth of payload arrives. No router knows that the dead path is dead."),
    "homes": ("Two links", "A fetch from, and a put to, a server with two addresses, each over a link of 100 Mbit/s of its own. The number "
              "is how many links' worth of payload arrives. No host knows that a dead link is dead; one that dies does so at half time."),
    "group": ("A group", "A put by multicast to three hosts on a bridge with links of 1 Gbit/s; each host loses part of all frames. "
              "Seconds from the command's start to its end, when all three have the object whole. rsync runs three copies at one time."),
    "slow": ("A slow member", "The same while one of three has a link of 2 Mbit/s: seconds until two of them have it, "
             "also by the peers, which have ten seconds. rsync sends three copies at one time; the multicast peers see to all three."),
    "fetch": ("A fetch from three", "One object from three servers over links of 1 Gbit/s, whole process. One server is slow, killed, "
              "frozen (SIGSTOP) or killed and started again after 0.3 s. aria2c fetches parts from three nginx and has ten "
              "seconds of patience with one, as ours."),
    "speed": ("Loopback", "An object of 1 GB between processes on one machine, files on a tmpfs. CPU seconds are those of all "
              "processes. Ours verifies a digest, quic encrypts, nginx and curl do neither; iperf3 has no files and bounds what is possible."),
    "many": ("Many clients", "Fifty clients at once, each a process that fetches 50 MB."),
    "small": ("Many small objects", "A thousand objects of 4 KB in one call."),
    "first": ("First byte", "From the start of the program to the first byte in a pipe. `true` is what it takes to start a program at all."),
    "incast": ("Incast", "256 KB from each of many senders at one time, through a port of 1 Gbit/s that holds 20 packets (`wellspring switch`), "
               "in multiples of the time the payload takes on the wire. The program's start has its part in it. `p99` is the slowest of fifteen rounds."),
    "pulls": ("Pulls faster than the port", "60 MB from three senders through a port of 200 Mbit/s that holds 8 packets, pulled at its rate "
              "and at twice its rate: what is sent beyond the object."),
}
INTRODUCTION = """<!-- Made by `lab/net --from RECORD --page FILE`; not to be edited. -->

# How fast are transfers?

Each row is one case: ours, the best peer in the same run, and `ratio`, how many times better ours is than that peer. Above 1 ours is
faster. All programs of a case share this machine's cores and take turns, so ratios mean more than numbers. Files that arrive whole are
compared with what was sent, over loopback by their length; iperf3 moves none. `lab/net --help` names the packages of the peers, and runs
it on another machine.

Numbers are medians, with (rounds: least-most) where each round is on record. A goal is met if each round meets it, and `within the
spread` if the median does and a round does not; what one round met, or the median where rounds are not on record, is no more than that.
`run` is the number of a run in this list; runs of different machines are not to be compared.

"""


# Of the way that rows are measured: a row of an earlier number was measured otherwise.
METHOD = 2
QUIC_THEN = "`quic` had the kernel's default socket buffers of 208 kB and datagrams of 1,452 bytes, ours 4 MiB and 8,192 bytes"
# How rows of method 1 differ from what is said above.
EARLIER = {
    "alone": "each number is of one round. `quic` had the kernel's default socket buffers of 208 kB, ours 4 MiB. What curl and quic fetched "
             "was not compared.",
    "beside": "each number is of one round. Ours was taken over the whole transfer with its opening, theirs over the seconds between, so "
              "that ours, once under way, takes more than the number says.",
    "put": "each number is of one round, and what curl fetched was not compared.",
    "paths": "each number is of one round. TCP was iperf3, which sends nothing until all of its connections are there. So it has no number "
             "beside a dead path.",
    "group": "uftp began with round trips of half a second, its default for any network.",
    "slow": "the peers had to reach all three hosts within ten seconds, which none did. That is another goal than ours, and they are left out.",
    "speed": f"{QUIC_THEN}.", "many": f"{QUIC_THEN}.", "small": f"{QUIC_THEN}.", "first": "what arrived was not compared.",
    "pulls": "each number is of one round, and what arrived was not compared.",
}


def busy_processors(seconds=2.0):
    """Processors that others keep busy at the moment. Load averages still count what ran a minute ago, such as another scenario."""
    def idle():
        with open("/proc/stat") as stat:
            fields = [int(field) for field in stat.readline().split()[1:]]
        return fields[3] + fields[4]
    before = idle()
    time.sleep(seconds)
    idle_seconds = (idle() - before) / os.sysconf("SC_CLK_TCK")
    return round(max(0.0, os.cpu_count() - idle_seconds / seconds), 1)


def processor(cpuinfo):
    """The processor's name, with its family and model, where the kernel tells them: virtual ones of several generations have one name."""
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in cpuinfo.splitlines())}
    name = fields.get("model name", "unknown processor")
    if "cpu family" in fields:
        name += f" (family {fields['cpu family']}, model {fields.get('model', '?')})"
    return name


def header(arguments, quick):
    """When, where and by what command rows are measured."""
    cpu = processor(pathlib.Path("/proc/cpuinfo").read_text())
    commit = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"], capture_output=True, text=True).stdout
    return {"date": datetime.date.today().isoformat(), "machine": f"{cpu}, {os.cpu_count()} cores", "kernel": platform.release(),
            "busy": busy_processors(), "method": METHOD, "commit": commit.strip() or "unknown", "builds": len(BUILDS), "quick": quick,
            "command": " ".join(["lab/net", *(each for each in arguments if not each.endswith(".jsonl") and each != "--record")])}


def read_all(path):
    """Headers of a record, and its rows, each with its header's number; a later row of a case on the same kind of machine replaces the
    one before."""
    headers, rows = [], {}
    for line in pathlib.Path(path).read_text().splitlines():
        each = json.loads(line)
        if "command" in each:
            headers.append(each)
        else:
            row = Row.from_json(each)
            if headers[-1].get("method", 1) < METHOD:
                leave_out(row)
            rows[row.scenario, row.case, headers[-1]["machine"]] = (row, len(headers) - 1)
    return headers, list(rows.values())


def leave_out(row):
    """Takes numbers of peers out of an early row that are of something else than ours."""
    for who in row.peers():
        if row.scenario == "slow" or (row.scenario == "paths" and row.value(who) == 0):
            del row.results[who]


def missing(name, rows):
    """A line on what is measured by default and not on record."""
    there = {row.case for row in rows}
    cases = [case for case in long_link.expected().get(name, []) if case not in there]
    met = {who for row in rows for who in row.results}
    peers = [f"`{who}`" for who in ("cubic", "bbr") if name in ("alone", "put") and who not in met]
    said = [f"with {' and '.join(peers)} as a peer"] if peers else []
    return f"Not measured yet: {'; '.join(cases + said)}.\n\n" if cases or said else ""


def read(path):
    return [row for row, _ in read_all(path)[1]]


def by_scenario(rows):
    found = {}
    for row in rows:
        found.setdefault(row.scenario, []).append(row)
    return {name: found[name] for name in ABOUT if name in found}


def table(rows):
    """A table of a scenario, of rows and the numbers of their runs; a column for each contestant would leave most cells empty."""
    lines = ["| case | run | ours | ratio | best peer | others | goal |", "|---|---|---|---|---|---|---|"]
    for row, run in rows:
        case, *cells = row.cells()[1:]
        lines.append("| " + " | ".join([case, str(run), *cells]) + " |")
    return "\n".join(lines) + "\n"


def text(path, plots=None):
    """The page; without a record, what the scenarios are."""
    headers, numbered = read_all(path) if path else ([], [])
    lines = [INTRODUCTION if path else INTRODUCTION + "No record of a quiet machine is in this book yet.\n"]
    used = sorted({number for _, number in numbered})
    for run, number in enumerate(used, 1):
        head = headers[number]
        # Records made before others' processors were counted have a load average.
        busy = f"; load average {head['load']} before, of what ran until then" if "load" in head else ""
        if head.get("busy", 0) > 0.5:
            busy = f"; others kept {head['busy']} processors busy, so that only orders of magnitude count"
        if head["quick"]:
            busy = "; small sizes and one round: what the scenarios show, without a verdict" + busy
        lines.append(f"{run}. {head['date']}, commit {head['commit']}: {head['machine']}, Linux {head['kernel']}{busy}. `{head['command']}`\n")
    found = by_scenario(row for row, _ in numbered)
    for name in found if path else ABOUT:
        title, about = ABOUT[name]
        of_this = [(row, number) for row, number in numbered if row.scenario == name]
        results = table([(row, used.index(number) + 1) for row, number in of_this]) + "\n" + missing(name, found[name]) if path else ""
        early = [used.index(number) + 1 for number in dict.fromkeys(number for _, number in of_this) if headers[number].get("method", 1) < METHOD]
        if early and name in EARLIER:
            results += f"{'Run' if len(early) == 1 else 'Runs'} {', '.join(map(str, early))}: {EARLIER[name]}\n\n"
        lines.append(f"\n## {title}\n\n{about}\n\n{results}`sudo lab/net {name}`\n")
        if plots:
            lines += [f"\n![{plot['title']}](plots/{file})\n" for file, plot in plots.items() if file.startswith(name)]
    return "".join(lines)


def write(source, path):
    pathlib.Path(path).write_text(text(source))


def plots(rows):
    """Plots in the form that `wellspring-lab reproduce` draws: bars of each contestant over the cases, by unit."""
    found = {}
    for name, of_scenario in by_scenario(rows).items():
        for unit in dict.fromkeys(row.unit for row in of_scenario):
            cases = [row for row in of_scenario if row.unit == unit]
            names = list(dict.fromkeys(who for row in cases for who in row.results))
            curve = lambda who: {"name": who, "shape": "bars", "source": "ours" if who.startswith("wellspring") else "reference",
                                 "points": [[index, row.value(who), 0] for index, row in enumerate(cases)
                                            if row.results.get(who, {"value": None})["value"] is not None]}
            kind = "".join(each if each.isalnum() else "-" for each in unit).strip("-")
            found[f"{name}-{kind}.svg"] = {"title": ABOUT[name][0], "x": {"label": ""}, "y": {"label": f"[{unit}]"},
                                           "categories": [row.case for row in cases], "curves": [curve(who) for who in names]}
    return found


def report(source, folder):
    folder = pathlib.Path(folder)
    drawn = plots(read(source))
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([LAB, "lab", "plots", str(folder / "plots")], input=json.dumps(drawn), text=True)
    if done.returncode:
        sys.exit("the plots were not drawn")
    (folder / "performance.md").write_text(text(source, drawn))
