//! Computes P and Q of whole blocks.

use super::lanes::{KernelLoop, Lanes};
use super::{BLOCK, RUN};

type BlockRuns = [[u8; RUN]; BLOCK / RUN];

static ZEROS: BlockRuns = [[0; RUN]; BLOCK / RUN];

/// Inputs and outputs of the inner loop for 4096-byte blocks and at most [`PAndQ::MAX_COLUMNS`] columns. Columns may
/// be empty. A column's index is its position in the row.
pub(super) struct PAndQ<'a> {
    columns: &'a [&'a [u8]],
    p: &'a mut BlockRuns,
    q: &'a mut BlockRuns,
}

impl<'a> PAndQ<'a> {
    /// Maximum number of columns.
    pub const MAX_COLUMNS: usize = 16;

    /// Creates the loop. Returns `None` if the blocks do not have 4096 bytes, or if there are no columns or too many.
    pub fn new(columns: &'a [&'a [u8]], p: &'a mut [u8], q: &'a mut [u8]) -> Option<Self> {
        let fits = p.len() == BLOCK && (1..=PAndQ::MAX_COLUMNS).contains(&columns.len());
        let (p, q) = (p.as_chunks_mut().0.try_into().ok()?, q.as_chunks_mut().0.try_into().ok()?);
        fits.then_some(PAndQ { columns, p, q })
    }

    /// Computes the sums. `U` is the number of vectors in a run.
    #[inline(always)]
    fn sum<L: Lanes, const U: usize>(self, lanes: L) {
        let PAndQ { columns, p, q } = self;
        match columns.len().next_multiple_of(2) {
            2 => compute::<L, U, 2>(lanes, columns, p, q),
            4 => compute::<L, U, 4>(lanes, columns, p, q),
            6 => compute::<L, U, 6>(lanes, columns, p, q),
            8 => compute::<L, U, 8>(lanes, columns, p, q),
            10 => compute::<L, U, 10>(lanes, columns, p, q),
            12 => compute::<L, U, 12>(lanes, columns, p, q),
            14 => compute::<L, U, 14>(lanes, columns, p, q),
            PAndQ::MAX_COLUMNS => compute::<L, U, { PAndQ::MAX_COLUMNS }>(lanes, columns, p, q),
            _ => unreachable!("no more columns"),
        }
    }
}

/// Computes P and Q of at most `N` columns by Horner's rule, from the last column to the first. The function is
/// compiled for each `N`, because counters and bounds checks would take a quarter of the time in such a short loop.
#[inline(always)]
fn compute<L: Lanes, const U: usize, const N: usize>(
    lanes: L,
    columns: &[&[u8]],
    p: &mut BlockRuns,
    q: &mut BlockRuns,
) {
    let mut blocks = [&ZEROS; N];
    for (block, column) in blocks.iter_mut().zip(columns).filter(|(_, column)| !column.is_empty()) {
        *block = column.as_chunks().0.try_into().expect("blocks have one length");
    }
    for run in 0..BLOCK / RUN {
        let mut sums = [lanes.zero(); U];
        let mut products = [lanes.offset(); U];
        for column in (0..N).rev() {
            for part in 0..U {
                let vector = lanes.load(&blocks[column][run][part * L::WIDTH..]);
                sums[part] = lanes.xor(sums[part], vector);
                products[part] = lanes.xor(lanes.double(products[part]), vector);
            }
        }
        for part in 0..U {
            let at = part * L::WIDTH;
            lanes.store(sums[part], &mut p[run][at..]);
            lanes.store(lanes.xor(products[part], lanes.offset()), &mut q[run][at..]);
        }
    }
}

impl KernelLoop for PAndQ<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        match L::WIDTH {
            64 => self.sum::<L, { RUN / 64 }>(lanes),
            32 => self.sum::<L, { RUN / 32 }>(lanes),
            _ => unreachable!("vectors have 32 or 64 bytes"),
        }
    }
}
