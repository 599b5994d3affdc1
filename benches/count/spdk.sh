#!/usr/bin/env bash
# Counts SPDK's path of an I/O: spdk.sh DIR, where DIR has SPDK's sources at v19.07.
set -euo pipefail
spdk=$(realpath "${1:?spdk.sh DIR: a directory with the sources of SPDK 19.07}")
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/include/spdk"
touch "$work/include/spdk/config.h"
flags=(-O2 -g -w -I"$work/include" -I"$spdk/include" -I"$spdk/lib/nvme" -I"$spdk" -I"$spdk/lib")
for source in "$here"/spdk.c "$here"/spdk-env.c "$spdk"/lib/nvme/nvme{,_ctrlr,_ctrlr_cmd,_ns,_ns_cmd,_qpair,_transport,_quirks}.c; do
    cc "${flags[@]}" -c "$source" -o "$work/$(basename "$source" .c).o"
done
# What the way of an I/O never calls.
nm -u "$work"/*.o | awk '$2 ~ /^(spdk_|nvme_)/ {print $2}' | sort -u >"$work/wanted"
nm --defined-only "$work"/*.o | awk 'NF == 3 {print $3}' | sort -u >"$work/there"
comm -23 "$work/wanted" "$work/there" | sed 's/.*/long &(void) { return 0; }/' >"$work/rest.c"
cc -w -c "$work/rest.c" -o "$work/rest.o"
cc "$work"/*.o -o "$work/count" -lpthread
for what in look read read-64k; do
    "$work/count" $what 5000000
    valgrind --tool=callgrind --cache-sim=yes --instr-atstart=no --callgrind-out-file="$work/$what" \
        "$work/count" $what 10000 >/dev/null 2>&1
    # The program's own functions are not SPDK's.
    callgrind_annotate --show=Ir,Dr,Dw --threshold=100 "$work/$what" | tr -d , | sed 's/([^)]*)//g' | awk '
        /file:function/ {rows = 1; next}
        rows && /^ *[0-9]/ && !/:(main|drive|look|submit) / {i += $1; r += $2; w += $3}
        /^-- Auto/ {rows = 0}
        END {printf "  %d instructions, %d loads, %d stores\n", i / 1e4, r / 1e4, w / 1e4}'
done
