//! `jetcell maintain`: verifies the pages of the databases of a stopped instance, and overwrites what deleted data leave
//! behind.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use ese_engine::{
    Database, DatabasePaths, EventProfile, EventSink, Instance, InstanceOptions, RecoverySet, ScanOptions,
    ScanProgress, ScanTurn,
};
use ese_format::LogPosition;
use jetcell_vfs::{Vfs, parent_directory};
use jetcell_workload::EventFile;
use jetcell_workload::units::{ByteSize, TimeSpan};
use serde_json::json;

use crate::commands::backup::vfs;
use crate::commands::recover::{explained, files, log_directory};
use crate::commands::transfer_progress::rate;
use crate::console;
use crate::in_use::refuse_in_use;
use crate::outcome::{Failure, Outcome, print_error};

const EXAMPLES: &str = "\
The instance must not be running. Dirty databases are recovered first. Ctrl-C stops the pass; the same command resumes it.
What happens is written to events.jsonl beside the logs; jetcell events shows it.

Examples:
  jetcell maintain /var/lib/app
      verifies every page of all databases
  jetcell maintain /var/lib/app --tasks scan,zero
      also overwrites what deleted records and freed pages leave behind
  jetcell maintain jetcell-run/log001 jetcell-run/Jetstress001001.edb --pause 100ms
      one database of a test, as slowly as Jetstress scans
  jetcell maintain /var/lib/app --rate 50MB/s --batch 320KiB --json

Exit code: 0 no bad page, 1 bad pages, or stopped before the end, 2 could not run.";

/// Time between two looks at the progress.
const LOOK: Duration = Duration::from_millis(100);
/// Time between two lines of progress on a terminal.
const LINE: Duration = Duration::from_secs(2);

