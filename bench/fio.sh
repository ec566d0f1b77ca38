#!/usr/bin/env bash
# Compares `jetcell disk test` with fio on the same work: same device, same sizes, same number in flight, direct I/O.
#
#   bench/fio.sh [DIRECTORY]      as root: on a loop device over an image in DIRECTORY [default: target/bench-fio]
#   DEVICE=/dev/sdX bench/fio.sh  on this device: EVERYTHING ON IT IS LOST
#   LIMIT=2000 bench/fio.sh       the device does at most so many transfers per second of each kind, and 64 KiB for each of them: a drive
#                                 whose rate is known and does not change, where a disk shared with others does
#
# Both run in turns, A B and then B A, TURNS times (5), each for SECONDS (5). The median of each counts, and of each pair the ratio:
# its median is between 0.95 and 1.05 if both agree within 5 % (exit code 0; 1 if not; 2 could not run). Processes that use the same
# disk or processor make it noise: look at the range of the ratios. JETCELL=FILE uses that program instead of a release build.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/check-tools.sh bench/fio.sh fio python
turns=${TURNS:-5} seconds=${SECONDS_OF_RUN:-5} size=${SIZE:-1GiB}
[[ $(id -u) = 0 ]] || { echo "bench/fio.sh: making a loop device, and writing to a device, needs root" >&2; exit 2; }
work=$(mktemp -d)
device=${DEVICE:-}
group=/sys/fs/cgroup/blkio/jetcell-fio-$$
cleanup() {
    [[ ! -d $group ]] || { echo $$ > /sys/fs/cgroup/blkio/cgroup.procs; rmdir "$group"; }
    [[ -n ${DEVICE:-} || -z $device ]] || losetup -d "$device"
    [[ -z ${image:-} ]] || rm -f "$image"
    rm -rf "$work"
}
trap cleanup EXIT
if [[ -z ${JETCELL:-} ]]; then
    cargo build --release --quiet -p jetcell --features full
    JETCELL=target/release/jetcell
fi
if [[ -z $device ]]; then
    directory=${1:-target/bench-fio}
    mkdir -p "$directory"
    image=$(mktemp "$directory/image.XXXXXX")
    # Written, not only allocated: reads of what was never written would not reach the disk.
    dd if=/dev/urandom of="$image" bs=1M count=$(($(numfmt --from=iec-i "${size%B}") >> 20)) oflag=direct status=none
    device=$(losetup --direct-io=on --show -f "$image")
fi
if [[ -n ${LIMIT:-} ]]; then
    [[ -d /sys/fs/cgroup/blkio ]] || { echo 'bench/fio.sh: LIMIT needs the blkio controller of version 1' >&2; exit 2; }
    mkdir "$group"
    number=$(lsblk -ndo MAJ:MIN "$device" | tr -d ' ')
    for way in read write; do
        echo "$number $LIMIT" > "$group/blkio.throttle.${way}_iops_device"
        echo "$number $((LIMIT * 65536))" > "$group/blkio.throttle.${way}_bps_device"
    done
    echo $$ > "$group/cgroup.procs"
fi

# The step of jetcell, and the job of fio that does the same.
steps=(
    "transfer_read    --rw=read --bs=1M --iodepth=4"
    "transfer_write   --rw=write --bs=1M --iodepth=4"
    "access_time      --rw=randread --bs=4k --iodepth=1 --time_based --norandommap"
    "sequential_read_4k  --rw=read --bs=4k --iodepth=1 --time_based"
    "sequential_write_4k --rw=write --bs=4k --iodepth=1 --time_based"
    "random_read_4k   --rw=randread --bs=4k --iodepth=1 --time_based --norandommap"
    "random_write_4k  --rw=randwrite --bs=4k --iodepth=1 --time_based --norandommap"
    "size_read_64k    --rw=randread --bs=64k --iodepth=1 --time_based --norandommap"
    "size_write_1024k --rw=randwrite --bs=1m --iodepth=1 --time_based --norandommap"
    "depth_read_32    --rw=randread --bs=4k --iodepth=32 --time_based --norandommap"
    "depth_write_32   --rw=randwrite --bs=4k --iodepth=32 --time_based --norandommap"
    "depth_read_64    --rw=randread --bs=4k --iodepth=64 --time_based --norandommap"
    "sync             --rw=randwrite --bs=4k --iodepth=1 --fsync=1 --time_based --norandommap"
    "mixed_8k         --rw=randrw --rwmixread=65 --bs=8k --iodepth=8 --time_based --norandommap"
    "mixed_32k        --rw=randrw --rwmixread=65 --bs=32k --iodepth=8 --time_based --norandommap"
)
ours() {
    "$JETCELL" disk test --erase --force "$device" --steps "$1" --zones 1 --duration "$seconds" --repeat 1 --json |
        python3 -c 'import json, sys
one = json.load(sys.stdin)["steps"][0]["figures"][0]["repetitions"][0]
print(one["operations"] / one["seconds"])'
}
theirs() {
    fio --name=job --filename="$device" --direct=1 --ioengine=io_uring --runtime="$seconds" --output-format=json \
        --randrepeat=1 --refill_buffers=0 --group_reporting "$@" |
        python3 -c 'import json, sys
text = sys.stdin.read()
job = json.loads(text[text.index("{"):])["jobs"][0]
print(sum(job[kind]["total_ios"] for kind in ("read", "write")) / max(job[kind]["runtime"] for kind in ("read", "write")) * 1000)'
}
for step in "${steps[@]}"; do
    read -r name job <<< "$step"
    read -ra job <<< "$job"
    for turn in $(seq "$turns"); do
        if ((turn % 2)); then order="ours theirs"; else order="theirs ours"; fi
        for tool in $order; do
            if [[ $tool = ours ]]; then figure=$(ours "$name"); else figure=$(theirs "${job[@]}"); fi
            echo "$name $turn $tool $figure" >> "$work/figures"
        done
    done
done
echo "$("$JETCELL" --version | head -1), $(fio --version), $device, $turns turns of $seconds s, transfers per second"
python3 - "$work/figures" << 'END'
import collections, statistics, sys
figures = collections.defaultdict(lambda: collections.defaultdict(dict))
for line in open(sys.argv[1]):
    name, turn, tool, figure = line.split()
    figures[name][tool][turn] = float(figure)
wrong = 0
print(f"{'step':20} {'jetcell':>10} {'fio':>10} {'ratio':>7}  range of the ratios")
for name, tools in figures.items():
    ratios = [tools["ours"][turn] / tools["theirs"][turn] for turn in tools["ours"]]
    middle = statistics.median(ratios)
    wrong += not 0.95 <= middle <= 1.05
    mine, other = (statistics.median(tools[tool].values()) for tool in ("ours", "theirs"))
    print(f"{name:20} {mine:10.0f} {other:10.0f} {middle:7.3f}  {min(ratios):.3f} to {max(ratios):.3f}")
print("all within 5 %" if not wrong else f"{wrong} not within 5 %")
sys.exit(1 if wrong else 0)
END
