//! A small fuzz runner. It changes seed inputs at random, from a fixed seed, for a bounded time.
//!
//! `JETCELL_FUZZ_SECONDS` sets the time (default 2); `JETCELL_FUZZ_SEED` sets a seed other than 1. An input that
//! makes a target panic is stored in `fuzz/artifacts/<target>/`, and its path is printed in the output of the test.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub(super) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

/// Returns the seed inputs of a target, `fuzz/corpus/<target>/*`, in name order.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let directory = folder().join("corpus").join(target);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|entry| entry.expect("the seed folder is readable").path())
        .collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("seed files are readable")).collect()
}

/// A target, and the time for which it is fuzzed.
pub struct FuzzCampaign {
    name: &'static str,
    target: fn(&[u8]),
    seeds: Vec<Vec<u8>>,
    seconds: f64,
    seed: u64,
}

impl FuzzCampaign {
    /// Creates a campaign for a target with its seed files.
    pub fn new(name: &'static str, target: fn(&[u8])) -> FuzzCampaign {
        let number = |variable: &str| std::env::var(variable).ok().and_then(|text| text.parse::<f64>().ok());
        let seconds = number("JETCELL_FUZZ_SECONDS").unwrap_or(2.0);
        let seed = number("JETCELL_FUZZ_SEED").unwrap_or(1.0) as u64;
        FuzzCampaign { name, target, seeds: seeds(name), seconds, seed }
    }

    /// Adds seeds, such as pages of real databases.
    #[must_use]
    pub fn with_seeds(mut self, more: impl IntoIterator<Item = Vec<u8>>) -> FuzzCampaign {
        self.seeds.extend(more);
        self
    }

    /// Runs every seed unchanged, and then mutations until the time is over. Returns the number of inputs that were
    /// run.
    pub fn run(&self) -> u64 {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        for seed in &self.seeds {
            self.attempt(seed);
        }
        let mut tried = self.seeds.len() as u64;
        let end = Instant::now() + Duration::from_secs_f64(self.seconds);
        while Instant::now() < end {
            // The runner reads the clock once per batch.
            for _ in 0..32 {
                self.attempt(&mutant(&self.seeds, &mut rng));
                tried += 1;
            }
        }
        println!("{}: {tried} inputs from {} seeds in {} s", self.name, self.seeds.len(), self.seconds);
        tried
    }

    fn attempt(&self, input: &[u8]) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.target)(input))) {
            let directory = folder().join("artifacts").join(self.name);
            let path = directory.join(format!("{:016x}", fingerprint(input)));
            let kept = std::fs::create_dir_all(&directory).and_then(|()| std::fs::write(&path, input));
            eprintln!("{}: input kept in {} ({kept:?})", self.name, path.display());
            resume_unwind(panic);
        }
    }
}

/// Returns one of the seeds, changed in a few places.
pub fn mutant(seeds: &[Vec<u8>], rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut input = pick(seeds, rng).clone();
    for _ in 0..rng.random_range(1..=6) {
        mutate(&mut input, seeds, rng);
    }
    input
}

fn pick<'s>(seeds: &'s [Vec<u8>], rng: &mut ChaCha8Rng) -> &'s Vec<u8> {
    &seeds[rng.random_range(0..seeds.len())]
}

fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut ChaCha8Rng) {
    const INTERESTING: [u16; 12] = [0, 1, 2, 3, 4, 0x7f, 0x80, 0xff, 0x1fff, 0x7fff, 0x8000, 0xffff];
    if input.is_empty() {
        input.push(rng.random());
    }
    // Half of the changes are near the start or the end, where the structure is.
    let len = input.len();
    let at = match rng.random_range(0..4) {
        0 => rng.random_range(0..len.min(64)),
        1 => len - 1 - rng.random_range(0..len.min(64)),
        _ => rng.random_range(0..len),
    };
    match rng.random_range(0..8) {
        0 | 1 => input[at] ^= 1 << rng.random_range(0..8),
        2 => input[at] = rng.random(),
        3 | 4 => {
            let word = INTERESTING[rng.random_range(0..INTERESTING.len())].to_le_bytes();
            let at = at & !1;
            input.iter_mut().skip(at).zip(word).for_each(|(byte, new)| *byte = new);
        }
        5 => {
            let other = pick(seeds, rng);
            let count = rng.random_range(0..=other.len().min(len - at).min(256));
            let from = rng.random_range(0..=other.len() - count);
            let piece = other[from..from + count].to_vec();
            input[at..at + count].copy_from_slice(&piece);
        }
        6 => input.truncate(at.max(1)),
        _ => {
            let count = rng.random_range(0..=(len - at).min(64));
            input[at..at + count].fill(if rng.random() { 0 } else { 0xff });
        }
    }
}

fn fingerprint(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
