#!/usr/bin/env bash
# Measures the Python package beside dissect.esedb: rows per second with every cell read, on one database, in one run.
#
#   bench/python.sh [SIZE] [DIRECTORY]    writes a database of SIZE (default 64MiB) with our engine, then reads it
#   DATABASE=FILE bench/python.sh         reads an existing database
#
# Goal: 20 times the rows per second of dissect.esedb, as dicts. The readers run in turn, ROUNDS times (3), each for at most LIMIT
# seconds (20); the median counts. scripts/test-python.sh pins the versions.
set -euo pipefail
cd "$(dirname "$0")/.."
size=${1:-64MiB}
directory=${2:-target/bench-python}
venv=target/bench-python-venv

mkdir -p "$directory"
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check dissect.esedb==3.18 pyarrow==26.0.1
"$venv/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps ./python
if [[ -z ${DATABASE:-} ]]; then
    cargo build --release --quiet -p jetcell --features full
    target/release/jetcell test performance --dir "$directory" --size "$size" --growth-percent 1 --duration 2s --force \
        > "$directory/made.txt" 2>&1 || { cat "$directory/made.txt"; exit 1; }
    DATABASE=$directory/Jetstress001001.edb
fi
echo "database  $DATABASE, $(($(stat -c %s "$DATABASE") >> 20)) MiB"
exec "$venv/bin/python" bench/read_rows.py "$DATABASE" --rounds "${ROUNDS:-3}" --limit "${LIMIT:-20}"
