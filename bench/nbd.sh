#!/usr/bin/env bash
# The server of network block devices beside nbdkit's memory plugin: 4 KiB reads and writes by fio on a Unix socket, in turns.
#
#   bench/nbd.sh               ROUNDS=5 SECONDS_EACH=3
#
# Goal: at least equal at queue depths 1 and 32. Both serve 256 MiB of memory, so that only the servers differ. Needs fio with its engine
# nbd, and nbdkit (Debian packages of these names).
set -euo pipefail
cd "$(dirname "$0")/.."
for tool in fio nbdkit cargo; do
    command -v "$tool" > /dev/null || { echo "bench/nbd.sh: $tool is missing; install it and run this again" >&2; exit 2; }
done
rounds=${ROUNDS:-5}
seconds=${SECONDS_EACH:-3}
target=${CARGO_TARGET_DIR:-target}
cargo build --release --quiet -p jetcell-nbd --example memory
directory=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null || true; rm -rf "$directory"' EXIT
"$target/release/examples/memory" "$directory/ours.sock" $((256 << 20)) > /dev/null &
nbdkit --foreground --unix "$directory/nbdkit.sock" memory 256M &
for server in ours nbdkit; do
    until [[ -S $directory/$server.sock ]]; do sleep 0.05; done
done
# measure SERVER WHAT DEPTH: I/O per second
measure() {
    fio --name=x --ioengine=nbd --uri="nbd+unix:///?socket=$directory/$1.sock" --rw="$2" --bs=4k --iodepth="$3" --size=256m \
        --time_based --runtime="$seconds" --output-format=json |
        python3 -c 'import json, sys
text = sys.stdin.read()
job = json.loads(text[text.index("{"):])["jobs"][0]
print(job["read"]["iops"] + job["write"]["iops"])'
}
for what in randread randwrite; do
    for depth in 1 32; do
        for _ in $(seq "$rounds"); do
            for server in ours nbdkit; do
                echo "$server $(measure "$server" "$what" "$depth")"
            done
        done | python3 -c '
import statistics, sys
found = {}
for line in sys.stdin:
    server, iops = line.split()
    found.setdefault(server, []).append(float(iops))
ours, theirs = (statistics.median(found[name]) for name in ("ours", "nbdkit"))
print(f"{sys.argv[1]:<10} depth {sys.argv[2]:>2}: {ours:8.0f} I/O per second, nbdkit {theirs:8.0f}: {ours / theirs:.2f}")
' "$what" "$depth"
    done
done
