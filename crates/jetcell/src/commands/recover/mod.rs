//! `jetcell recover`: replays logs on databases and brings them to a clean state.

mod options;
mod report;
mod working_set;

use std::io::{self, IsTerminal};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ese_engine::{
    AttachmentErrorKind, Error, EventSink, InstanceOptions, LogErrorKind, RecoveryPlan, RecoverySet,
    RecoverySummary, ReplaySummary, Replayer, TornPageProtection, UsageError,
};
use ese_format::header::{DatabaseHeader, DatabaseState};
use ese_format::{Generation, LogPosition};
use jetcell_vfs::{OpenMode, OverlayVfs, Vfs};

use self::options::mapping;
use self::report::{
    IgnoredFile, LostGenerations, RecoveredDatabase, RecoveryReport, ReplayedGenerations, ReplayedPages,
};
use self::working_set::WorkingSet;
use crate::console;
use crate::in_use::check_not_in_use;
use crate::outcome::{CommandContext, CommandError, CommandOutcome, CommandResult};
use crate::shared::files::{files, log_directory, vfs};
use crate::shared::replay_end::{ReplayEnd, until};

const EXAMPLES: &str = r"The logs may come from Windows or from Jetcell. The type of a file is determined from its content. All logs are verified before
anything is changed. Without --in-place, the command works on a copy, and the specified files are not changed.

Examples:
  jetcell recover --dry-run /evidence/sru
      which logs would be replayed, and which are missing
  jetcell recover /evidence/sru --into sru-recovered
      makes a copy, and recovers the databases in it
  jetcell recover logs/ mail.edb --map 'D:\Mail\db1.edb=mail.edb' --into recovered
  jetcell recover logs/ old.edb --until 5B --into before
      the state at the end of generation 5B, from an older copy of the database
  jetcell recover logs/ old.edb --until 2026-11-23T08:00:00Z --keep-dirty --into before
  jetcell recover --in-place /var/lib/app/logs
      changes the files themselves
  jetcell recover --json /evidence/sru --into out | jq .databases

Exit code: 0 recovered, 1 recovered with the loss that --allow-loss allowed, 2 could not recover, and nothing was changed. After an
I/O error with --in-place, repeat the command.";

