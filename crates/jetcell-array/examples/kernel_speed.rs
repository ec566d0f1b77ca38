//! Measures the speed of parity on one core, compared with a memory copy: `cargo run --release -p jetcell-array
//! --example kernel_speed`.
//!
//! Rates count bytes of data. Each rate is the best of many short rounds. Every round runs all codes, so load on the
//! machine affects all codes equally. The blocks of a row are placed in one of two ways: spaced to avoid sharing a
//! set of the L1 cache, or aligned to multiples of 4096 bytes, like buffers for transfers. The parity of a row is
//! placed after its data. Alternatively, the parity of all rows is written to the same blocks, because an array
//! reuses its buffers. The last two columns always do the latter, and compute the checksum of each data block first.

use std::hint::black_box;

use jetcell_array::{Kernel, ReedSolomon, RowDiagonal};
use jetcell_vfs::{Clock, IoBuffer, RealClock};
use twox_hash::XxHash3_64;

const BLOCK: usize = 4096;
const DATA: usize = 14;
const PARITY: usize = 3;
/// Distance between consecutive columns of a row, in bytes.
const STRIDES: [usize; 2] = [BLOCK + 192, BLOCK];
const STREAMED: usize = (64 << 20) / (DATA * BLOCK);
const ROUNDS: usize = 60;
/// Number of parts of the memory. Consecutive codes of a round work on different parts, so a code does not find its
/// data in the cache.
const PARTS: usize = 4;
/// Minimum number of rows that a code processes per round.
const MIN_ROWS: usize = 200;

type RowOperation<'a> = Box<dyn FnMut(&mut [&mut [u8]]) + 'a>;

/// Returns gigabytes of data per second for each of `row_operations`. If `one_place` is set, the parity of all rows
/// is written to the same blocks.
fn rates(rows: usize, stride: usize, one_place: bool, works: &mut [RowOperation<'_>]) -> Vec<f64> {
    let clock = RealClock::new();
    let row_len = (DATA + PARITY) * stride;
    let mut memory = IoBuffer::zeroed(rows * row_len);
    memory.iter_mut().enumerate().for_each(|(at, byte)| *byte = ((at * 31) >> 3) as u8);
    let mut parity = IoBuffer::zeroed((PARITY * stride).next_multiple_of(BLOCK));
    let parts = PARTS.min(rows);
    let in_part = rows / parts;
    let mut best = vec![0.0f64; works.len()];
    for round in 0..ROUNDS {
        for (index, work) in works.iter_mut().enumerate() {
            let part = (3 * round + index) % parts;
            let part = &mut memory[part * in_part * row_len..][..in_part * row_len];
            let repetitions = MIN_ROWS.div_ceil(in_part);
            let start = clock.monotonic();
            for _ in 0..repetitions {
                for row in part.chunks_exact_mut(row_len) {
                    let mut columns = row.chunks_exact_mut(stride);
                    let mut columns: [&mut [u8]; DATA + PARITY] =
                        std::array::from_fn(|_| &mut columns.next().expect("as many columns")[..BLOCK]);
                    if one_place {
                        let places = parity.chunks_exact_mut(stride).map(|place| &mut place[..BLOCK]);
                        columns[DATA..].iter_mut().zip(places).for_each(|(column, place)| *column = place);
                    }
                    work(&mut columns);
                }
            }
            let bytes = (repetitions * in_part * DATA * BLOCK) as f64;
            best[index] = best[index].max(bytes / (clock.monotonic() - start).as_secs_f64() / 1e9);
        }
    }
    best
}

/// Wraps an encoder, which reads the data columns of a row and writes its parity columns.
fn encoder<'a>(mut encode: impl FnMut(&[&[u8]], &mut [&mut [u8]]) + 'a) -> RowOperation<'a> {
    Box::new(move |columns| {
        let (data, parity) = columns.split_at_mut(DATA);
        let data: [&[u8]; DATA] = std::array::from_fn(|column| &*data[column]);
        encode(&data, parity);
    })
}

fn checksums(data: &[&[u8]]) {
    data.iter().for_each(|block| _ = black_box(XxHash3_64::oneshot(block)));
}

fn row_operations(kernel: &Kernel) -> Vec<RowOperation<'_>> {
    let mut works: Vec<RowOperation<'_>> = vec![];
    for parities in 1..=PARITY {
        let code = ReedSolomon::new(parities);
        works.push(encoder(move |data, parity| code.encode(kernel, data, &mut parity[..parities])));
    }
    for prime in [17, 257] {
        let code = RowDiagonal::new(prime);
        works.push(encoder(move |data, parity| {
            let [rows, diagonals, ..] = parity else { unreachable!("two parity columns") };
            code.encode(kernel, data, rows, diagonals);
        }));
    }
    let (sums, diagonal) = (ReedSolomon::new(2), RowDiagonal::new(17));
    works.push(Box::new(move |row| sums.recover(kernel, &mut row[..DATA + 2], &[3, 9])));
    works.push(Box::new(move |row| diagonal.recover(kernel, &mut row[..DATA + 2], &[3, 9])));
    let [mut one, mut other] = [0; 2].map(|_| [IoBuffer::zeroed(BLOCK), IoBuffer::zeroed(BLOCK)]);
    works.push(encoder(move |data, _| {
        checksums(data);
        let [p, q] = &mut one;
        sums.encode(kernel, data, &mut [p, q]);
    }));
    works.push(encoder(move |data, _| {
        checksums(data);
        let [rows, diagonals] = &mut other;
        diagonal.encode(kernel, data, rows, diagonals);
    }));
    works
}

fn main() {
    let chosen = Kernel::fastest(&RealClock::new()).instruction_set();
    println!("{DATA} data columns of {BLOCK} bytes, GB/s of data; chosen at the start: {chosen:?}");
    let sets = [
        ("in cache", 1, false),
        ("64 MiB", STREAMED, false),
        ("64 MiB, parity of all rows in one place", STREAMED, true),
    ];
    for (name, rows, one_place) in sets {
        for stride in STRIDES {
            println!("\n{name}, columns {stride} bytes apart");
            let titles = ["kernel", "copy", "P", "P+Q", "P+Q+R", "DP 17", "DP 257"];
            let others = ["2 of P+Q", "2 of DP", "sums, P+Q", "sums, DP"];
            println!(
                "{}",
                titles.iter().chain(&others).map(|title| format!("{title:>10}")).collect::<String>()
            );
            for kernel in Kernel::available() {
                let mut copy = vec![0; BLOCK];
                let mut all: Vec<RowOperation<'_>> = vec![Box::new(|row| {
                    let columns = row[..DATA].iter();
                    columns.for_each(|column| black_box(&mut copy).copy_from_slice(black_box(&**column)));
                })];
                all.extend(row_operations(&kernel));
                let rates =
                    rates(rows, stride, one_place, &mut all).into_iter().map(|rate| format!("{rate:10.1}"));
                println!("{:>10}{}", format!("{:?}", kernel.instruction_set()), rates.collect::<String>());
            }
        }
    }
}
