//! `jetcell backup`: backs up an instance that is not running, and reports the age of the last good backup.

mod age;
mod each_stream;
mod prove;
mod snapshot;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use ese_engine::RecoverySet;
use ese_format::LogTime;
use ese_format::recognise::has_database_or_log_extension;
use jetcell_backup::{
    BackupError, BackupList, BackupOptions, BackupResult, BackupType, StreamBackup, back_up_stopped,
    discard_empty_set, find_stream_backup, plan_stream_backups, snapshot_stopped,
};
use jetcell_copies::{CopyState, ReplayPause};
use jetcell_input::json_path;
use jetcell_input::number::human_bytes;
use jetcell_input::quantity::ByteRate;
use jetcell_vfs::{Vfs, files_at};
use jetcell_workload::units::TimeSpan;
use serde_json::json;

use self::each_stream::{StreamResults, back_up_each};
use crate::console;
use crate::outcome::{CommandError, CommandOutcome, CommandResult};
use crate::shared::files::{absolute, refuse_inside, vfs};
use crate::shared::json::json_with_evidence;
use crate::shared::transfer_progress::TransferProgress;

const EXAMPLES: &str = "The instance must be stopped or must have crashed. A running engine makes backups through its API.
A passive copy may be updated during its backup: replay pauses until the backup completes, and logs are still copied.
If the files belong to several log streams, as those of a test do, each stream gets a subdirectory with its backup.
Every page and every log is verified. The source is not changed, unless --remove-logs is specified.
The same command continues an interrupted backup, except for snapshots. If the backup is already complete and the source is
unchanged, the command reports that.

Examples:
  jetcell backup --from /var/lib/app --to /backup/sunday
      databases, and the logs that they need
  jetcell backup --from /var/lib/app --to /backup/monday --incremental
      the logs since the newest backup below /backup
  jetcell backup --from /var/lib/app --to /backup/tuesday --differential --base /backup/sunday
  jetcell backup --from /var/lib/app --to /backup/copy --copy --rate 50MB/s
  jetcell backup --from /mnt/other/app-copy --to /backup/sunday
      a passive copy, which puts no load on the instance
  jetcell backup --from /var/lib/app --to /var/lib/app-monday --snapshot reflink
      files that share their blocks with the originals
  jetcell backup --from /tank/app --to /backup/app --snapshot command --snapshot-command \\
    'zfs snapshot tank/app@b && zfs clone -o mountpoint=$JETCELL_SNAPSHOT tank/app@b tank/app-b'
  jetcell backup --age /backup --max-age 26h
      fails if the last good backup is older
  jetcell backup prove /backup
      restores the newest backup into a scratch directory, and checks the result
  jetcell check /backup/sunday
      verifies a backup
  jetcell restore /backup/sunday /backup/monday --to restored

Exit code: 0 complete, 1 complete except for databases with bad pages, 2 no backup was made, or not of each log stream. With --age: 1
there is no good backup, the last one is older than --max-age, or one is unreadable. prove: 0 proved, 1 the backup is bad, there is none,
or one that may be newer cannot be read, 2 the proof could not be completed.";

/// Back up the databases and logs of a stopped instance
#[derive(Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct BackupArgs {
    #[command(subcommand)]
    command: Option<BackupCommand>,
    /// Directory with the instance's logs and databases; may be repeated
    #[arg(long, value_name = "DIR", required_unless_present = "age")]
    from: Vec<PathBuf>,
    /// Directory for the backup: empty, new, or with an interrupted backup of the same instance
    #[arg(long, value_name = "DIR", required_unless_present = "age")]
    to: Option<PathBuf>,
    /// Back up only the logs since the last full or incremental backup
    #[arg(long, group = "kind")]
    incremental: bool,
    /// Back up only the logs since the last full backup
    #[arg(long, group = "kind")]
    differential: bool,
    /// Back up everything, outside the sequence of incremental backups
    #[arg(long, group = "kind")]
    copy: bool,
    /// Backup that an incremental or differential backup continues [default: the newest backup in the parent
    /// directory of --to]
    #[arg(long, value_name = "BACKUP")]
    base: Option<PathBuf>,
    /// Limit the rate of disk transfers
    #[arg(long, value_name = "BYTES/S")]
    rate: Option<ByteRate>,
    /// Remove logs from the source that are in the backup, if all databases were shut down cleanly
    #[arg(long, conflicts_with_all = ["copy", "differential"])]
    remove_logs: bool,
    #[command(flatten)]
    snapshot: snapshot::SnapshotArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Show the age of the last good backup and the last proof (specify a backup or a directory of backups)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["from", "to", "kind", "base", "rate", "remove_logs", "snapshot"])]
    age: Option<PathBuf>,
    /// Maximum age of the last good backup
    #[arg(long, value_name = "TIME", requires = "age")]
    max_age: Option<TimeSpan>,
}

