//! The infinite sequence of operations. It is determined by the first line of the journal alone, so the verifier can
//! recompute it.
//!
//! A round contains all [sequences](super::sequence) with one or two actions. Each sequence runs in a directory of
//! its own, and their order differs from round to round. Writes to a preallocated log and engine commits are
//! interleaved with the sequences. Directories are reused after [`TRIAL_SLOTS`] trials, so the test needs little
//! space.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::journal::DurabilityJournalHeader;
use super::operation::{StorageOperation, StorageOperationKind};
use super::sequence::OperationSequence;

/// Number of trials whose files are kept at the same time.
const TRIAL_SLOTS: usize = 256;
/// Number of blocks in a log file.
const LOG_BLOCKS: u64 = 32;
/// Number of trials between two commits.
const TRIALS_PER_COMMIT: usize = 4;

fn trial_directory(slot: usize) -> PathBuf {
    PathBuf::from(format!("trials/{slot:03}"))
}

/// An infinite sequence of operations, generated from a seed.
pub(crate) struct OperationScript {
    seed: u64,
    transactions: bool,
    links: bool,
    round: u64,
    /// Sequences that remain to be run in the current round.
    sequences: Vec<OperationSequence>,
    trials: usize,
    queue: VecDeque<StorageOperation>,
    /// Names that remain from the last trial in each directory.
    leftover_names: Vec<BTreeSet<PathBuf>>,
    /// Next log block to write. `None` before the first log file is created.
    log_block: Option<u64>,
    row: i32,
}

impl OperationScript {
    pub(crate) fn new(begin: &DurabilityJournalHeader) -> OperationScript {
        OperationScript {
            seed: begin.seed,
            transactions: begin.transactions,
            links: begin.links,
            round: 0,
            sequences: Vec::new(),
            trials: 0,
            queue: VecDeque::new(),
            leftover_names: vec![BTreeSet::new(); TRIAL_SLOTS],
            log_block: None,
            row: 0,
        }
    }

    /// Returns the directories that must exist before the first operation.
    pub(crate) fn directories() -> Vec<PathBuf> {
        let trials = (0..TRIAL_SLOTS).map(|slot| trial_directory(slot).join("other"));
        std::iter::once("log".into()).chain(trials).collect()
    }

    fn next_sequence(&mut self) -> Option<OperationSequence> {
        if self.sequences.is_empty() {
            self.sequences = OperationSequence::all(self.links);
            self.sequences.shuffle(&mut ChaCha8Rng::seed_from_u64(self.seed.wrapping_add(self.round)));
            self.round += 1;
        }
        self.sequences.pop()
    }

    fn add_trial(&mut self, sequence: OperationSequence) {
        let slot = self.trials % TRIAL_SLOTS;
        let directory = trial_directory(slot);
        let Some(left) = self.leftover_names.get_mut(slot) else { return };
        let queue = &mut self.queue;
        if self.trials >= TRIAL_SLOTS {
            queue.extend(std::mem::take(left).into_iter().map(|path| StorageOperation::Unlink { path }));
            queue.push_back(StorageOperation::SyncDirectory { path: directory.clone() });
            queue.push_back(StorageOperation::SyncDirectory { path: directory.join("other") });
        }
        let mut files = sequence.files();
        queue.extend(files.prepare(&directory));
        for (action, syncs) in sequence.steps() {
            queue.extend(files.perform(action, &directory));
            queue.extend(action.sync_operations(syncs, &directory));
        }
        *left = files.names().map(|name| name.path(&directory)).collect();
        self.add_log_write();
        if self.transactions && self.trials.is_multiple_of(TRIALS_PER_COMMIT) {
            self.row = self.row.saturating_add(1);
            self.queue.push_back(StorageOperation::Commit { row: self.row });
        }
        self.trials += 1;
    }

    fn add_log_write(&mut self) {
        let path = PathBuf::from("log/current");
        let queue = &mut self.queue;
        if self.log_block.is_none_or(|block| block >= LOG_BLOCKS) {
            let next = PathBuf::from("log/next");
            queue.push_back(StorageOperation::Create { path: next.clone() });
            queue.push_back(StorageOperation::Preallocate { path: next.clone(), blocks: LOG_BLOCKS });
            queue.push_back(StorageOperation::SyncFile { path: next.clone() });
            queue.push_back(StorageOperation::Rename { from: next, to: path.clone() });
            queue.push_back(StorageOperation::SyncDirectory { path: "log".into() });
        }
        let block = self.log_block.filter(|block| *block < LOG_BLOCKS).unwrap_or(0);
        self.log_block = Some(block + 1);
        let (path, blocks, kind, buffered) = (path, 1, StorageOperationKind::LogWrite, false);
        queue.push_back(StorageOperation::Write { path: path.clone(), block, blocks, kind, buffered });
        queue.push_back(StorageOperation::SyncFile { path });
    }
}

impl Iterator for OperationScript {
    type Item = StorageOperation;

    fn next(&mut self) -> Option<StorageOperation> {
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

    use super::super::journal::FailureLevel;
    use super::super::operation::directory_of;
    use super::*;

    fn script(seed: u64) -> OperationScript {
        OperationScript::new(&DurabilityJournalHeader::new(seed, FailureLevel::Power, true, PathBuf::new()))
    }

    #[test]
    fn a_seed_determines_the_script_and_every_operation_kind_occurs() {
        let some = |seed| script(seed).take(20_000).collect::<Vec<_>>();
        assert_eq!(some(1), some(1));
        assert_ne!(some(1), some(2));
        for kind in StorageOperationKind::ALL {
            assert!(some(1).iter().any(|operation| operation.kind() == Some(kind)), "{kind:?}");
        }
        let without = OperationScript::new(&DurabilityJournalHeader {
            links: false,
            ..DurabilityJournalHeader::new(1, FailureLevel::Power, true, PathBuf::new())
        });
        assert!(without.take(20_000).all(|operation| operation.kind() != Some(StorageOperationKind::Link)));
    }

    #[test]
    fn operations_are_valid_and_the_file_count_stays_small() {
        let mut names = BTreeSet::new();
        let directories: BTreeSet<PathBuf> = OperationScript::directories()
            .iter()
            .flat_map(|path| path.ancestors())
            .map(Path::to_path_buf)
            .collect();
        for operation in script(3).take(90_000) {
            match operation {
                StorageOperation::Create { path } => {
                    assert!(directories.contains(directory_of(&path)) && names.insert(path));
                }
                StorageOperation::Write { path, blocks, .. } => assert!(blocks > 0 && names.contains(&path)),
                StorageOperation::Preallocate { path, .. } | StorageOperation::SyncFile { path } => {
                    assert!(names.contains(&path), "{}", path.display());
                }
                StorageOperation::Rename { from, to } => {
                    assert!(names.remove(&from));
                    names.insert(to);
                }
                StorageOperation::Link { from, to } => assert!(names.contains(&from) && names.insert(to)),
                StorageOperation::Unlink { path } => assert!(names.remove(&path)),
                StorageOperation::SyncDirectory { path } => assert!(directories.contains(&path)),
                StorageOperation::Commit { .. } => {}
            }
            assert!(names.len() < 4 * TRIAL_SLOTS);
        }
    }
}
