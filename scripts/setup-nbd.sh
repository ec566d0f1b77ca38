#!/bin/sh
# Installs, on Debian and its relatives and as root, the clients of network block devices that judge jetcell raid serve. Elsewhere it
# says what is missing; the tests that need them are skipped then. Exit code: 0 all are there, 1 some are missing.
set -u
missing() {
    for tool in nbdinfo nbdcopy nbdsh nbdfuse fusermount3 qemu-io qemu-img fio mkfs.ext4 e2fsck debugfs; do
        command -v "$tool" > /dev/null 2>&1 || printf ' %s' "$tool"
    done
}
packages='libnbd-bin python3-libnbd nbdfuse fuse3 qemu-utils fio e2fsprogs'
if [ -n "$(missing)" ]; then
    # shellcheck disable=SC2086
    "$(dirname "$0")/install-packages.sh" $packages
fi
absent=$(missing)
if [ -n "$absent" ]; then
    echo "clients of network block devices are missing:$absent (packages $packages); their tests are skipped" >&2
    exit 1
fi
echo 'clients of network block devices are ready'
