//! Sums of the rows and of the diagonals of blocks whose symbols are words of 16 bytes: p = 257.

use super::BLOCK;
use super::lanes::{Lanes, Loop, WORD};

/// Symbols of a column with the one that is not stored.
const PRIME: usize = BLOCK / WORD + 1;
/// Vectors by which the columns of a group are shifted: 0 to LAGS - 1. A vector has R words, so that a group has R columns for each.
const LAGS: usize = 4;

/// Column c is added to the diagonals as a whole, c words behind its place. Columns may be empty; their places are their indexes.
pub(super) struct SumsOfWords<'a> {
    columns: &'a [&'a [u8]],
    rows: &'a mut [u8],
    diagonals: &'a mut [u8],
}

impl<'a> SumsOfWords<'a> {
    /// `None` for other blocks and primes, and without columns.
    pub fn new(
        columns: &'a [&'a [u8]],
        rows: &'a mut [u8],
        diagonals: &'a mut [u8],
        prime: usize,
    ) -> Option<Self> {
        let fits = rows.len() == BLOCK && prime == PRIME && !columns.is_empty();
        fits.then_some(SumsOfWords { columns, rows, diagonals })
    }

    /// Adds the columns group by group. R: words of a vector. RUN: bytes of the U vectors that are read from each column in turn; a block has
    /// RUNS of them. SUMS is LAGS - 1 + U.
    #[inline(always)]
    fn sum<
        L: Lanes,
        const R: usize,
        const U: usize,
        const SUMS: usize,
        const RUN: usize,
        const RUNS: usize,
    >(
        self,
        lanes: L,
    ) {
        let rows: &mut [[u8; RUN]; RUNS] =
            self.rows.as_chunks_mut().0.try_into().expect("the length of a block");
        for (number, columns) in self.columns.chunks(LAGS * R).enumerate() {
            let group = Group { number, columns, rows, diagonals: self.diagonals };
            match columns.len().next_multiple_of(2) {
                2 => group.add::<L, R, U, SUMS, 2>(lanes),
                4 => group.add::<L, R, U, SUMS, 4>(lanes),
                6 => group.add::<L, R, U, SUMS, 6>(lanes),
                8 => group.add::<L, R, U, SUMS, 8>(lanes),
                10 => group.add::<L, R, U, SUMS, 10>(lanes),
                12 => group.add::<L, R, U, SUMS, 12>(lanes),
                14 => group.add::<L, R, U, SUMS, 14>(lanes),
                16 => group.add::<L, R, U, SUMS, 16>(lanes),
                _ => unreachable!("a group has 8 or 16 columns"),
            }
        }
    }
}

/// Columns next to each other.
struct Group<'g, const RUN: usize, const RUNS: usize> {
    number: usize,
    columns: &'g [&'g [u8]],
    rows: &'g mut [[u8; RUN]; RUNS],
    diagonals: &'g mut [u8],
}

impl<const RUN: usize, const RUNS: usize> Group<'_, RUN, RUNS> {
    /// Adds at most N columns to the sums; the first group finds none. Compiled for each N, because counters and bounds of so short a loop would
    /// take a tenth of the time.
    ///
    /// Each vector is read once. It is added to the sum of those columns whose shifts differ by whole vectors, at the place where its own
    /// shift ends. The R sums of a vector are then shifted by 0 to R - 1 words, and added.
    #[inline(always)]
    fn add<L: Lanes, const R: usize, const U: usize, const SUMS: usize, const N: usize>(self, lanes: L) {
        let zeros = &[[0; RUN]; RUNS];
        let mut blocks = [zeros; N];
        for (block, column) in blocks.iter_mut().zip(self.columns).filter(|(_, column)| !column.is_empty()) {
            *block = column.as_chunks().0.try_into().expect("blocks have one length");
        }
        let is_first = self.number == 0;
        let mut sums = [[lanes.zero(); SUMS]; R];
        let mut before = [lanes.zero(); R];
        for run in 0..RUNS + LAGS / U {
            if run < RUNS {
                let mut of_rows = [lanes.zero(); U];
                if !is_first {
                    for (part, sum) in of_rows.iter_mut().enumerate() {
                        *sum = lanes.load(&self.rows[run][part * L::WIDTH..]);
                    }
                }
                for (column, block) in blocks.iter().enumerate() {
                    let (lag, words) = (column / R, column % R);
                    for (part, sum) in of_rows.iter_mut().enumerate() {
                        let vector = lanes.load(&block[run][part * L::WIDTH..]);
                        *sum = lanes.xor(*sum, vector);
                        sums[words][lag + part] = lanes.xor(sums[words][lag + part], vector);
                    }
                }
                for (part, sum) in of_rows.into_iter().enumerate() {
                    lanes.store(sum, &mut self.rows[run][part * L::WIDTH..]);
                }
            }
            let mut shifted = [lanes.zero(); U];
            for part in 0..U {
                shifted[part] = sums[0][part];
                for words in 1..R {
                    let sum = sums[words][part];
                    shifted[part] = lanes.xor(shifted[part], lanes.behind(sum, before[words], words));
                    before[words] = sum;
                }
            }
            for sums in &mut sums {
                for index in 0..SUMS {
                    sums[index] = if index + U < SUMS { sums[index + U] } else { lanes.zero() };
                }
            }
            let place = run * RUN + self.number * LAGS * L::WIDTH;
            if let Some(diagonals) = self.diagonals.get_mut(place..place + RUN) {
                for part in 0..U {
                    let place = &mut diagonals[part * L::WIDTH..];
                    let sum =
                        if is_first { shifted[part] } else { lanes.xor(shifted[part], lanes.load(place)) };
                    lanes.store(sum, place);
                }
                continue;
            }
            let mut bytes = [0; RUN];
            for part in 0..U {
                lanes.store(shifted[part], &mut bytes[part * L::WIDTH..]);
            }
            // Behind the last row is the symbol on the diagonal that is not stored, and then the first diagonal again.
            match place - BLOCK {
                0 => add_words(self.diagonals, &bytes[WORD..]),
                behind => add_words(&mut self.diagonals[behind - WORD..], &bytes),
            }
        }
    }
}

/// Adds words to others.
fn add_words(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.as_chunks_mut::<WORD>().0.iter_mut().zip(from.as_chunks().0) {
        *to = (u128::from_ne_bytes(*to) ^ u128::from_ne_bytes(*from)).to_ne_bytes();
    }
}

impl Loop for SumsOfWords<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        match L::WIDTH {
            // 20 of 32 registers for sums, and 10 of 16.
            64 => self.sum::<L, 4, 2, 5, 128, 32>(lanes),
            32 => self.sum::<L, 2, 2, 5, 64, 64>(lanes),
            _ => unreachable!("vectors have 32 or 64 bytes"),
        }
    }
}
