//! The infinite sequence of operations. It is determined by the first line of the journal alone, so the verifier can
//! recompute it.
//!
//! A round contains all [sequences](super::sequence) with one or two actions. Each sequence runs in a directory of
//! its own, and their order differs from round to round. Writes to a preallocated log and engine commits are
//! interleaved with the sequences. Directories are reused after [`SLOTS`] trials, so the test needs little space.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::journal::Begin;
use super::operation::{Operation, OperationKind};
use super::sequence::Sequence;

/// Number of trials whose files exist at the same time.
const SLOTS: usize = 256;
/// Number of blocks in a log file.
const LOG_BLOCKS: u64 = 32;
/// Number of trials between two commits.
const TRIALS_PER_COMMIT: usize = 4;

fn trial_directory(slot: usize) -> PathBuf {
    PathBuf::from(format!("trials/{slot:03}"))
}

/// Infinite sequence of operations generated from a seed.
pub(super) struct Script {
    seed: u64,
    transactions: bool,
    links: bool,
    round: u64,
    /// Sequences that remain to be run in the current round.
    sequences: Vec<Sequence>,
    trials: usize,
    queue: VecDeque<Operation>,
    /// Names left behind by the last trial in each directory.
    left: Vec<BTreeSet<PathBuf>>,
    /// Next log block to write. `None` before the first log file is created.
    log_block: Option<u64>,
    row: i32,
}

impl Script {
    pub(super) fn of(begin: &Begin) -> Script {
        Script {
            seed: begin.seed,
            transactions: begin.transactions,
            links: begin.links,
            round: 0,
            sequences: Vec::new(),
            trials: 0,
            queue: VecDeque::new(),
            left: vec![BTreeSet::new(); SLOTS],
            log_block: None,
            row: 0,
        }
    }

    /// Returns the directories that must exist before the first operation.
    pub(super) fn directories() -> Vec<PathBuf> {
        let trials = (0..SLOTS).map(|slot| trial_directory(slot).join("other"));
        std::iter::once("log".into()).chain(trials).collect()
    }

    fn next_sequence(&mut self) -> Option<Sequence> {
        if self.sequences.is_empty() {
            self.sequences = Sequence::all(self.links);
            self.sequences.shuffle(&mut ChaCha8Rng::seed_from_u64(self.seed.wrapping_add(self.round)));
            self.round += 1;
        }
        self.sequences.pop()
    }

    fn add_trial(&mut self, sequence: Sequence) {
        let slot = self.trials % SLOTS;
        let directory = trial_directory(slot);
        let Some(left) = self.left.get_mut(slot) else { return };
        let queue = &mut self.queue;
        if self.trials >= SLOTS {
            queue.extend(std::mem::take(left).into_iter().map(|path| Operation::Unlink { path }));
            queue.push_back(Operation::SyncDirectory { path: directory.clone() });
            queue.push_back(Operation::SyncDirectory { path: directory.join("other") });
        }
        let mut files = sequence.files();
        queue.extend(files.prepare(&directory));
        for (action, syncs) in sequence.steps() {
            queue.extend(files.act(action, &directory));
            queue.extend(action.synced(syncs, &directory));
        }
        *left = files.names().map(|name| name.path(&directory)).collect();
        self.add_log_write();
        if self.transactions && self.trials.is_multiple_of(TRIALS_PER_COMMIT) {
            self.row = self.row.saturating_add(1);
            self.queue.push_back(Operation::Commit { row: self.row });
        }
        self.trials += 1;
    }

    fn add_log_write(&mut self) {
        let path = PathBuf::from("log/current");
        let queue = &mut self.queue;
        if self.log_block.is_none_or(|block| block >= LOG_BLOCKS) {
            let next = PathBuf::from("log/next");
            queue.push_back(Operation::Create { path: next.clone() });
            queue.push_back(Operation::Preallocate { path: next.clone(), blocks: LOG_BLOCKS });
            queue.push_back(Operation::SyncFile { path: next.clone() });
            queue.push_back(Operation::Rename { from: next, to: path.clone() });
            queue.push_back(Operation::SyncDirectory { path: "log".into() });
        }
        let block = self.log_block.filter(|block| *block < LOG_BLOCKS).unwrap_or(0);
        self.log_block = Some(block + 1);
        let (path, blocks, kind, buffered) = (path, 1, OperationKind::LogWrite, false);
        queue.push_back(Operation::Write { path: path.clone(), block, blocks, kind, buffered });
        queue.push_back(Operation::SyncFile { path });
    }
}

impl Iterator for Script {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        if self.queue.is_empty() {
            let sequence = self.next_sequence()?;
            self.add_trial(sequence);
        }
        self.queue.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::journal::Level;
    use super::super::operation::directory_of;
    use super::*;

    fn script(seed: u64) -> Script {
        Script::of(&Begin::new(seed, Level::Power, true, PathBuf::new()))
    }

    #[test]
    fn a_seed_decides_about_all_and_every_kind_is_there() {
        let some = |seed| script(seed).take(20_000).collect::<Vec<_>>();
        assert_eq!(some(1), some(1));
        assert_ne!(some(1), some(2));
        for kind in OperationKind::ALL {
            assert!(some(1).iter().any(|operation| operation.kind() == Some(kind)), "{kind:?}");
        }
        let without =
            Script::of(&Begin { links: false, ..Begin::new(1, Level::Power, true, PathBuf::new()) });
        assert!(without.take(20_000).all(|operation| operation.kind() != Some(OperationKind::Link)));
    }

    #[test]
    fn the_operations_are_possible_and_the_files_stay_few() {
        let mut names = BTreeSet::new();
        let directories: BTreeSet<PathBuf> =
            Script::directories().iter().flat_map(|path| path.ancestors()).map(Path::to_path_buf).collect();
        for operation in script(3).take(90_000) {
            match operation {
                Operation::Create { path } => {
                    assert!(directories.contains(directory_of(&path)) && names.insert(path))
                }
                Operation::Write { path, blocks, .. } => assert!(blocks > 0 && names.contains(&path)),
                Operation::Preallocate { path, .. } | Operation::SyncFile { path } => {
                    assert!(names.contains(&path), "{}", path.display())
                }
                Operation::Rename { from, to } => {
                    assert!(names.remove(&from));
                    names.insert(to);
                }
                Operation::Link { from, to } => assert!(names.contains(&from) && names.insert(to)),
                Operation::Unlink { path } => assert!(names.remove(&path)),
                Operation::SyncDirectory { path } => assert!(directories.contains(&path)),
                Operation::Commit { .. } => {}
            }
            assert!(names.len() < 4 * SLOTS);
        }
    }
}
