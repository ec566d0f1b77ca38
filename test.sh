#!/usr/bin/env bash
# Runs every check and test, after setting up what they need, and prints how long each phase took.
#
#   ./test.sh            everything; docs/internals/build.md has the times
#   ./test.sh --quick    format, clippy, tidy and the tests without simulations
set -euo pipefail
cd "$(dirname "$0")"

quick=
case ${1:-} in
    '') ;;
    --quick) quick=1 ;;
    *)
        sed -n '4,5s/^# *//p' "$0" >&2
        exit 2
        ;;
esac

durations=
# phase NAME COMMAND...: runs a command, and notes how long it took
phase() {
    local name=$1 began=$SECONDS
    shift
    echo "== $name"
    "$@"
    durations="$durations $name $((SECONDS - began)) s,"
}

# The line with the tests that could not run. Each adds a line to $JETCELL_SKIPPED: need, name, reason.
skipped() {
    local lines=0
    [ ! -f "$JETCELL_SKIPPED" ] || lines=$(wc -l < "$JETCELL_SKIPPED")
    if [ "$lines" = 0 ]; then
        echo "0 tests skipped"
    else
        cut -f1,3 "$JETCELL_SKIPPED" | sort | uniq -c | sort -rn | sed 's/^/    /'
        echo "$lines tests skipped: $(cut -f1 "$JETCELL_SKIPPED" | sort | uniq -c | awk '{ printf "%s%s %s", sep, $2, $1; sep = ", " }')"
    fi
}

set_up() {
    scripts/setup-tools.sh
    scripts/check-tools.sh test.sh cc git python venv openssl cargo clippy
    if nextest=$(scripts/setup-nextest.sh); then export PATH=$nextest:$PATH; fi
    [ -z "$quick" ] || return 0
    scripts/setup-readers.sh
    # Tests that compare with independent programs must not be skipped where these could be installed.
    export JETCELL_REQUIRE_READERS=1
    if scripts/setup-nbd.sh; then export JETCELL_REQUIRE_NBD=1; fi
    if scripts/setup-nats.sh; then export JETCELL_REQUIRE_NATS=1; fi
}

document() {
    RUSTDOCFLAGS='-D warnings' cargo doc --workspace --all-features --no-deps --quiet
}

# Simulations, soaks and real processes that are killed for minutes.
simulations='test(/simulation|histories::|copies::|backups::|lost_logs::|kill|a_dirty_degraded_array|resumed_stress_test|array_life|soak|lying_disk::|cut_tests|concurrency::/)
    and not test(/not_a_kill/)'

build_tests() {
    cargo test --workspace --all-features --no-run --quiet
}

run_tests() {
    if ! cargo nextest --version > /dev/null 2>&1; then
        echo 'cargo-nextest could not be installed; cargo test takes longer' >&2
        cargo test --workspace --all-features --quiet
        return
    fi
    if [ -n "$quick" ]; then
        cargo nextest run --workspace --all-features -E "not ($simulations)"
    else
        cargo nextest run --workspace --all-features
        # nextest does not run the examples in the documentation.
        cargo test --workspace --all-features --doc --quiet
    fi
}

phase set-up set_up

JETCELL_SKIPPED=$PWD/target/skipped.txt
export JETCELL_SKIPPED
mkdir -p target
rm -f "$JETCELL_SKIPPED"

phase format cargo fmt --all --check
phase tidy cargo xtask tidy
phase clippy cargo clippy --workspace --all-targets --all-features --quiet -- -D warnings
if [ -z "$quick" ]; then
    phase doc document
    phase book scripts/build-book.sh
fi
phase build build_tests
phase tests run_tests
if [ -z "$quick" ]; then
    # The short form, with the program that the tests have built. It begins nothing after 60 s.
    phase manual env JETCELL_SCRATCH="$PWD/target" scripts/test-manual.py --quick
    phase features scripts/features.sh --default
    phase python scripts/test-python.sh
    phase concurrency scripts/concurrency.sh
fi
skipped
echo "Duration:$durations $SECONDS s in all"
