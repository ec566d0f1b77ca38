#!/usr/bin/env bash
# Sequential transfers of an array over plain files beside a plain file on the same file system: RAID-DP of 14 + 2 members, as a LUN, which
# writes whole rows, and in place. There, rows that were never written are measured as well as those that are overwritten.
#
#   bench/array.sh [DIRECTORY]      default: target/bench-array; SIZE=1GiB ROUNDS=5
#   LIMIT=400 bench/array.sh        as root: the disk gives this process at most 400 MB/s, as a drive would, for disks that are memory
#
# Goals: writes at least 0.9 of n/(n+m) of the file's rate, reads at least 0.95 of it. All members are on one disk, so that it writes (n+m)/n
# bytes for each byte. Each round of writes ends with a sync, which counts on both sides. The write log is in memory, in the place of the
# battery-backed memory of a controller.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/check-tools.sh bench/array.sh python cargo
if [[ -z ${JETCELL:-} ]]; then
    cargo build --release --quiet -p jetcell --features full
    JETCELL=${CARGO_TARGET_DIR:-target}/release/jetcell
fi
JETCELL=$(realpath "$JETCELL")
# New rows need a new array for each round, which jetcell raid bench does not make.
cargo build --release --quiet -p jetcell-luns --example in_place_transfer
transfer=$(realpath "${CARGO_TARGET_DIR:-target}/release/examples/in_place_transfer")
directory=$(realpath -m "${1:-target/bench-array}")
mkdir -p "$directory"
work=$(mktemp -d "$directory/work.XXXXXX")
log=$(mktemp -u /dev/shm/jetcell-array.XXXXXX)
group=/sys/fs/cgroup/blkio/jetcell-array-$$
cleanup() {
    [[ ! -d $group ]] || { echo $$ > /sys/fs/cgroup/blkio/cgroup.procs; rmdir "$group"; }
    rm -rf "$work" "$log"
}
trap cleanup EXIT
if [[ -n ${LIMIT:-} ]]; then
    [[ -d /sys/fs/cgroup/blkio ]] || { echo 'bench/array.sh: LIMIT needs the blkio controller of version 1' >&2; exit 2; }
    mkdir "$group"
    disk=$(lsblk -ndo MAJ:MIN "$(findmnt -no SOURCE -T "$work")" | tr -d ' ')
    for way in read write; do echo "$disk ${LIMIT}000000" > "$group/blkio.throttle.${way}_bps_device"; done
    echo $$ > "$group/cgroup.procs"
fi
mkdir "$work/plain" "$work/members"
cd "$work"
mkdir new
"$transfer" new $(($(numfmt --from=auto "$(sed s/B$// <<< "${SIZE:-1GiB}")") >> 20)) "${ROUNDS:-5}"
rm -r new
"$JETCELL" raid create dp --level raid-dp --members $(seq -f 'members/a%g' 16) --size 200MiB > /dev/null
"$JETCELL" raid lun create dp lun --size 1600MiB --log "$log" --log-size 32MiB > /dev/null
"$JETCELL" raid create in-place --level raid-dp --members $(seq -f 'members/b%g' 16) --size 200MiB > /dev/null
for target in dp/lun in-place; do
    "$JETCELL" raid bench "$target" --beside plain --steps transfer_write,transfer_read --end-sync --zones 1 --duration 60 --size "${SIZE:-1GiB}" \
        --repeat "${ROUNDS:-5}" --json 2> /dev/null | python3 -c '
import json, statistics, sys
for step in json.load(sys.stdin)["steps"]:
    rates = [[one["bytes"] / one["seconds"] / 1e6 for one in figures["repetitions"]] for figures in step["figures"]]
    ratios = [array / plain for array, plain in zip(*rates)]
    name = step["name"]
    whole, goal = (14 / 16, 0.9) if name == "transfer_write" else (1, 0.95)
    ratio = statistics.median(ratios) / whole
    array, plain = map(statistics.median, rates)
    print(f"{sys.argv[1]:9} {name:15} {array:6.0f} MB/s, plain file {plain:6.0f} MB/s, {ratio:.2f} of what the members allow, goal {goal}")
' "$target"
done
