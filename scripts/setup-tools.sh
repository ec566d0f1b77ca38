#!/bin/sh
# Installs programs that tests need, on Debian and its relatives and as root: openssl, which makes certificates, and the tools of XFS, one of
# the file systems that tests make. Elsewhere scripts/check-tools.sh and the tests name what is missing.
set -u
PATH=$PATH:/usr/sbin:/sbin
command -v openssl > /dev/null 2>&1 || "$(dirname "$0")/install-packages.sh" openssl
command -v mkfs.xfs > /dev/null 2>&1 || "$(dirname "$0")/install-packages.sh" xfsprogs
exit 0