/// Recover dirty databases with their logs, including databases from Windows
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RecoverArgs {
    /// Logs and databases, or directories that contain them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Copy the files into this directory, which must be empty or not exist, and recover the copies [default: the
    /// first path with "-recovered" appended to its name]
    #[arg(long, value_name = "DIR", conflicts_with = "in_place")]
    into: Option<PathBuf>,
    /// Modify the files themselves, after a trial run that changes nothing. The files are locked during the recovery,
    /// and an interrupted recovery can be repeated
    #[arg(long)]
    in_place: bool,
    /// Use the database or directory NEW where the log refers to OLD. A database whose name and signature match the
    /// log needs no mapping
    #[arg(long, value_name = "OLD=NEW", value_parser = mapping)]
    map: Vec<(String, PathBuf)>,
    /// Stop after a generation, before a log position, or at a time
    #[arg(long, value_name = "GENERATION|POSITION|TIME", value_parser = until)]
    until: Option<ReplayEnd>,
    /// Do not roll back unfinished transactions: the databases stay dirty, and more logs can be replayed
    #[arg(long)]
    keep_dirty: bool,
    /// Accept missing or damaged logs, if the databases are consistent without them
    #[arg(long)]
    allow_loss: bool,
    /// Only show what would be replayed, and which logs are missing
    #[arg(long)]
    dry_run: bool,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

/// The files that were found, and the replay plan.
struct PreparedRecovery {
    set: RecoverySet,
    plan: RecoveryPlan,
    until: LogPosition,
    lost: Vec<LostGenerations>,
}

impl RecoverArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        let report = self.recover()?;
        if self.json {
            let text = jetcell_input::json_line(&report)
                .context("could not write the report as JSON")
                .advise("repeat the command without --json")?;
            console::print_json(&format!("{text}\n"));
        } else {
            console::print_wrapped(report.text());
        }
        Ok(if report.lost.is_empty() { CommandOutcome::Good } else { CommandOutcome::Findings })
    }

    fn recover(&self) -> CommandResult<RecoveryReport> {
        if self.in_place && self.until.is_some() && !self.keep_dirty {
            return Err(
                CommandError::new("--until truncates the log").advise("use a copy (--into) or --keep-dirty")
            );
        }
        let vfs = vfs()?;
        let prepared = self.prepare(&vfs)?;
        let mut report = RecoveryReport {
            dry_run: self.dry_run,
            databases: prepared.set.databases.iter().map(describe_database).collect(),
            ignored: prepared
                .set
                .ignored
                .iter()
                .map(|(path, why)| IgnoredFile { path: path.clone(), why: why.clone() })
                .collect(),
            ..RecoveryReport::default()
        };
        if let (Some((first, _)), Some((last, _))) = (prepared.plan.logs.first(), prepared.plan.logs.last()) {
            report.generations = ReplayedGenerations { first: first.0, last: last.0 };
        }
        if prepared.until != LogPosition::MAX {
            report.position = Some(prepared.until.to_string());
        }
        if !self.dry_run {
            self.replay(&vfs, &prepared, &mut report)?;
        }
        report.lost = prepared.lost;
        Ok(report)
    }

    /// Finds the files, and verifies the logs.
    fn prepare(&self, vfs: &Arc<dyn Vfs>) -> CommandResult<PreparedRecovery> {
        let mut named = files(&self.paths)?;
        named.extend(self.map.iter().map(|(_, new)| new).filter(|new| new.is_file()).cloned());
        named.sort();
        named.dedup();
        let set = RecoverySet::find(vfs, &named)?;
        let until = match self.until {
            Some(until) => until.position(vfs, &set)?,
            None => LogPosition::MAX,
        };
        let mut plan = set.plan(until);
        let mut lost = Vec::new();
        if let Some((path, first, last)) = plan.required.take() {
            return Err(Error::LogsMissing { path, required: (first, last) }.into());
        }
        let newest = |plan: &RecoveryPlan| plan.logs.last().map_or(Generation(0), |(newest, _)| *newest);
        let stored = set.logs.last_key_value().map_or(Generation(0), |(last, _)| *last);
        if let Some(generation) = plan.missing.take() {
            if !self.allow_loss || plan.logs.is_empty() {
                let path = self.paths.first().cloned().unwrap_or_default();
                let missing = Error::LogMissing { path, generation };
                return Err(recovery_error(foreign_log(&set, &plan, generation).unwrap_or(missing)));
            }
            lost.push(LostGenerations {
                first: generation.0,
                last: abandoned_generation(&set, newest(&plan)).unwrap_or(stored).max(generation).0,
                why: "missing, or after a gap".into(),
            });
        } else if let Some(committed) = plan.committed.or_else(|| abandoned_generation(&set, newest(&plan))) {
            let first = newest(&plan).next();
            if !self.allow_loss {
                let path = set.databases.first().map(|database| database.path.clone()).unwrap_or_default();
                return Err(recovery_error(Error::CommittedLogsMissing {
                    path,
                    committed: (first, committed),
                }));
            }
            lost.push(LostGenerations { first: first.0, last: committed.0, why: "missing".into() });
        }
        let creates = loop {
            let error = match set.verify(vfs, &plan, until) {
                Ok(creates) => break creates,
                Err(error) => error,
            };
            let Error::Log { position, .. } = &error else { return Err(recovery_error(error)) };
            let bad = position.generation;
            let needed = |path: &&ese_engine::DiscoveredDatabase| {
                path.header.state == DatabaseState::DirtyShutdown && path.header.gen_max_required >= bad
            };
            let first = plan.logs.first().map_or(Generation(0), |(first, _)| *first);
            if !self.allow_loss || bad <= first || set.databases.iter().any(|database| needed(&database)) {
                return Err(recovery_error(error));
            }
            lost.clear();
            lost.push(LostGenerations { first: bad.0, last: stored.0, why: error.to_string() });
            plan.logs.retain(|(generation, _)| *generation < bad);
        };
        if set.databases.is_empty() && !creates {
            return Err(no_database(&plan));
        }
        Ok(PreparedRecovery { set, plan, until, lost })
    }

    fn replay(
        &self,
        vfs: &Arc<dyn Vfs>,
        prepared: &PreparedRecovery,
        report: &mut RecoveryReport,
    ) -> CommandResult<()> {
        let PreparedRecovery { set, plan, until, .. } = prepared;
        if self.in_place {
            let directory = log_directory(plan)?;
            let lock = directory.join(format!("{}.lock", set.base_name));
            let databases = set.databases.iter().map(|database| database.path.as_path());
            check_not_in_use(databases.chain([lock.as_path()]), false)?;
            // Only redo can detect a page that does not match the logs. Redo is therefore first tried on an overlay,
            // which leaves the files unchanged.
            let trial = overlay(vfs, &directory)?;
            let work = WorkingSet::in_place(&*trial, set, plan, &self.map, !self.keep_dirty)?;
            progress("running a trial recovery without changes");
            self.run_replay(&trial, set, &work, *until).map_err(recovery_error)?;
        }
        let mut work = if self.in_place {
            WorkingSet::in_place(&**vfs, set, plan, &self.map, !self.keep_dirty)?
        } else {
            let cut = (!self.keep_dirty && *until != LogPosition::MAX).then_some(*until);
            WorkingSet::copied(vfs, set, plan, &self.directory(), &self.map, cut)?
        };
        let (replayed, recovery) = self.run_replay(vfs, set, &work, *until).map_err(recovery_error)?;
        work.keep(set.base_name)?;
        report.directory = Some(work.directory.clone());
        report.position = Some(replayed.position.to_string());
        report.records.clone_from(&replayed.records);
        report.pages = ReplayedPages {
            read: replayed.pages_read,
            changes: replayed.changed,
            written: replayed.pages_written,
        };
        report.undone = recovery.rolled_back;
        report.incomplete_macros = replayed.incomplete_macros;
        let names = files(std::slice::from_ref(&work.directory))?;
        let after = if self.in_place {
            set.databases.iter().map(|database| database.path.clone()).chain(names).collect()
        } else {
            names
        };
        report.databases = states(vfs, set, after);
        Ok(())
    }

    fn run_replay(
        &self,
        vfs: &Arc<dyn Vfs>,
        set: &RecoverySet,
        work: &WorkingSet,
        until: LogPosition,
    ) -> ese_engine::Result<(ReplaySummary, RecoverySummary)> {
        let mut options = InstanceOptions::with_vfs(vfs.clone(), work.directory.clone());
        options.log.base_name = set.base_name;
        options.recovery.database_paths = work.paths.clone();
        options.log.names = set.log_names;
        options.recovery.accept_lost_logs = self.allow_loss || until != LogPosition::MAX;
        options.events.sink = work.events.clone().map(|file| Arc::new(file) as Arc<dyn EventSink>);
        if work.is_copy() {
            // Torn pages need no protection, because an interrupted recovery starts again with a new copy.
            options.torn_page_protection = TornPageProtection::Off;
        }
        let logs = &work.logs;
        let Some((first, path)) = logs.first() else {
            return Err(UsageError::NothingFound.into());
        };
        let mut replayer = Replayer::open(options, path)?;
        for (index, (generation, path)) in logs.iter().enumerate() {
            progress(&format!("replaying generation {:X} ({} of {})", generation.0, index + 1, logs.len()));
            if index + 1 == logs.len() {
                replayer.replay_until(path, until)?;
            } else {
                replayer.replay(path)?;
            }
        }
        debug_assert!(replayer.position().generation >= *first);
        if self.keep_dirty { Ok((replayer.stop()?, RecoverySummary::default())) } else { replayer.finish() }
    }

    /// Returns the directory of the copy.
    fn directory(&self) -> PathBuf {
        self.into.clone().unwrap_or_else(|| {
            let first = self.paths.first().map_or(Path::new("."), PathBuf::as_path);
            let first = std::path::absolute(first).unwrap_or_else(|_| first.to_path_buf());
            let mut name = first.file_name().unwrap_or_default().to_owned();
            name.push("-recovered");
            first.with_file_name(name)
        })
    }
}

