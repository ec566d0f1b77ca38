//! The states that the device may be in after the cut. For each block and each name, the model keeps the durable state
//! and the changes that no completed sync has covered.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::operation::{OperationNumber, StorageOperation, StorageOperationKind, directory_of};
use super::sector::TestFileId;

/// The operation that produced a state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct StateOrigin {
    pub(crate) operation: OperationNumber,
    pub(crate) kind: StorageOperationKind,
}

/// The expected state of a block in a file. Before its first durable write, the block may read as zeros.
#[derive(Clone, Default, Debug)]
pub(crate) struct BlockModel {
    pub(crate) durable: Option<StateOrigin>,
    pub(crate) pending: Vec<StateOrigin>,
}

impl BlockModel {
    /// Returns true if the block may contain data from this operation.
    pub(crate) fn may_be_written_by(&self, operation: OperationNumber) -> bool {
        self.durable.iter().chain(&self.pending).any(|origin| origin.operation == operation)
    }
}

/// The expected state of a file, regardless of its names.
#[derive(Clone, Debug)]
pub(crate) struct FileModel {
    pub(crate) blocks: Vec<BlockModel>,
    /// Number of blocks that the file must have.
    pub(crate) durable_blocks: usize,
    /// Operation that set the file's length.
    pub(crate) length: StateOrigin,
    /// True if a name of the file was removed or given to another file while other changes to its names were still
    /// undecided. The file may then have no name at all.
    pub(crate) may_be_missing: bool,
}

/// The file that a name refers to, if any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NameBinding {
    pub(crate) origin: StateOrigin,
    pub(crate) file: Option<TestFileId>,
}

/// The expected state of a file name. Without a durable binding, the name may never have existed on the device.
#[derive(Clone, Default, Debug)]
pub(crate) struct NameModel {
    pub(crate) durable: Option<NameBinding>,
    pub(crate) pending: Vec<NameBinding>,
}

impl NameModel {
    /// Returns the file that a program would have found under this name before the cut.
    fn current(&self) -> Option<TestFileId> {
        self.pending.last().or(self.durable.as_ref()).and_then(|binding| binding.file)
    }

    pub(crate) fn may_be_absent(&self) -> bool {
        self.durable.is_none_or(|binding| binding.file.is_none())
            || self.pending.iter().any(|binding| binding.file.is_none())
    }

    /// Returns the bindings that refer to a file.
    pub(crate) fn files(&self) -> impl Iterator<Item = (NameBinding, TestFileId)> + '_ {
        let all = self.durable.iter().chain(&self.pending);
        all.filter_map(|binding| Some((*binding, binding.file?)))
    }
}

/// The expected state of all files and names in a test.
#[derive(Default, Debug)]
pub(crate) struct StorageModel {
    pub(crate) files: BTreeMap<TestFileId, FileModel>,
    pub(crate) names: BTreeMap<PathBuf, NameModel>,
    /// Last row that must be in the table.
    pub(crate) durable_row: Option<(OperationNumber, i32)>,
    /// Last row that may be in the table.
    pub(crate) last_row: i32,
    applied: u64,
}

/// Number of operations between two removals of nameless files from the model.
const PURGE_INTERVAL: u64 = 4096;

impl StorageModel {
    /// Applies a completed operation.
    pub(crate) fn complete(&mut self, number: OperationNumber, operation: &StorageOperation) {
        match operation {
            StorageOperation::SyncFile { path } => self.sync_file(path),
            StorageOperation::SyncDirectory { path } => self.sync_directory(path),
            StorageOperation::Commit { row } => {
                self.durable_row = Some((number, *row));
                self.last_row = *row;
            }
            _ => self.apply_uncertain(number, operation),
        }
        self.applied += 1;
        if self.applied.is_multiple_of(PURGE_INTERVAL) {
            self.purge_unnamed_files();
        }
    }

