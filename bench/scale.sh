#!/usr/bin/env bash
# Measures how a run of `jetcell test performance` grows: with the size of a database, the number of databases, the threads
# of the load, and the processors: creation, mix, verification, backup, recovery, memory. Prints a table, and writes the figures and a chart.
#
#   bench/scale.sh                        1, 4, 16 and 64 GiB as far as the volume has room, 1 to 64 databases, 1 to 64
#                                         threads, 1 and 2 processors, three rounds; several hours
#   bench/scale.sh --quick                small sizes, one round, a few minutes: shows that everything works
#   bench/scale.sh --dir DIRECTORY --sizes 1,4 --databases 1,24 --threads 1,8 --processors 1,2 --rounds 5 --duration 30
#   bench/scale.sh --render FILE          the table and the chart of an earlier run
#
# Writes target/scale/scale.json and scale.svg (--output DIRECTORY). docs/performance/other-results.md explains the figures. Needs
# python3, fio and taskset (util-linux). Let nothing else run.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in python3 fio taskset; do
    command -v "$program" > /dev/null || { echo "bench/scale.sh needs $program" >&2; exit 2; }
done
if [[ -z ${JETCELL:-} && " $* " != *" --render "* && " $* " != *" --help "* ]]; then
    cargo build --release --quiet --locked -p jetcell --features full
    export JETCELL=$PWD/target/release/jetcell
fi
exec python3 -B bench/scale.py "$@"
