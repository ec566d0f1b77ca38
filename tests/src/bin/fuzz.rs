//! Fuzzing for a chosen time: `fuzz --target check --seconds 600 [--first-seed N] [--file OWN.edb]`.
//!
//! The number of a case determines the case completely: `--first-seed N --cases 1` repeats case N. A case fails if it
//! panics, exceeds its time limit, or makes this process exceed its memory limit.

#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use system_tests::fuzz::{self, FuzzedReader, artifact, mutant, mutate_file, real_files};
use testkit::corpus::Corpus;

const USAGE: &str = "usage: fuzz --target TARGET [--seconds N] [--first-seed N] [--cases N] [--case-seconds N] [--file PATH]...
  TARGET          check, export, dump (whole files); page, header, log_segment, record (decoders); replay (logs); all
  --seconds N     how long, each target (60)
  --first-seed N  number of the first case (1)
  --cases N       no more cases than that
  --case-seconds  longest time of a case (20)
  --file PATH     a further file to start from, such as a database of our engine";
/// Maximum memory in MiB that this process may use in addition to its seeds.
const MEMORY_MIB: u64 = 256;
/// Maximum size in bytes of corpus files that are used as seeds.
const MAX_SEED_BYTES: u64 = 8 << 20;

struct FuzzArgs {
    targets: Vec<String>,
    seconds: u64,
    first: u64,
    cases: u64,
    case_seconds: u64,
    files: Vec<PathBuf>,
}

