#!/bin/bash
# Random histories of arrays and of LUNs in turn, with the faults that their levels must bear and power cuts, for a chosen time.
#
# usage: scripts/soak-arrays.sh [SECONDS] [FIRST SEED]
#
# Exits with 1 if a history read wrong data or failed, and names the command that repeats it. Without a seed, each run uses others.
# PROFILE=dev also finds arithmetic overflows.
set -euo pipefail
cd "$(dirname "$0")/.."
export JETCELL_SOAK_SECONDS=${1:-600}
[ -z "${2:-}" ] || export JETCELL_SOAK_SEED=$2
# Both kinds of histories run for half of the time.
JETCELL_SOAK_SECONDS=$((JETCELL_SOAK_SECONDS / 2))
status=0
for crate in jetcell-array jetcell-luns; do
  cargo test --quiet --profile "${PROFILE:-release}" -p "$crate" --lib soak_tests -- --ignored --nocapture || status=1
done
exit $status
