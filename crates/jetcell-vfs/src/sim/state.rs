//! State of a simulated disk: the state visible to programs, the durable state, and the changes between them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use jetcell_sync::Arc;

use super::content::SimContent;
use super::power_off;

/// Identifier of a file, independent of its names, like an inode number.
pub(super) type InodeNumber = u64;

/// A file change that has not been synced yet.
#[derive(Clone)]
pub(super) enum UnsyncedChange {
    Write { offset: u64, data: Arc<[u8]> },
    Length(u64),
}

/// A directory change that no `sync_directory` call has made durable yet.
#[derive(Clone)]
pub(super) enum NameChange {
    Create { path: PathBuf, node: InodeNumber },
    Remove { path: PathBuf },
    Rename { from: PathBuf, to: PathBuf, node: InodeNumber },
}

impl NameChange {
    /// Applies the change to these names. Returns true if a node may have lost a name.
    pub fn apply(&self, names: &mut BTreeMap<PathBuf, InodeNumber>) -> bool {
        match self {
            NameChange::Create { path, node } => names.insert(path.clone(), *node).is_some(),
            NameChange::Remove { path } => names.remove(path).is_some(),
            NameChange::Rename { from, to, node } => {
                let is_other = names.remove(from).is_some_and(|removed| removed != *node);
                names.insert(to.clone(), *node).is_some() || is_other
            }
        }
    }

    fn concerns(&self, name: &Path) -> bool {
        match self {
            NameChange::Create { path, .. } | NameChange::Remove { path } => path == name,
            NameChange::Rename { from, to, .. } => from == name || to == name,
        }
    }

    /// Returns the directories that this change affects.
    pub fn directories(&self) -> Vec<&Path> {
        match self {
            NameChange::Create { path, .. } | NameChange::Remove { path } => vec![parent(path)],
            NameChange::Rename { from, to, .. } if parent(from) == parent(to) => vec![parent(to)],
            NameChange::Rename { from, to, .. } => vec![parent(from), parent(to)],
        }
    }
}

pub(super) fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// A simulated file. Invariant: `current` is `durable` with all of `unsynced` applied. An injected lost write reaches
/// none of them.
#[derive(Clone, Default)]
pub(super) struct SimInode {
    pub current: SimContent,
    pub durable: SimContent,
    pub unsynced: Vec<UnsyncedChange>,
    /// Number of open handles. A node without names exists as long as it has open handles.
    pub handles: usize,
}

impl SimInode {
    fn change(&mut self, change: UnsyncedChange) {
        apply(&mut self.current, &change);
        self.unsynced.push(change);
    }

    fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            match change {
                UnsyncedChange::Write { offset, data } => {
                    self.durable.share(&self.current, offset, data.len());
                }
                UnsyncedChange::Length(len) => self.durable.set_len(len),
            }
        }
    }
}

fn apply(content: &mut SimContent, change: &UnsyncedChange) {
    match change {
        UnsyncedChange::Write { offset, data } => content.write_shared(*offset, data),
        UnsyncedChange::Length(len) => content.set_len(*len),
    }
}

/// The change that an operation was making when the power was cut. It may have reached the disk.
#[derive(Clone)]
pub(super) enum InterruptedChange {
    File(InodeNumber, UnsyncedChange),
    Name(NameChange),
}

/// State of a simulated disk. Invariant: `names` is `durable_names` with all of `unsynced_names` applied.
#[derive(Clone, Default)]
pub(super) struct DiskState {
    pub nodes: BTreeMap<InodeNumber, SimInode>,
    next_node: InodeNumber,
    pub names: BTreeMap<PathBuf, InodeNumber>,
    pub durable_names: BTreeMap<PathBuf, InodeNumber>,
    pub unsynced_names: Vec<NameChange>,
    pub directories: BTreeSet<PathBuf>,
    pub locks: BTreeSet<PathBuf>,
    pub capacity: Option<u64>,
    /// Number of mutating operations so far.
    pub operations: u64,
    /// The power is cut when `operations` reaches this number.
    pub stop_at: Option<u64>,
    /// True if an operation has failed because the power is off. Only a restart turns the power on again.
    is_off: bool,
    /// Injected errors, keyed by the number of the operation.
    pub faults: BTreeMap<u64, io::ErrorKind>,
    pub interrupted: Vec<InterruptedChange>,
    /// True after the first call that failed because of the power cut. Later calls cannot have reached the disk.
    pub interruption_over: bool,
    /// Path fragments, each with the number of writes to matching files that are still to be lost.
    pub lost_writes: Vec<(String, u64)>,
}

