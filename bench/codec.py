#!/usr/bin/env python3
"""Tables and a chart from a record of `wellspring-lab fec bench --json`.

    bench/codec.py table RECORD.jsonl             ratios to crate raptorq, as Markdown
    bench/codec.py chart RECORD.jsonl > CHART.svg decoding time at K = 100, T = 1500
"""

import json
import sys


def read(path):
    with open(path) as lines:
        return [json.loads(line) for line in lines]


def name(row):
    if row["operation"] == "first_repair":
        return "first repair, " + ("warm" if row["warm"] else "cold")
    if row["operation"] == "encode":
        return f"encode {row['repair']} repair"
    return f"decode {row['lost']} lost"


def figure(row):
    return f"{row['micros_per_block']:.1f} ({row['min']:.1f})"


def table(rows):
    found = {}
    for row in rows:
        key = (row["symbol_size"], row["k"], name(row))
        found.setdefault(key, {})[row["codec"]] = row
    print("| T | K | operation | ours | raptorq | times faster: medians (minima) | reed-solomon-simd |")
    print("|---|---|---|---|---|---|---|")
    for (t, k, operation), codecs in found.items():
        ours, other = codecs["wellspring"], codecs.get("raptorq")
        peer = codecs.get("reed-solomon-simd")
        ratio = "-"
        if other:
            median = other["micros_per_block"] / ours["micros_per_block"]
            ratio = f"{median:.1f} ({other['min'] / ours['min']:.1f})"
        cells = [t, k, operation, figure(ours), figure(other) if other else "-", ratio]
        print("|", " | ".join(map(str, cells + [figure(peer) if peer else "-"])), "|")


def chart(rows):
    import math

    rows = [r for r in rows if (r["k"], r["symbol_size"], r["operation"]) == (100, 1500, "decode")]
    lost = sorted({r["lost"] for r in rows if r["lost"] > 0})
    width, height, left, bottom, top = 640, 360, 60, 310, 56
    x = {e: left + 40 + i * (width - left - 80) / (len(lost) - 1) for i, e in enumerate(lost)}

    def y(micros):
        return bottom - math.log10(micros) / 3.8 * (bottom - top)

    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
          'font-family="sans-serif" font-size="12" role="img" '
          'aria-label="Decoding time against symbols lost">')
    print(f'<rect width="{width}" height="{height}" fill="#fff"/>')
    print(f'<text x="{left}" y="22">Microseconds to decode a block, K = 100, T = 1500</text>')
    for power in range(4):
        at = y(10**power)
        print(f'<line x1="{left}" x2="{width - 10}" y1="{at:.0f}" y2="{at:.0f}" stroke="#ddd"/>')
        print(f'<text x="{left - 8}" y="{at + 4:.0f}" text-anchor="end">{10**power}</text>')
    for e in lost:
        print(f'<text x="{x[e]:.0f}" y="{bottom + 18}" text-anchor="middle">{e}</text>')
    print(f'<text x="{(left + width) // 2}" y="{bottom + 38}" text-anchor="middle">'
          'source symbols lost</text>')
    colours = {"wellspring": "#0a7", "raptorq": "#c40", "reed-solomon-simd": "#46c",
               "ISA-L": "#a3a"}
    for place, (codec, colour) in enumerate(colours.items()):
        points = [(x[r["lost"]], y(r["micros_per_block"]))
                  for e in lost for r in rows if r["codec"] == codec and r["lost"] == e]
        if not points:
            continue
        line = " ".join(f"{px:.0f},{py:.0f}" for px, py in points)
        print(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for px, py in points:
            print(f'<circle cx="{px:.0f}" cy="{py:.0f}" r="3" fill="{colour}"/>')
        print(f'<text x="{left + 150 * place}" y="44" fill="{colour}">{codec}</text>')
    print("</svg>")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("table", "chart"):
        sys.exit(__doc__)
    {"table": table, "chart": chart}[sys.argv[1]](read(sys.argv[2]))
