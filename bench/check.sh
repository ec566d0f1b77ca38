#!/usr/bin/env bash
# How fast `jetcell check` is beside a raw sequential read of the same file, in one run and with a cold cache.
#
#   bench/check.sh [SIZE] [DIRECTORY]     writes a database of SIZE (default 4GiB) with our engine, then reads it
#   DATABASE=FILE bench/check.sh          takes a database that is there
#
# Goals: level 1 at 0.95 of the raw read, the structure check at 0.5. Three rounds; the best of each counts, because
# whatever else the machine does only makes a round slower.
set -euo pipefail
cd "$(dirname "$0")/.."
size=${1:-4GiB}
directory=${2:-target/bench-check}
rounds=${ROUNDS:-3}

cargo build --release --quiet -p cli
jetcell=$PWD/target/release/jetcell
if [[ -z ${DATABASE:-} ]]; then
    mkdir -p "$directory"
    "$jetcell" test performance --dir "$directory" --size "$size" --growth-percent 1 --duration 10s --force \
        > "$directory/made.txt" || true
    DATABASE=$(find "$directory" -name '*.edb' -size +64M | head -n 1)
fi
bytes=$(stat -c %s "$DATABASE")

# Nothing of the file stays in the kernel's cache; all three read around it where the file system can.
forget() { dd if="$DATABASE" iflag=nocache count=0 status=none; }
raw() { dd if="$DATABASE" of=/dev/null bs=1M iflag=direct status=none; }
level1() { "$jetcell" check "$DATABASE" > /dev/null; }
structure() { "$jetcell" check --structure "$DATABASE" > /dev/null; }

# Best time of each in milliseconds; most memory of a check in KiB.
declare -A best
for _ in $(seq "$rounds"); do
    for what in raw level1 structure; do
        forget
        start=$(date +%s%N)
        "$what"
        took=$((($(date +%s%N) - start) / 1000000 + 1))
        if [[ -z ${best[$what]:-} || $took -lt ${best[$what]} ]]; then best[$what]=$took; fi
    done
done
echo "database    $DATABASE, $((bytes >> 20)) MiB"
for what in raw level1 structure; do
    awk -v what="$what" -v bytes="$bytes" -v raw="${best[raw]}" -v took="${best[$what]}" 'BEGIN {
        printf "%-10s  %8.0f MiB/s  %6.2f of a raw read\n", what, bytes / 1048576 / took * 1000, raw / took }'
done
for arguments in "" --structure; do
    # shellcheck disable=SC2086
    "$jetcell" check $arguments "$DATABASE" > /dev/null &
    most=0
    while now=$(awk '/^VmHWM/ { print $2 }' "/proc/$!/status" 2> /dev/null) && [[ -n $now ]]; do
        most=$now
        sleep 0.05
    done
    wait $! || true
    echo "memory      $((most >> 10)) MiB with \`check $arguments\`"
done