impl DiskState {
    pub fn check_power(&mut self) -> io::Result<()> {
        self.is_off |= self.stop_at.is_some_and(|limit| self.operations >= limit);
        if self.is_off { Err(power_off()) } else { Ok(()) }
    }

    /// Counts a mutating operation. If the power is off, records the change that the operation may still have made.
    fn begin(&mut self, what: impl FnOnce() -> Option<InterruptedChange>) -> io::Result<()> {
        if let Err(error) = self.check_power() {
            if !self.interruption_over {
                self.interrupted.extend(what());
            }
            return Err(error);
        }
        self.operations += 1;
        match self.faults.get(&self.operations) {
            Some(&kind) => Err(io::Error::new(kind, "injected fault")),
            None => Ok(()),
        }
    }

    /// Marks the end of a call. If the power was cut during it, no later call reaches the disk.
    pub fn call_ended(&mut self) {
        self.interruption_over |= !self.interrupted.is_empty();
    }

    pub fn node(&self, id: InodeNumber) -> &SimInode {
        &self.nodes[&id]
    }

    fn node_mut(&mut self, id: InodeNumber) -> &mut SimInode {
        self.nodes.get_mut(&id).expect("nodes with handles are kept")
    }

    pub fn lookup(&self, path: &Path) -> io::Result<InodeNumber> {
        self.names.get(path).copied().ok_or_else(|| missing(path))
    }

    pub fn is_directory(&self, path: &Path) -> bool {
        let names =
            self.names.range::<Path, _>((Bound::Excluded(path), Bound::Unbounded)).map(|(name, _)| name);
        self.directories.contains(path)
            || names.take_while(|name| name.starts_with(path)).any(|name| parent(name) == path)
    }

    pub fn open_node(&mut self, id: InodeNumber) {
        self.node_mut(id).handles += 1;
    }

    pub fn close_node(&mut self, id: InodeNumber) {
        self.node_mut(id).handles -= 1;
        if !self.is_reachable(id) {
            self.nodes.remove(&id);
        }
    }

    fn rename_names(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.unsynced_names.push(change);
    }

    pub fn create(&mut self, path: &Path) -> io::Result<InodeNumber> {
        if self.names.contains_key(path) || self.is_directory(path) {
            return Err(exists(path));
        }
        self.begin(|| None)?;
        let node = self.new_node(SimInode::default());
        self.rename_names(NameChange::Create { path: path.to_owned(), node });
        Ok(node)
    }

