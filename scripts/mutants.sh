#!/usr/bin/env bash
# Mutation tests of the engine: changes its code on purpose, one place at a time, and sees whether a test fails.
#
#   scripts/mutants.sh FOLDER            a folder of crates/ese-engine/src: btree, cache, log, recovery, space, ...
#   scripts/mutants.sh FOLDER 2/8        the third of eight shards of it (0/8 is the first)
#   scripts/mutants.sh FOLDER 0/100      a hundredth: a sample
#
# Needs cargo-mutants (cargo install cargo-mutants). A mutant takes about a minute on two cores. Results are in
# target/mutants/FOLDER/mutants.out: missed.txt has the survivors. docs/testing.md lists those that are known, and why.
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $# -ge 1 ]] || { sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2; }
folder=$1
shard=${2:-0/1}
cargo mutants --version > /dev/null 2>&1 || { echo "cargo-mutants is missing: cargo install cargo-mutants" >&2; exit 2; }
output=target/mutants/$folder-${shard/\//-of-}
mkdir -p "$output"
# The corpus lies beside the checkout, not beside the copy that is changed.
export JETCELL_CORPUS=${JETCELL_CORPUS:-$PWD/../shared/corpus}
# Fewer cuts than the test command: each mutant is tested anew.
export JETCELL_SIM_CUTS=${JETCELL_SIM_CUTS:-400}
cargo mutants --file "crates/ese-engine/src/$folder/**/*.rs" --file "crates/ese-engine/src/$folder.rs" \
    --shard "$shard" --output "$output" --no-shuffle --colors never
