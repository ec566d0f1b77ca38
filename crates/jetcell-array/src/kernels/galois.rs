//! Arithmetic in GF(2^8) with the polynomial 0x11D and the generator 2, as in Linux RAID 6.

const POLYNOMIAL: u16 = 0x11D;

struct Tables {
    /// Powers of the generator. The sequence is stored twice, so the sum of two logarithms is always a valid index.
    power: [u8; 510],
    logarithm: [u8; 256],
}

static TABLES: Tables = {
    let mut tables = Tables { power: [0; 510], logarithm: [0; 256] };
    let mut value: u16 = 1;
    let mut exponent = 0;
    while exponent < 255 {
        tables.power[exponent] = value as u8;
        tables.power[exponent + 255] = value as u8;
        tables.logarithm[value as usize] = exponent as u8;
        value <<= 1;
        if value & 0x100 != 0 {
            value ^= POLYNOMIAL;
        }
        exponent += 1;
    }
    tables
};

/// Returns the generator raised to the power of `exponent`.
pub(super) const fn power(exponent: usize) -> u8 {
    TABLES.power[exponent % 255]
}

pub(super) const fn multiply(one: u8, other: u8) -> u8 {
    if one == 0 || other == 0 {
        return 0;
    }
    TABLES.power[logarithm(one) + logarithm(other)]
}

/// Returns the logarithm of a nonzero value.
pub(super) const fn logarithm(value: u8) -> usize {
    TABLES.logarithm[value as usize] as usize
}

/// Returns the inverse of a nonzero value.
pub(super) const fn invert(value: u8) -> u8 {
    power(255 - logarithm(value))
}

/// Products of each factor with 0 to 15, and with 0x00, 0x10, ... 0xF0.
static PRODUCTS: [([u8; 16], [u8; 16]); 256] = {
    let mut products = [([0; 16], [0; 16]); 256];
    let mut index = 0;
    while index < 256 * 16 {
        let (factor, nibble) = (index / 16, index % 16);
        products[factor].0[nibble] = multiply(factor as u8, nibble as u8);
        products[factor].1[nibble] = multiply(factor as u8, (nibble << 4) as u8);
        index += 1;
    }
    products
};

/// Returns the products of a factor with 0 to 15, and with 0x00, 0x10, ... 0xF0.
pub(super) fn nibble_products(factor: u8) -> ([u8; 16], [u8; 16]) {
    PRODUCTS[usize::from(factor)]
}

/// Returns the inverse of a square matrix with at most three rows, or `None` if the matrix is singular.
pub(super) fn invert_matrix<const N: usize>(mut matrix: [[u8; N]; N]) -> Option<[[u8; N]; N]> {
    let mut inverse: [[u8; N]; N] =
        std::array::from_fn(|row| std::array::from_fn(|column| u8::from(row == column)));
    for column in 0..N {
        let pivot = (column..N).find(|row| matrix[*row][column] != 0)?;
        matrix.swap(column, pivot);
        inverse.swap(column, pivot);
        let scale = invert(matrix[column][column]);
        for place in 0..N {
            matrix[column][place] = multiply(matrix[column][place], scale);
            inverse[column][place] = multiply(inverse[column][place], scale);
        }
        for row in (0..N).filter(|row| *row != column) {
            let factor = matrix[row][column];
            for place in 0..N {
                matrix[row][place] ^= multiply(factor, matrix[column][place]);
                inverse[row][place] ^= multiply(factor, inverse[column][place]);
            }
        }
    }
    Some(inverse)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplies bit by bit, without lookup tables.
    fn slow_product(one: u8, other: u8) -> u8 {
        (0..8).fold(0, |sum, bit| {
            let mut term = u16::from(one);
            (0..bit).for_each(|_| term = if term & 0x80 == 0 { term << 1 } else { (term << 1) ^ POLYNOMIAL });
            if other >> bit & 1 == 1 { sum ^ term as u8 } else { sum }
        })
    }

    #[test]
    fn products_of_all_bytes_agree_with_long_multiplication() {
        for one in 0..=255 {
            for other in 0..=255 {
                assert_eq!(multiply(one, other), slow_product(one, other));
            }
            if one != 0 {
                assert_eq!(multiply(one, invert(one)), 1);
            }
        }
    }

    #[test]
    fn matrix_inversion_yields_the_identity_and_rejects_singular_matrices() {
        let matrix = [[1, 1, 1], [1, 2, 4], [1, 4, 16]];
        let inverse = invert_matrix(matrix).unwrap();
        let cell = |row: usize, column: usize| {
            (0..3).fold(0, |sum, k| sum ^ multiply(matrix[row][k], inverse[k][column]))
        };
        let product: [[u8; 3]; 3] =
            std::array::from_fn(|row| std::array::from_fn(|column| cell(row, column)));
        assert_eq!(product, [[1, 0, 0], [0, 1, 0], [0, 0, 1]]);
        assert!(invert_matrix([[3, 7], [3, 7]]).is_none());
    }
}
