"""Adds up what counter.c counted: sum.py COUNTS DISK [FUNCTIONS], an I/O's sums and the functions with most instructions."""

import bisect
import collections
import sys

IOS = 512
PARTS = {2: "pread", 4: "pwrite", 6: "libaio, depth 1", 8: "libaio, depth 16", 10: "io_uring, depth 1", 12: "io_uring, depth 16"}
PARTS[14] = "getppid"

with open(sys.argv[2], "rb") as disk:
    text = disk.read().split(b"\nEND\n")[0].decode()
symbols = sorted((int(a, 16), name) for a, kind, name, *_ in map(str.split, text.splitlines()) if kind in "tTwW")
addresses = [a for a, _ in symbols]
shown = int(sys.argv[3]) if len(sys.argv) > 3 else 0

sums: dict[int, dict[str, list[int]]] = {}
with open(sys.argv[1]) as counts:
    for line in counts:
        if line.startswith("=="):
            of = sums.setdefault(int(line.split()[1]), collections.defaultdict(lambda: [0, 0, 0]))
            continue
        at, *numbers = line.split()
        address = int(at, 16)
        name = symbols[bisect.bisect(addresses, address) - 1][1] if address >> 47 else "the program itself"
        for i, n in enumerate(numbers):
            of[name][i] += int(n)

for part, of in sums.items():
    total = [sum(row[i] for row in of.values()) / IOS for i in range(3)]
    print(f"{PARTS[part]:<40} {total[0]:8.0f} instructions {total[1]:7.0f} loads {total[2]:7.0f} stores")
    for name, row in sorted(of.items(), key=lambda x: -x[1][0])[:shown]:
        print(f"    {name:<36} {row[0] / IOS:8.1f} {row[1] / IOS:20.1f} {row[2] / IOS:13.1f}")
