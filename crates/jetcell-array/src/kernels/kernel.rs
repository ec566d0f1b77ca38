//! Inner loops over whole blocks for each instruction set, and the selection of the fastest one.

use std::array::from_fn;
use std::time::Duration;

use jetcell_sync::OnceLock;
use jetcell_vfs::{Clock, IoBuffer};

use super::diagonals::SymbolSums;
use super::galois;
use super::lanes::{KernelLoop, Lanes, Portable};
use super::p_and_q::PAndQ;
use super::words::WordParity;
use super::{BLOCK, RUN};

/// Instruction set that the inner loops of parity calculations can use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InstructionSet {
    /// 64-bit words, for any processor.
    Portable,
    /// Vectors of 32 bytes.
    Avx2,
    /// Vectors of 64 bytes.
    Avx512,
}

#[derive(Clone, Copy, Debug)]
enum InstructionToken {
    Portable(Portable),
    #[cfg(target_arch = "x86_64")]
    Avx2(pulp::x86::V3),
    #[cfg(target_arch = "x86_64")]
    Avx512(pulp::x86::V4),
}

/// Inner loops for parity calculations, using one instruction set that this processor supports.
#[derive(Clone, Copy, Debug)]
pub struct Kernel(InstructionToken);

/// Passes an instruction set to a loop. Through this entry point, the compiler can inline the loop.
#[cfg(target_arch = "x86_64")]
struct KernelCall<L, O>(L, O);

#[cfg(target_arch = "x86_64")]
impl<L: Lanes, O: KernelLoop> pulp::NullaryFnOnce for KernelCall<L, O> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        self.1.run(self.0);
    }
}

impl Kernel {
    /// Returns all kernels that this processor supports, starting with the one with the widest vectors.
    pub fn available() -> Vec<Kernel> {
        let mut kernels = vec![];
        #[cfg(target_arch = "x86_64")]
        {
            kernels.extend(pulp::x86::V4::try_new().map(|token| Kernel(InstructionToken::Avx512(token))));
            kernels.extend(pulp::x86::V3::try_new().map(|token| Kernel(InstructionToken::Avx2(token))));
        }
        kernels.push(Kernel(InstructionToken::Portable(Portable)));
        kernels
    }

    /// Measures all kernels, which takes a few tenths of a millisecond, and returns the one that is currently the
    /// fastest on this machine. If the clock does not advance, returns the kernel with the widest vectors.
    pub fn fastest(clock: &dyn Clock) -> Kernel {
        let time = |kernel: &Kernel| (0..3).map(|_| kernel.trial(clock)).min().unwrap_or(Duration::MAX);
        let mut kernels = Kernel::available().into_iter().map(|kernel| (time(&kernel), kernel));
        let first = kernels.next().expect("the portable kernel is always there");
        // A kernel must be at least an eighth faster to replace one with wider vectors, because smaller differences
        // are noise.
        let better = |best: (Duration, Kernel), other: (Duration, Kernel)| {
            if other.0 * 9 / 8 < best.0 { other } else { best }
        };
        kernels.fold(first, better).1
    }

    /// Returns the fastest kernel. The first call in a process measures the kernels.
    pub(crate) fn for_this_machine(clock: &dyn Clock) -> Kernel {
        static FASTEST: OnceLock<Kernel> = OnceLock::new();
        *FASTEST.get_or_init(|| Kernel::fastest(clock))
    }

    /// Measures the time to compute P and Q of 14 columns, eight times in a row. As in an array, the blocks are in
    /// transfer buffers at multiples of their length, so they map to the same L1 cache sets.
    fn trial(&self, clock: &dyn Clock) -> Duration {
        const COLUMNS: usize = 14;
        let mut memory = IoBuffer::zeroed((COLUMNS + 2) * BLOCK);
        memory.fill(0x5A);
        let (data, parity) = memory.split_at_mut(COLUMNS * BLOCK);
        let data: Vec<&[u8]> = data.chunks_exact(BLOCK).collect();
        let (p, q) = parity.split_at_mut(BLOCK);
        let start = clock.monotonic();
        for _ in 0..8 {
            self.syndromes(&data, &mut [&mut *p, &mut *q]);
        }
        clock.monotonic().saturating_sub(start)
    }