    pub fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let node = self.lookup(from)?;
        if self.names.contains_key(to) || self.is_directory(to) {
            return Err(exists(to));
        }
        let change = NameChange::Create { path: to.to_owned(), node };
        self.begin(|| Some(InterruptedChange::Name(change.clone())))?;
        self.rename_names(change);
        Ok(())
    }

    fn new_node(&mut self, node: SimInode) -> InodeNumber {
        self.next_node += 1;
        self.nodes.insert(self.next_node, node);
        self.next_node
    }

    pub fn put(&mut self, path: &Path, bytes: &[u8]) {
        let mut content = SimContent::default();
        content.write(0, bytes);
        let node =
            self.new_node(SimInode { current: content.clone(), durable: content, ..SimInode::default() });
        self.names.insert(path.to_owned(), node);
        self.durable_names.insert(path.to_owned(), node);
        self.unsynced_names.retain(|change| !change.concerns(path));
        self.forget_unreachable();
    }

    pub fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.lookup(path)?;
        let change = NameChange::Remove { path: path.to_owned() };
        self.begin(|| Some(InterruptedChange::Name(change.clone())))?;
        self.rename_names(change);
        Ok(())
    }

    pub fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let node = self.lookup(from)?;
        let change = NameChange::Rename { from: from.to_owned(), to: to.to_owned(), node };
        self.begin(|| Some(InterruptedChange::Name(change.clone())))?;
        if from != to {
            self.rename_names(change);
        }
        Ok(())
    }

    /// Makes the changes to `directory` durable, along with the changes to other directories on which its renames
    /// depend.
    pub fn sync_directory(&mut self, directory: &Path) -> io::Result<()> {
        self.begin(|| None)?;
        let mut reached = BTreeSet::from([directory.to_owned()]);
        let mut is_durable = vec![false; self.unsynced_names.len()];
        for (is_durable, change) in is_durable.iter_mut().zip(&self.unsynced_names).rev() {
            let directories = change.directories();
            if directories.iter().any(|directory| reached.contains(*directory)) {
                *is_durable = true;
                reached.extend(directories.into_iter().map(Path::to_owned));
            }
        }
        let mut are_names_lost = false;
        for (is_durable, change) in is_durable.into_iter().zip(std::mem::take(&mut self.unsynced_names)) {
            if is_durable {
                are_names_lost |= change.apply(&mut self.durable_names);
            } else {
                self.unsynced_names.push(change);
            }
        }
        if are_names_lost {
            self.forget_unreachable();
        }
        Ok(())
    }

    pub fn create_directory(&mut self, directory: &Path) -> io::Result<()> {
        if directory.ancestors().any(|ancestor| self.names.contains_key(ancestor)) {
            let message = format!("a file blocks the path of {}", directory.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        if !self.directories.contains(directory) {
            self.begin(|| None)?;
            self.directories.extend(directory.ancestors().map(Path::to_owned));
        }
        Ok(())
    }

    pub fn write(&mut self, id: InodeNumber, path: &Path, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset.checked_add(data.len() as u64).ok_or(io::ErrorKind::InvalidInput)?;
        let change = UnsyncedChange::Write { offset, data: data.into() };
        self.begin(|| Some(InterruptedChange::File(id, change.clone())))?;
        let len = self.node(id).current.len();
        if end > len {
            self.require_space(end - len)?;
            self.node_mut(id).change(UnsyncedChange::Length(end));
        }
        if !self.loses_write(path) {
            self.node_mut(id).change(change);
        }
        Ok(())
    }

    fn loses_write(&mut self, path: &Path) -> bool {
        if self.lost_writes.is_empty() {
            return false;
        }
        let path = path.to_string_lossy();
        let lost = self.lost_writes.iter_mut().find(|(part, left)| *left > 0 && path.contains(&**part));
        if let Some((_, left)) = lost {
            *left -= 1;
            return true;
        }
        false
    }

    pub fn set_len(&mut self, id: InodeNumber, len: u64) -> io::Result<()> {
        self.begin(|| Some(InterruptedChange::File(id, UnsyncedChange::Length(len))))?;
        self.require_space(len.saturating_sub(self.node(id).current.len()))?;
        self.node_mut(id).change(UnsyncedChange::Length(len));
        Ok(())
    }

    pub fn sync(&mut self, id: InodeNumber) -> io::Result<()> {
        self.begin(|| None)?;
        self.node_mut(id).sync();
        Ok(())
    }

    /// Durably modifies the bytes of a file without a handle.
    pub fn tamper(&mut self, path: &Path, tamper: impl Fn(&mut SimContent)) -> io::Result<()> {
        let id = self.lookup(path)?;
        let node = self.node_mut(id);
        node.sync();
        tamper(&mut node.durable);
        tamper(&mut node.current);
        Ok(())
    }

    pub fn used(&self) -> u64 {
        let linked: BTreeSet<InodeNumber> = self.names.values().copied().collect();
        let alive = self.nodes.iter().filter(|(id, node)| node.handles > 0 || linked.contains(id));
        alive.map(|(_, node)| node.current.len()).sum()
    }

    fn require_space(&self, more: u64) -> io::Result<()> {
        match self.capacity {
            Some(capacity) if more > 0 && self.used().saturating_add(more) > capacity => {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }

    /// Returns the nodes that have a name, or could have one after a crash. A node can occur several times.
    fn named_nodes(&self) -> impl Iterator<Item = InodeNumber> {
        let pending = self.unsynced_names.iter().filter_map(|change| match change {
            NameChange::Create { node, .. } | NameChange::Rename { node, .. } => Some(node),
            NameChange::Remove { .. } => None,
        });
        self.names.values().chain(self.durable_names.values()).chain(pending).copied()
    }

    /// Returns true if a node is referenced by a handle or a name, or could reappear after a crash.
    fn is_reachable(&self, id: InodeNumber) -> bool {
        self.node(id).handles > 0 || self.named_nodes().any(|named| named == id)
    }

    /// Drops the nodes for which `is_reachable` returns false.
    fn forget_unreachable(&mut self) {
        let named: BTreeSet<InodeNumber> = self.named_nodes().collect();
        self.nodes.retain(|id, node| node.handles > 0 || named.contains(id));
    }

    /// Returns the disk after the kernel or the process was restarted: no open files, no locks, power on, operation
    /// count zero.
    pub fn restarted(mut self) -> DiskState {
        for node in self.nodes.values_mut() {
            node.handles = 0;
        }
        self.locks.clear();
        self.lost_writes.clear();
        self.faults.clear();
        self.interrupted.clear();
        (self.interruption_over, self.operations) = (false, 0);
        (self.stop_at, self.is_off) = (None, false);
        self.forget_unreachable();
        self
    }
}

fn missing(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{} does not exist", path.display()))
}

fn exists(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, format!("{} exists", path.display()))
}
