//! `jetcell maintain`: verifies the database pages of a stopped instance, overwrites deleted data, merges sparse
//! pages, moves pages into key order, and returns free space to the file system.

mod output;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ese_engine::{
    DefragKind, DefragOptions, EventProfile, MaintenanceThrottle, MaintenanceWindow, ScanOptions,
};
use jetcell_copies::ScannedDatabase;
use jetcell_host::{ProgressReport, cancelled_by_signals, completed_share};
use jetcell_input::quantity::ByteRate;
use jetcell_report::StyledText;
use jetcell_workload::maintenance::{
    DatabaseMaintenanceResult, MaintenanceProgress, MaintenanceReport, MaintenanceRequest,
};
use jetcell_workload::units::{ByteSize, TimeSpan};
use serde_json::{Value, json};

use crate::commands::copies::scan_json;
use crate::console;
use crate::outcome::{CommandError, CommandOutcome, CommandResult};
use crate::shared::files::vfs;
use crate::shared::json::json_with_evidence;

const EXAMPLES: &str = "\
The instance must not be running. Dirty databases are recovered first. A passive copy can only be scanned, even while it is being
updated; the progress of the scan survives an activation. Ctrl-C stops the pass; the same command resumes it.
Defragmentation runs first, then layout, then shrink and trim, then one pass that scans and zeroes. With a window, scan, defrag
and layout each get an equal part of it, and shrink and trim run last.
Events are written to events.jsonl next to the logs; jetcell events shows them.

Examples:
  jetcell maintain /var/lib/app
      verifies every page of all databases
  jetcell maintain /mnt/other/app-copy
      verifies every page of a passive copy
  jetcell maintain /var/lib/app --tasks scan,zero
      also overwrites the remains of deleted records and freed pages
  jetcell maintain /var/lib/app --tasks defrag
      merges sparse pages and frees pages that become empty; shows the number of pages read per freed page
  jetcell maintain /var/lib/app --tasks layout
      moves the pages of scattered tables and indexes into key order
  jetcell maintain /var/lib/app --tasks defrag,shrink,trim
      also returns free space to the file system: the file is truncated, and free extents inside become holes
  jetcell maintain jetcell-run/log001 jetcell-run/Jetstress001001.edb --pause 100ms
      one database of a test, at the scan rate of Jetstress
  jetcell maintain jetcell-run
      all databases of a test, one log stream after the other
  jetcell maintain /var/lib/app --tasks scan,zero,defrag --maintenance-window 'daily 01:00 4h +01:00'
      waits for the window, works in it, and continues in the next window until all work is done
  jetcell maintain /var/lib/app --rate 50MB/s --batch 320KiB --json

If a task fails on a database, that database is skipped, and the others are completed.

Exit code: 0 no bad pages, 1 bad pages, or stopped before the end, 2 could not run, or could not complete each database.";

