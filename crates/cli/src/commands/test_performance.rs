//! `jetcell test performance`: options to profile, run, report.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use workload::engine_ese::{Backend, EseEngine};
use workload::units::{ByteSize, TimeSpan};
use workload::{DEFAULT_DIRECTORY, Finished, Options, Profile, StopSignal, Verdict, run};

use crate::outcome::{Outcome, complain};
use crate::progress::Progress;

const EXAMPLES: &str = "\
Examples:
  jetcell test performance --dir jetcell-run --size 1GiB --duration 60s
      a first look: one database of 1 GiB, measured for a minute
  jetcell test performance --dir /db1 --dir /db2 --log-dir /logs --size 100GiB --duration 2h --target-iops 540
      two databases with their logs on a volume of their own, two hours, judged against a target
  jetcell test performance --dir /db1 --dir /db2 --log-dir /logs --open --duration 24h
      the same databases again, for a day
  jetcell test performance --config run.toml --json > result.json
      options from a file; the keys are shown under Configuration in every report.html

Files:
  DIR/Jetstress001001.edb      databases
  LOGDIR/log001/E00*.log       logs
  OUTPUT/                      result.json, samples.csv, report.html

Exit code: 0 pass, 1 fail or stopped early, 2 could not run.
Ctrl-C stops cleanly and still reports; a second Ctrl-C leaves at once.";

/// Builds ESE databases, runs a mail load on them, verifies every page and judges the storage
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct TestPerformance {
    /// Directory for databases, used in turn when given several times [default: jetcell-run, created if missing]
    #[arg(long = "dir", value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Directory for logs, used in turn when given several times [default: that of the databases]
    #[arg(long = "log-dir", value_name = "DIR")]
    log_dirs: Vec<PathBuf>,
    /// Number of databases, each with its own log stream [default: one per --dir]
    #[arg(long, value_name = "N")]
    databases: Option<usize>,
    /// Size of each database, such as 256MiB or 1GiB [default: 1GiB]
    #[arg(long)]
    size: Option<ByteSize>,
    /// Load threads, shared by all databases [default: 4]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Measured time, such as 60s or 2h [default: 60s]
    #[arg(long, value_name = "TIME")]
    duration: Option<TimeSpan>,
    /// Cache shared by all databases [default: an eighth of them, 64MiB to 256MiB for each]
    #[arg(long, value_name = "SIZE")]
    cache: Option<ByteSize>,
    /// Page size: 4KiB, 8KiB, 16KiB or 32KiB [default: 32KiB, or that of existing databases]
    #[arg(long, value_name = "SIZE")]
    page_size: Option<ByteSize>,
    /// Database reads and writes per second that must be reached, less a margin of 5 %
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    target_iops: Option<f64>,
    /// Options from a TOML file; the command line wins
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Use databases that exist
    #[arg(long)]
    open: bool,
    /// Replace databases and results that exist
    #[arg(long)]
    force: bool,
    /// Directory for the results [default: Performance_<time> in the first --dir]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Seed of the load: the same seed gives the same operations and content [default: the time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How transfers reach the kernel
    #[arg(long, value_enum, default_value_t = Io::Auto)]
    io: Io,
    /// Print result.json on stdout instead of the summary
    #[arg(long)]
    json: bool,
}

/// What runs asynchronous transfers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Io {
    /// io_uring where the kernel allows it, threads otherwise
    Auto,
    /// io_uring
    Uring,
    /// A pool of threads
    Threads,
}

impl TestPerformance {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let (json, io) = (self.json, self.io);
        let profile = match self.profile() {
            Ok(profile) => profile,
            Err(lines) => {
                lines.iter().for_each(complain);
                return Outcome::CouldNotRun;
            }
        };
        let stop = match stop_on_signals() {
            Ok(stop) => stop,
            Err(error) => {
                complain(format!("Ctrl-C cannot be handled: {error}"));
                return Outcome::CouldNotRun;
            }
        };
        let backend = match io {
            Io::Auto => Backend::Auto,
            Io::Uring => Backend::Uring,
            Io::Threads => Backend::Threads,
        };
        let engine = match EseEngine::new(backend) {
            Ok(engine) => engine,
            Err(error) => {
                complain(format!("input and output cannot start: {error}; try --io threads"));
                return Outcome::CouldNotRun;
            }
        };
        let mut progress = Progress::new();
        let finished = run(&profile, &engine, &mut progress, &stop);
        progress.finish();
        match finished {
            Ok(finished) => report(&finished, json),
            Err(error) => {
                complain(error);
                Outcome::CouldNotRun
            }
        }
    }

    fn profile(self) -> Result<Profile, Vec<String>> {
        let file = match &self.config {
            Some(path) => Options::read(path).map_err(|mistake| vec![mistake.to_string()])?,
            None => Options::default(),
        };
        let mut options = self.options().over(file);
        if options.dirs.is_empty() {
            options.dirs = vec![DEFAULT_DIRECTORY.into()];
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64);
        // TOML integers are signed.
        let seed = now & i64::MAX as u64;
        options.resolve(seed).map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
    }

    fn options(self) -> Options {
        Options {
            dirs: self.dirs,
            log_dirs: self.log_dirs,
            databases: self.databases,
            size: self.size,
            threads: self.threads,
            duration: self.duration,
            cache: self.cache,
            page_size: self.page_size,
            target_iops: self.target_iops,
            seed: self.seed,
            open: self.open.then_some(true),
            force: self.force.then_some(true),
            output: self.output,
            ..Options::default()
        }
    }
}

/// The first signal asks the run to stop, the second leaves.
fn stop_on_signals() -> Result<StopSignal, ctrlc::Error> {
    let stop = StopSignal::default();
    let asked = stop.clone();
    ctrlc::set_handler(move || {
        if asked.is_set() {
            std::process::exit(130);
        }
        asked.stop();
        eprintln!("\njetcell: stopping cleanly; press Ctrl-C again to leave at once");
    })?;
    Ok(stop)
}

fn report(finished: &Finished, json: bool) -> Outcome {
    let result = &finished.result;
    let output = &result.plan.output;
    if json {
        print!("{}", result.to_json());
    } else {
        print!("{}", report::text(result));
    }
    if let Err(error) = store(finished, output) {
        complain(format!("{}: results cannot be written: {error}", output.display()));
        return Outcome::CouldNotRun;
    }
    if !json {
        println!("\n  Report: {}", output.join("report.html").display());
    }
    match result.verdict {
        Verdict::Pass => Outcome::Good,
        Verdict::Fail | Verdict::Incomplete => Outcome::Findings,
    }
}

fn store(finished: &Finished, output: &Path) -> std::io::Result<()> {
    finished.result.write(&output.join("result.json"))?;
    fs::write(output.join("report.html"), report::html(&finished.result, &finished.samples))
}
