//! Row-diagonal parity (Corbett et al., FAST 2004): two parity blocks that are computed with XOR only.
//!
//! A block is a column of p - 1 symbols, for a prime p. Columns 0 to p - 2 are data, and column p - 1 is row parity.
//! Data columns that the array does not use count as zeros. Symbol r of column c is on diagonal (r + c) mod p. The last
//! column contains the sums of the diagonals 0 to p - 2, including row parity. The sum of diagonal p - 1 is not stored.

use super::{Consistency, Kernel};

/// Number of columns that are added to both row and diagonal sums before the next columns are read.
const GROUP_COLUMNS: usize = 6;

/// An erasure code with row parity and diagonal parity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowDiagonal {
    prime: usize,
}

/// One step in the recovery of two lost columns. It recovers one symbol from its diagonal, and then another
/// one from its row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecoveryStep {
    /// Diagonal that has only one unknown symbol left.
    pub diagonal: usize,
    /// Row of both symbols.
    pub row: usize,
    /// Column of the symbol that is recovered from the diagonal.
    pub from_diagonal: usize,
    /// Column of the symbol that is recovered from the row.
    pub from_row: usize,
}

/// Returns the nonempty columns, each with its position in the row.
fn with_content<'d>(data: &[&'d [u8]]) -> Vec<(usize, &'d [u8])> {
    data.iter().copied().enumerate().filter(|(_, content)| !content.is_empty()).collect()
}

impl RowDiagonal {
    /// Creates a code for the prime p, with at most p - 1 data columns.
    ///
    /// # Panics
    /// Panics if `prime` is not an odd prime.
    pub const fn new(prime: usize) -> RowDiagonal {
        let mut divisor = 2;
        while divisor * divisor <= prime {
            assert!(!prime.is_multiple_of(divisor), "row-diagonal parity needs a prime");
            divisor += 1;
        }
        assert!(prime > 2, "row-diagonal parity needs an odd prime");
        RowDiagonal { prime }
    }

    /// Returns the prime p.
    pub const fn prime(&self) -> usize {
        self.prime
    }

    fn symbol(&self, block: usize) -> usize {
        assert!(block.is_multiple_of(self.prime - 1), "a block has p - 1 symbols");
        block / (self.prime - 1)
    }

    /// Returns the parts of a diagonal block to which a column contributes, with the corresponding parts of the column.
    /// There are at most two, because the diagonals of a column wrap around once. The symbol on the diagonal whose sum
    /// is not stored is omitted.
    fn projections(&self, column: usize, block: usize) -> [(usize, usize, usize); 2] {
        let symbol = self.symbol(block);
        let turn = (self.prime - 1 - column) * symbol;
        if column == 0 {
            return [(0, 0, block), (0, 0, 0)];
        }
        // Offset in the diagonal block, offset in the column, and length.
        [(column * symbol, 0, turn), (0, turn + symbol, block - turn - symbol)]
    }

    fn add_to_diagonals(&self, kernel: &Kernel, diagonals: &mut [u8], column: usize, content: &[u8]) {
        if content.is_empty() {
            return;
        }
        for (to, from, len) in self.projections(column, diagonals.len()) {
            kernel.xor_into(&mut diagonals[to..to + len], &[&content[from..from + len]]);
        }
    }

    /// Adds columns, given with their positions, to the diagonal sums.
    fn add_columns(&self, kernel: &Kernel, diagonals: &mut [u8], columns: &[(usize, &[u8])]) {
        if !kernel.add_diagonals(diagonals, self.prime, columns) {
            for (place, content) in columns {
                self.add_to_diagonals(kernel, diagonals, *place, content);
            }
        }
    }