/// Verify, zero and defragment the databases of a stopped instance
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct MaintainArgs {
    /// Logs and databases of the instance, or directories that contain them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Tasks to run: scan verifies pages, zero overwrites deleted data and needs scan, defrag merges sparse pages,
    /// layout moves scattered pages into key order, shrink truncates free space at the end of the file, trim punches
    /// holes in free parts of the file
    #[arg(long, value_enum, value_delimiter = ',', default_value = "scan", value_name = "TASKS")]
    tasks: Vec<MaintainTaskName>,
    /// Pause after each read, or after each 32 pages that defrag or layout examines; up to 60s
    #[arg(long, default_value = "0ms", value_name = "TIME")]
    pause: TimeSpan,
    /// Size of each read, 64KiB to 16MiB [Exchange 2007 SP1: 320KiB, 2013: 256KiB]
    #[arg(long, default_value = "256KiB", value_name = "SIZE")]
    batch: ByteSize,
    /// Limit the disk transfer rate of each database
    #[arg(long, value_name = "BYTES/S")]
    rate: Option<ByteRate>,
    /// Back off while the mean read latency exceeds this time, which indicates that other programs use the disk
    #[arg(long, value_name = "TIME")]
    latency_target: Option<TimeSpan>,
    /// Let defragmentation also move single records if a whole page does not fit into the next page: frees more
    /// space, changes many more pages
    #[arg(long)]
    partial_merges: bool,
    /// Work only in this window: days, start and length such as "mon-fri 01:00 4h", in UTC or with an offset such as
    /// +01:00. The window is divided equally among scan, defrag and layout, and then among the databases in a
    /// directory, which run one after the other
    #[arg(long, value_name = "WINDOW")]
    maintenance_window: Option<MaintenanceWindow>,
    /// Work on all databases at the same time, even if they are on one disk
    #[arg(long)]
    parallel: bool,
    /// Set of event numbers: sp1 (Exchange 2007 SP1), article (the article about it) or modern (current builds)
    #[arg(long, default_value = "sp1", value_name = "PROFILE")]
    event_profile: EventProfile,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MaintainTaskName {
    /// Verify pages
    Scan,
    /// Overwrite deleted data
    Zero,
    /// Merge sparse pages
    Defrag,
    /// Move scattered pages into key order
    Layout,
    /// Truncate free space at the end of the file
    Shrink,
    /// Punch holes in free parts of the file
    Trim,
}

impl MaintainArgs {
    fn throttle(&self) -> MaintenanceThrottle {
        MaintenanceThrottle {
            pause: self.pause.0,
            bytes_per_second: self.rate.map(|rate| rate.0),
            read_latency_target: self.latency_target.map(|target| target.0),
        }
    }

    /// Returns the options of the scan, or `None` if no scan was requested.
    fn scan(&self) -> CommandResult<Option<ScanOptions>> {
        let [scan, zero] =
            [MaintainTaskName::Scan, MaintainTaskName::Zero].map(|task| self.tasks.contains(&task));
        if zero && !scan {
            return Err(CommandError::new("--tasks zero requires scan, because one pass does both")
                .advise("use --tasks scan,zero"));
        }
        let options = ScanOptions {
            throttle: self.throttle(),
            batch_bytes: usize::try_from(self.batch.0).unwrap_or(usize::MAX),
            zero,
            keep_progress: true,
            single_pass: true,
            ..ScanOptions::default()
        };
        options.check()?;
        Ok(scan.then_some(options))
    }

    /// Returns the options of the defragmentations.
    fn defragmentations(&self) -> CommandResult<Vec<DefragOptions>> {
        let kinds = [
            (MaintainTaskName::Defrag, DefragKind::Compaction),
            (MaintainTaskName::Layout, DefragKind::SequentialLayout),
        ];
        let wanted: Vec<DefragKind> =
            kinds.into_iter().filter(|(task, _)| self.tasks.contains(task)).map(|(_, kind)| kind).collect();
        if self.partial_merges && wanted.is_empty() {
            return Err(CommandError::new("--partial-merges applies only to defragmentation")
                .advise("use --tasks defrag"));
        }
        let options = |kind| DefragOptions {
            kind,
            throttle: self.throttle(),
            partial_merges: self.partial_merges,
            keep_progress: true,
            single_pass: true,
            ..DefragOptions::default()
        };
        let all: Vec<DefragOptions> = wanted.into_iter().map(options).collect();
        all.iter().try_for_each(DefragOptions::check)?;
        Ok(all)
    }

    /// Runs the command.
    pub fn run(self) -> CommandResult {
        let request = MaintenanceRequest {
            scan: self.scan()?,
            defragmentations: self.defragmentations()?,
            shrink: self.tasks.contains(&MaintainTaskName::Shrink),
            trim: self.tasks.contains(&MaintainTaskName::Trim),
            window: self.maintenance_window,
            parallel: self.parallel,
            event_profile: self.event_profile,
            paths: self.paths,
        };
        let stop = cancelled_by_signals()?;
        let mut line = ProgressReport::new(Duration::MAX);
        let report = request.run(&vfs()?, &stop, &mut |progress| show_progress(&mut line, progress));
        drop(line);
        match report? {
            MaintenanceReport::Copy(directory, scan) => {
                let complete = !stop.is_cancelled();
                let databases = || scan_json(&directory, &scan);
                console::print_serialized(
                    self.json,
                    || result_json(&request, complete, databases()),
                    || output::copy_as_text(&directory, &scan),
                )?;
                let is_sound = scan.databases.iter().all(|database| database.bad == 0);
                Ok(CommandOutcome::good_if(complete && is_sound))
            }
            MaintenanceReport::Instance(results) => {
                let is_complete =
                    |result: &DatabaseMaintenanceResult| result.is_complete && result.failure.is_none();
                let complete = !stop.is_cancelled() && results.iter().all(is_complete);
                let databases = || results.iter().map(output::as_json).collect();
                let text = || {
                    let mut text = StyledText::new();
                    results.iter().for_each(|result| text.append(output::as_text(result)));
                    text
                };
                console::print_serialized(self.json, || result_json(&request, complete, databases()), text)?;
                if results.iter().any(|result| result.failure.is_some()) {
                    return Ok(CommandOutcome::CouldNotRun);
                }
                let is_sound = results.iter().all(DatabaseMaintenanceResult::is_sound);
                Ok(CommandOutcome::good_if(complete && is_sound))
            }
        }
    }
}

fn result_json(
    request: &MaintenanceRequest,
    complete: bool,
    databases: Vec<Value>,
) -> serde_json::Result<String> {
    json_with_evidence(json!({ "complete": complete, "databases": databases }), &request.paths)
}

/// Shows progress on a terminal. Failures are always shown.
fn show_progress(report: &mut ProgressReport, progress: MaintenanceProgress<'_>) {
    match progress {
        MaintenanceProgress::Database(line) if std::io::stderr().is_terminal() => console::print_note(line),
        MaintenanceProgress::Database(_) => {}
        MaintenanceProgress::Copy(ScannedDatabase { file, next, bad, .. }, last) => {
            let is_due = report.is_due();
            if let Some(line) = report.line().filter(|_| is_due) {
                let page = next.unwrap_or(last).min(last);
                let details = format!("page {page} of {last}, {bad} bad");
                line.show(file, completed_share(page.into(), last.into()), &details);
            }
        }
        MaintenanceProgress::Failed(failure) => {
            output::failure_error(failure).print();
        }
    }
}
