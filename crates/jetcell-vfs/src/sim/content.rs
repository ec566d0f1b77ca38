//! The bytes of a simulated file, stored as sparse blocks that copies share until one of them writes. A block is part
//! of the write that stored it.

use std::collections::BTreeMap;
use std::ops::Range;

use jetcell_sync::Arc;

const BLOCK: usize = 4096;
/// Maximum length of a write whose data is shared by its blocks. A single remaining block retains all data of its
/// write.
const MAX_SHARED: usize = 128 << 10;

/// A block of a file: [`BLOCK`] bytes of `data`, beginning at `start`.
#[derive(Clone)]
struct ContentBlock {
    data: Arc<[u8]>,
    start: usize,
}

impl ContentBlock {
    fn new(data: Arc<[u8]>) -> ContentBlock {
        ContentBlock { data, start: 0 }
    }

    fn bytes(&self) -> &[u8] {
        &self.data[self.start..self.start + BLOCK]
    }

    /// Returns the bytes for a change. Copies them first if they are shared.
    fn bytes_mut(&mut self) -> &mut [u8] {
        if self.data.len() != BLOCK || Arc::get_mut(&mut self.data).is_none() {
            *self = ContentBlock::new(self.bytes().into());
        }
        Arc::get_mut(&mut self.data).expect("it is not shared")
    }
}

/// Content of a simulated file. Absent blocks read as zeros. All bytes of a block beyond `len` are zero.
#[derive(Clone, Default)]
pub(super) struct SimContent {
    blocks: BTreeMap<u64, ContentBlock>,
    len: u64,
}

impl SimContent {
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Fills `buffer`. Bytes past the end read as zeros.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) {
        for (block, within, part) in pieces(offset, buffer.len()) {
            let target = &mut buffer[part.clone()];
            match self.blocks.get(&block) {
                Some(stored) => target.copy_from_slice(&stored.bytes()[within..within + part.len()]),
                None => target.fill(0),
            }
        }
    }

    /// Overwrites a range. Grows the file if `data` extends past its end.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        self.write_blocks(offset, data, |whole| ContentBlock::new(data[whole].into()));
    }

    /// Overwrites a range like [`SimContent::write`]. The blocks share the data.
    pub fn write_shared(&mut self, offset: u64, data: &Arc<[u8]>) {
        if data.len() > MAX_SHARED {
            return self.write(offset, data);
        }
        self.write_blocks(offset, data, |whole| ContentBlock { data: data.clone(), start: whole.start });
    }

    fn write_blocks(&mut self, offset: u64, data: &[u8], whole_block: impl Fn(Range<usize>) -> ContentBlock) {
        for (block, within, part) in pieces(offset, data.len()) {
            // A whole block is replaced, so the old one, which is often shared, need not be copied first.
            if part.len() == BLOCK {
                self.blocks.insert(block, whole_block(part));
                continue;
            }
            let zeros = || ContentBlock::new([0; BLOCK].into());
            let stored = self.blocks.entry(block).or_insert_with(zeros);
            stored.bytes_mut()[within..within + part.len()].copy_from_slice(&data[part]);
        }
        self.len = self.len.max(offset + data.len() as u64);
    }

    /// Makes the blocks that contain a range equal to those of `other`. Grows the file if the range extends past its
    /// end.
    pub fn share(&mut self, other: &SimContent, offset: u64, len: usize) {
        for (block, ..) in pieces(offset, len) {
            match other.blocks.get(&block) {
                Some(stored) => self.blocks.insert(block, stored.clone()),
                None => self.blocks.remove(&block),
            };
        }
        self.len = self.len.max(offset + len as u64);
    }

    pub fn set_len(&mut self, len: u64) {
        if len < self.len {
            let (last, within) = (len / BLOCK as u64, (len % BLOCK as u64) as usize);
            self.blocks.split_off(&(last + u64::from(within > 0)));
            if within > 0
                && let Some(stored) = self.blocks.get_mut(&last)
            {
                stored.bytes_mut()[within..].fill(0);
            }
        }
        self.len = len;
    }
}

/// Splits a byte range into tuples of block number, offset within the block, and range in the caller's buffer.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        (done < len).then(|| {
            let position = offset + done as u64;
            let within = (position % BLOCK as u64) as usize;
            let part = done..len.min(done + BLOCK - within);
            done = part.end;
            (position / BLOCK as u64, within, part)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};

    #[test]
    fn content_behaves_like_a_byte_vector() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let (mut content, mut model) = (SimContent::default(), Vec::new());
        for _ in 0..2000 {
            if rng.random_bool(0.2) {
                let len = rng.random_range(0..40_000);
                content.set_len(len as u64);
                model.resize(len, 0);
            } else {
                let (offset, len) = (rng.random_range(0..30_000), rng.random_range(0..9_000));
                let data: Vec<u8> = (0..len).map(|_| rng.random()).collect();
                if rng.random_bool(0.5) {
                    content.write(offset as u64, &data);
                } else {
                    content.write_shared(offset as u64, &data.as_slice().into());
                }
                model.resize(model.len().max(offset + len), 0);
                model[offset..offset + len].copy_from_slice(&data);
            }
            let mut whole = vec![0xFF; model.len()];
            content.read(0, &mut whole);
            assert!(content.len() == model.len() as u64 && whole == model);
        }
    }
}