    /// Adds the data columns to the diagonal sums and, if `rows` is given, to the row sums.
    fn add_all(&self, kernel: &Kernel, mut rows: Option<&mut [u8]>, diagonals: &mut [u8], data: &[&[u8]]) {
        let columns = with_content(data);
        // When a group of columns is read for the second time, it is in the L1 cache.
        for group in columns.chunks(GROUP_COLUMNS) {
            if let Some(rows) = &mut rows {
                let sources: Vec<&[u8]> = group.iter().map(|(_, content)| *content).collect();
                kernel.xor_into(rows, &sources);
            }
            self.add_columns(kernel, diagonals, group);
        }
    }

    /// Computes row parity and diagonal parity.
    pub fn encode(&self, kernel: &Kernel, data: &[&[u8]], row_parity: &mut [u8], diagonal_parity: &mut [u8]) {
        assert!(data.len() < self.prime, "at most p - 1 data columns");
        if !kernel.row_diagonal(data, row_parity, diagonal_parity, self.prime) {
            row_parity.fill(0);
            diagonal_parity.fill(0);
            self.add_all(kernel, Some(row_parity), diagonal_parity, data);
            self.add_to_diagonals(kernel, diagonal_parity, self.prime - 1, row_parity);
        }
    }

    /// Returns the remainders of the rows and of the diagonals. All of them are zero if parity and data agree.
    /// `columns` contains the data columns, followed by row parity.
    fn remainders(&self, kernel: &Kernel, columns: &[&[u8]], diagonal_parity: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let (row_parity, data) = columns.split_last().expect("row parity");
        let mut rows = vec![0; diagonal_parity.len()];
        let mut diagonals = rows.clone();
        self.encode(kernel, data, &mut rows, &mut diagonals);
        kernel.xor_into(&mut rows, &[row_parity]);
        // For the diagonals, row parity computed from the data is used instead of the stored row parity.
        let symbol = self.symbol(rows.len());
        let (sums, last) = diagonals.split_at_mut(rows.len() - symbol);
        let (parity, last_parity) = diagonal_parity.split_at(sums.len());
        kernel.xor_into(sums, &[&rows[symbol..], parity]);
        kernel.xor_into(last, &[last_parity]);
        (rows, diagonals)
    }

    /// Updates the parity blocks after a change to one data block. `delta` is the old content XOR the new content.
    /// Empty parity blocks are skipped.
    pub fn update(&self, kernel: &Kernel, column: usize, delta: &[u8], parity: &mut [&mut [u8]]) {
        let [row_parity, diagonal_parity] = parity else { panic!("two parity blocks") };
        if !row_parity.is_empty() {
            kernel.xor_into(row_parity, &[delta]);
        }
        if !diagonal_parity.is_empty() {
            self.add_to_diagonals(kernel, diagonal_parity, column, delta);
            // Row parity changes by the same delta, and is also part of the diagonals.
            self.add_to_diagonals(kernel, diagonal_parity, self.prime - 1, delta);
        }
    }

    /// Returns the steps that recover two lost columns from the others. Row parity is column p - 1, and `first <
    /// second < p`. Each step depends on earlier steps only.
    pub fn recovery_steps(&self, first: usize, second: usize) -> impl Iterator<Item = RecoveryStep> + use<> {
        let prime = self.prime;
        let chain = move |one: usize, other: usize| {
            // The diagonal on which the other column has no symbol.
            let start = (other + prime - 1) % prime;
            let next = move |diagonal: &usize| Some((diagonal + prime - one + other) % prime);
            let diagonals =
                std::iter::successors(Some(start), next).take_while(move |diagonal| *diagonal != prime - 1);
            diagonals.map(move |diagonal| RecoveryStep {
                diagonal,
                row: (diagonal + prime - one) % prime,
                from_diagonal: one,
                from_row: other,
            })
        };
        chain(first, second).chain(chain(second, first))
    }