#[derive(Subcommand)]
enum BackupCommand {
    /// Prove that the newest backup can be restored
    Prove(prove::ProveArgs),
}

/// A passive copy whose replay is paused until this guard is dropped.
struct PausedCopy {
    directory: PathBuf,
    state: CopyState,
    _pause: ReplayPause,
}

impl BackupArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        if let Some(BackupCommand::Prove(prove)) = &self.command {
            return prove.run();
        }
        match &self.age {
            Some(directory) => age::print_backup_age(directory, self.max_age, self.json),
            None => self.back_up(),
        }
    }

    fn kind(&self) -> BackupType {
        match (self.incremental, self.differential, self.copy) {
            (true, ..) => BackupType::Incremental,
            (_, true, _) => BackupType::Differential,
            (.., true) => BackupType::Copy,
            _ => BackupType::Full,
        }
    }

    fn back_up(&self) -> CommandResult {
        let Some(to) = &self.to else {
            return Err(
                CommandError::new("a backup requires a target directory").advise("specify it with --to")
            );
        };
        let vfs = vfs()?;
        for from in &self.from {
            refuse_inside(from, to)?;
        }
        let copy = self.pause(&vfs)?;
        let mut files = files_at(&self.from, has_database_or_log_extension)?;
        RecoverySet::require_ese_files(&vfs, &self.from, &files)?;
        let existed = to.exists();
        let snapshot = self.snapshot.snapshot()?;
        let streams = match &copy {
            Some(PausedCopy { directory, state, .. }) => {
                files.extend(state.first_log(&vfs, directory)?);
                vec![StreamBackup { files, directory: to.clone() }]
            }
            None if snapshot.is_some() => vec![StreamBackup { files, directory: to.clone() }],
            None => plan_stream_backups(&vfs, &files, to)?,
        };
        let (progress, pace) = TransferProgress::start("Backup", self.rate)?;
        let back_up = |StreamBackup { files, directory }: &StreamBackup| {
            let options = BackupOptions {
                kind: self.kind(),
                parent: match &self.base {
                    Some(base) => find_stream_backup(&vfs, base, files)?,
                    None => BackupList::find_base(&vfs, self.kind(), files, &absolute(to)?)?,
                },
                remove_logs: self.remove_logs,
                source_is_copy: copy.is_some(),
                log_names: copy.as_ref().map(|copy| (copy.state.base_name, copy.state.log_name_form())),
                pace: pace.clone(),
                ..BackupOptions::default()
            };
            let existed = directory.exists();
            let made = match &snapshot {
                Some(snapshot) => snapshot_stopped(&vfs, files, directory, snapshot, &options),
                None => back_up_stopped(&vfs, files, directory, &options),
            };
            made.map_err(|error| {
                if !existed && !matches!(error, BackupError::Stopped) {
                    // The directory is removed only if it is empty.
                    let _ = std::fs::remove_dir(directory);
                }
                match error {
                    BackupError::Stopped => CommandError::new("stopped")
                        .advise("the copied data is retained, and the same command continues the backup"),
                    error => CommandError::from(error),
                }
            })
        };
        let StreamResults { made, mut failures } = back_up_each(&streams, &pace.cancel, back_up);
        if made.is_empty() && !existed {
            discard_empty_set(&vfs, to);
        }
        drop(progress);
        if made.is_empty()
            && let Some(error) = print_all_but_last(&mut failures)
        {
            return Err(error);
        }
        let is_bad = |(_, made, _): &(&Path, BackupResult, f64)| {
            made.manifest.databases.iter().any(|database| !database.usable)
        };
        console::print_serialized(
            self.json,
            || {
                let mut all: Vec<_> = made.iter().map(|(path, made, _)| as_json(path, made)).collect();
                let failure = |(path, error): &(&Path, CommandError)| json!({ "path": json_path(path), "why": error.full_text() });
                let result = match streams.len() {
                    1 if all.len() == 1 => all.remove(0),
                    _ => {
                        let failures: Vec<_> = failures.iter().map(failure).collect();
                        json!({ "path": json_path(to), "backups": all, "failures": failures })
                    }
                };
                json_with_evidence(result, self.from.iter().chain([to]))
            },
            || made.iter().map(|(path, made, seconds)| as_text(path, made, *seconds)).collect::<String>(),
        )?;
        if let Some(error) = print_all_but_last(&mut failures) {
            return Err(error);
        }
        Ok(CommandOutcome::good_if(!made.iter().any(is_bad)))
    }

    /// Pauses replay if the source is a passive copy.
    fn pause(&self, vfs: &Arc<dyn Vfs>) -> CommandResult<Option<PausedCopy>> {
        for from in self.from.iter().filter(|from| from.is_dir()) {
            let Some(state) = CopyState::read(&**vfs, from)? else {
                continue;
            };
            if self.from.len() > 1 {
                return Err(CommandError::new(format_args!("{} is a copy", from.display()))
                    .advise("specify only its directory"));
            }
            if self.remove_logs {
                return Err(CommandError::new("a copy removes its logs automatically")
                    .context(from.display())
                    .advise("omit --remove-logs"));
            }
            let pause = jetcell_copies::pause_replay(vfs, from)?;
            return Ok(Some(PausedCopy { directory: from.clone(), state, _pause: pause }));
        }
        Ok(None)
    }
}

