//! Speed of parity on one core, beside memory copy: `cargo run --release -p jetcell-array --example kernel_speed`.
//!
//! Rates count bytes of data. The blocks of the first table stay in the cache; those of the second are 64 MiB in all. Columns are
//! placed so that they do not meet in one set of the first-level cache.

use std::hint::black_box;
use std::time::Duration;

use jetcell_array::{Kernel, ReedSolomon, RowDiagonal};
use jetcell_vfs::{Clock, RealClock};

const BLOCK: usize = 4096;
const DATA: usize = 14;
const PARITY: usize = 3;
/// Bytes from one column of a row to the next.
const STRIDE: usize = BLOCK + 192;
const ROW: usize = (DATA + PARITY) * STRIDE;
const RUN: Duration = Duration::from_millis(40);

/// Gigabytes of data per second, of the best of five runs of `work` over all rows.
fn rate(memory: &mut [u8], mut work: impl FnMut(&mut [&mut [u8]])) -> f64 {
    let clock = RealClock::new();
    let mut best: f64 = 0.0;
    for _ in 0..5 {
        let (start, mut bytes) = (clock.monotonic(), 0);
        while clock.monotonic() - start < RUN {
            for row in memory.chunks_exact_mut(ROW) {
                let mut columns: Vec<&mut [u8]> =
                    row.chunks_exact_mut(STRIDE).map(|column| &mut column[..BLOCK]).collect();
                work(&mut columns);
                bytes += DATA * BLOCK;
            }
        }
        best = best.max(bytes as f64 / (clock.monotonic() - start).as_secs_f64() / 1e9);
    }
    best
}

/// Runs an encoder on the data and the parity columns of a row.
fn encode(columns: &mut [&mut [u8]], parities: usize, encoder: impl Fn(&[&[u8]], &mut [&mut [u8]])) {
    let (data, parity) = columns.split_at_mut(DATA);
    let data: Vec<&[u8]> = data.iter().map(|column| &**column).collect();
    encoder(&data, &mut parity[..parities]);
}

fn rates(kernel: &Kernel, memory: &mut [u8]) -> Vec<f64> {
    let mut rates = vec![];
    for parities in 1..=PARITY {
        let code = ReedSolomon::new(parities);
        rates.push(rate(memory, |row| {
            encode(row, parities, |data, parity| code.encode(kernel, data, parity))
        }));
    }
    for prime in [17, 257] {
        let code = RowDiagonal::new(prime);
        rates.push(rate(memory, |row| {
            encode(row, 2, |data, parity| {
                let [rows, diagonals] = parity else { unreachable!("two parity columns") };
                code.encode(kernel, data, rows, diagonals);
            })
        }));
    }
    let (sums, diagonal) = (ReedSolomon::new(2), RowDiagonal::new(17));
    rates.push(rate(memory, |row| sums.recover(kernel, &mut row[..DATA + 2], &[3, 9])));
    rates.push(rate(memory, |row| diagonal.recover(kernel, &mut row[..DATA + 2], &[3, 9])));
    rates
}

fn main() {
    let chosen = Kernel::fastest(&RealClock::new()).instruction_set();
    println!("{DATA} data columns of {BLOCK} bytes, GB/s of data; chosen at the start: {chosen:?}");
    for (name, rows) in [("in cache", 1), ("64 MiB", (64 << 20) / (DATA * BLOCK))] {
        let mut memory: Vec<u8> = (0..rows * ROW).map(|at| ((at * 31) >> 3) as u8).collect();
        let mut copy = vec![0; BLOCK];
        let copied = rate(&mut memory, |row| {
            row[..DATA].iter().for_each(|column| black_box(&mut copy).copy_from_slice(black_box(&**column)))
        });
        println!("\n{name}; memory copy {copied:.1}");
        let titles = ["kernel", "P", "P+Q", "P+Q+R", "DP 17", "DP 257", "2 of P+Q", "2 of DP"];
        println!("{}", titles.map(|title| format!("{title:>9}")).concat());
        for kernel in Kernel::available() {
            let rates = rates(&kernel, &mut memory).into_iter().map(|rate| format!("{rate:9.1}"));
            println!("{:>9}{}", format!("{:?}", kernel.instruction_set()), rates.collect::<String>());
        }
    }
}