/// Returns the error of a recovery, with advice about the options of this command.
fn recovery_error(error: Error) -> CommandError {
    let advice = match &error {
        Error::LogMissing { .. } | Error::CommittedLogsMissing { .. } => {
            "restore it, or, if the databases do not need it, use --allow-loss to accept the loss"
        }
        Error::Attachment {
            fault: AttachmentErrorKind::NotFound | AttachmentErrorKind::OtherDatabase,
            ..
        } => {
            let more = "use --map OLD=NEW to specify the location of a database";
            return CommandError::from(error).add_advice(more);
        }
        _ => return error.into(),
    };
    CommandError::from(error).advise(advice)
}

/// Prints the current step if stderr is a terminal.
fn progress(line: &str) {
    if io::stderr().is_terminal() {
        console::print_note(line);
    }
}

/// Creates a file system that stores all changes in an unnamed file in `directory`.
fn overlay(vfs: &Arc<dyn Vfs>, directory: &Path) -> CommandResult<Arc<dyn Vfs>> {
    let scratch = tempfile::tempfile_in(directory).context(directory.display())?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", scratch.as_raw_fd()));
    let opened = vfs.open(&path, OpenMode::Write).context(directory.display())?;
    Ok(Arc::new(OverlayVfs::new(vfs.clone(), opened)))
}

