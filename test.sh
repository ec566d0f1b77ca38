#!/usr/bin/env bash
# Runs every check and test, after setting up what they need. A full run stays under 45 minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")"

scripts/setup-tools.sh
scripts/check-tools.sh test.sh cc git python venv openssl cargo clippy
scripts/setup-readers.sh
if scripts/setup-nbd.sh; then export JETCELL_REQUIRE_NBD=1; fi
if scripts/setup-nats.sh; then export JETCELL_REQUIRE_NATS=1; fi

cargo fmt --all --check
cargo xtask tidy
cargo clippy --workspace --all-targets -- -D warnings
RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --quiet
# The tests that compare with independent readers must not be skipped in silence.
JETCELL_REQUIRE_READERS=1 cargo test --workspace
scripts/test-python.sh
scripts/concurrency.sh