    /// Returns the instruction set of this kernel.
    pub fn instruction_set(&self) -> InstructionSet {
        match self.0 {
            InstructionToken::Portable(_) => InstructionSet::Portable,
            #[cfg(target_arch = "x86_64")]
            InstructionToken::Avx2(_) => InstructionSet::Avx2,
            #[cfg(target_arch = "x86_64")]
            InstructionToken::Avx512(_) => InstructionSet::Avx512,
        }
    }

    fn run(&self, operation: impl KernelLoop) {
        match self.0 {
            InstructionToken::Portable(lanes) => operation.run(lanes),
            #[cfg(target_arch = "x86_64")]
            InstructionToken::Avx2(lanes) => lanes.vectorize(KernelCall(lanes, operation)),
            #[cfg(target_arch = "x86_64")]
            InstructionToken::Avx512(lanes) => lanes.vectorize(KernelCall(lanes, operation)),
        }
    }

    /// Adds the sources to the target: `target ^= source` for each. Each source is either empty or as long as the
    /// target.
    pub fn xor_into(&self, target: &mut [u8], sources: &[&[u8]]) {
        check_lengths(target.len(), sources);
        self.run(XorInto { target, sources });
    }

    /// Adds columns to the sums of their diagonals: symbol r of column c is added to sum (r + c) mod p. The last sum
    /// is omitted because it is not stored. Returns false without adding anything if symbols are too short for this
    /// kernel.
    pub(super) fn add_diagonals(&self, sums: &mut [u8], prime: usize, columns: &[(usize, &[u8])]) -> bool {
        let symbol = sums.len() / (prime - 1);
        if symbol == 0 || !symbol.is_multiple_of(self.step()) {
            return false;
        }
        let are_whole = columns.iter().all(|(place, column)| *place < prime && column.len() == sums.len());
        assert!(are_whole && sums.len() == symbol * (prime - 1), "blocks of one row differ in length");
        self.run(AddDiagonals { sums, prime, symbol, columns });
        true
    }

    /// Computes row parity and diagonal parity of columns. A column's index is its position in the row. Returns false
    /// without changing anything if there is no loop for symbols of this size, or if the processor has too few
    /// registers for it.
    pub(super) fn row_diagonal(
        &self,
        columns: &[&[u8]],
        rows: &mut [u8],
        diagonals: &mut [u8],
        prime: usize,
    ) -> bool {
        let fits = rows.len() == diagonals.len() && rows.len().is_multiple_of(prime - 1);
        assert!(fits && columns.len() < prime, "blocks of one row differ in length");
        if self.instruction_set() == InstructionSet::Portable {
            return false;
        }
        if let Some(parity) = WordParity::new(columns, rows, diagonals, prime) {
            if parity.has_cache_set_conflicts() {
                self.run(parity.split());
            } else {
                self.run(parity);
            }
            return true;
        }
        check_lengths(rows.len(), columns);
        let Some(sums) = SymbolSums::new(columns, rows, diagonals, prime) else { return false };
        self.run(sums);
        // When computing the diagonals, row parity is treated as column p - 1.
        let symbol = rows.len() / (prime - 1);
        self.xor_into(&mut diagonals[..rows.len() - symbol], &[&rows[symbol..]]);
        true
    }

    /// Returns the number of bytes that an unrolled loop processes per iteration.
    fn step(&self) -> usize {
        match self.0 {
            InstructionToken::Portable(_) => UNROLLED * Portable::WIDTH,
            #[cfg(target_arch = "x86_64")]
            InstructionToken::Avx2(_) => UNROLLED * pulp::x86::V3::WIDTH,
            #[cfg(target_arch = "x86_64")]
            InstructionToken::Avx512(_) => UNROLLED * pulp::x86::V4::WIDTH,
        }
    }

