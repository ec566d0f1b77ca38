#!/usr/bin/env bash
# Everything about the speed of arrays in one run: parity beside the memory copy and ISA-L, arrays and LUNs beside plain files, rebuilds, scrubs and degraded
# reads beside healthy reads, network block devices beside nbdkit. Each part prints its goals; what it needs is in its file.
#
#   bench/arrays.sh                ROUNDS=5; LIMIT=400 as for bench/array.sh
set -euo pipefail
cd "$(dirname "$0")"
status=0
for part in parity array rebuild nbd; do
    echo "== $part"
    ./$part.sh || status=$?
done
exit "$status"
