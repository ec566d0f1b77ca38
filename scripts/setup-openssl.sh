#!/bin/sh
# Installs openssl, which makes the certificates of tests, on Debian and its relatives and as root. Where it cannot, it says nothing:
# scripts/check-tools.sh names what is missing.
set -u
if ! command -v openssl > /dev/null 2>&1 && command -v apt-get > /dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends openssl; } > /dev/null 2>&1
fi
exit 0
