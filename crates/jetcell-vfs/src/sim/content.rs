//! The bytes of a simulated file, stored as sparse blocks that copies share until one of them writes.

use std::collections::BTreeMap;

use jetcell_sync::Arc;

const BLOCK: usize = 4096;

/// Content of a simulated file. Absent blocks read as zeros. All bytes of a block beyond `len` are zero.
#[derive(Clone, Default)]
pub(super) struct SimContent {
    blocks: BTreeMap<u64, Arc<[u8; BLOCK]>>,
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
                Some(bytes) => target.copy_from_slice(&bytes[within..within + part.len()]),
                None => target.fill(0),
            }
        }
    }

    /// Overwrites a range. Grows the file if `data` extends past its end.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        for (block, within, part) in pieces(offset, data.len()) {
            // A whole block is replaced, so the old one, which is often shared, need not be copied first.
            if let Ok(whole) = <[u8; BLOCK]>::try_from(&data[part.clone()]) {
                self.blocks.insert(block, Arc::new(whole));
                continue;
            }
            let bytes = self.blocks.entry(block).or_insert_with(|| Arc::new([0; BLOCK]));
            Arc::make_mut(bytes)[within..within + part.len()].copy_from_slice(&data[part]);
        }
        self.len = self.len.max(offset + data.len() as u64);
    }

    /// Makes the blocks that contain a range equal to those of `other`. Grows the file if the range extends past its
    /// end.
    pub fn share(&mut self, other: &SimContent, offset: u64, len: usize) {
        for (block, ..) in pieces(offset, len) {
            match other.blocks.get(&block) {
                Some(bytes) => self.blocks.insert(block, bytes.clone()),
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
                && let Some(bytes) = self.blocks.get_mut(&last)
            {
                Arc::make_mut(bytes)[within..].fill(0);
            }
        }
        self.len = len;
    }
}

/// Splits a byte range into tuples of block number, offset within the block, and range in the caller's buffer.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
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
                content.write(offset as u64, &data);
                model.resize(model.len().max(offset + len), 0);
                model[offset..offset + len].copy_from_slice(&data);
            }
            let mut whole = vec![0xFF; model.len()];
            content.read(0, &mut whole);
            assert!(content.len() == model.len() as u64 && whole == model);
        }
    }
}
