//! Export of an array, or a LUN on it, as a network block device.

use std::io;
use std::ops::Range;

use jetcell_array::{ArrayError, BLOCK, BlockStore};
use jetcell_nbd::{AllocationExtent, BlockExport, ExportRead};
use jetcell_sync::Arc;

use crate::running::{ArrayContent, SharedContent};

/// Maximum number of blocks whose allocation status is determined in one call.
const MAX_EXTENT_BLOCKS: u64 = (256 << 20) / BLOCK as u64;

/// An array or LUN that is exported as a block device.
pub(super) struct DeviceExport {
    pub shared: Arc<SharedContent>,
    /// Name of the LUN, or `None` for the whole array.
    pub lun: Option<String>,
    pub bytes: u64,
    pub description: String,
    pub is_read_only: bool,
}

impl DeviceExport {
    fn run<T>(&self, call: impl FnOnce(&mut dyn BlockStore) -> Result<T, ArrayError>) -> io::Result<T> {
        let run = |content: &mut ArrayContent| -> Result<T, ArrayError> {
            match (content, &self.lun) {
                (ArrayContent::Array(array), _) => call(&mut **array),
                (ArrayContent::Luns(volume), lun) => {
                    call(&mut volume.lun(lun.as_deref().unwrap_or_default())?)
                }
            }
        };
        let result = self.shared.with(run).ok_or_else(|| io::Error::other("the array was shut down"))?;
        result.map_err(ArrayError::into_io_error)
    }
}

/// Returns the blocks that are completely covered by a byte range.
fn whole_blocks(offset: u64, length: u64) -> Range<u64> {
    let block = BLOCK as u64;
    let first = offset.div_ceil(block);
    first..((offset + length) / block).max(first)
}

impl BlockExport for DeviceExport {
    fn size(&self) -> u64 {
        self.bytes
    }

    fn description(&self) -> String {
        self.description.clone()
    }

    fn preferred_block(&self) -> u32 {
        BLOCK as u32
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns false for an array without LUNs, because its blocks occupy fixed space whether they have content or
    /// not.
    fn can_trim(&self) -> bool {
        self.lun.is_some()
    }

    fn read(&self, batch: &mut [ExportRead<'_>]) -> io::Result<()> {
        let mut ranges: Vec<(u64, &mut [u8])> =
            batch.iter_mut().map(|read| (read.offset, &mut *read.buffer)).collect();
        self.shared.load_meter.measure_latency(|| self.run(|store| store.read_bytes(&mut ranges)))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.run(|store| store.write_bytes(offset, data))
    }

    fn zero(&self, offset: u64, length: u64, _may_free: bool, only_fast: bool) -> io::Result<()> {
        // A LUN only frees its blocks, which is always fast.
        let is_slow = || {
            Ok::<_, io::Error>(self.extents(offset, length)? != [AllocationExtent { length, is_hole: true }])
        };
        if only_fast && self.lun.is_none() && is_slow()? {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.run(|store| store.zero_bytes(offset, length))
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        self.run(|store| store.zero_blocks(whole_blocks(offset, length)))
    }

    fn flush(&self) -> io::Result<()> {
        self.shared.load_meter.measure_latency(|| self.run(|store| store.flush()))
    }

    fn extents(&self, offset: u64, length: u64) -> io::Result<Vec<AllocationExtent>> {
        let block = BLOCK as u64;
        let (first, end) = (offset / block, (offset + length).div_ceil(block));
        let runs = self.run(|store| store.allocation(first..end.min(first + MAX_EXTENT_BLOCKS)))?;
        let mut at = offset;
        let mut border = first * block;
        let mut extents = vec![];
        for (count, has_content) in runs {
            border += count * block;
            let part_end = border.min(offset + length);
            extents.push(AllocationExtent { length: part_end - at, is_hole: !has_content });
            at = part_end;
        }
        Ok(extents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partially_covered_blocks_are_excluded() {
        assert_eq!(whole_blocks(0, 8192), 0..2);
        assert_eq!(whole_blocks(1, 8191), 1..2);
        assert_eq!(whole_blocks(4095, 4098), 1..2);
        assert!(whole_blocks(1, 100).is_empty() && whole_blocks(5000, 4000).is_empty());
    }
}
