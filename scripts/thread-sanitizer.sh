#!/usr/bin/env bash
# Runs the tests with many threads under ThreadSanitizer. Needs a nightly toolchain with rust-src; says so and succeeds
# without one.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(rustc -vV | sed -n 's/^host: //p')
if ! sysroot=$(rustc +nightly --print sysroot 2>/dev/null) || [ ! -e "$sysroot/lib/rustlib/src/rust/library/Cargo.lock" ]; then
    echo 'ThreadSanitizer was not run: it needs "rustup toolchain install nightly --component rust-src".'
    exit 0
fi

# Another target directory, because all code is built with other flags, the standard library included.
export RUSTFLAGS='-Zsanitizer=thread' RUSTDOCFLAGS='-Zsanitizer=thread'
export TSAN_OPTIONS="halt_on_error=1 ${TSAN_OPTIONS:-}"
run() {
    cargo +nightly test --quiet -Zbuild-std --target "$target" --target-dir target/thread-sanitizer "$@"
}
run --package jetcell-vfs --lib
run --package ese-engine --lib -- cache::tests::threads log::tests transaction:: maintenance:: btree::race_tests
