#!/usr/bin/env bash
# Checks that builds with other Cargo features than `full` compile, without warnings.
#
#   scripts/features.sh --default    the default build
#   scripts/features.sh              all pairs of features; needs cargo-hack (cargo install cargo-hack)
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in
    --default) cargo clippy --quiet -p jetcell --bins -- -D warnings ;;
    '')
        cargo hack --version > /dev/null 2>&1 || { echo 'features.sh: cargo-hack is missing: cargo install cargo-hack' >&2; exit 2; }
        cargo hack clippy -p jetcell --bins --feature-powerset --depth 2 --exclude-features full -- -D warnings
        ;;
    *)
        sed -n '4,5s/^# *//p' "$0" >&2
        exit 2
        ;;
esac
