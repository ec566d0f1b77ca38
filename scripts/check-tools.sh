#!/bin/sh
# Names, in one line, what a script needs and this machine lacks, with the packages of Debian. Exit code 2 if something is missing.
#
#   scripts/check-tools.sh SCRIPT TOOL...
#
# Tools: cc (with the C library), static (a static C library), cargo, clippy, fio, git, python, venv, openssl, gzip, deb (cargo-deb), image (a builder of
# container images), chromium.
set -eu
script=$1
shift
missing=
# lacks WHAT REMEDY
lacks() {
    missing="$missing, $1 ($2)"
}
has() {
    command -v "$1" > /dev/null 2>&1
}
# Whether the compiler makes programs, with these options.
compiles() {
    printf '#include <stdlib.h>\nint main(void) { return 0; }\n' | cc "$@" -x c - -o /dev/null > /dev/null 2>&1
}
for tool; do
    case $tool in
        cc)
            if ! has cc; then
                lacks cc 'packages gcc and libc6-dev'
            elif ! compiles; then
                lacks 'the headers of the C library' 'package libc6-dev'
            fi
            ;;
        static) ! has cc || ! compiles || compiles -static || lacks 'the static C library' 'package libc6-dev' ;;
        cargo) has cargo && has rustc || lacks cargo 'package rustup, or https://rustup.rs' ;;
        clippy) cargo clippy --version > /dev/null 2>&1 || lacks clippy 'rustup component add clippy rustfmt' ;;
        fio) has fio || lacks fio 'package fio' ;;
        git) has git || lacks git 'package git' ;;
        python) has python3 || lacks python3 'package python3' ;;
        venv)
            python3 -c 'import ensurepip, venv' 2> /dev/null ||
                lacks 'virtual environments of Python' 'package python3-venv'
            ;;
        openssl) has openssl || lacks openssl 'package openssl' ;;
        gzip) has gzip || lacks gzip 'package gzip' ;;
        deb) cargo deb --version > /dev/null 2>&1 || lacks cargo-deb 'cargo install cargo-deb' ;;
        image) has buildah || has podman || has docker || lacks 'a builder of images' 'package buildah, podman or docker.io' ;;
        chromium) has chromium || has chromium-browser || has google-chrome || lacks chromium 'package chromium' ;;
        *)
            echo "check-tools.sh: '$tool' is no tool that it knows" >&2
            exit 2
            ;;
    esac
done
if [ -n "$missing" ]; then
    echo "$script: these are missing: ${missing#, }; install them and run it again" >&2
    exit 2
fi
