"""Adds up what counter.c counted: sum.py COUNTS DISK [FUNCTIONS], an I/O's sums and the functions with most instructions."""

import bisect
import collections
import sys

IOS = 512
PARTS = {2: "pread", 4: "pwrite", 6: "libaio, depth 1", 8: "libaio, depth 16", 10: "io_uring, depth 1", 12: "io_uring, depth 16"}
PARTS[14] = "getppid"

with open(sys.argv[2], "rb") as disk:
    text = disk.read().split(b"\nEND\n")[0].decode()
# A symbol of a module has the module's name behind it; the modules lie behind the kernel's own code.
lines = (line.split() for line in text.splitlines())
symbols = sorted((int(a, 16), " ".join([name, *module])) for a, kind, name, *module in lines if kind in "tTwW")
addresses = [a for a, _ in symbols]
shown = int(sys.argv[3]) if len(sys.argv) > 3 else 0

# By function: instructions, loads, stores, loads and stores of devices' registers, calls.
sums: dict[int, dict[str, list[int]]] = {}
with open(sys.argv[1]) as counts:
    for line in counts:
        if line.startswith("=="):
            of = sums.setdefault(int(line.split()[1]), collections.defaultdict(lambda: [0] * 6))
            continue
        at, *numbers = line.split()
        address = int(at, 16)
        nearest = bisect.bisect(addresses, address) - 1
        name = symbols[nearest][1] if address >> 47 else "the program itself"
        instructions, loads, stores, runs, device_loads, device_stores = map(int, numbers)
        calls = runs if addresses[nearest] == address else 0
        for i, n in enumerate((instructions, loads, stores, device_loads, device_stores, calls)):
            of[name][i] += n

for part, of in sums.items():
    total = [sum(row[i] for row in of.values()) / IOS for i in range(5)]
    registers = f" registers: {total[3]:.2f} loads {total[4]:.2f} stores" if total[3] + total[4] else ""
    print(f"{PARTS[part]:<40} {total[0]:8.0f} instructions {total[1]:7.0f} loads {total[2]:7.0f} stores{registers}")
    for name, row in sorted(of.items(), key=lambda x: -x[1][0])[:shown]:
        print(f"    {name:<44} {row[0] / IOS:8.1f} {row[1] / IOS:12.1f} {row[2] / IOS:13.1f} {row[5] / IOS:8.2f} calls", end="")
        print(f" registers: {row[3] / IOS:.2f} {row[4] / IOS:.2f}" if row[3] + row[4] else "")
