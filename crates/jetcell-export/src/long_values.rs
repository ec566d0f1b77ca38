//! Values that live in a table's long-value tree, put together from their chunks.
//!
//! Records mostly refer to long values in the order in which these were stored, so the leaf of the last chunk
//! usually holds the next one, too.

use std::sync::Arc;

use ese_check::reader::{PageImage, PageReader};
use ese_format::long_value::{LongValueId, LongValueRoot, decode_chunk};
use ese_format::page::NodeFlags;
use ese_format::{PageNumber, TreeId};

use crate::table::Table;

/// No tree of 2^32 pages is deeper.
const MAX_DEPTH: usize = 24;
/// Leaves asked for ahead of need.
const AHEAD: usize = 16;

/// Reads long values of one table.
pub(crate) struct LongValues<'d> {
    reader: PageReader<'d>,
    tree: Option<(TreeId, PageNumber)>,
    chunk_size: usize,
    leaf: Option<Arc<PageImage>>,
    key: Vec<u8>,
}

/// A long value that is there; whether all its chunks are, reading them tells.
#[derive(Clone, Copy)]
pub(crate) struct LongValue {
    id: LongValueId,
    root: LongValueRoot,
}

impl LongValue {
    /// Bytes that it has by its root.
    pub(crate) fn len(self) -> usize {
        self.root.size as usize
    }
}

impl<'d> LongValues<'d> {
    pub(crate) fn new(reader: PageReader<'d>, table: &Table) -> LongValues<'d> {
        LongValues {
            reader,
            tree: table.long_values,
            chunk_size: table.chunk_size.max(1),
            leaf: None,
            key: Vec::new(),
        }
    }

    /// The value, to be read chunk by chunk; or why it cannot be read.
    pub(crate) fn open(&mut self, id: LongValueId) -> Result<LongValue, String> {
        self.key = id.root_key();
        let root = self.node(LongValueRoot::decode)?.ok_or("its root is damaged")?;
        if root.is_encrypted() {
            return Err("the value is encrypted".to_owned());
        }
        Ok(LongValue { id, root })
    }

    /// Appends the chunk that starts at byte `offset` of the value, which must be below its length.
    pub(crate) fn append_chunk(
        &mut self,
        value: LongValue,
        offset: usize,
        to: &mut Vec<u8>,
    ) -> Result<(), String> {
        let start = u32::try_from(offset).unwrap_or(u32::MAX);
        let due = value.root.chunk_len(start, self.chunk_size);
        self.key = value.id.chunk_key(start);
        self.node(|stored| decode_chunk(stored, due).map(|plain| to.extend_from_slice(&plain)))?
            .map_err(|error| format!("chunk at byte {offset} of {}: {error}", value.len()))
    }

    /// What `take` makes of the node with the wanted key.
    fn node<T>(&mut self, mut take: impl FnMut(&[u8]) -> T) -> Result<T, String> {
        if let Some(leaf) = &self.leaf
            && let Some(data) = find(leaf, &self.key)
        {
            return Ok(take(data));
        }
        let (tree, mut number) = self.tree.ok_or("the table has no long values")?;
        let mut ask: Vec<PageNumber> = Vec::new();
        for _ in 0..MAX_DEPTH {
            self.reader.prefetch(ask.drain(..));
            let image = self.reader.get(number).map_err(|problem| format!("page {number} {problem}"))?;
            let page = image.page();
            if page.tree() != tree {
                return Err(format!("page {number} belongs to another tree"));
            }
            if page.is_leaf() {
                let found = find(&image, &self.key).map(&mut take);
                self.leaf = Some(image);
                return found.ok_or_else(|| format!("no node {:02x?} in the long-value tree", self.key));
            }
            let (index, child) = page.child_for(&self.key).ok_or("the long-value tree leads nowhere")?;
            ask.extend((index..index + AHEAD).map_while(|at| page.node(at)).filter_map(|node| node.child()));
            number = child;
        }
        Err("the long-value tree is too deep".to_owned())
    }
}

fn find<'p>(leaf: &'p PageImage, key: &[u8]) -> Option<&'p [u8]> {
    let page = leaf.page();
    let (index, exact) = page.lower_bound(key);
    let node = page.node(index).filter(|_| exact)?;
    (!node.flags.contains(NodeFlags::DELETED)).then_some(node.data)
}
