//! All sequences of one or two actions on a few names, with and without syncs after each action.
//!
//! A name may be given to another file, and a file may have more than one name. Most known file system bugs require
//! this: a file is renamed and its old name is reused, a name is removed and created again, or a link outlives the
//! name that it was made from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::operation::{Operation, OperationKind, directory_of};

/// Files that exist at the start of a sequence, with their sizes in blocks.
const BEGIN: [(Name, u64); 3] = [(Name::First, 2), (Name::Second, 1), (Name::Third, 1)];
/// Number of blocks in a file that a sequence creates.
const NEW_BLOCKS: u64 = 1;
/// Number of blocks written by an append or overwrite.
const WRITTEN: u64 = 2;
/// Number of blocks preallocated before one of them is written.
const PREALLOCATED: u64 = 4;

/// A name used by a sequence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Name {
    /// Exists at the start.
    First,
    /// Exists at the start.
    Second,
    /// Exists at the start. It is only used to replace other names or to be replaced by them.
    Third,
    /// Unused at the start.
    Fresh,
    /// Unused at the start, and located in a different directory from the other names.
    Elsewhere,
}

impl Name {
    const ALL: [Name; 5] = [Name::First, Name::Second, Name::Third, Name::Fresh, Name::Elsewhere];

    /// Returns the path for this name, given the sequence's directory.
    pub(super) fn path(self, directory: &Path) -> PathBuf {
        directory.join(match self {
            Name::First => "a",
            Name::Second => "b",
            Name::Third => "d",
            Name::Fresh => "c",
            Name::Elsewhere => "other/c",
        })
    }
}

/// How a write is performed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Manner {
    pub(super) kind: OperationKind,
    /// True if the write goes through the page cache, false if it bypasses the cache.
    pub(super) buffered: bool,
}

/// One action in a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    /// Creates a file with [`NEW_BLOCKS`] blocks.
    Create(Name),
    Write(Name, Manner),
    /// Renames a file. The second name is unused, or its file is replaced.
    Rename(Name, Name),
    Link(Name, Name),
    Unlink(Name),
}

/// Which syncs follow an action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Syncs {
    /// Sync the file, under the name that it has after the action.
    pub(super) file: bool,
    /// Sync the directories in which names changed.
    pub(super) directory: bool,
}

impl Syncs {
    pub(super) const NONE: Syncs = Syncs { file: false, directory: false };
    pub(super) const FILE: Syncs = Syncs { file: true, directory: false };
    pub(super) const DIRECTORY: Syncs = Syncs { file: false, directory: true };
    pub(super) const BOTH: Syncs = Syncs { file: true, directory: true };
}

/// A sequence of one or two actions, each followed by syncs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sequence {
    pub(super) first: (Action, Syncs),
    pub(super) second: Option<(Action, Syncs)>,
}

impl Sequence {
    /// Returns all sequences. Sequences with hard links are included only if `links` is true.
    pub(super) fn all(links: bool) -> Vec<Sequence> {
        let begin = Files::of(&BEGIN);
        // The files that exist at the start are interchangeable, so it is sufficient that the first file is the first
        // to change and the second file is the first to be replaced.
        let alike = |action: &Action| {
            matches!(action.subject(), Name::Second | Name::Third)
                || matches!(action, Action::Rename(_, Name::Third))
        };
        let mut all = Vec::new();
        for first in begin.actions(links).into_iter().filter(|action| !alike(action)) {
            let mut files = begin.clone();
            files.apply(first);
            let seconds = files.actions(links);
            let behind = |action: Action| action.syncs().iter().map(move |syncs| (action, *syncs));
            for first in behind(first) {
                all.push(Sequence { first, second: None });
                let seconds = seconds.iter().flat_map(|second| behind(*second));
                all.extend(seconds.map(|second| Sequence { first, second: Some(second) }));
            }
        }
        all
    }

    /// Returns the files that exist at the start of the sequence.
    pub(super) fn files(self) -> Files {
        let third = |action| matches!(action, Action::Rename(from, to) if [from, to].contains(&Name::Third));
        let without = &BEGIN[..BEGIN.len() - 1];
        Files::of(if self.steps().any(|(action, _)| third(action)) { &BEGIN } else { without })
    }

    /// Returns the actions, each with its syncs.
    pub(super) fn steps(self) -> impl Iterator<Item = (Action, Syncs)> {
        std::iter::once(self.first).chain(self.second)
    }
}

