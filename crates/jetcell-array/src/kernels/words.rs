//! Computes row and diagonal parity of blocks whose symbols are 16-byte words (p = 257).

use super::BLOCK;
use super::lanes::{KernelLoop, Lanes, WORD};

/// Number of symbols in a column, including the one that is not stored.
const PRIME: usize = BLOCK / WORD + 1;
/// Number of vectors in a run. Runs are read from each column in turn.
const U: usize = 2;
/// Number of columns in the first group of a pass that has two groups. A set of the L1 cache has room for this many
/// lines.
const FIRST_GROUP_COLUMNS: usize = 8;
/// Number of runs by which the second group is ahead of the first. This puts the cache lines of the two groups,
/// including those that the processor prefetches, into different sets.
const RUNS_AHEAD: usize = 4;

/// Inputs and outputs of the inner loop for 16-byte symbols. Column c is added to the diagonals as a whole, at an
/// offset of c words. Row parity is column p - 1, which results in an offset of minus one word. Columns may be empty.
/// A column's index is its position in the row. If `SPLIT` is set, a pass over more than eight columns has two
/// groups.
pub(super) struct WordParity<'a, const SPLIT: bool> {
    columns: &'a [&'a [u8]],
    rows: &'a mut [u8],
    diagonals: &'a mut [u8],
}

impl<'a> WordParity<'a, false> {
    /// Creates the loop. Returns `None` if the block size or the prime is not supported, or if there are no columns.
    pub fn new(
        columns: &'a [&'a [u8]],
        rows: &'a mut [u8],
        diagonals: &'a mut [u8],
        prime: usize,
    ) -> Option<Self> {
        let fits = rows.len() == BLOCK && prime == PRIME && !columns.is_empty();
        fits.then_some(WordParity { columns, rows, diagonals })
    }

    /// Returns true if all columns have the same address modulo 4096, like transfer buffers. Such columns map to the
    /// same L1 cache sets.
    pub fn has_cache_set_conflicts(&self) -> bool {
        let columns = self.columns.iter().filter(|column| !column.is_empty());
        let mut places = columns.map(|column| column.as_ptr().addr() % BLOCK);
        let first = places.next();
        places.all(|place| Some(place) == first)
    }

    /// Returns the variant that is faster for columns in the same cache sets. It has its own type, so it is compiled
    /// to a separate function. If a single function contained both loops, the loop without `SPLIT` would be 2 %
    /// slower.
    pub fn split(self) -> WordParity<'a, true> {
        let WordParity { columns, rows, diagonals } = self;
        WordParity { columns, rows, diagonals }
    }
}

impl<const SPLIT: bool> WordParity<'_, SPLIT> {
    /// Adds the columns, up to `MOST` of them in each pass. `R` is the number of words in a vector. `SUMS` is the
    /// number of vectors that a run covers after a group's columns are shifted. `RUN` is the number of bytes in a
    /// run, and `RUNS` is the number of runs in a block.
    #[inline(always)]
    fn compute<
        L: Lanes,
        const MOST: usize,
        const R: usize,
        const SUMS: usize,
        const RUN: usize,
        const RUNS: usize,
    >(
        self,
        lanes: L,
    ) {
        let WordParity { columns, rows, diagonals } = self;
        let is_only = columns.len() <= MOST;
        for (number, columns) in columns.chunks(MOST).enumerate() {
            let rows = rows.as_chunks_mut().0.try_into().expect("the length of a block");
            let diagonals = diagonals.as_chunks_mut().0.try_into().expect("the length of a block");
            let pass = ColumnPass::<RUN, RUNS> { first: number * MOST, columns, rows, diagonals };
            match columns.len().next_multiple_of(2) {
                2 => pass.add::<L, R, SUMS, MOST, 2, 0>(lanes, is_only),
                4 => pass.add::<L, R, SUMS, MOST, 4, 0>(lanes, is_only),
                6 => pass.add::<L, R, SUMS, MOST, 6, 0>(lanes, is_only),
                8 => pass.add::<L, R, SUMS, MOST, 8, 0>(lanes, is_only),
                10 if SPLIT => pass.add::<L, R, SUMS, MOST, FIRST_GROUP_COLUMNS, 2>(lanes, is_only),
                12 if SPLIT => pass.add::<L, R, SUMS, MOST, FIRST_GROUP_COLUMNS, 4>(lanes, is_only),
                14 if SPLIT => pass.add::<L, R, SUMS, MOST, FIRST_GROUP_COLUMNS, 6>(lanes, is_only),
                16 if SPLIT => pass.add::<L, R, SUMS, MOST, FIRST_GROUP_COLUMNS, 8>(lanes, is_only),
                10 if MOST > 8 => pass.add::<L, R, SUMS, MOST, 10, 0>(lanes, is_only),
                12 if MOST > 8 => pass.add::<L, R, SUMS, MOST, 12, 0>(lanes, is_only),
                14 if MOST > 8 => pass.add::<L, R, SUMS, MOST, 14, 0>(lanes, is_only),
                16 if MOST > 8 => pass.add::<L, R, SUMS, MOST, 16, 0>(lanes, is_only),
                _ => unreachable!("a pass has at most 8 or 16 columns"),
            }
        }
        if !is_only {
            // Row sums are complete only after the last pass, so row parity is added here.
            add_words(diagonals, &rows[WORD..]);
        }
    }
}

