//! One, two or three parity blocks over GF(2^8): P, P + Q as in Linux RAID 6, and P + Q + R.

use super::galois::{invert_matrix, logarithm, power};
use super::{Consistency, Kernel};

/// Maximum number of parity blocks in a row.
const MAX_PARITIES: usize = 3;

/// An erasure code in which parity block k is the sum of `data[c] * 2^(k c)`, for k = 0, 1, 2. With one
/// parity block this is the RAID 5 code, with two the RAID 6 code, and with three the RAID-Z3 code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReedSolomon {
    parities: usize,
}

impl ReedSolomon {
    /// Maximum number of data blocks in a row. With more blocks, two columns would have the same factor.
    pub const MAX_DATA: usize = 255;

    /// Creates a code with one, two or three parity blocks.
    pub const fn new(parities: usize) -> ReedSolomon {
        assert!(parities >= 1 && parities <= MAX_PARITIES, "one to three parity blocks");
        ReedSolomon { parities }
    }

    /// Returns the number of parity blocks in a row.
    pub const fn parities(&self) -> usize {
        self.parities
    }

    /// Computes all parity blocks.
    pub fn encode(&self, kernel: &Kernel, data: &[&[u8]], parity: &mut [&mut [u8]]) {
        assert!(parity.len() == self.parities && data.len() <= ReedSolomon::MAX_DATA);
        kernel.syndromes(data, parity);
    }

    /// Updates the parity blocks after a change to one data block. `delta` is the old content XOR the new content.
    /// Empty parity blocks are skipped.
    pub fn update(&self, kernel: &Kernel, column: usize, delta: &[u8], parity: &mut [&mut [u8]]) {
        for (row, parity) in parity.iter_mut().enumerate().filter(|(_, parity)| !parity.is_empty()) {
            kernel.add_product(parity, power(row * column), delta);
        }
    }

    /// Computes the columns in `lost` from the others. `columns` contains the data blocks, then the parity blocks.
    ///
    /// # Panics
    /// Panics if more columns are lost than there are parity blocks.
    pub fn recover(&self, kernel: &Kernel, columns: &mut [&mut [u8]], lost: &[usize]) {
        assert!(lost.len() <= self.parities, "more losses than parity blocks");
        let data = columns.len() - self.parities;
        let lost_data: Vec<usize> = lost.iter().copied().filter(|column| *column < data).collect();
        let usable: Vec<usize> = (0..self.parities).filter(|row| !lost.contains(&(data + row))).collect();
        match (lost_data.len(), &usable[..]) {
            (0, _) => {}
            (1, &[a, ..]) => self.recover_data(kernel, columns, [lost_data[0]], [a]),
            (2, &[a, b, ..]) => self.recover_data(kernel, columns, [lost_data[0], lost_data[1]], [a, b]),
            (3, &[a, b, c]) => {
                self.recover_data(kernel, columns, [lost_data[0], lost_data[1], lost_data[2]], [a, b, c]);
            }
            _ => unreachable!("as many parity blocks are left as data blocks are lost"),
        }
        let (data, parity) = columns.split_at_mut(data);
        let missing = |row: &usize| lost.contains(&(data.len() + row));
        let Some(last) = (0..self.parities).rev().find(missing) else { return };
        let data: Vec<&[u8]> = data.iter().map(|column| &**column).collect();
        let mut scratch = vec![vec![0; parity[last].len()]; self.parities];
        let mut outputs: Vec<&mut [u8]> = scratch[..=last].iter_mut().map(|block| &mut block[..]).collect();
        kernel.syndromes(&data, &mut outputs);
        for row in (0..=last).filter(missing) {
            parity[row].copy_from_slice(&scratch[row]);
        }
    }

    /// Computes lost data blocks by solving a system of equations. The parity blocks `rows` provide one equation for
    /// each lost block.
    fn recover_data<const N: usize>(
        &self,
        kernel: &Kernel,
        columns: &mut [&mut [u8]],
        lost: [usize; N],
        rows: [usize; N],
    ) {
        let matrix = rows.map(|row| lost.map(|column| power(row * column)));
        let inverse = invert_matrix(matrix).expect("columns have different factors");
        let data = columns.len() - self.parities;
        let mut targets = lost.map(|column| std::mem::take(&mut columns[column]));
        let sums = {
            let known: Vec<&[u8]> = columns[..data].iter().map(|column| &**column).collect();
            let mut sums = vec![vec![0; targets[0].len()]; rows[N - 1] + 1];
            let mut outputs: Vec<&mut [u8]> = sums.iter_mut().map(|sum| &mut sum[..]).collect();
            kernel.syndromes(&known, &mut outputs);
            for row in rows {
                kernel.xor_into(&mut sums[row], &[&*columns[data + row]]);
            }
            sums
        };
        for (target, factors) in targets.iter_mut().zip(inverse) {
            target.fill(0);
            for (factor, row) in factors.into_iter().zip(rows) {
                kernel.add_product(target, factor, &sums[row]);
            }
        }
        for (column, target) in lost.into_iter().zip(targets) {
            columns[column] = target;
        }
    }

    /// Checks whether parity and data agree and, if they do not, which single column would explain it. With one
    /// parity block, the column cannot be determined.
    pub fn check_consistency(&self, kernel: &Kernel, columns: &[&[u8]]) -> Consistency {
        let (data, parity) = columns.split_at(columns.len() - self.parities);
        let mut sums = vec![vec![0; parity[0].len()]; self.parities];
        let mut outputs: Vec<&mut [u8]> = sums.iter_mut().map(|sum| &mut sum[..]).collect();
        kernel.syndromes(data, &mut outputs);
        for (sum, parity) in sums.iter_mut().zip(parity) {
            kernel.xor_into(sum, &[*parity]);
        }
        let bad: Vec<usize> =
            (0..self.parities).filter(|row| sums[*row].iter().any(|byte| *byte != 0)).collect();
        match bad[..] {
            [] => return Consistency::Consistent,
            [row] if self.parities > 1 => return Consistency::OneColumn(data.len() + row),
            _ if bad.len() < self.parities || self.parities == 1 => return Consistency::Inconsistent,
            _ => {}
        }
        // A single wrong data column c results in sums[k] = error * 2^(k c) for all k, with the same c in every byte.
        let mut column = None;
        for (at, &error) in sums[0].iter().enumerate() {
            let factors = sums.windows(2).map(|pair| (pair[0][at], pair[1][at]));
            for (one, other) in factors {
                let found = match (one, other) {
                    (0, 0) => continue,
                    (0, _) | (_, 0) => return Consistency::Inconsistent,
                    (one, other) => (logarithm(other) + 255 - logarithm(one)) % 255,
                };
                if error == 0 || *column.get_or_insert(found) != found {
                    return Consistency::Inconsistent;
                }
            }
        }
        match column {
            Some(column) if column < data.len() => Consistency::OneColumn(column),
            _ => Consistency::Inconsistent,
        }
    }
}
