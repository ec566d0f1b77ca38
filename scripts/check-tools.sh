#!/bin/sh
# Names, in one line, what the tests need and this machine lacks, with the packages of Debian. Exit code 2 if something is missing.
set -eu
missing=
# need PROGRAM PACKAGE
need() {
    command -v "$1" > /dev/null 2>&1 || missing="$missing, $1 (package $2)"
}
need cc gcc
need git git
need python3 python3
need cargo 'rustup, or https://rustup.rs'
if command -v python3 > /dev/null 2>&1 && ! python3 -c 'import ensurepip, venv' 2> /dev/null; then
    missing="$missing, virtual environments of Python (package python3-venv)"
fi
if [ -n "$missing" ]; then
    echo "test.sh: these are missing: ${missing#, }; install them and run it again" >&2
    exit 2
fi