/// Returns the newest generation that an interrupted earlier recovery discarded.
fn abandoned_generation(set: &RecoverySet, newest: Generation) -> Option<Generation> {
    let is_dirty =
        |database: &ese_engine::DiscoveredDatabase| database.header.state == DatabaseState::DirtyShutdown;
    let (first, last) = set.set_aside.filter(|_| set.databases.iter().any(is_dirty))?;
    (first > newest).then_some(last)
}

/// Returns an error if the file that has the name of a missing generation belongs to another log stream.
fn foreign_log(set: &RecoverySet, plan: &RecoveryPlan, generation: Generation) -> Option<Error> {
    let newest = plan.logs.last().map_or(Generation(0), |(newest, _)| *newest);
    let names = [set.name_of(generation, generation), set.name_of(generation, newest)];
    let is_named = |path: &&PathBuf| {
        path.file_name().is_some_and(|name| names.iter().any(|wanted| **wanted == *name.to_string_lossy()))
    };
    let path = set.ignored.iter().map(|(path, _)| path).find(is_named)?.clone();
    let position = LogPosition { generation, segment: 0, offset: 0 };
    Some(Error::Log { path, position, fault: LogErrorKind::OtherStream })
}

/// Returns the error for logs that have no database and do not create one.
fn no_database(plan: &RecoveryPlan) -> CommandError {
    let path = plan.logs.first().map(|(_, path)| path.clone()).unwrap_or_default();
    CommandError::from(Error::Attachment { path, fault: AttachmentErrorKind::NoDatabase })
        .advise("specify the databases, or restore the earlier logs")
}

fn state(header: &DatabaseHeader) -> String {
    match header.state {
        DatabaseState::CleanShutdown => "clean".to_string(),
        DatabaseState::DirtyShutdown => format!(
            "dirty, needs generations {:X} to {:X}",
            header.gen_min_required.0, header.gen_max_required.0
        ),
        other => format!("{other:?}"),
    }
}

fn describe_database(database: &ese_engine::DiscoveredDatabase) -> RecoveredDatabase {
    RecoveredDatabase { path: database.path.clone(), before: state(&database.header), after: String::new() }
}

/// Returns the stream's databases after the recovery, with their previous states.
fn states(vfs: &Arc<dyn Vfs>, before: &RecoverySet, files: Vec<PathBuf>) -> Vec<RecoveredDatabase> {
    let Ok(after) = RecoverySet::find(vfs, &files) else { return Vec::new() };
    let mut databases: Vec<RecoveredDatabase> = Vec::new();
    for database in after.databases {
        if databases.iter().any(|known| known.path == database.path) {
            continue;
        }
        let name = database.path.file_name();
        let earlier = before.databases.iter().find(|one| one.path.file_name() == name);
        databases.push(RecoveredDatabase {
            before: earlier.map_or("absent".to_string(), |one| state(&one.header)),
            after: state(&database.header),
            path: database.path,
        });
    }
    databases
}
