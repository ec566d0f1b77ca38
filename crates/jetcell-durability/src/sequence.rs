//! All sequences of one or two actions on a few names, with and without syncs after each action.
//!
//! A name may be given to another file, and a file may have more than one name. Most known file system bugs require
//! this: a file is renamed and its old name is reused, a name is removed and created again, or a link outlives the
//! name that it was made from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::operation::{StorageOperation, StorageOperationKind, directory_of};

/// Files that exist at the start of a sequence, with their sizes in blocks.
const INITIAL_FILES: [(SequenceFileName, u64); 3] =
    [(SequenceFileName::First, 2), (SequenceFileName::Second, 1), (SequenceFileName::Third, 1)];
/// Number of blocks in a file that a sequence creates.
const NEW_FILE_BLOCKS: u64 = 1;
/// Number of blocks written by an append or overwrite.
const WRITTEN_BLOCKS: u64 = 2;
/// Number of blocks preallocated before one of them is written.
const PREALLOCATED_BLOCKS: u64 = 4;

/// A file name used in a sequence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum SequenceFileName {
    /// Exists at the start.
    First,
    /// Exists at the start.
    Second,
    /// Exists at the start. It only replaces other names or is replaced by them.
    Third,
    /// Unused at the start.
    Fresh,
    /// Unused at the start, and located in a different directory from the other names.
    Elsewhere,
}

impl SequenceFileName {
    const ALL: [SequenceFileName; 5] = [
        SequenceFileName::First,
        SequenceFileName::Second,
        SequenceFileName::Third,
        SequenceFileName::Fresh,
        SequenceFileName::Elsewhere,
    ];

    /// Returns the path for this name, given the sequence's directory.
    pub(crate) fn path(self, directory: &Path) -> PathBuf {
        directory.join(match self {
            SequenceFileName::First => "a",
            SequenceFileName::Second => "b",
            SequenceFileName::Third => "d",
            SequenceFileName::Fresh => "c",
            SequenceFileName::Elsewhere => "other/c",
        })
    }
}

/// How a write is performed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WriteMethod {
    pub(crate) kind: StorageOperationKind,
    /// True if the write goes through the page cache, false if it bypasses the cache.
    pub(crate) buffered: bool,
}

/// One action in a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SequenceAction {
    /// Creates a file with [`NEW_FILE_BLOCKS`] blocks.
    Create(SequenceFileName),
    Write(SequenceFileName, WriteMethod),
    /// Renames a file. If the second name is already in use, its file is replaced.
    Rename(SequenceFileName, SequenceFileName),
    Link(SequenceFileName, SequenceFileName),
    Unlink(SequenceFileName),
}

/// Which syncs follow each action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SyncSet {
    /// Sync the file, under the name that it has after the action.
    pub(crate) file: bool,
    /// Sync the directories in which names changed.
    pub(crate) directory: bool,
}

impl SyncSet {
    pub(crate) const NONE: SyncSet = SyncSet { file: false, directory: false };
    pub(crate) const FILE: SyncSet = SyncSet { file: true, directory: false };
    pub(crate) const DIRECTORY: SyncSet = SyncSet { file: false, directory: true };
    pub(crate) const BOTH: SyncSet = SyncSet { file: true, directory: true };
}

/// A sequence of one or two actions, each followed by syncs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OperationSequence {
    pub(crate) first: (SequenceAction, SyncSet),
    pub(crate) second: Option<(SequenceAction, SyncSet)>,
}

