//! Byte vectors with the few operations that parity computations need. Each instruction set has its own type.

use std::array::from_fn;

/// Size in bytes of the words by which vectors are shifted.
pub(super) const WORD: usize = 16;

/// Operations on byte vectors. Values can only be created if the processor supports the instructions, so the
/// operations are safe.
pub(super) trait Lanes: Copy {
    /// A vector of [`Lanes::WIDTH`] bytes.
    type Vector: Copy;
    /// A constant factor of GF(2^8), prepared for [`Lanes::multiply`].
    type Factor: Copy;
    /// Size of a vector in bytes.
    const WIDTH: usize;

    fn zero(self) -> Self::Vector;
    /// Loads the first `WIDTH` bytes.
    fn load(self, from: &[u8]) -> Self::Vector;
    /// Stores into the first `WIDTH` bytes.
    fn store(self, vector: Self::Vector, to: &mut [u8]);
    fn xor(self, one: Self::Vector, other: Self::Vector) -> Self::Vector;
    /// Returns the offset that is added to a sum before it is doubled. This offset saves instructions in
    /// [`Lanes::double`].
    fn offset(self) -> Self::Vector;
    /// Multiplies each byte by 2 in GF(2^8). Both the argument and the result include the offset.
    fn double(self, vector: Self::Vector) -> Self::Vector;
    /// Shifts a vector by a number of words, and fills the front with the last words of `before`. The shift is at
    /// least one word, and less than the whole vector.
    fn shift_words(self, vector: Self::Vector, before: Self::Vector, words: usize) -> Self::Vector;
    /// Prepares a factor from its products with 0 to 15, and with 0x00, 0x10, ... 0xF0.
    fn factor(self, low: [u8; 16], high: [u8; 16]) -> Self::Factor;
    /// Multiplies each byte by the factor.
    fn multiply(self, factor: Self::Factor, vector: Self::Vector) -> Self::Vector;
}

/// An inner loop that is compiled for every instruction set.
pub(super) trait KernelLoop {
    fn run<L: Lanes>(self, lanes: L);
}

/// Vectors of four 64-bit words, for any processor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Portable;

/// Number of 64-bit words in a portable vector.
const WORDS: usize = 4;

const EACH_BYTE: u64 = 0x0101_0101_0101_0101;

fn double_word(word: u64) -> u64 {
    let overflow = (word >> 7) & EACH_BYTE;
    ((word << 1) & (EACH_BYTE * 0xFE)) ^ (overflow * 0x1D)
}

impl Lanes for Portable {
    type Vector = [u64; WORDS];
    /// Products with 1, 2, 4, ... 128, each repeated in all bytes of a word.
    type Factor = [u64; 8];
    const WIDTH: usize = 8 * WORDS;

    #[inline(always)]
    fn zero(self) -> Self::Vector {
        [0; WORDS]
    }

    #[inline(always)]
    fn load(self, from: &[u8]) -> Self::Vector {
        let (words, _) = from.as_chunks::<8>();
        from_fn(|index| u64::from_le_bytes(words[index]))
    }

    #[inline(always)]
    fn store(self, vector: Self::Vector, to: &mut [u8]) {
        let (words, _) = to.as_chunks_mut::<8>();
        for (place, word) in words.iter_mut().zip(vector) {
            *place = word.to_le_bytes();
        }
    }

    #[inline(always)]
    fn xor(self, one: Self::Vector, other: Self::Vector) -> Self::Vector {
        from_fn(|index| one[index] ^ other[index])
    }

    #[inline(always)]
    fn offset(self) -> Self::Vector {
        self.zero()
    }

    #[inline(always)]
    fn double(self, vector: Self::Vector) -> Self::Vector {
        vector.map(double_word)
    }

    #[inline(always)]
    fn shift_words(self, vector: Self::Vector, before: Self::Vector, words: usize) -> Self::Vector {
        let shift = words * WORD / 8;
        from_fn(|index| if index < shift { before[WORDS - shift + index] } else { vector[index - shift] })
    }

    #[inline(always)]
    fn factor(self, low: [u8; 16], high: [u8; 16]) -> Self::Factor {
        let products = [low[1], low[2], low[4], low[8], high[1], high[2], high[4], high[8]];
        products.map(|product| u64::from(product) * EACH_BYTE)
    }

    #[inline(always)]
    fn multiply(self, factor: Self::Factor, vector: Self::Vector) -> Self::Vector {
        vector.map(|word| {
            (0..8).fold(0, |sum, bit| {
                // The mask is 0xFF in each byte in which this bit is set.
                let mask = ((word >> bit) & EACH_BYTE) * 0xFF;
                sum ^ (factor[bit] & mask)
            })
        })
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__m256i, __m512i};

    use pulp::cast;
    use pulp::x86::{V3, V4};

    use super::Lanes;
    use crate::kernels::galois;

