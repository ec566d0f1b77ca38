//! `jetcell backup prove`: proves that the newest backup can be restored.

use std::path::{Path, PathBuf};

use clap::Args;
use jetcell_backup::{BackupError, BackupFault, BackupList, BackupProof, CompleteBackup, prove};
use jetcell_input::quantity::ByteRate;
use jetcell_input::{json_path, printable_rows};
use serde_json::json;

use super::age::{unusable_json, unusable_lines};
use super::print_all_but_last;
use crate::console;
use crate::outcome::{CommandError, CommandOutcome, CommandResult};
use crate::shared::files::vfs;
use crate::shared::json::json_with_evidence;
use crate::shared::transfer_progress::TransferProgress;

const EXAMPLES: &str = "Verifies the newest backup and the backups on which it builds, restores it into a scratch directory, and checks the structure of
the restored databases. The result is recorded in proved.json next to the manifest, and --age reports it. The scratch directory
needs space for the databases and logs, and is removed afterwards.

Examples:
  jetcell backup prove /backup
  jetcell backup prove /backup/sunday --scratch /scratch --rate 100MB/s
  systemctl enable --now \"$(systemd-escape --path --template=jetcell-prove@.timer /backup)\"
      proves the newest backup every week; the unit is in the Debian package

Exit code: 0 proved, 1 the backup is bad or there is none, 2 the proof could not be completed.";

/// Prove that the newest backup can be restored
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ProveArgs {
    /// Directory of a backup, or of several backups
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Directory in which the scratch directory is created [default: the parent directory of the backup]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Limit the rate of disk transfers
    #[arg(long, value_name = "BYTES/S")]
    rate: Option<ByteRate>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl ProveArgs {
    /// Runs the command.
    pub fn run(&self) -> CommandResult {
        let vfs = vfs()?;
        let list = BackupList::find(&*vfs, &self.directory)?;
        let (progress, pace) = TransferProgress::start("Proof", self.rate)?;
        let mut proved: Vec<(&CompleteBackup, BackupProof)> = Vec::new();
        let mut failures = Vec::new();
        for backup in list.last_complete() {
            let chain = list.chain(backup).unwrap_or_default();
            let chain: Vec<PathBuf> = chain.iter().map(|link| link.directory.clone()).collect();
            let absolute = std::path::absolute(&backup.directory)?;
            let scratch = self.scratch.as_deref().or(absolute.parent()).unwrap_or(Path::new("/"));
            match prove(&vfs, &chain, scratch, &pace) {
                Ok(proof) => proved.push((backup, proof)),
                Err(BackupError::Stopped) => {
                    let stopped = CommandError::new("stopped").advise("this proof was not recorded");
                    failures.push((backup, stopped));
                    break;
                }
                // Continue with the other backups of the set.
                Err(error) => {
                    let error = CommandError::from(error).context(backup.directory.display());
                    failures.push((backup, error));
                }
            }
        }
        drop(progress);
        if proved.is_empty()
            && let Some(error) = print_all_but_last(&mut failures)
        {
            return Err(error);
        }
        console::print_serialized(
            self.json,
            || json_with_evidence(as_json(&list, &proved, &failures), [&self.directory]),
            || as_text(&self.directory, &list, &proved),
        )?;
        if let Some(error) = print_all_but_last(&mut failures) {
            return Err(error);
        }
        // A backup that cannot be read could be newer than the one that was proved.
        let is_hidden = |why: &BackupFault| matches!(why, BackupFault::Unreadable(_) | BackupFault::NotInSet);
        let is_good = !proved.is_empty()
            && proved.iter().all(|(_, proof)| proof.is_good())
            && !list.unusable.iter().any(|(_, why)| is_hidden(why));
        Ok(CommandOutcome::good_if(is_good))
    }
}

fn as_json(
    list: &BackupList,
    proved: &[(&CompleteBackup, BackupProof)],
    failures: &[(&CompleteBackup, CommandError)],
) -> serde_json::Value {
    let failure = |(backup, error): &(&CompleteBackup, CommandError)| json!({ "path": json_path(&backup.directory), "why": error.full_text() });
    let backup = |(backup, proof): &(&CompleteBackup, BackupProof)| {
        json!({
            "path": json_path(&backup.directory), "id": backup.manifest.id, "good": proof.is_good(),
            "proved_unix_ms": proof.proved_unix_ms, "seconds": proof.seconds, "databases": proof.databases,
            "pages": proof.pages, "position": proof.position, "problems": proof.problems,
        })
    };
    json!({
        "backups": proved.iter().map(backup).collect::<Vec<_>>(),
        "unusable": unusable_json(list),
        "failures": failures.iter().map(failure).collect::<Vec<_>>(),
    })
}

fn as_text(directory: &Path, list: &BackupList, proved: &[(&CompleteBackup, BackupProof)]) -> String {
    let mut lines = unusable_lines(list);
    if proved.is_empty() {
        lines.push(format!("no complete backup in {}", directory.display()));
    }
    for (backup, proof) in proved {
        let path = backup.directory.display();
        if proof.is_good() {
            lines.push(format!(
                "{path}: proved: {} databases with {} pages restored up to {} and checked in {:.1} s",
                proof.databases, proof.pages, proof.position, proof.seconds
            ));
        } else {
            lines.push(format!("{path}: BAD"));
            lines.extend(proof.problems.iter().map(|problem| format!("  {problem}")));
        }
    }
    printable_rows(&lines)
}