impl OperationSequence {
    /// Returns all sequences. Sequences with hard links are included only if `links` is true.
    pub(crate) fn all(links: bool) -> Vec<OperationSequence> {
        let begin = SequenceFiles::new(&INITIAL_FILES);
        // The initial files are interchangeable, so one choice suffices: the first file changes first, and the second
        // file is replaced first.
        let alike = |action: &SequenceAction| {
            matches!(action.subject(), SequenceFileName::Second | SequenceFileName::Third)
                || matches!(action, SequenceAction::Rename(_, SequenceFileName::Third))
        };
        let mut all = Vec::new();
        for first in begin.actions(links).into_iter().filter(|action| !alike(action)) {
            let mut files = begin.clone();
            files.apply(first);
            let seconds = files.actions(links);
            let behind = |action: SequenceAction| action.syncs().iter().map(move |syncs| (action, *syncs));
            for first in behind(first) {
                all.push(OperationSequence { first, second: None });
                let seconds = seconds.iter().flat_map(|second| behind(*second));
                all.extend(seconds.map(|second| OperationSequence { first, second: Some(second) }));
            }
        }
        all
    }

    /// Returns the files that exist at the start of the sequence.
    pub(crate) fn files(self) -> SequenceFiles {
        let third = |action| matches!(action, SequenceAction::Rename(from, to) if [from, to].contains(&SequenceFileName::Third));
        let without = &INITIAL_FILES[..INITIAL_FILES.len() - 1];
        SequenceFiles::new(if self.steps().any(|(action, _)| third(action)) {
            &INITIAL_FILES
        } else {
            without
        })
    }

    /// Returns the actions, each with its syncs.
    pub(crate) fn steps(self) -> impl Iterator<Item = (SequenceAction, SyncSet)> {
        std::iter::once(self.first).chain(self.second)
    }
}

impl SequenceAction {
    /// Returns the name to which the action applies.
    fn subject(self) -> SequenceFileName {
        match self {
            SequenceAction::Create(name) | SequenceAction::Write(name, _) | SequenceAction::Unlink(name) => {
                name
            }
            SequenceAction::Rename(from, _) | SequenceAction::Link(from, _) => from,
        }
    }

    /// Returns the sync combinations that affect the action, including none.
    fn syncs(self) -> &'static [SyncSet] {
        match self {
            SequenceAction::Create(_) | SequenceAction::Rename(..) | SequenceAction::Link(..) => {
                &[SyncSet::NONE, SyncSet::FILE, SyncSet::DIRECTORY, SyncSet::BOTH]
            }
            SequenceAction::Write(..) => &[SyncSet::NONE, SyncSet::FILE],
            SequenceAction::Unlink(_) => &[SyncSet::NONE, SyncSet::DIRECTORY],
        }
    }

    /// Returns the operations that perform the syncs after the action.
    pub(crate) fn sync_operations(self, syncs: SyncSet, directory: &Path) -> Vec<StorageOperation> {
        let path = |name: SequenceFileName| name.path(directory);
        let (file, changed) = match self {
            SequenceAction::Create(name) => (Some(name), vec![name]),
            SequenceAction::Write(name, _) => (Some(name), Vec::new()),
            // The new name's directory is synced first. Otherwise, a crash between the two syncs could leave the file
            // without a name.
            SequenceAction::Rename(from, to) => (Some(to), vec![to, from]),
            SequenceAction::Link(_, to) => (Some(to), vec![to]),
            SequenceAction::Unlink(name) => (None, vec![name]),
        };
        let mut directories: Vec<PathBuf> =
            changed.into_iter().map(|name| directory_of(&path(name)).to_path_buf()).collect();
        directories.dedup();
        let file = file.filter(|_| syncs.file).map(|name| StorageOperation::SyncFile { path: path(name) });
        let directories = directories.into_iter().filter(|_| syncs.directory);
        file.into_iter().chain(directories.map(|path| StorageOperation::SyncDirectory { path })).collect()
    }
}

/// Maps each name to its file and each file to its number of blocks.
#[derive(Clone, Debug)]
pub(crate) struct SequenceFiles {
    names: BTreeMap<SequenceFileName, usize>,
    blocks: Vec<u64>,
}

impl SequenceFiles {
    fn new(begin: &[(SequenceFileName, u64)]) -> SequenceFiles {
        let names = begin.iter().enumerate().map(|(file, (name, _))| (*name, file)).collect();
        SequenceFiles { names, blocks: begin.iter().map(|(_, blocks)| *blocks).collect() }
    }