    /// Applies an operation that may have happened completely, partially, or not at all.
    pub(crate) fn apply_uncertain(&mut self, number: OperationNumber, operation: &StorageOperation) {
        let Some(kind) = operation.kind() else { return };
        let origin = StateOrigin { operation: number, kind };
        match operation {
            StorageOperation::Create { path } => {
                let file = FileModel {
                    blocks: Vec::new(),
                    durable_blocks: 0,
                    length: origin,
                    may_be_missing: false,
                };
                self.files.insert(TestFileId(number), file);
                self.bind(path, Some(TestFileId(number)), origin);
            }
            StorageOperation::Write { path, block, blocks, .. } => {
                let Some(file) = self.current_mut(path) else { return };
                let (begin, end) = (*block as usize, (*block + *blocks) as usize);
                file.grow(end, origin);
                for block in file.blocks.iter_mut().take(end).skip(begin) {
                    block.pending.push(origin);
                }
            }
            StorageOperation::Preallocate { path, blocks } => {
                if let Some(file) = self.current_mut(path) {
                    file.grow(*blocks as usize, origin);
                }
            }
            StorageOperation::Rename { from, to } => {
                self.mark_file_unnamed(to);
                let file = self.current(from);
                self.bind(to, file, origin);
                self.bind(from, None, origin);
            }
            StorageOperation::Link { from, to } => self.bind(to, self.current(from), origin),
            StorageOperation::Unlink { path } => {
                self.mark_file_unnamed(path);
                self.bind(path, None, origin);
            }
            StorageOperation::Commit { row } => self.last_row = *row,
            StorageOperation::SyncFile { .. } | StorageOperation::SyncDirectory { .. } => {}
        }
    }

    /// Makes the changes of an operation durable, as if they had been synced.
    pub(crate) fn make_durable(&mut self, operation: &StorageOperation) {
        match operation {
            StorageOperation::Write { path, .. } | StorageOperation::Preallocate { path, .. } => {
                self.sync_file(path);
            }
            StorageOperation::Rename { from, to } | StorageOperation::Link { from, to } => {
                self.sync_directory(directory_of(from));
                self.sync_directory(directory_of(to));
            }
            StorageOperation::Create { path } | StorageOperation::Unlink { path } => {
                self.sync_directory(directory_of(path));
            }
            StorageOperation::SyncFile { .. }
            | StorageOperation::SyncDirectory { .. }
            | StorageOperation::Commit { .. } => {}
        }
    }

    fn current(&self, path: &Path) -> Option<TestFileId> {
        self.names.get(path)?.current()
    }

    fn current_mut(&mut self, path: &Path) -> Option<&mut FileModel> {
        self.current(path).and_then(|file| self.files.get_mut(&file))
    }

    fn bind(&mut self, path: &Path, file: Option<TestFileId>, origin: StateOrigin) {
        let name = self.names.entry(path.to_path_buf()).or_default();
        name.pending.push(NameBinding { origin, file });
    }

    /// Marks the file that is about to lose this name.
    fn mark_file_unnamed(&mut self, path: &Path) {
        if let Some(file) = self.current_mut(path) {
            file.may_be_missing = true;
        }
    }

    fn sync_file(&mut self, path: &Path) {
        let Some(file) = self.current_mut(path) else { return };
        file.durable_blocks = file.blocks.len();
        for block in &mut file.blocks {
            if let Some(last) = block.pending.pop() {
                block.durable = Some(last);
                block.pending.clear();
            }
        }
    }

    fn sync_directory(&mut self, directory: &Path) {
        let inside = self.names.range_mut(directory.to_path_buf()..);
        let below = inside.take_while(|(path, _)| path.starts_with(directory));
        let mut named = BTreeSet::new();
        for (_, name) in below.filter(|(path, _)| directory_of(path) == directory) {
            named.extend(name.files().map(|(_, file)| file));
            if let Some(last) = name.pending.pop() {
                name.durable = Some(last);
                name.pending.clear();
            }
        }
        // Once all changes to a file's names are decided, the file must exist again, even if it lost a name earlier.
        for id in named {
            let Some(file) = self.files.get_mut(&id).filter(|file| file.may_be_missing) else { continue };
            let its = |name: &&NameModel| name.files().any(|(_, file)| file == id);
            file.may_be_missing = !self.names.values().filter(its).all(|name| name.pending.is_empty());
        }
    }

    fn purge_unnamed_files(&mut self) {
        let named: BTreeSet<TestFileId> =
            self.names.values().flat_map(NameModel::files).map(|(_, file)| file).collect();
        self.files.retain(|file, _| named.contains(file));
    }
}

impl FileModel {
    fn grow(&mut self, blocks: usize, origin: StateOrigin) {
        if blocks > self.blocks.len() {
            self.blocks.resize_with(blocks, BlockModel::default);
            self.length = origin;
        }
    }
}

impl StorageModel {
    /// Returns the operations whose changes are not durable yet.
    pub(crate) fn undecided(&self) -> BTreeSet<StateOrigin> {
        let blocks = self.files.values().flat_map(|file| &file.blocks).flat_map(|block| &block.pending);
        let names = self.names.values().flat_map(|name| &name.pending).map(|binding| &binding.origin);
        blocks.chain(names).copied().collect()
    }
}
