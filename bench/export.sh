#!/usr/bin/env bash
# Measures `jetcell export` beside the Python readers of ESE files, on one database, in one run.
#
#   bench/export.sh [SIZE] [DIRECTORY]    writes a database of SIZE (default 128MiB) with our engine, then exports it
#   DATABASE=FILE bench/export.sh         exports an existing database
#
# The readers read every cell and write nothing, which favours them. libesedb is the library of esedbexport. A reader that
# needs more than LIMIT seconds (default 120) is stopped, and its ratio is a lower bound. Goal: 10 times as fast.
# scripts/setup-readers.sh pins the readers' versions.
set -euo pipefail
cd "$(dirname "$0")/.."
size=${1:-128MiB}
directory=${2:-target/bench-export}
limit=${LIMIT:-120}
rounds=${ROUNDS:-3}
python=${JETCELL_READERS_VENV:-target/readers-venv}/bin/python

cargo build --release --quiet -p jetcell --features full
jetcell=$PWD/target/release/jetcell
[[ -x $python ]] || scripts/setup-readers.sh
echo "versions  $("$jetcell" --version); $("$python" -m pip list --disable-pip-version-check 2> /dev/null |
    awk '/^(libesedb-python|dissect.esedb) / { printf "%s %s; ", $1, $2 }')"
mkdir -p "$directory"
if [[ -z ${DATABASE:-} ]]; then
    "$jetcell" test performance --dir "$directory" --size "$size" --growth-percent 1 --duration 2s --force \
        > "$directory/made.txt" 2>&1 || { cat "$directory/made.txt"; exit 1; }
    DATABASE=$directory/Jetstress001001.edb
fi
echo "database  $DATABASE, $(($(stat -c %s "$DATABASE") >> 20)) MiB"

now() { date +%s%N; }
median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }

declare -A took
for format in csv jsonl parquet sqlite; do
    took[$format]=$(for _ in $(seq "$rounds"); do
        rm -rf "$directory/out"
        start=$(now)
        "$jetcell" export "$DATABASE" --format "$format" --output "$directory/out" > /dev/null 2>&1
        echo $((($(now) - start) / 1000000 + 1))
    done | median)
    echo "jetcell   $format: ${took[$format]} ms"
done
for reader in dissect libesedb; do
    start=$(now)
    more=""
    outcome=0
    timeout "$limit" "$python" bench/read_all.py "$reader" "$DATABASE" 2> "$directory/read.txt" || outcome=$?
    ms=$((($(now) - start) / 1000000 + 1))
    case $outcome in
        0) ;;
        124) more="more than " ;;
        *) echo "$reader failed:"; tail -n 2 "$directory/read.txt"; continue ;;
    esac
    for format in csv sqlite; do
        awk -v reader="$reader" -v more="$more" -v ms="$ms" -v ours="${took[$format]}" -v format="$format" 'BEGIN {
            printf "%-9s reads every cell in %s%d ms: %s%.1f x the time of our export to %s\n",
                reader, more, ms, more, ms / ours, format }'
    done
done
