#!/usr/bin/env bash
# Measures a build of the command with an empty target directory: wall time, processor time, number of crates, size of the binary.
# Crates must have been downloaded (cargo fetch). Run nothing else at the same time.
#
#   scripts/measure-build.sh                     the default build, as in the README's first command
#   scripts/measure-build.sh --features full     other options of cargo build
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(mktemp -d "${TMPDIR:-/tmp}/jetcell-build.XXXXXX")
trap 'rm -rf "$target"' EXIT
crates=$(cargo tree --locked -p jetcell "$@" -e normal,build --prefix none --no-dedupe --format '{p}' | sort -u | grep -c .)
TIMEFORMAT='%R %U %S'
times=$({ time CARGO_TARGET_DIR=$target cargo build --release --locked --quiet -p jetcell "$@"; } 2>&1 | tail -1)
read -r wall user system <<< "$times"
echo "wall time       $wall s"
echo "processor time  $(awk "BEGIN { print $user + $system }") s"
echo "crates          $crates"
echo "binary          $(stat -c %s "$target/release/jetcell" | awk '{ printf "%.1f MB", $1 / 1e6 }')"