    /// Computes the columns in `lost` from the others. `columns` contains the data blocks, then row parity, then
    /// diagonal parity.
    ///
    /// # Panics
    /// Panics if more than two columns are lost.
    pub fn recover(&self, kernel: &Kernel, columns: &mut [&mut [u8]], lost: &[usize]) {
        let data = columns.len() - 2;
        let (row_parity, diagonal_parity) = (data, data + 1);
        let in_rows: Vec<usize> = lost.iter().copied().filter(|column| *column != diagonal_parity).collect();
        match in_rows[..] {
            [] => {}
            [column] => {
                let target = std::mem::take(&mut columns[column]);
                target.fill(0);
                let others: Vec<&[u8]> = columns[..=row_parity].iter().map(|column| &**column).collect();
                kernel.xor_into(target, &others);
                columns[column] = target;
            }
            [one, other] if lost.len() == 2 => {
                self.recover_two(kernel, columns, one.min(other), one.max(other));
            }
            _ => panic!("row-diagonal parity recovers two columns"),
        }
        if lost.contains(&diagonal_parity) {
            let (rows, diagonals) = columns.split_at_mut(diagonal_parity);
            let rows: Vec<&[u8]> = rows.iter().map(|column| &**column).collect();
            diagonals[0].fill(0);
            self.add_all(kernel, None, diagonals[0], &rows[..data]);
            self.add_columns(kernel, diagonals[0], &[(self.prime - 1, rows[data])]);
        }
    }

    fn recover_two(&self, kernel: &Kernel, columns: &mut [&mut [u8]], first: usize, second: usize) {
        let data = columns.len() - 2;
        let place = |column: usize| if column == data { self.prime - 1 } else { column };
        let one = std::mem::take(&mut columns[first]);
        let other = std::mem::take(&mut columns[second]);
        // Sums of the unknown symbols in each row and on each diagonal, computed from the known ones.
        let known: Vec<&[u8]> = columns[..=data].iter().map(|column| &**column).collect();
        let (rows, diagonals) = self.remainders(kernel, &known, columns[data + 1]);
        let symbol = self.symbol(one.len());
        let cell = |index: usize| index * symbol..(index + 1) * symbol;
        for step in self.recovery_steps(place(first), place(second)) {
            let (by_diagonal, by_row) = if step.from_diagonal == place(first) {
                (&mut *one, &mut *other)
            } else {
                (&mut *other, &mut *one)
            };
            by_diagonal[cell(step.row)].copy_from_slice(&diagonals[cell(step.diagonal)]);
            // The other lost column's symbol on this diagonal was recovered in the previous step, or does not exist.
            let met = (step.diagonal + self.prime - step.from_row) % self.prime;
            if met != self.prime - 1 {
                kernel.xor_into(&mut by_diagonal[cell(step.row)], &[&by_row[cell(met)]]);
            }
            by_row[cell(step.row)].copy_from_slice(&rows[cell(step.row)]);
            kernel.xor_into(&mut by_row[cell(step.row)], &[&by_diagonal[cell(step.row)]]);
        }
        columns[first] = one;
        columns[second] = other;
    }

    /// Checks whether parity and data agree and, if they do not, which single column would explain it.
    pub fn check_consistency(&self, kernel: &Kernel, columns: &[&[u8]]) -> Consistency {
        let data = columns.len() - 2;
        let (rows, diagonals) = self.remainders(kernel, &columns[..=data], columns[data + 1]);
        let is_zero = |sums: &[u8]| sums.iter().all(|byte| *byte == 0);
        match (is_zero(&rows), is_zero(&diagonals)) {
            (true, true) => return Consistency::Consistent,
            (true, false) => return Consistency::OneColumn(data + 1),
            _ => {}
        }
        // A single wrong column leaves the same remainder in the rows and, shifted by its position, on the diagonals.
        let explains = |column: &usize| {
            let place = if *column == data { self.prime - 1 } else { *column };
            let mut left = diagonals.clone();
            self.add_to_diagonals(kernel, &mut left, place, &rows);
            is_zero(&left)
        };
        let mut candidates = (0..=data).filter(explains);
        match (candidates.next(), candidates.next()) {
            (Some(column), None) => Consistency::OneColumn(column),
            _ => Consistency::Inconsistent,
        }
    }
}
