//! The endless sequence of operations, which the seed alone decides: the verifier computes it again.
//!
//! A round has all sequences of one and of two actions on two small files, with and without a sync in between, each in
//! directories of its own, in an order that differs from round to round. Between them are writes to a preallocated log, and
//! commits of the engine. A directory is used again after some rounds, so the test needs little space.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::operation::{Operation, OperationKind, directory_of};

/// Rounds whose files exist at a time.
const ROUNDS: usize = 2;
/// Blocks of a log file.
const LOG_BLOCKS: u64 = 32;
/// Trials from one commit to the next.
const TRIALS_PER_COMMIT: usize = 4;

/// What a trial does to its first file, or beside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Append,
    Overwrite,
    WriteLog,
    /// Renames the first file over the second one.
    Replace,
    Rename,
    /// Renames the first file into another directory.
    Move,
    Link,
    /// Removes the second file.
    Unlink,
    Create,
}

const ACTIONS: [Action; 9] = [
    Action::Append,
    Action::Overwrite,
    Action::WriteLog,
    Action::Replace,
    Action::Rename,
    Action::Move,
    Action::Link,
    Action::Unlink,
    Action::Create,
];

/// A sequence of one or two actions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sequence {
    first: Action,
    /// Whether the first action is synced before the second one.
    synced: bool,
    second: Option<Action>,
}

fn sequences() -> Vec<Sequence> {
    let alone = ACTIONS.map(|first| Sequence { first, synced: true, second: None });
    let needs_second_file = |action| matches!(action, Action::Replace | Action::Unlink);
    let pairs = ACTIONS.into_iter().flat_map(|first| {
        ACTIONS
            .into_iter()
            // The second file is gone after the first action.
            .filter(move |second| !(needs_second_file(first) && needs_second_file(*second)))
            .flat_map(move |second| {
                [false, true].map(|synced| Sequence { first, synced, second: Some(second) })
            })
    });
    alone.into_iter().chain(pairs).collect()
}

fn trial_directory(slot: usize) -> PathBuf {
    PathBuf::from(format!("trials/{slot:03}"))
}

/// The script of a seed.
pub(super) struct Script {
    seed: u64,
    transactions: bool,
    round: usize,
    queue: VecDeque<Operation>,
    /// Names that the last trial in each directory left.
    left: Vec<BTreeSet<PathBuf>>,
    /// The next block of the log; `None` before there is one.
    log_block: Option<u64>,
    row: i32,
}

impl Script {
    pub(super) fn new(seed: u64, transactions: bool) -> Script {
        let left = vec![BTreeSet::new(); sequences().len() * ROUNDS];
        Script { seed, transactions, round: 0, queue: VecDeque::new(), left, log_block: None, row: 0 }
    }

    /// The directories that must exist before the first operation.
    pub(super) fn directories() -> Vec<PathBuf> {
        let trials = (0..sequences().len() * ROUNDS).map(|slot| trial_directory(slot).join("other"));
        std::iter::once("log".into()).chain(trials).collect()
    }

    fn add_round(&mut self) {
        let mut order = sequences();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(self.seed.wrapping_add(self.round as u64)));
        let base = self.round % ROUNDS * order.len();
        for (number, sequence) in order.into_iter().enumerate() {
            self.add_trial(base + number, sequence);
            self.add_log_write();
            if self.transactions && number % TRIALS_PER_COMMIT == 0 {
                self.row = self.row.saturating_add(1);
                self.queue.push_back(Operation::Commit { row: self.row });
            }
        }
        self.round += 1;
    }

    fn add_trial(&mut self, slot: usize, sequence: Sequence) {
        let directory = trial_directory(slot);
        let queue = &mut self.queue;
        let Some(left) = self.left.get_mut(slot) else { return };
        if !left.is_empty() {
            queue.extend(std::mem::take(left).into_iter().map(|path| Operation::Unlink { path }));
            queue.push_back(Operation::SyncDirectory { path: directory.clone() });
            queue.push_back(Operation::SyncDirectory { path: directory.join("other") });
        }
        let mut trial = Trial {
            first: directory.join("a"),
            blocks: 0,
            second: Some(directory.join("b")),
            fresh: b'c',
            directory,
            left,
            queue,
        };
        trial.prepare();
        let covering = trial.act(sequence.first);
        match sequence.second {
            None => trial.queue.extend(covering),
            Some(second) => {
                if sequence.synced {
                    trial.queue.extend(covering);
                }
                let covering = trial.act(second);
                trial.queue.extend(covering);
            }
        }
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
        queue.push_back(Operation::Write {
            path: path.clone(),
            block,
            blocks: 1,
            kind: OperationKind::LogWrite,
        });
        queue.push_back(Operation::SyncFile { path });
    }
}

impl Iterator for Script {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        if self.queue.is_empty() {
            self.add_round();
        }
        self.queue.pop_front()
    }
}

/// Where a trial is.
struct Trial<'s> {
    directory: PathBuf,
    /// Name of the first file.
    first: PathBuf,
    /// Blocks of the first file.
    blocks: u64,
    second: Option<PathBuf>,
    /// The next name that is not in use.
    fresh: u8,
    left: &'s mut BTreeSet<PathBuf>,
    queue: &'s mut VecDeque<Operation>,
}

