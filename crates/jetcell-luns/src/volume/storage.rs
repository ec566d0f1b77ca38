//! Storage for a volume's files: an array, which is written in place, or a LUN.

use std::ops::Range;

use jetcell_array::{Array, BLOCK, BlockReadAhead, BlockStore, Result};
use jetcell_vfs::IoBuffer;

use crate::luns::SharedLunVolume;

/// Number of blocks that are cleared at a time.
const CLEAR_BATCH: u64 = 64;

/// The block storage for a volume's files.
pub(super) enum VolumeStorage {
    Array(Box<Array>),
    /// A LUN volume, and the name of the LUN that stores the files. Other LUNs may store files, too.
    Lun(SharedLunVolume, String),
}

impl VolumeStorage {
    fn with_store<T>(&mut self, call: impl FnOnce(&mut dyn BlockStore) -> Result<T>) -> Result<T> {
        match self {
            VolumeStorage::Array(array) => call(&mut **array),
            VolumeStorage::Lun(luns, name) => luns.with_volume(|luns| call(&mut luns.lun(name)?)),
        }
    }

    pub fn blocks(&mut self) -> Result<u64> {
        self.with_store(|store| Ok(store.block_count()))
    }

    pub fn read(&mut self, first: u64, buffer: &mut [u8]) -> Result<()> {
        let mut buffers: Vec<&mut [u8]> = buffer.chunks_exact_mut(BLOCK).collect();
        let blocks: Vec<u64> = (first..).take(buffers.len()).collect();
        self.read_blocks(&blocks, &mut buffers, None)
    }

    /// Starts to read blocks.
    pub fn start_read(&mut self, blocks: &[u64]) -> Result<BlockReadAhead> {
        match self {
            VolumeStorage::Array(array) => Ok(array.start_read(blocks)),
            VolumeStorage::Lun(luns, name) => luns.with_volume(|luns| luns.lun(name)?.start_read(blocks)),
        }
    }

    /// Reads single blocks as one batch, on which the members work concurrently. Some of the reads may have been
    /// started already.
    pub fn read_blocks(
        &mut self,
        blocks: &[u64],
        buffers: &mut [&mut [u8]],
        ahead: Option<BlockReadAhead>,
    ) -> Result<()> {
        match self {
            VolumeStorage::Array(array) => array.finish_read(blocks, buffers, ahead),
            VolumeStorage::Lun(luns, name) => {
                luns.with_volume(|luns| luns.lun(name)?.finish_read(blocks, buffers, ahead))
            }
        }
    }

    /// Writes all of a buffer. See [`BlockStore::write_buffer`].
    pub fn write_buffer(&mut self, first: u64, buffer: &mut IoBuffer) -> Result<()> {
        self.with_store(|store| store.write_buffer(first, buffer))
    }

    pub fn write(&mut self, first: u64, data: &[u8]) -> Result<()> {
        self.with_store(|store| store.write_blocks(first, data))
    }

    /// Makes blocks read as zeros. A LUN deallocates them.
    pub fn clear(&mut self, range: Range<u64>) -> Result<()> {
        match self {
            VolumeStorage::Array(array) => {
                let zeros = vec![0; CLEAR_BATCH as usize * BLOCK];
                for start in range.clone().step_by(CLEAR_BATCH as usize) {
                    let count = (range.end - start).min(CLEAR_BATCH) as usize;
                    array.write(start, &zeros[..count * BLOCK])?;
                }
                Ok(())
            }
            VolumeStorage::Lun(luns, name) => luns.with_volume(|luns| luns.lun(name)?.zero_blocks(range)),
        }
    }

    pub fn flush(&mut self) -> Result<()> {
        self.with_store(|store| store.flush())
    }

    /// Returns true if some blocks may have content.
    pub fn was_written(&mut self) -> Result<bool> {
        match self {
            VolumeStorage::Array(array) => Ok(array.was_written()),
            VolumeStorage::Lun(luns, name) => luns.with_volume(|luns| {
                let mut lun = luns.lun(name)?;
                let all = 0..lun.block_count();
                Ok(lun.allocation(all)?.iter().any(|(_, has_content)| *has_content))
            }),
        }
    }

    /// Calls a function with the underlying array.
    pub fn with_array<T>(&mut self, call: impl FnOnce(&mut Array) -> T) -> T {
        match self {
            VolumeStorage::Array(array) => call(array),
            VolumeStorage::Lun(luns, _) => luns.with_volume(|luns| call(luns.array())),
        }
    }

    /// Shuts an array down. A LUN volume remains available to others.
    pub fn close(self) -> Result<()> {
        match self {
            VolumeStorage::Array(array) => array.close(),
            VolumeStorage::Lun(..) => Ok(()),
        }
    }
}