    /// Multiplies the source by a factor in GF(2^8), and adds the product to the target.
    pub fn add_product(&self, target: &mut [u8], factor: u8, source: &[u8]) {
        if source.is_empty() || factor == 0 {
            return;
        }
        if factor == 1 {
            return self.xor_into(target, &[source]);
        }
        check_lengths(target.len(), &[source]);
        self.run(AddProduct { target, factor, source });
    }

    /// Computes the sums of `source[c] * 2^(k c)` over the columns c, for each output k.
    ///
    /// # Panics
    /// Panics if there are no outputs or more than three, or if the blocks differ in length.
    pub fn syndromes(&self, sources: &[&[u8]], outputs: &mut [&mut [u8]]) {
        for output in &*outputs {
            check_lengths(output.len(), sources);
        }
        assert!(outputs.windows(2).all(|pair| pair[0].len() == pair[1].len()), "parity blocks of one length");
        match outputs {
            [p] => self.run(Syndromes { sources, outputs: [&mut **p] }),
            [p, q] => self.p_and_q(sources, p, q),
            [p, q, r] => self.run(Syndromes { sources, outputs: [&mut **p, &mut **q, &mut **r] }),
            _ => panic!("one to three parity blocks"),
        }
    }

    fn p_and_q(&self, sources: &[&[u8]], p: &mut [u8], q: &mut [u8]) {
        if self.instruction_set() == InstructionSet::Portable {
            return self.run(Syndromes { sources, outputs: [p, q] });
        }
        match PAndQ::new(sources, p, q) {
            Some(sums) => self.run(sums),
            None => self.run(Syndromes { sources, outputs: [p, q] }),
        }
    }
}

/// Checks that each source is empty or has this length. The loops below rely on it.
fn check_lengths(len: usize, sources: &[&[u8]]) {
    assert!(
        sources.iter().all(|source| source.is_empty() || source.len() == len),
        "blocks of one row differ in length"
    );
}

/// Number of vectors that a loop keeps in registers at the same time.
const UNROLLED: usize = 4;

struct XorInto<'a> {
    target: &'a mut [u8],
    sources: &'a [&'a [u8]],
}

impl KernelLoop for XorInto<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let step = UNROLLED * L::WIDTH;
        let whole = self.target.len() / step * step;
        for start in (0..whole).step_by(step) {
            let target = &mut self.target[start..start + step];
            let mut sums = [lanes.zero(); UNROLLED];
            for (index, sum) in sums.iter_mut().enumerate() {
                *sum = lanes.load(&target[index * L::WIDTH..]);
            }
            for source in self.sources.iter().filter(|source| !source.is_empty()) {
                let source = &source[start..start + step];
                for (index, sum) in sums.iter_mut().enumerate() {
                    *sum = lanes.xor(*sum, lanes.load(&source[index * L::WIDTH..]));
                }
            }
            for (index, sum) in sums.into_iter().enumerate() {
                lanes.store(sum, &mut target[index * L::WIDTH..]);
            }
        }
        for source in self.sources.iter().filter(|source| !source.is_empty()) {
            for (byte, other) in self.target[whole..].iter_mut().zip(&source[whole..]) {
                *byte ^= other;
            }
        }
    }
}

struct AddDiagonals<'a> {
    sums: &'a mut [u8],
    prime: usize,
    symbol: usize,
    columns: &'a [(usize, &'a [u8])],
}

