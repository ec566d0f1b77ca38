//! Computes the row sums and diagonal sums of columns in a single pass over memory.

use super::lanes::{KernelLoop, Lanes};

/// Size of a symbol in bytes; a block of 4096 bytes has symbols of this size if p = 17. Whole symbols are read at a
/// time, because the processor prefetches runs of 256 bytes from many blocks, but not single cache lines.
const SYMBOL: usize = 256;
/// Maximum number of symbols in a block.
const SYMBOLS: usize = 16;
/// Number of columns that are summed together. On processors with few registers, the columns are read twice, and the
/// second read must hit the L1 cache. Blocks that begin at multiples of 4096 bytes map to the same cache sets, each
/// of which has room for eight lines.
const COLUMNS: usize = 7;

type Symbol = [u8; SYMBOL];

/// Content of an empty column.
static ZEROS: [Symbol; SYMBOLS] = [[0; SYMBOL]; SYMBOLS];

/// Inputs and outputs of the inner loop for 256-byte symbols. Columns may be empty. A column's index is its position
/// in the row.
pub(super) struct SymbolSums<'a> {
    rows: &'a mut [Symbol],
    diagonals: &'a mut [Symbol],
    columns: &'a [&'a [u8]],
}

impl<'a> SymbolSums<'a> {
    /// Creates the loop. Returns `None` if there are no columns, or if the blocks do not consist of p - 1 symbols of
    /// 256 bytes. There can be at most 16 symbols.
    pub fn new(
        columns: &'a [&'a [u8]],
        rows: &'a mut [u8],
        diagonals: &'a mut [u8],
        prime: usize,
    ) -> Option<Self> {
        let fits = rows.len() == (prime - 1) * SYMBOL && prime - 1 <= SYMBOLS && !columns.is_empty();
        let (rows, diagonals) = (rows.as_chunks_mut().0, diagonals.as_chunks_mut().0);
        fits.then_some(SymbolSums { rows, diagonals, columns })
    }

    /// Adds the columns group by group. A group of more than `FEW` columns keeps `W` diagonal sums in registers. A
    /// smaller group keeps `FEW` sums in registers, and is padded with zero columns.
    #[inline(always)]
    fn sum<L: Lanes, const V: usize, const U: usize, const W: usize, const FEW: usize>(self, lanes: L) {
        let SymbolSums { rows, diagonals, columns } = self;
        let groups = columns.len().div_ceil(COLUMNS);
        let size = columns.len().div_ceil(groups);
        for (number, columns) in columns.chunks(size).enumerate() {
            let mut group: [&[Symbol]; COLUMNS] = [&ZEROS; COLUMNS];
            for (place, column) in group.iter_mut().zip(columns).filter(|(_, column)| !column.is_empty()) {
                *place = column.as_chunks().0;
            }
            let group = DiagonalColumnGroup { first: number * size, columns: &group, count: columns.len() };
            match (columns.len() <= FEW, number) {
                (false, 0) => group.add::<L, V, U, W, true>(lanes, rows, diagonals),
                (false, _) => group.add::<L, V, U, W, false>(lanes, rows, diagonals),
                (true, 0) => group.add::<L, V, U, FEW, true>(lanes, rows, diagonals),
                (true, _) => group.add::<L, V, U, FEW, false>(lanes, rows, diagonals),
            }
        }
    }
}

/// Adjacent columns of a row.
struct DiagonalColumnGroup<'g, 'c> {
    /// Position of the first column in the row.
    first: usize,
    /// The columns, followed by columns of zeros.
    columns: &'g [&'c [Symbol]; COLUMNS],
    count: usize,
}

impl DiagonalColumnGroup<'_, '_> {
    /// Adds the columns to the sums. The first group does not read previous sums. Each step adds one row. It then
    /// stores the sum of the diagonal that contains the row's symbol in the first column; the other symbols on this
    /// diagonal are in earlier rows of the following columns. `W` diagonal sums are kept in registers, and the first
    /// `W` columns are added to them as they are read. For each of the other columns, a symbol is read again when it
    /// is added to its diagonal.
    ///
    /// A symbol has `V` vectors, of which `U` are read from each column in turn.
    #[inline(always)]
    fn add<L: Lanes, const V: usize, const U: usize, const W: usize, const FIRST: bool>(
        self,
        lanes: L,
        rows: &mut [Symbol],
        diagonals: &mut [Symbol],
    ) {
        let first = self.first;
        let (early, late) =
            self.columns[..self.count.max(W)].split_first_chunk::<W>().expect("W columns at least");
        let count = rows.len();
        // Sums of the current diagonal and the following ones.
        let mut sums = [[lanes.zero(); V]; W];
        for step in 0..count + W + late.len() - 1 {
            if let Some(row) = rows.get_mut(step) {
                for part in 0..V / U {
                    let mut sum = [lanes.zero(); U];
                    for (index, sum) in sum.iter_mut().enumerate() {
                        let at = (part * U + index) * L::WIDTH;
                        if !FIRST {
                            *sum = lanes.load(&row[at..]);
                        }
                    }
                    for (column, diagonal) in early.iter().zip(&mut sums) {
                        for (index, sum) in sum.iter_mut().enumerate() {
                            let at = part * U + index;
                            let vector = lanes.load(&column[step][at * L::WIDTH..]);
                            *sum = lanes.xor(*sum, vector);
                            diagonal[at] = lanes.xor(diagonal[at], vector);
                        }
                    }
                    for column in late {
                        for (index, sum) in sum.iter_mut().enumerate() {
                            let at = (part * U + index) * L::WIDTH;
                            *sum = lanes.xor(*sum, lanes.load(&column[step][at..]));
                        }
                    }
                    for (index, sum) in sum.into_iter().enumerate() {
                        lanes.store(sum, &mut row[(part * U + index) * L::WIDTH..]);
                    }
                }
            }
            let mut diagonal = sums[0];
            for next in 1..W {
                sums[next - 1] = sums[next];
            }
            sums[W - 1] = [lanes.zero(); V];
            let place = if first + step > count { first + step - count - 1 } else { first + step };
            // The sum of the last diagonal is not stored.
            let Some(place) = diagonals.get_mut(place) else { continue };
            for (index, column) in late.iter().enumerate() {
                if let Some(symbol) = step.checked_sub(W + index).and_then(|row| column.get(row)) {
                    add(lanes, &mut diagonal, symbol);
                }
            }
            if !FIRST || step >= count {
                add(lanes, &mut diagonal, place);
            }
            for (index, vector) in diagonal.into_iter().enumerate() {
                lanes.store(vector, &mut place[index * L::WIDTH..]);
            }
        }
    }
}

/// Adds a symbol to a sum.
#[inline(always)]
fn add<L: Lanes, const V: usize>(lanes: L, sum: &mut [L::Vector; V], symbol: &Symbol) {
    for (index, sum) in sum.iter_mut().enumerate() {
        *sum = lanes.xor(*sum, lanes.load(&symbol[index * L::WIDTH..]));
    }
}

impl KernelLoop for SymbolSums<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        match L::WIDTH {
            // The diagonals use 28 of 32 registers with 64-byte vectors, and 8 of 16 with 32-byte vectors.
            64 => self.sum::<L, 4, 1, COLUMNS, 4>(lanes),
            32 => self.sum::<L, 8, 8, 1, 1>(lanes),
            _ => unreachable!("vectors have 32 or 64 bytes"),
        }
    }
}
