#!/bin/sh
# Installs the tools of XFS, one of the file systems that tests make, on Debian and its relatives and as root. Where it cannot, it says
# nothing: tests say which kinds they skip.
set -u
if ! command -v mkfs.xfs > /dev/null 2>&1 && command -v apt-get > /dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends xfsprogs; } > /dev/null 2>&1
fi
exit 0