impl KernelLoop for AddDiagonals<'_> {
    /// Processes one diagonal at a time, to keep its sum in registers.
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let AddDiagonals { sums, prime, symbol, columns } = self;
        let step = UNROLLED * L::WIDTH;
        for (index, target) in sums.chunks_exact_mut(step).enumerate() {
            let (diagonal, within) = (index * step / symbol, index * step % symbol);
            let mut vectors = [lanes.zero(); UNROLLED];
            for (part, vector) in vectors.iter_mut().enumerate() {
                *vector = lanes.load(&target[part * L::WIDTH..]);
            }
            for (place, column) in columns {
                let row = if diagonal >= *place { diagonal - place } else { diagonal + prime - place };
                if row == prime - 1 {
                    continue;
                }
                let start = row * symbol + within;
                let source = &column[start..start + step];
                for (part, vector) in vectors.iter_mut().enumerate() {
                    *vector = lanes.xor(*vector, lanes.load(&source[part * L::WIDTH..]));
                }
            }
            for (part, vector) in vectors.into_iter().enumerate() {
                lanes.store(vector, &mut target[part * L::WIDTH..]);
            }
        }
    }
}

struct AddProduct<'a> {
    target: &'a mut [u8],
    factor: u8,
    source: &'a [u8],
}

impl KernelLoop for AddProduct<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let (low, high) = galois::nibble_products(self.factor);
        let factor = lanes.factor(low, high);
        let whole = self.target.len() / L::WIDTH * L::WIDTH;
        for start in (0..whole).step_by(L::WIDTH) {
            let product = lanes.multiply(factor, lanes.load(&self.source[start..start + L::WIDTH]));
            let target = &mut self.target[start..start + L::WIDTH];
            lanes.store(lanes.xor(lanes.load(target), product), target);
        }
        for (byte, other) in self.target[whole..].iter_mut().zip(&self.source[whole..]) {
            *byte ^= galois::multiply(self.factor, *other);
        }
    }
}

struct Syndromes<'a, const N: usize> {
    sources: &'a [&'a [u8]],
    outputs: [&'a mut [u8]; N],
}

impl<const N: usize> Syndromes<'_, N> {
    /// Uses Horner's rule, from the last column to the first: each output needs one or two doublings per column. `U`
    /// is the number of vectors in a run.
    #[inline(always)]
    fn sum<L: Lanes, const U: usize>(self, lanes: L) {
        let Syndromes { sources, mut outputs } = self;
        let len = outputs[0].len();
        let whole = len / RUN * RUN;
        let offset = |power| if power == 0 { lanes.zero() } else { lanes.offset() };
        for start in (0..whole).step_by(RUN) {
            let mut sums: [[L::Vector; U]; N] = from_fn(|power| [offset(power); U]);
            for source in sources.iter().rev() {
                for (power, sums) in sums.iter_mut().enumerate() {
                    for sum in sums {
                        for _ in 0..power {
                            *sum = lanes.double(*sum);
                        }
                    }
                }
                if source.is_empty() {
                    continue;
                }
                let source = &source[start..start + RUN];
                for index in 0..U {
                    let vector = lanes.load(&source[index * L::WIDTH..]);
                    for sums in &mut sums {
                        sums[index] = lanes.xor(sums[index], vector);
                    }
                }
            }
            for (power, (output, sums)) in outputs.iter_mut().zip(sums).enumerate() {
                let output = &mut output[start..start + RUN];
                for (index, sum) in sums.into_iter().enumerate() {
                    lanes.store(lanes.xor(sum, offset(power)), &mut output[index * L::WIDTH..]);
                }
            }
        }
        for at in whole..len {
            for (power, output) in outputs.iter_mut().enumerate() {
                let terms = sources.iter().enumerate().filter(|(_, source)| !source.is_empty());
                output[at] = terms.fold(0, |sum, (column, source)| {
                    sum ^ galois::multiply(galois::power(power * column), source[at])
                });
            }
        }
    }
}

impl<const N: usize> KernelLoop for Syndromes<'_, N> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        match L::WIDTH {
            64 => self.sum::<L, { RUN / 64 }>(lanes),
            32 => self.sum::<L, { RUN / 32 }>(lanes),
            _ => unreachable!("vectors have 32 or 64 bytes"),
        }
    }
}
