#!/usr/bin/env bash
# Parity on one core, GB/s of data, beside the memory copy and ISA-L (Debian package libisal-dev), in turns.
#
#   bench/parity.sh            ROUNDS=3
#
# Goals: P+Q at least ISA-L's rate, RAID-DP ahead of P+Q. Lines of our kernels come from the example kernel_speed of jetcell-array.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/check-tools.sh bench/parity.sh cc cargo
if [[ ! -e /usr/include/isa-l/raid.h ]]; then
    echo 'bench/parity.sh: ISA-L is missing; install the package libisal-dev' >&2
    exit 2
fi
target=${CARGO_TARGET_DIR:-target}
cargo build --release --quiet -p jetcell-array --example kernel_speed
cc -O2 -o "$target/release/isal_parity" bench/isal_parity.c -lisal
for _ in $(seq "${ROUNDS:-3}"); do
    "$target/release/examples/kernel_speed"
    echo
    echo 'ISA-L'
    "$target/release/isal_parity"
    echo
done
