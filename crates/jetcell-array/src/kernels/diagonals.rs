//! Sums of the rows and of the diagonals of columns in one pass over their memory.

use super::lanes::{Lanes, Loop};

/// Bytes of a symbol: that of a block of 4096 bytes with p = 17. Whole symbols are read at once, because a processor follows runs of
/// 256 bytes in many blocks, and not single lines.
const SYMBOL: usize = 256;
/// Symbols of a block, at most.
const SYMBOLS: usize = 16;
/// Columns that are summed together. Where registers are few, they are read twice, and the second time must find them in the first-level
/// cache: blocks that begin at multiples of 4096 bytes meet in the same sets of it, which have room for eight lines.
const COLUMNS: usize = 7;

type Symbol = [u8; SYMBOL];

/// What a column without content has.
static ZEROS: [Symbol; SYMBOLS] = [[0; SYMBOL]; SYMBOLS];

/// For symbols of 256 bytes. Columns may be empty; their places are their indexes.
pub(super) struct SumsOfSymbols<'a> {
    rows: &'a mut [Symbol],
    diagonals: &'a mut [Symbol],
    columns: &'a [&'a [u8]],
}

impl<'a> SumsOfSymbols<'a> {
    /// `None` if symbols have another size. The blocks have p - 1 symbols.
    pub fn new(
        columns: &'a [&'a [u8]],
        rows: &'a mut [u8],
        diagonals: &'a mut [u8],
        prime: usize,
    ) -> Option<Self> {
        let fits = rows.len() == (prime - 1) * SYMBOL && prime - 1 <= SYMBOLS && !columns.is_empty();
        let (rows, diagonals) = (rows.as_chunks_mut().0, diagonals.as_chunks_mut().0);
        fits.then_some(SumsOfSymbols { rows, diagonals, columns })
    }

    /// Adds the columns group by group. W and FEW: sums of diagonals in registers, for a group of more than FEW columns and for a smaller
    /// one, which is filled up with zeros.
    #[inline(always)]
    fn sum<L: Lanes, const V: usize, const U: usize, const W: usize, const FEW: usize>(self, lanes: L) {
        let SumsOfSymbols { rows, diagonals, columns } = self;
        let groups = columns.len().div_ceil(COLUMNS);
        let size = columns.len().div_ceil(groups);
        for (number, columns) in columns.chunks(size).enumerate() {
            let mut group: [&[Symbol]; COLUMNS] = [&ZEROS; COLUMNS];
            for (place, column) in group.iter_mut().zip(columns).filter(|(_, column)| !column.is_empty()) {
                *place = column.as_chunks().0;
            }
            let group = Group { first: number * size, columns: &group, count: columns.len() };
            match (columns.len() <= FEW, number) {
                (false, 0) => group.add::<L, V, U, W, true>(lanes, rows, diagonals),
                (false, _) => group.add::<L, V, U, W, false>(lanes, rows, diagonals),
                (true, 0) => group.add::<L, V, U, FEW, true>(lanes, rows, diagonals),
                (true, _) => group.add::<L, V, U, FEW, false>(lanes, rows, diagonals),
            }
        }
    }
}

/// Columns next to each other.
struct Group<'g, 'c> {
    /// Place of the first column.
    first: usize,
    /// With zeros behind the columns that there are.
    columns: &'g [&'c [Symbol]; COLUMNS],
    count: usize,
}

impl Group<'_, '_> {
    /// Adds the columns to the sums; the first group finds none. Row by row, and after each row the diagonal that this row of the first
    /// column lies on, and earlier rows of the next ones. The sums of W diagonals are in registers, to which the first W columns are added
    /// as they are read; of the columns behind these, a symbol is read again for its diagonal.
    ///
    /// A symbol has V vectors, of which U are read from each column in turn.
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
        // Of this diagonal and the next ones.
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

impl Loop for SumsOfSymbols<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        match L::WIDTH {
            // 28 of 32 registers for diagonals, and 8 of 16.
            64 => self.sum::<L, 4, 1, COLUMNS, 4>(lanes),
            32 => self.sum::<L, 8, 8, 1, 1>(lanes),
            _ => unreachable!("vectors have 32 or 64 bytes"),
        }
    }
}
