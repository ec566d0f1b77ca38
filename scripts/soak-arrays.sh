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
exec cargo test --quiet --profile "${PROFILE:-release}" -p jetcell-array --lib soak_tests -- --ignored --nocapture
