//! Byte access to blocks, for ranges that begin or end within a block.

use std::ops::Range;

use jetcell_vfs::IoBuffer;

use crate::error::Result;
use crate::geometry::BLOCK;

/// A block store that also supports byte-range access. All ranges must be within the store.
pub trait BlockStore {
    /// Returns the number of blocks.
    fn block_count(&self) -> u64;

    /// Reads blocks, each into its own buffer.
    fn read_blocks(&mut self, blocks: &[u64], buffers: &mut [&mut [u8]]) -> Result<()>;

    /// Writes consecutive blocks. They are durable after [`BlockStore::flush`].
    fn write_blocks(&mut self, first: u64, data: &[u8]) -> Result<()>;

    /// Writes all of a buffer. The implementation may replace the buffer with another one of the same length and
    /// capacity, with arbitrary content.
    fn write_buffer(&mut self, first: u64, buffer: &mut IoBuffer) -> Result<()> {
        self.write_blocks(first, buffer)
    }

    /// Makes all previous writes durable.
    fn flush(&mut self) -> Result<()>;

    /// Returns which blocks have content, as consecutive runs that start at the beginning of the range. Each run
    /// consists of a number of blocks and a flag that tells whether they have content. Blocks without content read as
    /// zeros.
    fn allocation(&mut self, blocks: Range<u64>) -> Result<Vec<(u64, bool)>>;

    /// Writes zeros to blocks, or deallocates the blocks if they then read as zeros.
    fn zero_blocks(&mut self, blocks: Range<u64>) -> Result<()> {
        let zeros = vec![0; ZERO_BATCH * BLOCK];
        for start in blocks.clone().step_by(ZERO_BATCH) {
            let end = blocks.end.min(start + ZERO_BATCH as u64);
            let mut at = start;
            for (count, has_content) in self.allocation(start..end)? {
                if has_content {
                    self.write_blocks(at, &zeros[..count as usize * BLOCK])?;
                }
                at += count;
            }
        }
        Ok(())
    }

    /// Reads ranges of bytes in one batch.
    fn read_bytes(&mut self, ranges: &mut [(u64, &mut [u8])]) -> Result<()> {
        let (mut blocks, mut whole) = (vec![], vec![]);
        // Partial blocks: the block, the range within it, and the copy's destination.
        let mut partial: Vec<(u64, Range<usize>, &mut [u8])> = vec![];
        for (offset, buffer) in ranges {
            let (mut at, mut rest) = (*offset, &mut **buffer);
            while !rest.is_empty() {
                let (block, within) = (at / BLOCK as u64, (at % BLOCK as u64) as usize);
                let (part, behind) = rest.split_at_mut(rest.len().min(BLOCK - within));
                at += part.len() as u64;
                if part.len() == BLOCK {
                    blocks.push(block);
                    whole.push(part);
                } else {
                    partial.push((block, within..within + part.len(), part));
                }
                rest = behind;
            }
        }
        let mut copies = vec![0; partial.len() * BLOCK];
        blocks.extend(partial.iter().map(|(block, ..)| *block));
        whole.extend(copies.chunks_exact_mut(BLOCK));
        self.read_blocks(&blocks, &mut whole)?;
        for ((_, range, part), copy) in partial.into_iter().zip(copies.chunks_exact(BLOCK)) {
            part.copy_from_slice(&copy[range]);
        }
        Ok(())
    }

    /// Writes a range of bytes. The other bytes of the first and last blocks are preserved.
    fn write_bytes(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        let (start, end) = (offset / BLOCK as u64, (offset + data.len() as u64).div_ceil(BLOCK as u64));
        let within = (offset % BLOCK as u64) as usize;
        if within == 0 && data.len().is_multiple_of(BLOCK) {
            return self.write_blocks(start, data);
        }
        let mut blocks = vec![0; (end - start) as usize * BLOCK];
        let count = blocks.len() / BLOCK;
        let mut edges: Vec<(u64, &mut [u8])> = blocks
            .chunks_exact_mut(BLOCK)
            .enumerate()
            .map(|(index, block)| (start + index as u64, block))
            .collect();
        // The blocks between the first and the last one are overwritten completely.
        if count > 2 {
            edges.drain(1..count - 1);
        }
        let (edges, mut buffers): (Vec<u64>, Vec<&mut [u8]>) = edges.into_iter().unzip();
        self.read_blocks(&edges, &mut buffers)?;
        blocks[within..within + data.len()].copy_from_slice(data);
        self.write_blocks(start, &blocks)
    }

