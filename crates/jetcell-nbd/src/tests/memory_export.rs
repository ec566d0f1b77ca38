//! An export in memory, for tests.

use std::io;
use std::sync::{Mutex, MutexGuard};

use crate::{AllocationExtent, BlockExport, ExportRead};

const BLOCK: usize = 4096;

/// An export in memory. Zero blocks are holes. Writes are considered durable only after a flush.
pub struct MemoryExport {
    pub content: Mutex<Vec<u8>>,
    pub is_read_only: bool,
    /// Number of flushes. `fails_to_flush` makes them fail.
    pub flushes: Mutex<usize>,
    pub fails_to_flush: bool,
    /// Offset of a byte whose reads fail.
    pub unreadable: Option<u64>,
    /// Number of reads in each batch.
    pub batches: Mutex<Vec<usize>>,
}

impl MemoryExport {
    pub fn new(size: usize) -> MemoryExport {
        MemoryExport {
            content: Mutex::new(vec![0; size]),
            is_read_only: false,
            flushes: Mutex::new(0),
            fails_to_flush: false,
            unreadable: None,
            batches: Mutex::new(vec![]),
        }
    }

    pub fn content(&self) -> MutexGuard<'_, Vec<u8>> {
        self.content.lock().unwrap()
    }
}

impl BlockExport for MemoryExport {
    fn size(&self) -> u64 {
        self.content().len() as u64
    }

    fn description(&self) -> String {
        "bytes in memory".into()
    }

    fn preferred_block(&self) -> u32 {
        BLOCK as u32
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn can_trim(&self) -> bool {
        true
    }

    fn read(&self, batch: &mut [ExportRead<'_>]) -> io::Result<()> {
        self.batches.lock().unwrap().push(batch.len());
        for read in batch {
            let length = read.buffer.len();
            if self.unreadable.is_some_and(|byte| (read.offset..read.offset + length as u64).contains(&byte))
            {
                return Err(io::Error::other("unreadable"));
            }
            read.buffer.copy_from_slice(&self.content()[read.offset as usize..][..length]);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.content()[offset as usize..][..data.len()].copy_from_slice(data);
        Ok(())
    }

    fn zero(&self, offset: u64, length: u64, _may_free: bool, only_fast: bool) -> io::Result<()> {
        if only_fast {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.content()[offset as usize..][..length as usize].fill(0);
        Ok(())
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        self.zero(offset, length, true, false)
    }

    fn flush(&self) -> io::Result<()> {
        *self.flushes.lock().unwrap() += 1;
        if self.fails_to_flush { Err(io::Error::other("no flush")) } else { Ok(()) }
    }

    fn extents(&self, offset: u64, length: u64) -> io::Result<Vec<AllocationExtent>> {
        let content = self.content();
        let (mut at, end) = (offset as usize, (offset + length) as usize);
        let mut extents = vec![];
        while at < end {
            let border = (at / BLOCK + 1) * BLOCK;
            let block = &content[at / BLOCK * BLOCK..border.min(content.len())];
            let length = (border.min(end) - at) as u64;
            extents.push(AllocationExtent { length, is_hole: block.iter().all(|byte| *byte == 0) });
            at = border;
        }
        Ok(extents)
    }
}
