//! The block interface of an array, which LUNs, files and servers use.

use std::ops::Range;

use jetcell_vfs::IoBuffer;

use super::Array;
use crate::bytes::BlockStore;
use crate::error::Result;

impl BlockStore for Array {
    fn block_count(&self) -> u64 {
        self.layout().blocks()
    }

    fn read_blocks(&mut self, blocks: &[u64], buffers: &mut [&mut [u8]]) -> Result<()> {
        self.read_scattered(blocks, buffers)
    }

    fn write_blocks(&mut self, first: u64, data: &[u8]) -> Result<()> {
        self.write(first, data)
    }

    fn write_buffer(&mut self, first: u64, buffer: &mut IoBuffer) -> Result<()> {
        Array::write_buffer(self, first, buffer)
    }

    fn flush(&mut self) -> Result<()> {
        Array::flush(self)
    }

    fn allocation(&mut self, blocks: Range<u64>) -> Result<Vec<(u64, bool)>> {
        self.written_runs(blocks)
    }
}