    /// Makes a range of bytes read as zeros.
    fn zero_bytes(&mut self, offset: u64, length: u64) -> Result<()> {
        let block = BLOCK as u64;
        let end = offset + length;
        let (first, last) = (offset.next_multiple_of(block).min(end), (end / block * block).max(offset));
        if first >= last {
            return self.write_bytes(offset, &vec![0; length as usize]);
        }
        self.zero_blocks(first / block..last / block)?;
        for edge in [offset..first, last..end] {
            if !edge.is_empty() {
                self.write_bytes(edge.start, &vec![0; (edge.end - edge.start) as usize])?;
            }
        }
        Ok(())
    }
}

/// Returns a buffer with a copy of these bytes.
pub(crate) fn copy_to_buffer(bytes: &[u8]) -> IoBuffer {
    let mut copy = IoBuffer::zeroed(bytes.len());
    copy.copy_from_slice(bytes);
    copy
}

/// Number of blocks that are zeroed at once.
const ZERO_BATCH: usize = 256;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::RaidLevel;
    use crate::test_array::TestArray;

    const BLOCKS: u64 = 24;

    #[derive(Clone, Debug)]
    enum StoreOperation {
        Write(u64, usize, u8),
        Zero(u64, u64),
        Flush,
    }

    fn steps() -> impl Strategy<Value = Vec<StoreOperation>> {
        let end = BLOCKS * BLOCK as u64;
        let step = prop_oneof![
            4 => (0..end, 1..20_000usize, 1u8..).prop_map(|(at, length, byte)| StoreOperation::Write(at, length, byte)),
            2 => (0..end, 1..40_000u64).prop_map(|(at, length)| StoreOperation::Zero(at, length)),
            1 => Just(StoreOperation::Flush),
        ];
        prop::collection::vec(step, 1..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Compares byte ranges on an array with a buffer in memory. Blocks without content must be zeros.
        #[test]
        fn byte_ranges_are_written_zeroed_and_read(steps in steps(), lost in 0usize..3) {
            let mut tested = TestArray::new(RaidLevel::Raid6, 5, 1);
            (0..lost).for_each(|slot| tested.array().fail(slot).unwrap());
            let array = tested.array();
            let end = BLOCKS * BLOCK as u64;
            let mut model = vec![0; end as usize];
            for step in steps {
                match step {
                    StoreOperation::Write(at, length, byte) => {
                        let length = length.min((end - at) as usize);
                        array.write_bytes(at, &vec![byte; length]).unwrap();
                        model[at as usize..][..length].fill(byte);
                    }
                    StoreOperation::Zero(at, length) => {
                        let length = length.min(end - at);
                        array.zero_bytes(at, length).unwrap();
                        model[at as usize..][..length as usize].fill(0);
                    }
                    StoreOperation::Flush => BlockStore::flush(array).unwrap(),
                }
            }
            let mut found = vec![1; model.len()];
            let (one, two) = found.split_at_mut(10_001);
            array.read_bytes(&mut [(10_001, two), (0, one)]).unwrap();
            prop_assert!(found == model);
            let mut at = 0;
            for (count, has_content) in array.allocation(0..BLOCKS).unwrap() {
                let bytes = at * BLOCK..(at + count as usize) * BLOCK;
                prop_assert!(has_content || model[bytes].iter().all(|byte| *byte == 0));
                at += count as usize;
            }
            prop_assert_eq!(at as u64, BLOCKS);
        }
    }
}
