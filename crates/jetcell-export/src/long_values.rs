//! Reads a table's long values in chunks.
//!
//! Records usually refer to long values in the order in which they were stored. The leaf that contained the last
//! chunk therefore usually contains the next one as well, so it is searched first.

use std::sync::Arc;

use ese_check::database::ReadableDatabase;
use ese_check::reader::{PageCache, PageProblem, VerifiedPage};
use ese_format::compression::CompressionError;
use ese_format::long_value::{LongValueId, LongValueKeyBytes, LongValueRoot, decode_chunk};
use ese_format::page::NodeFlags;
use ese_format::{PageNumber, TreeId};

use crate::table::SourceTable;

/// Maximum depth of the tree. Even a valid tree with 2^32 pages is shallower.
const MAX_DEPTH: usize = 24;
/// Number of leaves to prefetch.
const PREFETCH_LEAVES: usize = 16;

/// Reason why a long value cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LongValueError {
    #[error("the root of the value is damaged")]
    DamagedRoot,
    #[error("the value is encrypted")]
    Encrypted,
    #[error("chunk at byte {offset} of {len}: {error}")]
    Chunk { offset: usize, len: usize, error: CompressionError },
    #[error("the table does not have long values")]
    NoTree,
    #[error("page {page} {problem}")]
    Page { page: PageNumber, problem: PageProblem },
    #[error("page {0} belongs to a different tree")]
    OtherTree(PageNumber),
    #[error("the long-value tree does not contain node {0:02x?}")]
    NoNode(Vec<u8>),
    #[error("page {0} of the long-value tree does not have a child for the key")]
    NoChild(PageNumber),
    #[error("the long-value tree is too deep")]
    TooDeep,
}

/// Reads long values from a single table.
pub(crate) struct LongValueReader {
    pages: PageCache,
    tree: Option<(TreeId, PageNumber)>,
    chunk_size: usize,
    leaf: Option<Arc<VerifiedPage>>,
    key: LongValueKeyBytes,
    /// True if values that are flagged deleted are also read. Ids of long values are not reused.
    pub(crate) include_deleted: bool,
}

/// A long value whose root has been read. Some of its chunks may be missing.
#[derive(Clone, Copy)]
pub(crate) struct LongValue {
    id: LongValueId,
    root: LongValueRoot,
}

impl LongValue {
    /// Returns the length stored in the value's root.
    pub(crate) fn len(self) -> usize {
        self.root.size as usize
    }
}

impl LongValueReader {
    pub(crate) fn new(table: &SourceTable) -> LongValueReader {
        LongValueReader {
            pages: PageCache::default(),
            tree: table.long_values,
            chunk_size: table.chunk_size.max(1),
            leaf: None,
            key: LongValueKeyBytes::new(),
            include_deleted: false,
        }
    }

    /// Reads the root of a long value.
    pub(crate) fn open(
        &mut self,
        database: &ReadableDatabase,
        id: LongValueId,
    ) -> Result<LongValue, LongValueError> {
        self.key = id.root_key();
        let root = self.node(database, LongValueRoot::decode)?.ok_or(LongValueError::DamagedRoot)?;
        if root.is_encrypted() {
            return Err(LongValueError::Encrypted);
        }
        Ok(LongValue { id, root })
    }

    /// Appends the chunk that starts at byte `offset` of the value. `offset` must be less than the value's length.
    pub(crate) fn append_chunk(
        &mut self,
        database: &ReadableDatabase,
        value: LongValue,
        offset: usize,
        to: &mut Vec<u8>,
    ) -> Result<(), LongValueError> {
        let start = u32::try_from(offset).unwrap_or(u32::MAX);
        let due = value.root.chunk_len(start, self.chunk_size);
        self.key = value.id.chunk_key(start);
        self.node(database, |stored| decode_chunk(stored, due).map(|plain| to.extend_from_slice(&plain)))?
            .map_err(|error| LongValueError::Chunk { offset, len: value.len(), error })
    }

    /// Appends the bytes that are stored for the chunk at byte `offset`, and returns the length of the decoded chunk.
    pub(crate) fn stored_chunk(
        &mut self,
        database: &ReadableDatabase,
        value: LongValue,
        offset: usize,
        to: &mut Vec<u8>,
    ) -> Result<usize, LongValueError> {
        let start = u32::try_from(offset).unwrap_or(u32::MAX);
        self.key = value.id.chunk_key(start);
        self.node(database, |stored| to.extend_from_slice(stored))?;
        Ok(value.root.chunk_len(start, self.chunk_size))
    }

    /// Finds the node with key `self.key`, and returns the result of calling `take` with its data.
    fn node<T>(
        &mut self,
        database: &ReadableDatabase,
        mut take: impl FnMut(&[u8]) -> T,
    ) -> Result<T, LongValueError> {
        if let Some(leaf) = &self.leaf
            && let Some(data) = find(leaf, &self.key, self.include_deleted)
        {
            return Ok(take(data));
        }
        let (tree, mut number) = self.tree.ok_or(LongValueError::NoTree)?;
        let mut ask: Vec<PageNumber> = Vec::new();
        for _ in 0..MAX_DEPTH {
            self.pages.prefetch(database, ask.drain(..));
            let image = self
                .pages
                .get(database, number)
                .map_err(|problem| LongValueError::Page { page: number, problem })?;
            let page = image.page();
            if page.tree() != tree {
                return Err(LongValueError::OtherTree(number));
            }
            if page.is_leaf() {
                let found = find(&image, &self.key, self.include_deleted).map(&mut take);
                self.leaf = Some(image);
                return found.ok_or_else(|| LongValueError::NoNode(self.key.to_vec()));
            }
            let (index, child) = page.child_for(&self.key).ok_or(LongValueError::NoChild(number))?;
            ask.extend(
                (index..index + PREFETCH_LEAVES)
                    .map_while(|at| page.node(at))
                    .filter_map(|node| node.child()),
            );
            number = child;
        }
        Err(LongValueError::TooDeep)
    }
}

fn find<'p>(leaf: &'p VerifiedPage, key: &[u8], include_deleted: bool) -> Option<&'p [u8]> {
    let page = leaf.page();
    let (index, exact) = page.lower_bound(key);
    let node = page.node(index).filter(|_| exact)?;
    (include_deleted || !node.flags.contains(NodeFlags::DELETED)).then_some(node.data)
}