impl Action {
    /// Returns the name to which the action applies.
    fn subject(self) -> Name {
        match self {
            Action::Create(name) | Action::Write(name, _) | Action::Unlink(name) => name,
            Action::Rename(from, _) | Action::Link(from, _) => from,
        }
    }

    /// Returns the sync combinations that affect the action, including none.
    fn syncs(self) -> &'static [Syncs] {
        match self {
            Action::Create(_) | Action::Rename(..) | Action::Link(..) => {
                &[Syncs::NONE, Syncs::FILE, Syncs::DIRECTORY, Syncs::BOTH]
            }
            Action::Write(..) => &[Syncs::NONE, Syncs::FILE],
            Action::Unlink(_) => &[Syncs::NONE, Syncs::DIRECTORY],
        }
    }

    /// Returns the operations that perform the syncs after the action.
    pub(super) fn synced(self, syncs: Syncs, directory: &Path) -> Vec<Operation> {
        let path = |name: Name| name.path(directory);
        let (file, changed) = match self {
            Action::Create(name) => (Some(name), vec![name]),
            Action::Write(name, _) => (Some(name), Vec::new()),
            // The new name's directory is synced first. Otherwise, a crash between the two syncs could leave the file
            // without a name.
            Action::Rename(from, to) => (Some(to), vec![to, from]),
            Action::Link(_, to) => (Some(to), vec![to]),
            Action::Unlink(name) => (None, vec![name]),
        };
        let mut directories: Vec<PathBuf> =
            changed.into_iter().map(|name| directory_of(&path(name)).to_path_buf()).collect();
        directories.dedup();
        let file = file.filter(|_| syncs.file).map(|name| Operation::SyncFile { path: path(name) });
        let directories = directories.into_iter().filter(|_| syncs.directory);
        file.into_iter().chain(directories.map(|path| Operation::SyncDirectory { path })).collect()
    }
}

/// The file under each name, and the number of blocks in each file.
#[derive(Clone, Debug)]
pub(super) struct Files {
    names: BTreeMap<Name, usize>,
    blocks: Vec<u64>,
}

impl Files {
    fn of(begin: &[(Name, u64)]) -> Files {
        let names = begin.iter().enumerate().map(|(file, (name, _))| (*name, file)).collect();
        Files { names, blocks: begin.iter().map(|(_, blocks)| *blocks).collect() }
    }