/// Prints the errors of all backups except the last error, which it returns.
fn print_all_but_last<T>(failures: &mut Vec<(T, CommandError)>) -> Option<CommandError> {
    let (_, last) = failures.pop()?;
    for (_, error) in &*failures {
        error.print();
    }
    Some(last)
}

fn as_json(to: &Path, made: &BackupResult) -> serde_json::Value {
    let manifest = &made.manifest;
    let databases: Vec<_> = manifest
        .databases
        .iter()
        .map(|database| {
            json!({
                "file": database.file, "source": json_path(&database.source), "bytes": database.bytes,
                "usable": database.usable, "pages": database.pages, "bad_pages": database.bad_pages,
            })
        })
        .collect();
    json!({
        "path": json_path(to), "id": manifest.id, "kind": manifest.kind, "parent": manifest.parent,
        "began_unix_ms": manifest.began_unix_ms, "ended_unix_ms": manifest.ended_unix_ms,
        "bytes": manifest.bytes(), "copied_bytes": made.copied_bytes, "continued_bytes": made.continued_bytes,
        "generations": manifest.generations, "logs": manifest.logs.len(), "databases": databases,
        "already": made.already_complete, "removed_logs": made.removed_logs.map(|(first, last)| [first.0, last.0]),
    })
}

fn as_text(to: &Path, made: &BackupResult, seconds: f64) -> String {
    let manifest = &made.manifest;
    let (kind, shown, bytes) = (manifest.kind.to_engine_kind(), to.display(), human_bytes(manifest.bytes()));
    let mut lines = vec![if made.already_complete {
        format!(
            "{kind} backup in {shown}: {bytes}, already completed at {}; the source is unchanged, and \
             nothing was copied; to make another backup, specify a different directory",
            LogTime::from_unix_ms(manifest.ended_unix_ms)
        )
    } else {
        format!(
            "{kind} backup in {shown}: {bytes} in {seconds:.1} s ({}/s)",
            human_bytes((made.copied_bytes as f64 / seconds.max(1e-3)) as u64),
        )
    }];
    for database in &manifest.databases {
        let pages = &database.pages;
        let state = if database.usable { "" } else { ", NOT USABLE" };
        lines.push(format!(
            "  {}: {} pages, {} never written, {} corrected, {} torn and replaced, {} bad{state}",
            database.file, pages.read, pages.zero, pages.corrected, pages.torn, pages.bad
        ));
        for bad in database.bad_pages.iter().take(10) {
            lines.push(format!("    page {}: {}", bad.page, bad.flaw));
        }
    }
    let generations = manifest.generations;
    lines.push(format!(
        "  {} logs: generations {:X} to {:X} (hexadecimal)",
        manifest.logs.len(),
        generations.first,
        generations.last
    ));
    if made.continued_bytes > 0 {
        lines.push(format!(
            "  {} were copied by an earlier run that was interrupted",
            human_bytes(made.continued_bytes)
        ));
    }
    if let Some((first, last)) = made.removed_logs {
        lines.push(format!("  removed from the source: log generations {:X} to {:X}", first.0, last.0));
    }
    jetcell_input::printable_rows(&lines) + "\n"
}
