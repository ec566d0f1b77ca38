//! `jetcell maintain`: verifies the pages of the databases of a stopped instance, overwrites what deleted data leave behind,
//! merges sparse pages, and returns free space to the file system.

mod of_copy;
mod shown;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use ese_engine::{
    Database, DatabasePaths, DefragOptions, EventProfile, EventSink, Instance, InstanceOptions, RecoverySet,
    ScanOptions, ScanTurn, Throttle,
};
use ese_format::LogPosition;
use jetcell_vfs::{Vfs, parent_directory};
use jetcell_workload::EventFile;
use jetcell_workload::units::{ByteSize, TimeSpan};

use self::shown::{Maintained, ReturnedSpace, Tasks};
use crate::commands::backup::vfs;
use crate::commands::recover::{explained, files, log_directory};
use crate::commands::transfer_progress::rate;
use crate::console;
use crate::in_use::refuse_in_use;
use crate::outcome::{Failure, Outcome, print_error};

const EXAMPLES: &str = "\
The instance must not be running. Dirty databases are recovered first. Of a passive copy, only a scan is possible, also while it is
followed; its progress outlives an activation. Ctrl-C stops the pass; the same command resumes it.
Defragmentation comes first, then shrink and trim, then one pass that scans and zeroes.
What happens is written to events.jsonl beside the logs; jetcell events shows it.

Examples:
  jetcell maintain /var/lib/app
      verifies every page of all databases
  jetcell maintain /mnt/other/app-copy
      verifies every page of a passive copy
  jetcell maintain /var/lib/app --tasks scan,zero
      also overwrites what deleted records and freed pages leave behind
  jetcell maintain /var/lib/app --tasks defrag
      merges sparse pages and frees those that become empty; says how many pages were read for each one freed
  jetcell maintain /var/lib/app --tasks defrag,shrink,trim
      also returns free space to the file system: the end of the file is cut off, and free extents inside become holes
  jetcell maintain jetcell-run/log001 jetcell-run/Jetstress001001.edb --pause 100ms
      one database of a test, as slowly as Jetstress scans
  jetcell maintain /var/lib/app --rate 50MB/s --batch 320KiB --json

Exit code: 0 no bad page, 1 bad pages, or stopped before the end, 2 could not run.";

/// Time between two looks at the progress.
const LOOK: Duration = Duration::from_millis(100);
/// Time between two lines of progress on a terminal.
const LINE: Duration = Duration::from_secs(2);

