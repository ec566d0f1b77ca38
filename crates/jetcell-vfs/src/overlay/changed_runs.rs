//! Map from the changed parts of a file to their positions in the scratch file.
//!
//! Invariants: runs do not overlap; two runs that are adjacent in both files are merged into one.

use std::collections::BTreeMap;

/// Maps a file's changed block runs to their positions in the scratch file.
#[derive(Default)]
pub(super) struct ChangedRuns {
    /// Position in the scratch file and length of each run, keyed by the offset in the file.
    runs: BTreeMap<u64, (u64, u64)>,
}

impl ChangedRuns {
    /// Returns the changed parts of a range in order, as offset, position and length.
    pub(super) fn parts(&self, offset: u64, len: u64) -> impl Iterator<Item = (u64, u64, u64)> {
        let end = offset + len;
        // At most one run begins before the range and extends into it.
        let first = self.runs.range(..offset).next_back().map_or(offset, |(start, _)| *start);
        self.runs.range(first..end).filter_map(move |(start, (place, len))| {
            let (from, to) = (offset.max(*start), end.min(start + len));
            (from < to).then(|| (from, place + (from - start), to - from))
        })
    }

    /// Returns the position of a range if the whole range is changed and contiguous in the scratch file.
    pub(super) fn position(&self, offset: u64, len: u64) -> Option<u64> {
        let (_, place, found) = self.parts(offset, len).next()?;
        (found == len).then_some(place)
    }

    /// Records that a changed range is stored at this position in the scratch file.
    pub(super) fn set(&mut self, offset: u64, place: u64, len: u64) {
        self.remove(offset, offset + len);
        let (mut start, mut first, mut total) = (offset, place, len);
        if let Some((before, (at, size))) = self.runs.range(..offset).next_back()
            && (before + size, at + size) == (offset, place)
        {
            (start, first, total) = (*before, *at, total + size);
        }
        if let Some((at, size)) = self.runs.get(&(offset + len)).copied()
            && at == place + len
        {
            self.runs.remove(&(offset + len));
            total += size;
        }
        self.runs.insert(start, (first, total));
    }

    /// Removes all changes at and after an offset.
    pub(super) fn truncate(&mut self, offset: u64) {
        self.remove(offset, u64::MAX);
    }

    fn remove(&mut self, from: u64, to: u64) {
        if let Some((&start, run)) = self.runs.range_mut(..from).next_back()
            && start + run.1 > from
        {
            let (place, len) = *run;
            let kept = from - start;
            run.1 = kept;
            self.runs.insert(from, (place + kept, len - kept));
        }
        while let Some((&start, &(place, len))) = self.runs.range(from..to).next() {
            self.runs.remove(&start);
            if start + len > to {
                self.runs.insert(to, (place + (to - start), start + len - to));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn runs_match_a_map_with_single_blocks() {
        for seed in 0..200 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let (mut runs, mut model, mut used) = (ChangedRuns::default(), BTreeMap::new(), 0);
            for step in 0..60 {
                let (offset, len) = (random.random_range(0..40), random.random_range(1..9));
                match runs.position(offset, len) {
                    _ if random.random_range(0..12) == 0 => {
                        runs.truncate(offset);
                        model.split_off(&offset);
                    }
                    Some(place) => assert_eq!(model.get(&offset), Some(&place), "seed {seed}, step {step}"),
                    None => {
                        runs.set(offset, used, len);
                        model.extend((0..len).map(|at| (offset + at, used + at)));
                        used += len;
                    }
                }
                let parts = runs.parts(3, 30);
                let found = parts.flat_map(|(at, place, len)| (0..len).map(move |n| (at + n, place + n)));
                let expected: Vec<(u64, u64)> = model.range(3..33).map(|(at, place)| (*at, *place)).collect();
                assert_eq!(found.collect::<Vec<_>>(), expected, "seed {seed}, step {step}");
                let all: Vec<(u64, u64)> = model.iter().map(|(at, place)| (*at, *place)).collect();
                let pieces = all.chunk_by(|a, b| (a.0 + 1, a.1 + 1) == *b).count();
                assert_eq!(runs.runs.len(), pieces, "seed {seed}, step {step}");
            }
        }
    }

    #[test]
    fn a_multi_block_page_uses_one_run() {
        let mut runs = ChangedRuns::default();
        // Write the pages in scattered order, twice.
        for _ in 0..2 {
            for page in 0..1000 {
                let offset = page * 7919 % 1000 * 2 * 32768;
                if runs.position(offset, 32768).is_none() {
                    runs.set(offset, page * 32768, 32768);
                }
            }
        }
        assert_eq!(runs.runs.len(), 1000);
    }
}
