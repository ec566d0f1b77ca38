#!/usr/bin/env bash
# Mutation tests of the engine: changes its code on purpose, one place at a time, and runs the tests each time.
#
#   scripts/mutants.sh FOLDER            one folder of crates/ese-engine/src: btree, cache, log, recovery, space, ...
#   scripts/mutants.sh FOLDER 2/8        the third of eight shards of that folder (0/8 is the first)
#   scripts/mutants.sh all 0/40          a sample: every 40th mutant of all folders
#
# scripts/mutants-at-once.py tries more mutants in less time: it builds a sample at once. This script needs no such build, so
# it also tries mutants of constants and of functions that return impl Trait.
#
# Needs cargo-mutants (cargo install cargo-mutants). A mutant takes one to two minutes on two cores. The results are in
# target/mutants/FOLDER-SHARD/mutants.out; missed.txt there lists the mutants that no test caught.
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $# -ge 1 ]] || { sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2; }
folder=$1
shard=${2:-0/1}
cargo mutants --version > /dev/null 2>&1 || { echo "cargo-mutants is missing: cargo install cargo-mutants" >&2; exit 2; }

folders=$folder
[[ $folder != all ]] || folders="btree cache log maintenance pages recovery space storage transaction"
files=()
for name in $folders; do
    [[ -d crates/ese-engine/src/$name ]] || { echo "crates/ese-engine/src has no folder $name" >&2; exit 2; }
    files+=(--file "crates/ese-engine/src/$name/**/*.rs")
done

output=target/mutants/$folder-${shard/\//-of-}
mkdir -p "$output"
# The copy that cargo-mutants changes lies elsewhere, without the corpus beside it.
export JETCELL_CORPUS=${JETCELL_CORPUS:-$PWD/../shared/corpus}
# Fewer cuts than in the test command, because the tests run for each mutant.
export JETCELL_SIM_CUTS=${JETCELL_SIM_CUTS:-400}
cargo mutants "${files[@]}" --shard "$shard" --sharding round-robin --output "$output" --no-shuffle --colors never
