//! Block content that several owners share without copying it.

use std::ops::Deref;

use jetcell_sync::Arc;
use jetcell_vfs::IoBuffer;

use crate::bytes::copy_to_buffer;
use crate::geometry::BLOCK;

/// The content of a block: either a whole buffer or part of a buffer that holds several blocks. Clones share the
/// buffer.
#[derive(Clone, Debug)]
pub struct SharedBlock {
    buffer: Arc<IoBuffer>,
    at: usize,
}

impl SharedBlock {
    /// Splits a buffer into blocks. The buffer's length must be a multiple of the block size. Each block keeps the
    /// whole buffer in memory.
    pub fn split_buffer(buffer: IoBuffer) -> Vec<SharedBlock> {
        let buffer = Arc::new(buffer);
        let part = |at| SharedBlock { buffer: buffer.clone(), at };
        (0..buffer.len()).step_by(BLOCK).map(part).collect()
    }

    /// Creates a block with a copy of these bytes.
    pub fn copy_from(bytes: &[u8]) -> SharedBlock {
        copy_to_buffer(bytes).into()
    }

    /// Returns the buffer, unless it has other owners.
    pub(crate) fn into_buffer(self) -> Option<IoBuffer> {
        Arc::into_inner(self.buffer)
    }
}

impl From<IoBuffer> for SharedBlock {
    /// Wraps a buffer, whose length must be one block.
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

/// Data passed to a write.
pub enum WriteData<'caller> {
    /// Bytes that remain with the caller.
    Bytes(&'caller [u8]),
    /// Blocks that the caller handed over.
    Blocks(Vec<SharedBlock>),
}

impl WriteData<'_> {
    /// Returns true if there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the length of all blocks in bytes.
    pub fn len(&self) -> usize {
        match self {
            WriteData::Bytes(bytes) => bytes.len(),
            WriteData::Blocks(blocks) => blocks.len() * BLOCK,
        }
    }

    /// Returns the content of the block with this index.
    pub fn block(&self, index: usize) -> &[u8] {
        match self {
            WriteData::Bytes(bytes) => &bytes[index * BLOCK..][..BLOCK],
            WriteData::Blocks(blocks) => &blocks[index],
        }
    }

    /// Returns the block with this index without copying it, or `None` if the caller keeps the data.
    pub fn shared(&self, index: usize) -> Option<SharedBlock> {
        match self {
            WriteData::Bytes(_) => None,
            WriteData::Blocks(blocks) => Some(blocks[index].clone()),
        }
    }

    /// Returns the blocks that the caller handed over.
    pub fn into_blocks(self) -> Vec<SharedBlock> {
        match self {
            WriteData::Bytes(_) => vec![],
            WriteData::Blocks(blocks) => blocks,
        }
    }
}