    /// Returns the names that refer to a file.
    pub(super) fn names(&self) -> impl Iterator<Item = Name> + '_ {
        self.names.keys().copied()
    }

    /// Returns operations that create all files durably.
    pub(super) fn prepare(&self, directory: &Path) -> Vec<Operation> {
        let mut all = Vec::new();
        for (name, file) in &self.names {
            let blocks = self.blocks.get(*file).copied().unwrap_or_default();
            all.extend(new_file(&name.path(directory), blocks));
            all.push(Operation::SyncFile { path: name.path(directory) });
        }
        all.push(Operation::SyncDirectory { path: directory.into() });
        all
    }

    /// Returns the actions that are possible in this state.
    fn actions(&self, links: bool) -> Vec<Action> {
        let free =
            || Name::ALL.into_iter().filter(|name| *name != Name::Third && !self.names.contains_key(name));
        let mut all: Vec<Action> = free().map(Action::Create).collect();
        for (&name, file) in &self.names {
            // A rename between two names for the same file does nothing.
            let targets = Name::ALL.into_iter().filter(|to| self.names.get(to) != Some(file));
            if name == Name::Third {
                let replaced = targets.filter(|to| self.names.contains_key(to));
                all.extend(replaced.map(|to| Action::Rename(name, to)));
                continue;
            }
            let gone = |to: &Name| *to == Name::Third && !self.names.contains_key(to);
            all.extend(targets.filter(|to| !gone(to)).map(|to| Action::Rename(name, to)));
            for kind in [OperationKind::Append, OperationKind::Overwrite, OperationKind::LogWrite] {
                let manners = [false, true].map(|buffered| Manner { kind, buffered });
                all.extend(manners.map(|manner| Action::Write(name, manner)));
            }
            all.extend(free().filter(|_| links).map(|to| Action::Link(name, to)));
            all.push(Action::Unlink(name));
        }
        all
    }

    fn file(&self, name: Name) -> usize {
        self.names.get(&name).copied().unwrap_or_default()
    }

    /// Updates names and lengths according to an action.
    fn apply(&mut self, action: Action) {
        match action {
            Action::Create(name) => {
                self.names.insert(name, self.blocks.len());
                self.blocks.push(NEW_BLOCKS);
            }
            Action::Write(name, manner) => {
                let (_, end) = self.written(name, manner);
                let file = self.file(name);
                if let Some(blocks) = self.blocks.get_mut(file) {
                    *blocks = end.max(*blocks);
                }
            }
            Action::Rename(from, to) => {
                if let Some(file) = self.names.remove(&from) {
                    self.names.insert(to, file);
                }
            }
            Action::Link(from, to) => {
                self.names.insert(to, self.file(from));
            }
            Action::Unlink(name) => {
                self.names.remove(&name);
            }
        }
    }

    /// Returns the blocks that a write covers and the file's length afterwards, in blocks.
    fn written(&self, name: Name, manner: Manner) -> (std::ops::Range<u64>, u64) {
        let len = self.blocks.get(self.file(name)).copied().unwrap_or_default();
        match manner.kind {
            OperationKind::Overwrite => (0..WRITTEN.min(len), len),
            OperationKind::LogWrite => (len..len + 1, len + PREALLOCATED),
            _ => (len..len + WRITTEN, len + WRITTEN),
        }
    }

    /// Performs an action: updates the state, and returns the operations to execute.
    pub(super) fn act(&mut self, action: Action, directory: &Path) -> Vec<Operation> {
        let path = |name: Name| name.path(directory);
        let operations = match action {
            Action::Create(name) => new_file(&path(name), NEW_BLOCKS),
            Action::Write(name, Manner { kind, buffered }) => {
                let (range, end) = self.written(name, Manner { kind, buffered });
                let (block, blocks) = (range.start, range.end - range.start);
                let grown = Operation::Preallocate { path: path(name), blocks: end };
                let grown = (kind == OperationKind::LogWrite).then_some(grown);
                let write = Operation::Write { path: path(name), block, blocks, kind, buffered };
                grown.into_iter().chain([write]).collect()
            }
            Action::Rename(from, to) => vec![Operation::Rename { from: path(from), to: path(to) }],
            Action::Link(from, to) => vec![Operation::Link { from: path(from), to: path(to) }],
            Action::Unlink(name) => vec![Operation::Unlink { path: path(name) }],
        };
        self.apply(action);
        operations
    }
}

fn new_file(path: &Path, blocks: u64) -> Vec<Operation> {
    let (path, kind) = (path.to_path_buf(), OperationKind::Append);
    vec![
        Operation::Create { path: path.clone() },
        Operation::Write { path, block: 0, blocks, kind, buffered: false },
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Returns true if this sequence is one of all sequences.
    fn has(first: (Action, Syncs), second: (Action, Syncs)) -> bool {
        Sequence::all(true).contains(&Sequence { first, second: Some(second) })
    }

    #[test]
    fn each_sequence_is_there_once_and_links_can_be_left_out() {
        let all = Sequence::all(true);
        assert_eq!(all.iter().filter(|one| one.second.is_none()).count(), 42);
        assert_eq!(all.len(), 42 + 4012);
        let different: HashSet<String> = all.iter().map(|one| format!("{one:?}")).collect();
        assert_eq!(different.len(), all.len());
        let links = |one: &Sequence| one.steps().any(|(action, _)| matches!(action, Action::Link(..)));
        assert!(all.iter().any(links) && !Sequence::all(false).iter().any(links));
    }

    #[test]
    fn names_are_used_again_as_in_known_bugs_with_and_without_syncs() {
        use Action::{Create, Link, Rename, Unlink, Write};
        use Name::{First, Fresh, Second, Third};
        let every = [Syncs::NONE, Syncs::FILE, Syncs::DIRECTORY, Syncs::BOTH];
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
            for behind in [Syncs::NONE, Syncs::DIRECTORY] {
                assert!(has((Link(First, Fresh), between), (Unlink(First), behind)));
                assert!(has((Unlink(First), behind), (Create(First), between)));
            }
            for (behind, buffered) in [(Syncs::NONE, true), (Syncs::FILE, true), (Syncs::FILE, false)] {
                let append = Write(Fresh, Manner { kind: OperationKind::Append, buffered });
                assert!(has((Rename(First, Fresh), between), (append, behind)));
            }
        }
    }
}