    const POLYNOMIAL: u8 = 0x1D;
    /// Offset of a sum that is to be doubled. A shuffle gives zero for a byte whose highest bit is set, and otherwise
    /// a table entry, which here is always the polynomial. The polynomial is therefore added to the bytes that do not
    /// overflow, instead of those that do. The result is twice the byte plus the polynomial. A sum with the offset c
    /// keeps this offset: 2 (x + c) + 0x1D = 2 x + c, if 3 c = 0x1D.
    const OFFSET: u8 = galois::multiply(POLYNOMIAL, galois::invert(3));
    const LOW_NIBBLE: i8 = 0x0F;

    impl Lanes for V3 {
        type Vector = __m256i;
        type Factor = (__m256i, __m256i);
        const WIDTH: usize = 32;

        #[inline(always)]
        fn zero(self) -> __m256i {
            self.avx._mm256_setzero_si256()
        }

        #[inline(always)]
        fn load(self, from: &[u8]) -> __m256i {
            cast(*from.first_chunk::<32>().expect("callers give whole vectors"))
        }

        #[inline(always)]
        fn store(self, vector: __m256i, to: &mut [u8]) {
            *to.first_chunk_mut::<32>().expect("callers give whole vectors") = cast(vector);
        }

        #[inline(always)]
        fn xor(self, one: __m256i, other: __m256i) -> __m256i {
            self.avx2._mm256_xor_si256(one, other)
        }

        #[inline(always)]
        fn offset(self) -> __m256i {
            self.avx._mm256_set1_epi8(OFFSET as i8)
        }

        #[inline(always)]
        fn double(self, vector: __m256i) -> __m256i {
            let table = self.avx._mm256_set1_epi8(POLYNOMIAL as i8);
            self.xor(self.avx2._mm256_add_epi8(vector, vector), self.avx2._mm256_shuffle_epi8(table, vector))
        }

        #[inline(always)]
        fn shift_words(self, vector: __m256i, before: __m256i, words: usize) -> __m256i {
            assert!(words == 1, "a vector has two words");
            self.avx2._mm256_permute2x128_si256::<0x21>(before, vector)
        }

        #[inline(always)]
        fn factor(self, low: [u8; 16], high: [u8; 16]) -> (__m256i, __m256i) {
            (cast([low, low]), cast([high, high]))
        }

        #[inline(always)]
        fn multiply(self, (low, high): (__m256i, __m256i), vector: __m256i) -> __m256i {
            let nibble = self.avx._mm256_set1_epi8(LOW_NIBBLE);
            let below = self.avx2._mm256_and_si256(vector, nibble);
            let above = self.avx2._mm256_and_si256(self.avx2._mm256_srli_epi64::<4>(vector), nibble);
            self.xor(self.avx2._mm256_shuffle_epi8(low, below), self.avx2._mm256_shuffle_epi8(high, above))
        }
    }

    impl Lanes for V4 {
        type Vector = __m512i;
        type Factor = (__m512i, __m512i);
        const WIDTH: usize = 64;

        #[inline(always)]
        fn zero(self) -> __m512i {
            self.avx512f._mm512_setzero_si512()
        }

        #[inline(always)]
        fn load(self, from: &[u8]) -> __m512i {
            cast(*from.first_chunk::<64>().expect("callers give whole vectors"))
        }

        #[inline(always)]
        fn store(self, vector: __m512i, to: &mut [u8]) {
            *to.first_chunk_mut::<64>().expect("callers give whole vectors") = cast(vector);
        }

        #[inline(always)]
        fn xor(self, one: __m512i, other: __m512i) -> __m512i {
            self.avx512f._mm512_xor_si512(one, other)
        }

        #[inline(always)]
        fn offset(self) -> __m512i {
            self.avx512f._mm512_set1_epi8(OFFSET as i8)
        }

        #[inline(always)]
        fn double(self, vector: __m512i) -> __m512i {
            let table = self.avx512f._mm512_set1_epi8(POLYNOMIAL as i8);
            self.xor(
                self.avx512bw._mm512_add_epi8(vector, vector),
                self.avx512bw._mm512_shuffle_epi8(table, vector),
            )
        }

        #[inline(always)]
        fn shift_words(self, vector: __m512i, before: __m512i, words: usize) -> __m512i {
            match words {
                1 => self.avx512f._mm512_alignr_epi64::<6>(vector, before),
                2 => self.avx512f._mm512_alignr_epi64::<4>(vector, before),
                3 => self.avx512f._mm512_alignr_epi64::<2>(vector, before),
                _ => unreachable!("a vector has four words"),
            }
        }

        #[inline(always)]
        fn factor(self, low: [u8; 16], high: [u8; 16]) -> (__m512i, __m512i) {
            (cast([low; 4]), cast([high; 4]))
        }

        #[inline(always)]
        fn multiply(self, (low, high): (__m512i, __m512i), vector: __m512i) -> __m512i {
            let nibble = self.avx512f._mm512_set1_epi8(LOW_NIBBLE);
            let below = self.avx512f._mm512_and_si512(vector, nibble);
            let above = self.avx512f._mm512_and_si512(self.avx512f._mm512_srli_epi64::<4>(vector), nibble);
            self.xor(
                self.avx512bw._mm512_shuffle_epi8(low, below),
                self.avx512bw._mm512_shuffle_epi8(high, above),
            )
        }
    }
}