    /// Returns the names that refer to a file.
    pub(crate) fn names(&self) -> impl Iterator<Item = SequenceFileName> + '_ {
        self.names.keys().copied()
    }

    /// Returns operations that create all files durably.
    pub(crate) fn prepare(&self, directory: &Path) -> Vec<StorageOperation> {
        let mut all = Vec::new();
        for (name, file) in &self.names {
            let blocks = self.blocks.get(*file).copied().unwrap_or_default();
            all.extend(new_file(&name.path(directory), blocks));
            all.push(StorageOperation::SyncFile { path: name.path(directory) });
        }
        all.push(StorageOperation::SyncDirectory { path: directory.into() });
        all
    }

    /// Returns the actions that are possible in this state.
    fn actions(&self, links: bool) -> Vec<SequenceAction> {
        let free = || {
            SequenceFileName::ALL
                .into_iter()
                .filter(|name| *name != SequenceFileName::Third && !self.names.contains_key(name))
        };
        let mut all: Vec<SequenceAction> = free().map(SequenceAction::Create).collect();
        for (&name, file) in &self.names {
            // A rename between two names for the same file does nothing.
            let targets = SequenceFileName::ALL.into_iter().filter(|to| self.names.get(to) != Some(file));
            if name == SequenceFileName::Third {
                let replaced = targets.filter(|to| self.names.contains_key(to));
                all.extend(replaced.map(|to| SequenceAction::Rename(name, to)));
                continue;
            }
            let gone = |to: &SequenceFileName| *to == SequenceFileName::Third && !self.names.contains_key(to);
            all.extend(targets.filter(|to| !gone(to)).map(|to| SequenceAction::Rename(name, to)));
            for kind in [
                StorageOperationKind::Append,
                StorageOperationKind::Overwrite,
                StorageOperationKind::LogWrite,
            ] {
                let manners = [false, true].map(|buffered| WriteMethod { kind, buffered });
                all.extend(manners.map(|manner| SequenceAction::Write(name, manner)));
            }
            all.extend(free().filter(|_| links).map(|to| SequenceAction::Link(name, to)));
            all.push(SequenceAction::Unlink(name));
        }
        all
    }

    fn file(&self, name: SequenceFileName) -> usize {
        self.names.get(&name).copied().unwrap_or_default()
    }

    /// Updates names and lengths according to an action.
    fn apply(&mut self, action: SequenceAction) {
        match action {
            SequenceAction::Create(name) => {
                self.names.insert(name, self.blocks.len());
                self.blocks.push(NEW_FILE_BLOCKS);
            }
            SequenceAction::Write(name, manner) => {
                let (_, end) = self.write_range(name, manner);
                let file = self.file(name);
                if let Some(blocks) = self.blocks.get_mut(file) {
                    *blocks = end.max(*blocks);
                }
            }
            SequenceAction::Rename(from, to) => {
                if let Some(file) = self.names.remove(&from) {
                    self.names.insert(to, file);
                }
            }
            SequenceAction::Link(from, to) => {
                self.names.insert(to, self.file(from));
            }
            SequenceAction::Unlink(name) => {
                self.names.remove(&name);
            }
        }
    }

    /// Returns the blocks that a write covers and the file's length afterwards, in blocks.
    fn write_range(&self, name: SequenceFileName, manner: WriteMethod) -> (std::ops::Range<u64>, u64) {
        let len = self.blocks.get(self.file(name)).copied().unwrap_or_default();
        match manner.kind {
            StorageOperationKind::Overwrite => (0..WRITTEN_BLOCKS.min(len), len),
            StorageOperationKind::LogWrite => (len..len + 1, len + PREALLOCATED_BLOCKS),
            _ => (len..len + WRITTEN_BLOCKS, len + WRITTEN_BLOCKS),
        }
    }

    /// Performs an action: updates the state, and returns the operations to execute.
    pub(crate) fn perform(&mut self, action: SequenceAction, directory: &Path) -> Vec<StorageOperation> {
        let path = |name: SequenceFileName| name.path(directory);
        let operations = match action {
            SequenceAction::Create(name) => new_file(&path(name), NEW_FILE_BLOCKS),
            SequenceAction::Write(name, WriteMethod { kind, buffered }) => {
                let (range, end) = self.write_range(name, WriteMethod { kind, buffered });
                let (block, blocks) = (range.start, range.end - range.start);
                let grown = StorageOperation::Preallocate { path: path(name), blocks: end };
                let grown = (kind == StorageOperationKind::LogWrite).then_some(grown);
                let write = StorageOperation::Write { path: path(name), block, blocks, kind, buffered };
                grown.into_iter().chain([write]).collect()
            }
            SequenceAction::Rename(from, to) => {
                vec![StorageOperation::Rename { from: path(from), to: path(to) }]
            }
            SequenceAction::Link(from, to) => vec![StorageOperation::Link { from: path(from), to: path(to) }],
            SequenceAction::Unlink(name) => vec![StorageOperation::Unlink { path: path(name) }],
        };
        self.apply(action);
        operations
    }
}

