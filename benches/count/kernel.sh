#!/usr/bin/env bash
# Counts a kernel's path of an I/O: kernel.sh IMAGE [FUNCTIONS]. In the environment:
#   MODULES    the directory lib/modules/VERSION, where the drivers are modules; else the image has them built in
#   DRIVE      nvme (the default) or ahci; the symbols go to an NVMe drive in both cases
#   SCHEDULER  none (the default) or another that the kernel has
#   ROTATION   of the SATA drive: 1 (the default) is an SSD, 0 says nothing, which Linux takes for a disk
#   POSSIBLE   cores that the kernel reckons with (1), of which one is there: with more, a queue that serves more than one
#              core (AHCI's only one) completes in a softirq, not in the interrupt
#   MMIO       if set, counts accesses of devices' registers, too
#   KEEP       a directory for the counts, the symbols' disk and the console's text
#   TRACE      options of QEMU more
set -euo pipefail
image=$(realpath "${1:?kernel.sh IMAGE [FUNCTIONS]: a kernel with CONFIG_BLK_DEV_NVME=y, or with MODULES}")
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -O2 -shared -fPIC -o "$work/counter.so" "$here/counter.c"
mkdir "$work/root"
cc -O2 -static -o "$work/root/init" "$here/init.c"

# The modules and what they depend on, in the order of loading: of modules.dep, or if depmod has not run, of each module's own word.
declare -A loaded=()
load() {
    local name=${1//-/_} file depends each
    [ -z "${loaded[$name]:-}" ] || return 0
    loaded[$name]=1
    file=$(find "$MODULES/kernel" -regextype posix-extended -regex ".*/${name//_/[-_]}\.ko(\.xz|\.gz|\.zst)?" -print -quit)
    [ -n "$file" ] || return 0 # built in
    case $file in
    *.xz) xz -dc "$file" >"$work/root/$name.ko" ;;
    *.gz) gzip -dc "$file" >"$work/root/$name.ko" ;;
    *.zst) zstd -qdc "$file" >"$work/root/$name.ko" ;;
    *) cp "$file" "$work/root/$name.ko" ;;
    esac
    if [ -s "$MODULES/modules.dep" ]; then
        depends=$(sed -n "s|^${file#"$MODULES"/}:||p" "$MODULES/modules.dep" | tr ' ' '\n' | sed 's|.*/||; s|\.ko.*||' | tac)
    else
        depends=$(tr '\0' '\n' <"$work/root/$name.ko" | sed -n 's/^depends=//p' | tr ',' '\n')
    fi
    for each in $depends; do load "$each"; done
    echo "/$name.ko" >>"$work/root/modules"
}
if [ -n "${MODULES:-}" ]; then
    for each in nvme sd_mod ahci; do load "$each"; done
fi

(cd "$work/root" && find . | cpio -o -H newc 2>/dev/null | gzip >../root.gz)
dd if=/dev/urandom of="$work/disk" bs=1M count=64 status=none
case ${DRIVE:-nvme} in
nvme) names="drive=nvme0n1 symbols=nvme1n1" device=(-device "nvme,drive=counted,serial=counted") ;;
ahci) names="drive=sda symbols=nvme0n1"
    device=(-device "ich9-ahci,id=ahci" -device "ide-hd,drive=counted,bus=ahci.0,rotation_rate=${ROTATION:-1}") ;;
*) echo "DRIVE is nvme or ahci" >&2; exit 1 ;;
esac
# The drive takes 0.2 ms, so that whoever waits for it sleeps.
# icount: an instruction is a nanosecond of the guest's clock, so that ticks come as often as on a fast machine.
COUNTS=$work/counts timeout 300 qemu-system-x86_64 -accel tcg -icount shift=0,sleep=on -cpu Haswell -m 512 -smp 1 \
    -display none -serial stdio -no-reboot -kernel "$image" -initrd "$work/root.gz" \
    -append "console=ttyS0 nokaslr quiet mitigations=off psi=0 panic=-1 $names possible_cpus=${POSSIBLE:-1} scheduler=${SCHEDULER:-none}" \
    -drive driver=null-co,size=64M,latency-ns=200000,if=none,id=counted "${device[@]}" \
    -drive "file=$work/disk,if=none,id=symbols,format=raw" -device nvme,drive=symbols,serial=symbols -plugin "$work/counter.so" \
    ${TRACE:-} >"$work/console" 2>&1 || true
if [ -n "${KEEP:-}" ]; then mkdir -p "$KEEP" && cp "$work/counts" "$work/disk" "$work/console" "$KEEP"; fi
grep -q "all done" "$work/console" || { cat "$work/console" >&2; exit 1; }
python3 "$here/sum.py" "$work/counts" "$work/disk" "${2:-0}"