/// Verifies, zeroes and defragments the databases of a stopped instance
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Maintain {
    /// Logs and databases of the instance, or directories with them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// What is done: scan verifies pages, zero overwrites deleted data and needs scan, defrag merges sparse pages, shrink
    /// cuts the free end of the file off, trim punches holes where the file is free
    #[arg(long, value_enum, value_delimiter = ',', default_value = "scan", value_name = "TASKS")]
    tasks: Vec<Task>,
    /// Pause after each read, or each 32 pages that defrag looks at; up to 60s
    #[arg(long, default_value = "0ms", value_name = "TIME")]
    pause: TimeSpan,
    /// Bytes of one read, 64KiB to 16MiB [Exchange 2007 SP1: 320KiB, 2013: 256KiB]
    #[arg(long, default_value = "256KiB", value_name = "SIZE")]
    batch: ByteSize,
    /// Limit the load on the disks, for each database
    #[arg(long, value_name = "BYTES/S", value_parser = rate)]
    rate: Option<ByteSize>,
    /// Back off while reads take longer on average, as other programs use the disk
    #[arg(long, value_name = "TIME")]
    latency_target: Option<TimeSpan>,
    /// Defragmentation also moves records if not all of a page fit the next one: frees more, changes far more pages
    #[arg(long)]
    partial_merges: bool,
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
    /// Merge sparse pages
    Defrag,
    /// Cut the free end of the file off
    Shrink,
    /// Punch holes into the file where it is free
    Trim,
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

    fn numbers(&self) -> EventProfile {
        match self.event_profile {
            Numbers::Sp1 => EventProfile::Sp1,
            Numbers::Article => EventProfile::Sp1Article,
            Numbers::Modern => EventProfile::Modern,
        }
    }

    fn throttle(&self) -> Throttle {
        Throttle {
            pause: self.pause.0,
            bytes_per_second: self.rate.map(|rate| rate.0),
            read_latency_target: self.latency_target.map(|target| target.0),
        }
    }

    /// The settings of the scan, if there is to be one.
    fn scan(&self) -> Result<Option<ScanOptions>, Failure> {
        let [scan, zero] = [Task::Scan, Task::Zero].map(|task| self.tasks.contains(&task));
        if zero && !scan {
            return Err("--tasks zero needs scan: one pass does both; write --tasks scan,zero".into());
        }
        let options = ScanOptions {
            throttle: self.throttle(),
            batch_bytes: usize::try_from(self.batch.0).unwrap_or(usize::MAX),
            zero,
            keep_progress: true,
            single_pass: true,
            ..ScanOptions::default()
        };
        options.check().map_err(|error| Failure::from(error.to_string()))?;
        Ok(scan.then_some(options))
    }

    /// The settings of defragmentation, if there is to be one.
    fn defragmentation(&self) -> Result<Option<DefragOptions>, Failure> {
        let wanted = self.tasks.contains(&Task::Defrag);
        if self.partial_merges && !wanted {
            return Err("--partial-merges is for defragmentation: write --tasks defrag".into());
        }
        let options = DefragOptions {
            throttle: self.throttle(),
            partial_merges: self.partial_merges,
            keep_progress: true,
            single_pass: true,
            ..DefragOptions::default()
        };
        options.check().map_err(|error| Failure::from(error.to_string()))?;
        Ok(wanted.then_some(options))
    }

    fn maintain(&self) -> Result<Outcome, Failure> {
        let (scan, defragmentation) = (self.scan()?, self.defragmentation()?);
        let vfs = vfs()?;
        if let Some(copy) = of_copy::only_copy(&vfs, &self.paths)? {
            return self.scan_copy(&vfs, copy);
        }
        let set = RecoverySet::find(&vfs, &files(&self.paths)?).map_err(explained)?;
        let Some(first) = set.databases.first() else {
            return Err("there is no database of these logs; name its file, too".into());
        };
        let directory = log_directory(&set.plan(LogPosition::MAX))?;
        let lock = directory.join(format!("{}.lock", set.base_name));
        let databases = set.databases.iter().map(|database| database.path.as_path());
        refuse_in_use(databases.chain([lock.as_path()]), false)?;
        let stop = stop_on_ctrl_c()?;
        let events = EventFile::open(&directory, true)
            .map_err(|error| format!("{}: {error}", directory.join("events.jsonl").display()))?;
        let mut of_instance = InstanceOptions::with_vfs(vfs.clone(), directory);
        of_instance.base_name.clone_from(&set.base_name);
        of_instance.log_names = set.log_names;
        of_instance.page_size = first.header.page_size;
        of_instance.events = Some(Arc::new(events) as Arc<dyn EventSink>);
        of_instance.event_profile = self.numbers();
        let mut paths = DatabasePaths::default();
        set.databases.iter().for_each(|database| paths.search(parent_directory(&database.path)));
        of_instance.database_paths = paths;
        let instance = Instance::open(of_instance).map_err(explained)?;
        let done = self.attach(&vfs, &instance, &set).and_then(|attached| {
            if let Some(options) = &defragmentation {
                defragment(&instance, &attached, options, &stop)?;
            }
            let mut space = self.return_space(&instance, &attached, &stop)?;
            if let Some(options) = &scan {
                run_scan(&instance, &attached, options, &stop)?;
            }
            let with_space = |(database, _): &Attached| Maintained::of(database, space.remove(0));
            Ok(attached.iter().map(with_space).collect::<Vec<_>>())
        });
        let closed = instance.shutdown().map_err(explained);
        let results = done?;
        closed?;
        let tasks = Tasks {
            scan: scan.is_some(),
            defragmentation: defragmentation.is_some(),
            shrink: self.tasks.contains(&Task::Shrink),
            trim: self.tasks.contains(&Task::Trim),
        };
        Ok(shown::show(&results, tasks, self.json))
    }

    /// Shrinks and trims one database after the other.
    fn return_space(
        &self,
        instance: &Instance,
        attached: &[Attached],
        stop: &AtomicBool,
    ) -> Result<Vec<ReturnedSpace>, Failure> {
        let wanted = |task| self.tasks.contains(&task) && !stop.load(Ordering::SeqCst);
        let begins = |database: &Database, what: &str| {
            if std::io::stderr().is_terminal() {
                console::note(&format!("{}: {what}", database.path().display()));
            }
        };
        let mut returned = Vec::new();
        for (database, _) in attached {
            let mut space = ReturnedSpace::default();
            if wanted(Task::Shrink) {
                begins(database, "cutting the free end off");
                space.shrink = Some(instance.shrink(database).map_err(explained)?);
            }
            if wanted(Task::Trim) {
                begins(database, "punching holes");
                space.trim = Some(instance.trim(database).map_err(explained)?);
            }
            returned.push(space);
        }
        Ok(returned)
    }

    /// Attaches the databases, each with the turn that it shares with the others on its disk.
    fn attach(
        &self,
        vfs: &Arc<dyn Vfs>,
        instance: &Arc<Instance>,
        set: &RecoverySet,
    ) -> Result<Vec<Attached>, Failure> {
        let mut attached: Vec<Attached> = Vec::new();
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
            attached.push((database, (!self.parallel).then_some(turn)));
        }
        Ok(attached)
    }
}

