#!/usr/bin/env bash
# Counts a kernel's path of an I/O: kernel.sh IMAGE [FUNCTIONS]. The image has the NVMe driver built in.
set -euo pipefail
image=$(realpath "${1:?kernel.sh IMAGE [FUNCTIONS]: a kernel with CONFIG_BLK_DEV_NVME=y}")
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -O2 -shared -fPIC -o "$work/counter.so" "$here/counter.c"
mkdir "$work/root"
cc -O2 -static -o "$work/root/init" "$here/init.c"
(cd "$work/root" && find . | cpio -o -H newc 2>/dev/null | gzip >../root.gz)
dd if=/dev/urandom of="$work/disk" bs=1M count=64 status=none
# The drive takes 0.2 ms, so that whoever waits for it sleeps.
# icount: an instruction is a nanosecond of the guest's clock, so that ticks come as often as on a fast machine.
COUNTS=$work/counts timeout 300 qemu-system-x86_64 -accel tcg -icount shift=0,sleep=on -cpu Haswell -m 512 -smp 1 \
    -display none -serial stdio -no-reboot -kernel "$image" -initrd "$work/root.gz" \
    -append "console=ttyS0 nokaslr quiet mitigations=off psi=0 panic=-1" \
    -drive driver=null-co,size=64M,latency-ns=200000,if=none,id=counted -device nvme,drive=counted,serial=counted \
    -drive "file=$work/disk,if=none,id=symbols,format=raw" -device nvme,drive=symbols,serial=symbols -plugin "$work/counter.so" \
    >"$work/console" 2>&1
grep -q "all done" "$work/console" || { cat "$work/console" >&2; exit 1; }
python3 "$here/sum.py" "$work/counts" "$work/disk" "${2:-0}"
