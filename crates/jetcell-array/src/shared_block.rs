//! The content of blocks, without a copy of it for each of its owners.

use std::ops::Deref;

use jetcell_sync::Arc;
use jetcell_vfs::IoBuffer;

use crate::bytes::copy_of;
use crate::geometry::BLOCK;

/// The content of a block: all of a buffer, or a part of one that has other blocks, too. Clones share the buffer.
#[derive(Clone, Debug)]
pub(crate) struct SharedBlock {
    buffer: Arc<IoBuffer>,
    at: usize,
}

impl SharedBlock {
    /// The blocks of a buffer, whose length is a multiple of theirs. Each of them keeps all of it in memory.
    pub fn all_of(buffer: IoBuffer) -> Vec<SharedBlock> {
        let buffer = Arc::new(buffer);
        let part = |at| SharedBlock { buffer: buffer.clone(), at };
        (0..buffer.len()).step_by(BLOCK).map(part).collect()
    }

    /// A block with these bytes.
    pub fn copied(bytes: &[u8]) -> SharedBlock {
        copy_of(bytes).into()
    }

    /// The buffer, unless it has other owners.
    pub fn into_buffer(self) -> Option<IoBuffer> {
        Arc::into_inner(self.buffer)
    }
}

impl From<IoBuffer> for SharedBlock {
    /// The buffer has the length of a block.
    fn from(buffer: IoBuffer) -> SharedBlock {
        SharedBlock { buffer: Arc::new(buffer), at: 0 }
    }
}

impl Deref for SharedBlock {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.at..self.at + BLOCK]
    }
}

/// What a caller writes.
pub(crate) enum Written<'caller> {
    /// The caller keeps it.
    Bytes(&'caller [u8]),
    /// The caller gave it away.
    Blocks(Vec<SharedBlock>),
}

impl Written<'_> {
    /// Bytes of all blocks.
    pub fn len(&self) -> usize {
        match self {
            Written::Bytes(bytes) => bytes.len(),
            Written::Blocks(blocks) => blocks.len() * BLOCK,
        }
    }

    /// The content of the block with this number.
    pub fn block(&self, index: usize) -> &[u8] {
        match self {
            Written::Bytes(bytes) => &bytes[index * BLOCK..][..BLOCK],
            Written::Blocks(blocks) => &blocks[index],
        }
    }

    /// The same without a copy, if the caller gave it away.
    pub fn shared(&self, index: usize) -> Option<SharedBlock> {
        match self {
            Written::Bytes(_) => None,
            Written::Blocks(blocks) => Some(blocks[index].clone()),
        }
    }

    /// What was given away.
    pub fn into_blocks(self) -> Vec<SharedBlock> {
        match self {
            Written::Bytes(_) => vec![],
            Written::Blocks(blocks) => blocks,
        }
    }
}