/// A pass over adjacent columns of a row.
struct ColumnPass<'p, const RUN: usize, const RUNS: usize> {
    /// Position of the first column in the row.
    first: usize,
    columns: &'p [&'p [u8]],
    rows: &'p mut [[u8; RUN]; RUNS],
    diagonals: &'p mut [[u8; RUN]; RUNS],
}

impl<const RUN: usize, const RUNS: usize> ColumnPass<'_, RUN, RUNS> {
    /// Adds up to `N + M` columns. If there are several passes, the first one always has the maximum number of
    /// columns. The first pass does not read previous sums. If there is only one pass, it computes row parity, and
    /// also adds it to the diagonals.
    #[inline(always)]
    fn add<L: Lanes, const R: usize, const SUMS: usize, const MOST: usize, const N: usize, const M: usize>(
        self,
        lanes: L,
        is_only: bool,
    ) {
        match self.first {
            0 if is_only => self.read::<L, R, SUMS, N, M, true, true>(lanes),
            0 if N + M == MOST => self.read::<L, R, SUMS, N, M, true, false>(lanes),
            _ => self.read::<L, R, SUMS, N, M, false, false>(lanes),
        }
    }

    /// Reads the columns. The last `M` of them are read some runs ahead of the others. The function is compiled for
    /// each `N` and `M`, because counters and bounds checks would take a tenth of the time in such a short loop.
    #[inline(always)]
    fn read<
        L: Lanes,
        const R: usize,
        const SUMS: usize,
        const N: usize,
        const M: usize,
        const FIRST: bool,
        const ONLY: bool,
    >(
        self,
        lanes: L,
    ) {
        let ColumnPass { first, columns, rows, diagonals } = self;
        let first = if FIRST { 0 } else { first };
        let (columns, others) = columns.split_at(columns.len().min(N));
        let mut group = WordColumnGroup::<L, R, SUMS, RUN, RUNS, N>::new(lanes, first, columns);
        let mut leading = WordColumnGroup::<L, R, SUMS, RUN, RUNS, M>::new(lanes, first + N, others);
        let mut end = [0; RUN];
        let nothing = RunSums { of_rows: [lanes.zero(); U], of_diagonals: [lanes.zero(); U] };
        // Sums of the leading group for the next runs. Its diagonal sums belong to the run after the next, because
        // its columns are shifted by `FIRST_GROUP_COLUMNS` words, which is the length of a run.
        let mut ahead = [nothing; RUNS_AHEAD];
        let mut other = nothing;
        if M == 0 {
            for run in 0..RUNS {
                group.add::<FIRST, ONLY>(lanes, run, &other, rows, diagonals, &mut end);
            }
        } else {
            for run in 0..RUNS + RUNS_AHEAD {
                let slot = &mut ahead[run % RUNS_AHEAD];
                if run >= RUNS_AHEAD {
                    other.of_rows = slot.of_rows;
                    group.add::<FIRST, ONLY>(lanes, run - RUNS_AHEAD, &other, rows, diagonals, &mut end);
                    other.of_diagonals = slot.of_diagonals;
                }
                if run < RUNS {
                    *slot = leading.read(lanes, run, nothing);
                }
            }
        }
        let diagonals = diagonals.as_flattened_mut();
        if first > 0 {
            add_words(diagonals, &end[WORD..]);
        }
        group.finish(lanes, other.of_diagonals, diagonals);
        leading.finish(lanes, nothing.of_diagonals, diagonals);
    }
}

