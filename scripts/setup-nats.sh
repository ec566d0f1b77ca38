#!/bin/sh
# Installs, on Debian and its relatives and as root, the NATS server that the tests of jetcell fleet use. Elsewhere it says what is
# missing; those tests are skipped then. Exit code: 0 it is there, 1 it is missing.
set -u
PATH=$PATH:/usr/sbin:/usr/local/sbin
is_there() { command -v nats-server > /dev/null 2>&1; }
is_there || "$(dirname "$0")/install-packages.sh" nats-server
if ! is_there; then
    echo 'nats-server is missing (package nats-server); the tests of fleets are skipped' >&2
    exit 1
fi
echo 'nats-server is ready'