fn new_file(path: &Path, blocks: u64) -> Vec<StorageOperation> {
    let (path, kind) = (path.to_path_buf(), StorageOperationKind::Append);
    vec![
        StorageOperation::Create { path: path.clone() },
        StorageOperation::Write { path, block: 0, blocks, kind, buffered: false },
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Returns true if this sequence is one of all sequences.
    fn has(first: (SequenceAction, SyncSet), second: (SequenceAction, SyncSet)) -> bool {
        OperationSequence::all(true).contains(&OperationSequence { first, second: Some(second) })
    }

    #[test]
    fn sequences_are_unique_and_links_can_be_excluded() {
        let all = OperationSequence::all(true);
        assert_eq!(all.iter().filter(|one| one.second.is_none()).count(), 42);
        assert_eq!(all.len(), 42 + 4012);
        let different: HashSet<String> = all.iter().map(|one| format!("{one:?}")).collect();
        assert_eq!(different.len(), all.len());
        let links = |one: &OperationSequence| {
            one.steps().any(|(action, _)| matches!(action, SequenceAction::Link(..)))
        };
        assert!(all.iter().any(links) && !OperationSequence::all(false).iter().any(links));
    }

    #[test]
    fn sequences_reuse_names_like_known_bugs_with_every_sync_set() {
        use SequenceAction::{Create, Link, Rename, Unlink, Write};
        use SequenceFileName::{First, Fresh, Second, Third};
        let every = [SyncSet::NONE, SyncSet::FILE, SyncSet::DIRECTORY, SyncSet::BOTH];
        for between in every {
            for behind in every {
                for (first, second) in [
                    (Rename(First, Fresh), Create(First)),
                    (Rename(First, Fresh), Rename(Second, First)),
                    (Rename(First, Second), Rename(Third, Second)),
                    (Rename(First, Second), Rename(Second, Third)),
                    (Create(Fresh), Rename(Fresh, First)),
                    (Link(First, Fresh), Rename(Second, First)),
                ] {
                    assert!(has((first, between), (second, behind)), "{first:?} {second:?}");
                }
            }
            for behind in [SyncSet::NONE, SyncSet::DIRECTORY] {
                assert!(has((Link(First, Fresh), between), (Unlink(First), behind)));
                assert!(has((Unlink(First), behind), (Create(First), between)));
            }
            for (behind, buffered) in [(SyncSet::NONE, true), (SyncSet::FILE, true), (SyncSet::FILE, false)] {
                let append = Write(Fresh, WriteMethod { kind: StorageOperationKind::Append, buffered });
                assert!(has((Rename(First, Fresh), between), (append, behind)));
            }
        }
    }
}
