#!/usr/bin/env bash
# Runs the engine's concurrency tests under many thread schedules (shuttle), and single words of memory under weak
# memory orderings (loom). See docs/internals/testing.md.
#
#   scripts/concurrency.sh                       2 seconds per test, the same schedules each time
#   scripts/concurrency.sh --long SECONDS        SECONDS per test, new schedules each time
#   scripts/concurrency.sh --replay FILE TEST    one stored schedule of one test
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    sed -n '5,7s/^# *//p' "$0" >&2
    exit 2
}

failures=$PWD/target/shuttle/schedules
filter=schedule_tests::
case "${1:-}" in
'') ;;
--long)
    [ $# -eq 2 ] || usage
    export JETCELL_SCHEDULE_SECONDS=$2 JETCELL_SCHEDULE_SEED=${JETCELL_SCHEDULE_SEED:-$(date +%s)}
    echo "first seed: $JETCELL_SCHEDULE_SEED"
    ;;
--replay)
    [ $# -eq 3 ] || usage
    JETCELL_SCHEDULE_REPLAY=$(realpath "$2")
    export JETCELL_SCHEDULE_REPLAY
    filter=$3
    ;;
*) usage ;;
esac

mkdir -p "$failures"
if ! RUSTFLAGS='--cfg shuttle' JETCELL_SCHEDULE_DIR=$failures \
    cargo test --quiet --package ese-engine --lib --target-dir target/shuttle -- --test-threads 2 "$filter"; then
    echo "A failing schedule was stored in $failures; run it again with: scripts/concurrency.sh --replay FILE TEST" >&2
    exit 1
fi

if [ "${1:-}" != --replay ]; then
    RUSTFLAGS='--cfg loom' cargo test --quiet --package jetcell-sync --lib --target-dir target/loom
fi