/// Verifies the pages of a stopped instance, and overwrites what deleted data leave behind
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Maintain {
    /// Logs and databases of the instance, or directories with them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// What is done in the pass: scan verifies pages, zero overwrites deleted data and needs scan
    #[arg(long, value_enum, value_delimiter = ',', default_value = "scan", value_name = "TASKS")]
    tasks: Vec<Task>,
    /// Pause after each read, up to 60s
    #[arg(long, default_value = "0ms", value_name = "TIME")]
    pause: TimeSpan,
    /// Bytes of one read, 64KiB to 16MiB [Exchange 2007 SP1: 320KiB, 2013: 256KiB]
    #[arg(long, default_value = "256KiB", value_name = "SIZE")]
    batch: ByteSize,
    /// Limit the load on the disks, for each database
    #[arg(long, value_name = "BYTES/S", value_parser = rate)]
    rate: Option<ByteSize>,
    /// Work on all databases at the same time, also if they are on one disk
    #[arg(long)]
    parallel: bool,
    /// Numbers of the events: of Exchange 2007 SP1, of the article about it, or of current builds
    #[arg(long, value_enum, default_value_t = Numbers::Sp1, value_name = "PROFILE")]
    event_profile: Numbers,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Task {
    /// Verify pages
    Scan,
    /// Overwrite what deleted data leave behind
    Zero,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Numbers {
    /// 717 to 727, by the message table of ESE
    Sp1,
    /// The same, but 719 starts a scan
    Article,
    /// 732 to 738
    Modern,
}

impl Maintain {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        self.maintain().unwrap_or_else(|what| {
            print_error(what);
            Outcome::CouldNotRun
        })
    }

    fn options(&self) -> Result<ScanOptions, Failure> {
        if !self.tasks.contains(&Task::Scan) {
            return Err("--tasks zero needs scan: one pass does both; write --tasks scan,zero".into());
        }
        let options = ScanOptions {
            pause: self.pause.0,
            batch_bytes: usize::try_from(self.batch.0).unwrap_or(usize::MAX),
            bytes_per_second: self.rate.map(|rate| rate.0),
            zero: self.tasks.contains(&Task::Zero),
            keep_progress: true,
            single_pass: true,
            ..ScanOptions::default()
        };
        options.check().map_err(|error| Failure::from(error.to_string()))?;
        Ok(options)
    }

    fn maintain(&self) -> Result<Outcome, Failure> {
        let options = self.options()?;
        let vfs = vfs()?;
        let set = RecoverySet::find(&vfs, &files(&self.paths)?).map_err(explained)?;
        let Some(first) = set.databases.first() else {
            return Err("there is no database of these logs; name its file, too".into());
        };
        let directory = log_directory(&set.plan(LogPosition::MAX))?;
        let lock = directory.join(format!("{}.lock", set.base_name));
        let databases = set.databases.iter().map(|database| database.path.as_path());
        refuse_in_use(databases.chain([lock.as_path()]), false)?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        let handler = move || {
            if asked.swap(true, Ordering::SeqCst) {
                std::process::exit(130);
            }
        };
        ctrlc::set_handler(handler).map_err(|error| format!("Ctrl-C cannot be handled: {error}"))?;

        let events = EventFile::open(&directory, true)
            .map_err(|error| format!("{}: {error}", directory.join("events.jsonl").display()))?;
        let mut of_instance = InstanceOptions::with_vfs(vfs.clone(), directory);
        of_instance.base_name.clone_from(&set.base_name);
        of_instance.log_names = set.log_names;
        of_instance.page_size = first.header.page_size;
        of_instance.events = Some(Arc::new(events) as Arc<dyn EventSink>);
        of_instance.event_profile = match self.event_profile {
            Numbers::Sp1 => EventProfile::Sp1,
            Numbers::Article => EventProfile::Sp1Article,
            Numbers::Modern => EventProfile::Modern,
        };
        let mut paths = DatabasePaths::default();
        set.databases.iter().for_each(|database| paths.search(parent_directory(&database.path)));
        of_instance.database_paths = paths;
        let instance = Instance::open(of_instance).map_err(explained)?;
        let done = self.work(&vfs, &instance, &set, options, &stop);
        let closed = instance.shutdown().map_err(explained);
        let results = done?;
        closed?;
        Ok(self.show(&results))
    }

    /// Runs one pass over each database.
    fn work(
        &self,
        vfs: &Arc<dyn Vfs>,
        instance: &Arc<Instance>,
        set: &RecoverySet,
        options: ScanOptions,
        stop: &AtomicBool,
    ) -> Result<Vec<(PathBuf, ScanProgress)>, Failure> {
        let mut attached: Vec<Arc<Database>> = Vec::new();
        // Databases in one directory are on one disk.
        let mut turns: Vec<(PathBuf, Arc<ScanTurn>)> = Vec::new();
        for found in &set.databases {
            let database = instance.attach(&found.path, 256).map_err(explained)?;
            let place = parent_directory(&found.path).to_path_buf();
            let known = turns.iter().find(|(other, _)| vfs.same_file(other, &place));
            let turn = match known {
                Some((_, turn)) => turn.clone(),
                None => {
                    turns.push((place, Arc::default()));
                    turns.last().map(|(_, turn)| turn.clone()).unwrap_or_default()
                }
            };
            let turn = (!self.parallel).then_some(turn);
            instance
                .start_maintenance(&database, ScanOptions { turn, ..options.clone() })
                .map_err(explained)?;
            attached.push(database);
        }
        let mut told = Instant::now();
        while attached.iter().any(|database| database.scan_progress().running) {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            let failed = attached.iter().find_map(|database| {
                database.scan_progress().failure.map(|what| format!("{}: {what}", database.path().display()))
            });
            if let Some(what) = failed {
                return Err(format!("{what}; the same command resumes the pass").into());
            }
            if std::io::stderr().is_terminal() && told.elapsed() > LINE {
                told = Instant::now();
                attached.iter().for_each(|database| tell(database));
            }
            std::thread::sleep(LOOK);
        }
        attached.iter().for_each(|database| instance.stop_scan(database));
        Ok(attached
            .iter()
            .map(|database| (database.path().to_path_buf(), database.scan_progress()))
            .collect())
    }

    fn show(&self, results: &[(PathBuf, ScanProgress)]) -> Outcome {
        let whole = results.iter().all(|(_, progress)| progress.passes > 0);
        let bad: u64 = results.iter().map(|(_, progress)| progress.pass.bad).sum();
        match self.json {
            true => {
                let databases: Vec<_> =
                    results.iter().map(|(path, progress)| as_json(path, progress)).collect();
                console::print(&format!("{}\n", json!({ "complete": whole, "databases": databases })));
            }
            false => results.iter().for_each(|(path, progress)| print_text(path, progress)),
        }
        if whole && bad == 0 { Outcome::Good } else { Outcome::Findings }
    }
}

fn tell(database: &Database) {
    let progress = database.scan_progress();
    let pages = progress.position.map_or(0, |page| page.get());
    console::note(&format!("{}: page {pages}, {} bad", database.path().display(), progress.pass.bad));
}

fn as_json(path: &std::path::Path, progress: &ScanProgress) -> serde_json::Value {
    let pass = &progress.pass;
    let findings: Vec<_> = progress
        .findings
        .iter()
        .map(|(page, flaw)| json!({ "page": page.get(), "flaw": flaw.to_string() }))
        .collect();
    json!({
        "path": path, "complete": progress.passes > 0, "zeroing": pass.zeroing, "seconds": pass.seconds,
        "invocations": pass.invocations, "days": pass.days, "pages": pass.pages, "bad": pass.bad,
        "uninitialized": pass.uninitialized, "unchanged": pass.unchanged, "unused_zeroed": pass.unused_zeroed,
        "used": pass.used, "records_zeroed": pass.records_zeroed, "chunks_zeroed": pass.chunks_zeroed,
        "remainder": pass.zeroing.then(|| pass.remainder()), "next_page": (progress.passes == 0).then(|| {
            progress.position.map_or(1, |page| page.get() + 1)
        }),
        "findings": findings,
    })
}

fn print_text(path: &std::path::Path, progress: &ScanProgress) {
    let state = match progress.passes {
        0 => "interrupted; the same command resumes it",
        _ => "complete",
    };
    let mut lines = vec![format!("{}: pass {state}", path.display())];
    let counters = progress.pass.counters();
    lines.extend(counters.iter().map(|(name, count)| format!("  {count:>12} {name}")));
    lines.extend(progress.findings.iter().map(|(page, flaw)| format!("  page {page}: {flaw}")));
    console::print(&format!("{}\n", jetcell_report::printable_lines(&lines.join("\n"))));
}