impl Trial<'_> {
    fn name(&mut self, directory: &Path) -> PathBuf {
        self.fresh += 1;
        directory.join(char::from(self.fresh - 1).to_string())
    }

    fn add_file(&mut self, path: PathBuf, blocks: u64) {
        self.queue.push_back(Operation::Create { path: path.clone() });
        self.left.insert(path.clone());
        self.queue.push_back(Operation::Write { path, block: 0, blocks, kind: OperationKind::Append });
    }

    /// Makes both files durable.
    fn prepare(&mut self) {
        self.blocks = 2;
        for (path, blocks) in [(Some(self.first.clone()), self.blocks), (self.second.clone(), 1)] {
            let Some(path) = path else { continue };
            self.add_file(path.clone(), blocks);
            self.queue.push_back(Operation::SyncFile { path });
        }
        self.queue.push_back(Operation::SyncDirectory { path: self.directory.clone() });
    }

    /// Does an action, and returns the syncs that cover it.
    fn act(&mut self, action: Action) -> Vec<Operation> {
        let path = self.first.clone();
        match action {
            Action::Append => self.write(self.blocks, 2, OperationKind::Append),
            Action::Overwrite => self.write(0, 2, OperationKind::Overwrite),
            Action::WriteLog => {
                let block = self.blocks;
                self.blocks += 4;
                self.queue.push_back(Operation::Preallocate { path, blocks: self.blocks });
                self.write(block, 1, OperationKind::LogWrite)
            }
            Action::Replace => match self.second.take() {
                Some(to) => self.rename(to),
                None => Vec::new(),
            },
            Action::Rename => {
                let to = self.name(directory_of(&path));
                self.rename(to)
            }
            Action::Move => {
                let other = self.directory.join("other");
                let target = if directory_of(&path) == other { self.directory.clone() } else { other };
                let to = self.name(&target);
                self.rename(to)
            }
            Action::Link => {
                let directory = self.directory.clone();
                let to = self.name(&directory);
                self.left.insert(to.clone());
                self.queue.push_back(Operation::Link { from: path, to });
                vec![Operation::SyncDirectory { path: directory }]
            }
            Action::Unlink => match self.second.take() {
                Some(path) => {
                    self.left.remove(&path);
                    let directory = directory_of(&path).to_path_buf();
                    self.queue.push_back(Operation::Unlink { path });
                    vec![Operation::SyncDirectory { path: directory }]
                }
                None => Vec::new(),
            },
            Action::Create => {
                let directory = self.directory.clone();
                let path = self.name(&directory);
                self.add_file(path.clone(), 1);
                vec![Operation::SyncFile { path }, Operation::SyncDirectory { path: directory }]
            }
        }
    }

    fn write(&mut self, block: u64, blocks: u64, kind: OperationKind) -> Vec<Operation> {
        let path = self.first.clone();
        self.blocks = self.blocks.max(block + blocks);
        self.queue.push_back(Operation::Write { path: path.clone(), block, blocks, kind });
        vec![Operation::SyncFile { path }]
    }

    fn rename(&mut self, to: PathBuf) -> Vec<Operation> {
        let from = std::mem::replace(&mut self.first, to.clone());
        self.left.remove(&from);
        self.left.insert(to.clone());
        // First the directory that has the new name: a file must be somewhere.
        let mut directories = vec![directory_of(&to).to_path_buf(), directory_of(&from).to_path_buf()];
        directories.dedup();
        self.queue.push_back(Operation::Rename { from, to });
        directories.into_iter().map(|path| Operation::SyncDirectory { path }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_has_every_sequence_once_and_a_seed_decides_about_all() {
        // 9 alone; of 81 pairs, 4 need the second file twice; each with and without a sync.
        assert_eq!(sequences().len(), 9 + 77 * 2);
        let some = |seed| Script::new(seed, true).take(20_000).collect::<Vec<_>>();
        assert_eq!(some(1), some(1));
        assert_ne!(some(1), some(2));
        for kind in OperationKind::ALL {
            assert!(some(1).iter().any(|operation| operation.kind() == Some(kind)), "{kind:?}");
        }
    }

    #[test]
    fn the_operations_are_possible_and_the_files_stay_few() {
        let mut names = BTreeSet::new();
        let directories: BTreeSet<PathBuf> =
            Script::directories().iter().flat_map(|path| path.ancestors()).map(Path::to_path_buf).collect();
        for operation in Script::new(3, true).take(60_000) {
            match operation {
                Operation::Create { path } => {
                    assert!(directories.contains(directory_of(&path)) && names.insert(path))
                }
                Operation::Write { path, .. }
                | Operation::Preallocate { path, .. }
                | Operation::SyncFile { path } => assert!(names.contains(&path), "{}", path.display()),
                Operation::Rename { from, to } => {
                    assert!(names.remove(&from));
                    names.insert(to);
                }
                Operation::Link { from, to } => assert!(names.contains(&from) && names.insert(to)),
                Operation::Unlink { path } => assert!(names.remove(&path)),
                Operation::SyncDirectory { path } => assert!(directories.contains(&path)),
                Operation::Commit { .. } => {}
            }
            assert!(names.len() < 2000);
        }
    }
}