fn arguments() -> Option<FuzzArgs> {
    let mut all = FuzzArgs {
        targets: Vec::new(),
        seconds: 60,
        first: 1,
        cases: u64::MAX,
        case_seconds: 20,
        files: Vec::new(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next()?;
        match name.as_str() {
            "--target" if value == "all" => {
                let known = ["check", "export", "dump", "page", "header", "log_segment", "record", "replay"];
                all.targets.extend(known.map(str::to_owned));
            }
            "--target" => all.targets.push(value),
            "--seconds" => all.seconds = value.parse().ok()?,
            "--first-seed" => all.first = value.parse().ok()?,
            "--cases" => all.cases = value.parse().ok()?,
            "--case-seconds" => all.case_seconds = value.parse().ok()?,
            "--file" => all.files.push(value.into()),
            _ => return None,
        }
    }
    (!all.targets.is_empty()).then_some(all)
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let mut failed = 0;
    for target in &arguments.targets {
        match run(target, &arguments) {
            Some(cases) => failed += cases,
            None => {
                eprintln!("there is no target {target}\n{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Function that runs one case of a target with the given random numbers. If a case fails, the runner keeps the file
/// of the case.
type FuzzCase = Box<dyn FnMut(&mut ChaCha8Rng, &Path)>;

/// Runs a target and returns the number of failed cases.
fn run(target: &str, arguments: &FuzzArgs) -> Option<u64> {
    let directory = tempfile::tempdir().expect("there is a folder for temporary files");
    let mut case = case(target, arguments, directory.path())?;
    let input = directory.path().join("input");
    let watch = Watchdog::start(target, arguments.case_seconds, &input);
    let before = peak_memory_mib();
    let until = Instant::now() + Duration::from_secs(arguments.seconds);
    let (mut tried, mut failed, mut slowest) = (0, 0, Duration::ZERO);
    while tried < arguments.cases && Instant::now() < until {
        let seed = arguments.first + tried;
        watch.begin(seed);
        let begun = Instant::now();
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let result = catch_unwind(AssertUnwindSafe(|| case(&mut random, &input)));
        watch.end();
        slowest = slowest.max(begun.elapsed());
        tried += 1;
        let memory = peak_memory_mib().saturating_sub(before);
        if result.is_err() || memory > MEMORY_MIB {
            failed += 1;
            let what = if result.is_err() { "panics".to_owned() } else { format!("takes {memory} MiB") };
            keep(target, seed, &what, &input);
            if memory > MEMORY_MIB {
                break;
            }
        }
    }
    println!(
        "{target}: {tried} cases from {}, {failed} failed; slowest {} ms, memory {} MiB more",
        arguments.first,
        slowest.as_millis(),
        peak_memory_mib().saturating_sub(before)
    );
    Some(failed)
}

fn case(target: &str, arguments: &FuzzArgs, directory: &Path) -> Option<FuzzCase> {
    if let Some((_, reader)) = FuzzedReader::ALL.iter().find(|(name, _)| *name == target) {
        let (reader, seeds, vfs) = (*reader, files(arguments), real_files());
        let output = directory.join("output");
        return Some(Box::new(move |random, input| {
            let mut bytes = seeds[random.random_range(0..seeds.len())].clone();
            mutate_file(&mut bytes, &seeds, random);
            std::fs::write(input, &bytes).expect("the case can be written");
            reader.read(&vfs, input, &output, random);
        }));
    }
    let function: fn(&[u8]) = match target {
        "page" => fuzz::page,
        "header" => fuzz::header,
        "log_segment" => fuzz::log_segment,
        "record" => fuzz::record,
        "replay" => fuzz::replay,
        _ => return None,
    };
    let mut seeds = fuzz::seeds(target);
    let block = match target {
        "page" => 32 << 10,
        // Size of a small log file.
        "replay" => 64 << 10,
        _ => 4096,
    };
    for file in files(arguments) {
        seeds.extend(file.chunks(block).step_by(5).take(20).map(<[u8]>::to_vec));
    }
    Some(Box::new(move |random, input| {
        let bytes = mutant(&seeds, random);
        // Only the input of a failed case is written to a file. Writing a file for each case would take most of the
        // time.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| function(&bytes))) {
            std::fs::write(input, &bytes).expect("the case can be written");
            std::panic::resume_unwind(panic);
        }
    }))
}

/// Returns the seed files.
fn files(arguments: &FuzzArgs) -> Vec<Vec<u8>> {
    let corpus = Corpus::locate();
    let real = corpus.iter().flat_map(|corpus| {
        let known = corpus.files.iter().filter(|file| file.size <= MAX_SEED_BYTES && file.kind != "txt");
        known.map(|file| corpus.read(&file.name))
    });
    let own = arguments.files.iter().map(|path| std::fs::read(path).expect("the file given can be read"));
    let files: Vec<Vec<u8>> = real.chain(own).filter(|bytes| bytes.len() >= 4096).collect();
    assert!(!files.is_empty(), "neither JETCELL_CORPUS nor --file gives a file to start from");
    files
}

fn keep(target: &str, seed: u64, what: &str, input: &Path) {
    let kept = artifact(target, seed);
    let copied =
        kept.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::copy(input, &kept));
    eprintln!("{target}: case {seed} {what}; its input is kept in {} ({copied:?})", kept.display());
}

/// Watchdog that ends the process if a case takes too long. There is no other way to stop an endless loop.
struct Watchdog {
    /// Number of the running case plus 1, or 0 if none is running.
    running_case: std::sync::Arc<AtomicU64>,
}

impl Watchdog {
    fn start(target: &str, seconds: u64, input: &Path) -> Watchdog {
        let running = std::sync::Arc::new(AtomicU64::new(0));
        let (seen, target, input) = (running.clone(), target.to_owned(), input.to_owned());
        std::thread::spawn(move || {
            let (mut last, mut since) = (0, Instant::now());
            loop {
                std::thread::sleep(Duration::from_millis(200));
                let now = seen.load(Ordering::Relaxed);
                if now != last {
                    (last, since) = (now, Instant::now());
                } else if now != 0 && since.elapsed() > Duration::from_secs(seconds) {
                    keep(&target, now - 1, &format!("takes more than {seconds} s"), &input);
                    std::process::exit(1);
                }
            }
        });
        Watchdog { running_case: running }
    }

    fn begin(&self, seed: u64) {
        self.running_case.store(seed.wrapping_add(1), Ordering::Relaxed);
    }

    fn end(&self) {
        self.running_case.store(0, Ordering::Relaxed);
    }
}

/// Returns the peak resident memory of this process in MiB.
fn peak_memory_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}
