//! Sums of the rows and of the diagonals of columns in one pass: every vector is loaded once or twice, and a sum is stored a few times.

use super::lanes::{Lanes, Loop};

/// Bytes that are loaded together: a cache line, so that no line is needed a second time. Blocks that begin at multiples of 4096 bytes
/// meet in the same sets of the first-level cache, which has room for eight of them.
const LINE: usize = 64;
/// Rows whose sums are in registers together: a sum of a diagonal is loaded and stored once for so many symbols.
const ROWS: usize = 4;
/// Lines of a symbol: that of a block of 4096 bytes with p = 17.
const LINES: usize = 4;
/// Most columns.
const COLUMNS: usize = 32;

type Line = [u8; LINE];
type Symbol = [Line; LINES];
/// The symbols of one column in [`ROWS`] rows.
type Piece = [Symbol; ROWS];

/// What a column without content has, and what is beside the first and the last column.
static ZEROS: Piece = [[[0; LINE]; LINES]; ROWS];

fn symbols(block: &[u8]) -> &[Symbol] {
    block.as_chunks().0.as_chunks().0
}

fn symbols_mut(block: &mut [u8]) -> &mut [Symbol] {
    block.as_chunks_mut().0.as_chunks_mut().0
}

/// For symbols of 256 bytes. Columns may be empty; their places are their indexes.
pub(super) struct SumsOfSymbols<'a> {
    rows: &'a mut [Piece],
    diagonals: &'a mut [Symbol],
    columns: &'a [&'a [u8]],
}

/// What the steps of a tile share.
struct Tile<'a, 'c> {
    diagonals: &'a mut [Symbol],
    /// For the diagonal that is not stored.
    unused: &'a mut Symbol,
    columns: &'a [&'c Piece],
    first_row: usize,
    part: usize,
}

impl<'a> SumsOfSymbols<'a> {
    /// `None` if symbols have another size. The blocks have p - 1 symbols.
    pub fn new(
        columns: &'a [&'a [u8]],
        rows: &'a mut [u8],
        diagonals: &'a mut [u8],
        prime: usize,
    ) -> Option<Self> {
        let rest = (prime - 1) % ROWS;
        if rows.len() != (prime - 1) * LINES * LINE || rest != 0 || columns.len() > COLUMNS {
            return None;
        }
        let rows = symbols_mut(rows).as_chunks_mut().0;
        Some(SumsOfSymbols { rows, diagonals: symbols_mut(diagonals), columns })
    }

    #[inline(always)]
    fn sum<L: Lanes, const VECTORS: usize>(self, lanes: L) {
        let SumsOfSymbols { rows, diagonals, columns } = self;
        // As many at least as the steps of a tile name.
        let count = columns.len().max(ROWS);
        let mut pieces = [&ZEROS; COLUMNS];
        let mut unused = ZEROS[0];
        // The first tile does not reach these.
        diagonals.iter_mut().skip(count + ROWS - 1).for_each(|symbol| *symbol = ZEROS[0]);
        for (group, target) in rows.iter_mut().enumerate() {
            for (piece, column) in pieces.iter_mut().zip(columns).filter(|(_, column)| !column.is_empty()) {
                *piece = &symbols(column).as_chunks().0[group];
            }
            for part in 0..LINES {
                let tile = Tile {
                    diagonals: &mut *diagonals,
                    unused: &mut unused,
                    columns: &pieces[..count],
                    first_row: group * ROWS,
                    part,
                };
                let sums = match group {
                    0 => tile.add::<L, VECTORS, true>(lanes),
                    _ => tile.add::<L, VECTORS, false>(lanes),
                };
                for (row, sums) in target.iter_mut().zip(sums) {
                    for (index, sum) in sums.into_iter().enumerate() {
                        lanes.store(sum, &mut row[part][index * L::WIDTH..]);
                    }
                }
            }
        }
    }
}

