#!/usr/bin/env bash
# Measures `jetcell check` beside a raw sequential read of the same file, in one run and with a cold cache.
#
#   bench/check.sh [SIZE] [DIRECTORY]     writes a database of SIZE (default 4GiB) with our engine, then reads it
#   DATABASE=FILE bench/check.sh          reads an existing database
#
# Goals: the checksum check (level 1) at 0.95 of the raw read, the structure check at 0.5. The three run in turn, ROUNDS
# times (5); the median of each counts. Processor time (user and system) is printed too, because other load on the machine
# changes it less than the elapsed time.
set -euo pipefail
cd "$(dirname "$0")/.."
size=${1:-4GiB}
directory=${2:-target/bench-check}
rounds=${ROUNDS:-5}

cargo build --release --quiet -p jetcell --features full
jetcell=$PWD/target/release/jetcell
if [[ -z ${DATABASE:-} ]]; then
    mkdir -p "$directory"
    "$jetcell" test performance --dir "$directory" --size "$size" --growth-percent 1 --duration 10s --force \
        > "$directory/made.txt" || true
    DATABASE=$(find "$directory" -name '*.edb' -size +64M | head -n 1)
fi
bytes=$(stat -c %s "$DATABASE")

# Drops the file from the kernel's page cache. All three read past that cache where the file system allows it.
drop_page_cache() { dd if="$DATABASE" iflag=nocache count=0 status=none; }
raw() { dd if="$DATABASE" of=/dev/null bs=1M iflag=direct status=none; }
level1() { "$jetcell" check "$DATABASE" > /dev/null; }
structure() { "$jetcell" check --structure "$DATABASE" > /dev/null; }

# One line for each round and kind: elapsed, user and system seconds.
times=$(mktemp)
trap 'rm -f "$times"' EXIT
TIMEFORMAT='%R %U %S'
for _ in $(seq "$rounds"); do
    for what in raw level1 structure; do
        drop_page_cache
        { time "$what"; } 2>&1 | tail -n 1 | sed "s/^/$what /" >> "$times"
    done
done
echo "versions    $("$jetcell" --version); $(dd --version | head -n 1)"
echo "database    $DATABASE, $((bytes >> 20)) MiB; median of $rounds rounds"
for what in raw level1 structure; do
    awk -v what="$what" -v bytes="$bytes" -v rounds="$rounds" '
        function median(values, count,   i, j, swap) {
            for (i = 1; i <= count; i++) for (j = i + 1; j <= count; j++) if (values[j] < values[i]) {
                swap = values[i]; values[i] = values[j]; values[j] = swap }
            return values[int((count + 1) / 2)]
        }
        $1 == "raw" { raw[++raws] = $2 }
        $1 == what { took[++n] = $2; processor[n] = $3 + $4 }
        END {
            seconds = median(took, n)
            printf "%-10s  %8.0f MiB/s  %6.2f of a raw read  %6.2f s of processor time per GiB\n",
                what, bytes / 1048576 / seconds, median(raw, raws) / seconds, median(processor, n) / bytes * 2 ^ 30
        }' "$times"
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
