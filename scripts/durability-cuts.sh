#!/bin/bash
# Cuts a real file system under the writer of `jetcell test durability`, and verifies: as root, on a loop image.
#
# The cut is the file system's own shutdown (FS_IOC_SHUTDOWN without a flush of its journal), so what it had not written is lost.
# Honest syncs must be acquitted after every cut. With strace, syncs are answered without being done, and must be convicted.
#
# usage: scripts/durability-cuts.sh [FILE SYSTEM] [CUTS] [JETCELL]
set -euo pipefail
fs=${1:-ext4} cuts=${2:-10} jetcell=$(realpath "${3:-target/debug/jetcell}")
[ "$(id -u)" = 0 ] || { echo "needs root"; exit 2; }
work=$(mktemp -d)
trap 'umount "$work/mnt" 2>/dev/null || true; rm -rf "$work"' EXIT
mkdir "$work/mnt"
truncate -s 400M "$work/image"
"mkfs.$fs" -q "$work/image"

# cut_once NUMBER PREFIX...: writes with the prefix, cuts, and prints the verdict
cut_once() {
    local number=$1; shift
    mount -o loop "$work/image" "$work/mnt"
    rm -rf "$work/mnt/run"
    "$@" "$jetcell" test durability "$work/mnt/run" --witness "$work/journal.$number" --quiet --seed "$number" 2>/dev/null &
    local writer=$!
    local lines=0 enough=$((200 + number * 37 % 400))
    while [ "$lines" -lt "$enough" ]; do
        kill -0 "$writer" || { echo "the writer ended by itself"; exit 2; }
        sleep 0.05
        [ ! -e "$work/journal.$number" ] || lines=$(wc -l <"$work/journal.$number")
    done
    python3 -c 'import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack("I", 2))' "$work/mnt"
    wait "$writer" || true
    umount "$work/mnt"
    mount -o loop "$work/image" "$work/mnt"
    local verdict=0
    "$jetcell" test durability "$work/mnt/run" --verify "$work/journal.$number" --same-boot >"$work/verdict" || verdict=$?
    umount "$work/mnt"
    head -1 "$work/verdict"
    return $verdict
}

wrong=0
for number in $(seq "$cuts"); do
    cut_once "$number" env || { echo "cut $number: an honest file system is convicted"; wrong=1; }
done
if command -v strace >/dev/null; then
    for number in $(seq 1001 1003); do
        if cut_once "$number" strace -f -qq -o /dev/null -e trace=fsync,fdatasync -e inject=fsync,fdatasync:retval=0; then
            echo "cut $number: syncs that are not done are acquitted"; wrong=1
        fi
    done
else
    echo "skipped: no strace, so no syncs are left out"
fi
exit $wrong
