#!/usr/bin/env bash
# Rebuilds, scrubs and degraded reads of RAID 6 of 6 + 2 plain files, beside healthy reads and beside the files themselves, in turns.
#
#   bench/rebuild.sh [DIRECTORY]      default: target/bench-rebuild
#
# Lines come from the example rebuild_rates of jetcell-array.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/check-tools.sh bench/rebuild.sh cargo
cargo build --release --quiet -p jetcell-array --example rebuild_rates
directory=$(realpath -m "${1:-target/bench-rebuild}")
mkdir -p "$directory"
work=$(mktemp -d "$directory/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
"${CARGO_TARGET_DIR:-target}/release/examples/rebuild_rates" "$work"