impl<'c> Tile<'_, 'c> {
    /// Adds one line of each symbol to the sums of the diagonals, and returns the sums of the rows. The first tile finds no sums.
    #[inline(always)]
    fn add<L: Lanes, const V: usize, const FIRST: bool>(mut self, lanes: L) -> [[L::Vector; V]; ROWS] {
        let (columns, zeros) = (self.columns, &ZEROS);
        let count = columns.len();
        let mut rows = [[lanes.zero(); V]; ROWS];
        // Diagonal by diagonal, from the top right to the bottom left. At both ends, they have less than four symbols.
        self.step::<L, V, FIRST, 0, 1>(lanes, &mut rows, 0, [columns[0], zeros, zeros, zeros]);
        self.step::<L, V, FIRST, 0, 2>(lanes, &mut rows, 1, [columns[1], columns[0], zeros, zeros]);
        self.step::<L, V, FIRST, 0, 3>(lanes, &mut rows, 2, [columns[2], columns[1], columns[0], zeros]);
        for (index, window) in columns.windows(ROWS).enumerate() {
            let met = [window[3], window[2], window[1], window[0]];
            self.step::<L, V, FIRST, 0, 4>(lanes, &mut rows, index + 3, met);
        }
        let [.., c, b, a] = columns else { unreachable!("four columns at least") };
        self.step::<L, V, FIRST, 1, 4>(lanes, &mut rows, count, [zeros, *a, *b, *c]);
        self.step::<L, V, FIRST, 2, 4>(lanes, &mut rows, count + 1, [zeros, zeros, *a, *b]);
        self.step::<L, V, FIRST, 3, 4>(lanes, &mut rows, count + 2, [zeros, zeros, zeros, *a]);
        rows
    }

    /// Adds the symbols of a diagonal in the rows `FROM` to `TO` of the tile; `met` has the column of each row.
    #[inline(always)]
    fn step<L: Lanes, const V: usize, const FIRST: bool, const FROM: usize, const TO: usize>(
        &mut self,
        lanes: L,
        rows: &mut [[L::Vector; V]; ROWS],
        step: usize,
        met: [&'c Piece; ROWS],
    ) {
        let prime = self.diagonals.len() + 1;
        let turned = self.first_row + step;
        let diagonal = if turned >= prime { turned - prime } else { turned };
        let place = self.diagonals.get_mut(diagonal).unwrap_or(self.unused);
        let place = &mut place[self.part];
        let mut sum = [lanes.zero(); V];
        // A tile with more than p - 3 columns meets the first diagonals twice.
        if !FIRST || turned >= prime {
            for (index, sum) in sum.iter_mut().enumerate() {
                *sum = lanes.load(&place[index * L::WIDTH..]);
            }
        }
        for row in FROM..TO {
            let line = &met[row][row][self.part];
            for index in 0..V {
                let vector = lanes.load(&line[index * L::WIDTH..]);
                sum[index] = lanes.xor(sum[index], vector);
                rows[row][index] = lanes.xor(rows[row][index], vector);
            }
        }
        for (index, sum) in sum.into_iter().enumerate() {
            lanes.store(sum, &mut place[index * L::WIDTH..]);
        }
    }
}

impl Loop for SumsOfSymbols<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        match LINE / L::WIDTH {
            1 => self.sum::<L, 1>(lanes),
            2 => self.sum::<L, 2>(lanes),
            _ => unreachable!("vectors have 32 or 64 bytes"),
        }
    }
}

/// Vectors of each sum that are in registers together.
const UNROLLED: usize = 4;
/// Bytes of a word that the parts of a diagonal are multiples of.
const WORD: usize = 16;

/// For symbols that are smaller than a line: column c is added to the diagonals as a whole, c symbols behind its place.
pub(super) struct SumsOfShifts<'a> {
    columns: &'a [&'a [u8]],
    rows: &'a mut [u8],
    diagonals: &'a mut [u8],
    symbol: usize,
    prime: usize,
}

impl<'a> SumsOfShifts<'a> {
    /// `None` for other symbols. The blocks have p - 1 symbols.
    pub fn new(
        columns: &'a [&'a [u8]],
        rows: &'a mut [u8],
        diagonals: &'a mut [u8],
        prime: usize,
    ) -> Option<Self> {
        let symbol = rows.len() / (prime - 1);
        let fits = symbol < LINE && symbol.is_multiple_of(WORD) && rows.len().is_multiple_of(UNROLLED * LINE);
        fits.then_some(SumsOfShifts { columns, rows, diagonals, symbol, prime })
    }
}

/// Adds words to others.
#[inline(always)]
fn add_words(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.as_chunks_mut::<WORD>().0.iter_mut().zip(from.as_chunks().0) {
        *to = (u128::from_ne_bytes(*to) ^ u128::from_ne_bytes(*from)).to_ne_bytes();
    }
}

impl Loop for SumsOfShifts<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let SumsOfShifts { columns, rows, diagonals, symbol, prime } = self;
        let step = UNROLLED * L::WIDTH;
        // From here on, all columns lie on the diagonals in one piece.
        let head = (columns.len() * symbol).next_multiple_of(step).min(rows.len());
        for start in (0..rows.len()).step_by(step) {
            let mut of_rows = [lanes.zero(); UNROLLED];
            let mut of_diagonals = [lanes.zero(); UNROLLED];
            for (place, column) in columns.iter().enumerate().filter(|(_, column)| !column.is_empty()) {
                let source = &column[start..start + step];
                for (index, sum) in of_rows.iter_mut().enumerate() {
                    *sum = lanes.xor(*sum, lanes.load(&source[index * L::WIDTH..]));
                }
                if start >= head {
                    // The part before was loaded just now: it is in the first-level cache.
                    let source = &column[start - place * symbol..][..step];
                    for (index, sum) in of_diagonals.iter_mut().enumerate() {
                        *sum = lanes.xor(*sum, lanes.load(&source[index * L::WIDTH..]));
                    }
                }
            }
            for index in 0..UNROLLED {
                lanes.store(of_rows[index], &mut rows[start + index * L::WIDTH..]);
                lanes.store(of_diagonals[index], &mut diagonals[start + index * L::WIDTH..]);
            }
        }
        let head = &mut diagonals[..head];
        for (place, column) in columns.iter().enumerate().filter(|(_, column)| !column.is_empty()) {
            let start = place * symbol;
            add_words(&mut head[start..], column);
            if place > 0 {
                // Behind the last row is the symbol on the diagonal that is not stored.
                add_words(&mut head[..start - symbol], &column[(prime - place) * symbol..]);
            }
        }
    }
}