/// Becomes true at the first Ctrl-C; the second one ends the program.
fn stop_on_ctrl_c() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = stop.clone();
    let handler = move || {
        if asked.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
    };
    ctrlc::set_handler(handler).map_err(|error| format!("Ctrl-C cannot be handled: {error}"))?;
    Ok(stop)
}

/// An attached database, and the turn that it waits for.
type Attached = (Arc<Database>, Option<Arc<ScanTurn>>);

/// What a task is doing.
struct TaskState {
    running: bool,
    failure: Option<String>,
    line: String,
}

/// Defragments each database once.
fn defragment(
    instance: &Arc<Instance>,
    attached: &[Attached],
    options: &DefragOptions,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    for (database, turn) in attached {
        let options = DefragOptions { turn: turn.clone(), ..options.clone() };
        instance.start_defragmentation(database, options).map_err(explained)?;
    }
    let ended = wait(attached, stop, |database| {
        let progress = database.defrag_progress();
        let line = format!("{} pages visited, {} freed", progress.pages_visited, progress.pages_freed);
        TaskState { running: progress.running, failure: progress.failure, line }
    });
    attached.iter().for_each(|(database, _)| instance.stop_defragmentation(database));
    ended
}

/// Scans each database once.
fn run_scan(
    instance: &Arc<Instance>,
    attached: &[Attached],
    options: &ScanOptions,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    if stop.load(Ordering::SeqCst) {
        return Ok(());
    }
    for (database, turn) in attached {
        let options = ScanOptions { turn: turn.clone(), ..options.clone() };
        instance.start_maintenance(database, options).map_err(explained)?;
    }
    let ended = wait(attached, stop, |database| {
        let progress = database.scan_progress();
        let page = progress.position.map_or(0, |page| page.get());
        let line = format!("page {page}, {} bad", progress.pass.bad);
        TaskState { running: progress.running, failure: progress.failure, line }
    });
    attached.iter().for_each(|(database, _)| instance.stop_scan(database));
    ended
}

/// Waits until no task is running, or until it is to stop.
fn wait(
    attached: &[Attached],
    stop: &AtomicBool,
    state: impl Fn(&Database) -> TaskState,
) -> Result<(), Failure> {
    let mut told = Instant::now();
    loop {
        let states = attached.iter().map(|(database, _)| (database.path(), state(database)));
        let states: Vec<_> = states.collect();
        if let Some((path, what)) =
            states.iter().find_map(|(path, state)| Some((path, state.failure.as_ref()?)))
        {
            return Err(format!("{}: {what}; the same command resumes the pass", path.display()).into());
        }
        if stop.load(Ordering::SeqCst) || !states.iter().any(|(_, state)| state.running) {
            return Ok(());
        }
        if std::io::stderr().is_terminal() && told.elapsed() > LINE {
            told = Instant::now();
            for (path, state) in states.iter().filter(|(_, state)| state.running) {
                console::note(&format!("{}: {}", path.display(), state.line));
            }
        }
        std::thread::sleep(LOOK);
    }
}