/// Row sums and diagonal sums of a run.
#[derive(Clone, Copy)]
struct RunSums<V> {
    of_rows: [V; U],
    of_diagonals: [V; U],
}

/// Columns that are read together, with the sums of their diagonals in registers.
///
/// Each vector is read once. Columns whose shifts differ by whole vectors share a sum. Each vector is added to this
/// sum at an offset given by the number of whole vectors in its shift. The `R` sums are then shifted by 0 to `R - 1`
/// words, and added up.
struct WordColumnGroup<
    'g,
    L: Lanes,
    const R: usize,
    const SUMS: usize,
    const RUN: usize,
    const RUNS: usize,
    const N: usize,
> {
    /// Position of the first column in the row.
    first: usize,
    blocks: [&'g [[u8; RUN]; RUNS]; N],
    /// Sums for the next run and the vectors after it, one set for each word shift.
    sums: [[L::Vector; SUMS]; R],
    /// Last vector of the previous run, for each word shift.
    before: [L::Vector; R],
}

impl<'g, L: Lanes, const R: usize, const SUMS: usize, const RUN: usize, const RUNS: usize, const N: usize>
    WordColumnGroup<'g, L, R, SUMS, RUN, RUNS, N>
{
    const ZEROS: &'static [[u8; RUN]; RUNS] = &[[0; RUN]; RUNS];

    #[inline(always)]
    fn new(lanes: L, first: usize, columns: &[&'g [u8]]) -> Self {
        let mut blocks = [Self::ZEROS; N];
        for (block, column) in blocks.iter_mut().zip(columns).filter(|(_, column)| !column.is_empty()) {
            assert!(column.len() == BLOCK, "blocks of one row differ in length");
            *block = column.as_chunks().0.try_into().expect("the length of a block");
        }
        WordColumnGroup { first, blocks, sums: [[lanes.zero(); SUMS]; R], before: [lanes.zero(); R] }
    }

    /// Adds a run of each column to the sums. The result contains all contributions of this group.
    #[inline(always)]
    fn read(&mut self, lanes: L, run: usize, sums: RunSums<L::Vector>) -> RunSums<L::Vector> {
        let RunSums { mut of_rows, mut of_diagonals } = sums;
        for words in 0..R {
            // Columns with the same shift by words are processed together. This way, only a few vectors are held back
            // at a time.
            for column in (words..N).step_by(R) {
                for (part, of_rows) in of_rows.iter_mut().enumerate() {
                    let vector = lanes.load(&self.blocks[column][run][part * L::WIDTH..]);
                    let sum = &mut self.sums[words][column / R + part];
                    *of_rows = lanes.xor(*of_rows, vector);
                    *sum = lanes.xor(*sum, vector);
                }
            }
            self.take(lanes, words, &mut of_diagonals);
        }
        RunSums { of_rows, of_diagonals }
    }

    /// Adds a run of each column, and `other`, to the row sums and the diagonal sums. `end` receives the run past the
    /// last diagonal sum, which begins with the symbol on the diagonal that is not stored.
    ///
    /// The function has no branches, because the compiler would move additions past a branch, and would then have to
    /// store vectors on the stack.
    #[inline(always)]
    fn add<const FIRST: bool, const ONLY: bool>(
        &mut self,
        lanes: L,
        run: usize,
        other: &RunSums<L::Vector>,
        rows: &mut [[u8; RUN]; RUNS],
        diagonals: &mut [[u8; RUN]; RUNS],
        end: &mut [u8; RUN],
    ) {
        let row = &mut rows[run];
        let mut other = *other;
        if !FIRST {
            for (part, sum) in other.of_rows.iter_mut().enumerate() {
                *sum = lanes.xor(*sum, lanes.load(&row[part * L::WIDTH..]));
            }
        }
        let RunSums { of_rows, of_diagonals: mut sums } = self.read(lanes, run, other);
        if ONLY {
            for part in 0..U {
                let next = if part + 1 < U { of_rows[part + 1] } else { lanes.zero() };
                sums[part] = lanes.xor(sums[part], lanes.shift_words(next, of_rows[part], R - 1));
            }
        }
        let place = if FIRST {
            &mut diagonals[run]
        } else {
            let place = self.first * WORD + run * RUN;
            let place = if place < BLOCK { place } else { (place - BLOCK).wrapping_sub(WORD) };
            let place = diagonals.as_flattened_mut().get_mut(place..);
            place.and_then(|place| place.first_chunk_mut()).unwrap_or(&mut *end)
        };
        for (part, mut sum) in sums.into_iter().enumerate() {
            lanes.store(of_rows[part], &mut row[part * L::WIDTH..]);
            let place = &mut place[part * L::WIDTH..];
            if !FIRST {
                sum = lanes.xor(sum, lanes.load(place));
            }
            lanes.store(sum, place);
        }
        if ONLY {
            // The first word belongs to the previous run. In the first run, it is on the diagonal that is not stored.
            let place = diagonals.get_mut(run.wrapping_sub(1)).unwrap_or(end);
            add_words(&mut place[RUN - WORD..], &row[..WORD]);
        }
    }

    /// Adds the next run of the sums that are shifted by this number of words.
    #[inline(always)]
    fn take(&mut self, lanes: L, words: usize, to: &mut [L::Vector; U]) {
        let (sums, before) = (&mut self.sums[words], &mut self.before[words]);
        for (part, to) in to.iter_mut().enumerate() {
            let shifted = if words == 0 { sums[part] } else { lanes.shift_words(sums[part], *before, words) };
            *to = lanes.xor(*to, shifted);
            *before = sums[part];
        }
        for index in 0..SUMS {
            sums[index] = if index + U < SUMS { sums[index + U] } else { lanes.zero() };
        }
    }

    /// Adds the sums that extend past the last row, and `sums`. These sums begin with the diagonal that is not
    /// stored, followed by the first diagonals.
    #[inline(always)]
    fn finish(&mut self, lanes: L, mut sums: [L::Vector; U], diagonals: &mut [u8]) {
        let mut place = self.first * WORD;
        for _ in 0..N.div_ceil(RUN / WORD) {
            for words in 0..R {
                self.take(lanes, words, &mut sums);
            }
            let mut bytes = [0; RUN];
            for (part, sum) in sums.into_iter().enumerate() {
                lanes.store(sum, &mut bytes[part * L::WIDTH..]);
            }
            match place.checked_sub(WORD) {
                None => add_words(diagonals, &bytes[WORD..]),
                Some(place) => add_words(&mut diagonals[place..], &bytes),
            }
            place += RUN;
            sums = [lanes.zero(); U];
        }
    }
}

/// Adds words to other words, up to the end of the shorter sequence.
fn add_words(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.as_chunks_mut::<WORD>().0.iter_mut().zip(from.as_chunks().0) {
        *to = (u128::from_ne_bytes(*to) ^ u128::from_ne_bytes(*from)).to_ne_bytes();
    }
}

impl<const SPLIT: bool> KernelLoop for WordParity<'_, SPLIT> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        match L::WIDTH {
            // The sums take 12 of 32 registers for each of two groups, 20 of 32 for a single group, and 10 of 16 with
            // 32-byte vectors.
            64 if SPLIT => self.compute::<L, 16, 4, 3, 128, 32>(lanes),
            64 => self.compute::<L, 16, 4, 5, 128, 32>(lanes),
            32 => self.compute::<L, 8, 2, 5, 64, 64>(lanes),
            _ => unreachable!("vectors have 32 or 64 bytes"),
        }
    }
}
