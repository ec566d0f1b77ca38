#!/usr/bin/env bash
# The paper's claims about RAID under a mailbox load: `jetcell test performance` at one rate on RAID 10, RAID 5, RAID 6, RAID-DP in place and
# RAID-DP as a LUN of eight drives each, in the states normal, one failed, two failed (where the level bears it) and rebuilding, where a spare
# steps in during the measured time. As root.
#
#   bench/raid-states.sh [DIRECTORY]      prints the table. table.md, table.json and all results stay in a new
#                                         DIRECTORY [default: target/bench-raid-states, which is replaced]
#   MEMBER_IOPS=600 RATE=150 SECONDS_OF_RUN=20 SIZE=64MiB bench/raid-states.sh
#
# Each member is a drive of its own: a loop device over a file in memory (/dev/shm), which does at most MEMBER_IOPS reads and as many writes per
# second for this process, and 64 KiB for each of them. So the speed of the machine's disk is no part of the figures; two processors that are
# busy otherwise are. RATE is operations of the load per second, the same in all states (open loop). JETCELL=FILE uses that program instead of a
# release build; LAYOUTS="raid5 lun" runs some only. Exit code: 0 measured, 2 could not run.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/check-tools.sh bench/raid-states.sh python cargo
[[ $(id -u) = 0 ]] || { echo 'bench/raid-states.sh: making loop devices, and limiting them, needs root' >&2; exit 2; }
[[ -d /sys/fs/cgroup/blkio ]] || { echo 'bench/raid-states.sh: limits need the blkio controller of version 1' >&2; exit 2; }
tables=$(realpath bench/raid_states.py)
if [[ -z ${JETCELL:-} ]]; then
    cargo build --release --quiet -p jetcell --features full
    JETCELL=${CARGO_TARGET_DIR:-target}/release/jetcell
fi
JETCELL=$(realpath "$JETCELL")
iops=${MEMBER_IOPS:-600} rate=${RATE:-150} seconds=${SECONDS_OF_RUN:-20} size=${SIZE:-64MiB} member=${MEMBER_SIZE:-64}
directory=$(realpath -m "${1:-target/bench-raid-states}")
[[ -n ${1:-} ]] || rm -rf "$directory"
[[ ! -e $directory ]] || { echo "bench/raid-states.sh: $directory exists; give another directory, or remove it" >&2; exit 2; }
mkdir -p "$directory"
images=$(mktemp -d /dev/shm/jetcell-raid-states.XXXXXX)
group=/sys/fs/cgroup/blkio/jetcell-raid-states-$$
drives=()
free_drives() {
    for drive in "${drives[@]}"; do
        losetup -d "$drive"
    done
    drives=()
    rm -f "$images"/*
}
cleanup() {
    [[ ! -d $group ]] || { echo $$ > /sys/fs/cgroup/blkio/cgroup.procs; rmdir "$group"; }
    free_drives
    rm -rf "$images"
}
trap cleanup EXIT
trap 'exit 2' INT TERM
mkdir "$group"
# Limits the processes of the group on all drives; 0: none.
limit() {
    for drive in "${drives[@]}"; do
        number=$(lsblk -ndo MAJ:MIN "$drive" | tr -d ' ')
        for way in read write; do
            echo "$number $1" > "$group/blkio.throttle.${way}_iops_device"
            echo "$number $(($1 * 65536))" > "$group/blkio.throttle.${way}_bps_device"
        done
    done
}
make_drives() {
    for number in $(seq "$1"); do
        truncate -s "${member}M" "$images/$number"
        drives+=("$(losetup --show -f "$images/$number")")
    done
}
cd "$directory"
# Limits the drives while the load of a run goes on, and not while databases are verified before and after it.
limit_load() {
    until grep -qs '"phase":"warm"' "$1"; do sleep 0.05; done
    limit "$iops"
    until grep -q '"phase":"shutdown"' "$1"; do sleep 0.05; done
    limit 0
}
load=(--size "$size" --page-size 8KiB --cache 16MiB --scan=false --quiet)
# run LAYOUT STATE: one measurement, whose exit code is that of its verdict, which does not matter here.
run() {
    local code=0
    limit_load "$1/$2/events.jsonl" &
    local limiting=$!
    "$JETCELL" test performance --dir "$target" "${load[@]}" --open --rate "$rate" --threads 16 --duration "${seconds}s" --output "$1/$2" \
        > "$1/$2.log" 2>&1 || code=$?
    if [[ $code = 2 ]]; then
        kill "$limiting"
        cat "$1/$2.log" >&2
        exit 2
    fi
    wait "$limiting"
    # What the run did is in the last events.
    cp "$array/events.jsonl" "$1/$2.events"
    echo "  $2: $(tail -1 "$1/$2.log")" >&2
}
echo $$ > "$group/cgroup.procs"
for layout in ${LAYOUTS:-raid10 raid5 raid6 raid-dp lun}; do
    echo "$layout" >&2
    mkdir "$layout"
    array=$layout/array level=$layout target=array:$array failing="1 4" borne=2
    case $layout in
        raid5) borne=1 ;;
        lun) level=raid-dp target=array:$array/mail ;;
    esac
    make_drives 10
    "$JETCELL" raid create "$array" --level "$level" --members "${drives[@]:0:8}" > /dev/null
    if [[ $layout = lun ]]; then
        "$JETCELL" raid lun create "$array" mail --size "$((member * 5))MiB" --log "$images/write-log" --log-size 32MiB > /dev/null
    fi
    "$JETCELL" test performance --dir "$target" "${load[@]}" --duration 1s --output "$layout/create" > "$layout/create.log" 2>&1 || [[ $? = 1 ]]
    run "$layout" normal
    failed=0
    for slot in $failing; do
        ((failed < borne)) || break
        "$JETCELL" raid fail "$array" "$slot" > /dev/null
        failed=$((failed + 1))
        run "$layout" "failed-$failed"
    done
    # One slot is empty when the spare steps in.
    ((failed < 2)) || "$JETCELL" raid replace "$array" 4 "${drives[8]}" > "$layout/replace.log" 2>&1
    (
        until grep -qs '"phase":"measure"' "$layout/rebuilding/events.jsonl"; do sleep 0.05; done
        "$JETCELL" raid spare "$array" "${drives[9]}" > "$layout/spare.log" 2>&1
    ) &
    injector=$!
    run "$layout" rebuilding
    wait "$injector"
    "$JETCELL" raid rebuild "$array" > "$layout/rebuild.log" 2>&1
    "$JETCELL" raid scrub "$array" > "$layout/scrub.log" 2>&1
    free_drives
done
python3 "$tables" "$directory" "$iops" "$rate" "$seconds"
