//! `jetcell raid snapshot`.

use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Local, SecondsFormat};
use clap::{Args, Subcommand};
use jetcell_array::{ArrayError, LunVolume};
use serde_json::json;

use super::lun::with_luns;
use super::running_array::{Severity, Start};
use super::shown::Shown;
use crate::console;
use crate::outcome::{Failure, Outcome};

/// The commands of snapshots.
#[derive(Subcommand)]
pub enum SnapshotCommand {
    /// Keep the present state of a LUN
    Create(Named),
    /// List the snapshots of all LUNs
    List(List),
    /// Make a snapshot the present state of its LUN
    Rollback(RollBack),
    /// Make a LUN of a snapshot
    Clone(CloneSnapshot),
    /// Forget a snapshot
    Delete(Named),
}

/// A snapshot of a LUN
#[derive(Args)]
#[command(after_help = "\
A snapshot takes no room when it is made; it keeps the blocks that its LUN replaces later. The LUN must not be served meanwhile. What its
clients have not written yet is not in the snapshot: shut them down first, or freeze their file systems.

Examples:
  jetcell raid snapshot create arr1 mail before-update
  jetcell raid snapshot delete arr1 mail before-update

Exit code: 0 done, 2 refused; nothing was changed then.")]
pub struct Named {
    #[command(flatten)]
    start: Start,
    /// Name of the LUN
    #[arg(value_name = "LUN")]
    lun: String,
    /// Name of the snapshot: letters, digits, and - _ .
    #[arg(value_name = "SNAPSHOT")]
    snapshot: String,
    #[command(flatten)]
    shown: Shown,
}

/// Lists the snapshots of all LUNs of an array
#[derive(Args)]
#[command(after_help = "\
Examples:
  jetcell raid snapshot list arr1 --json

Exit code: 0 listed, 2 could not run.")]
pub struct List {
    #[command(flatten)]
    start: Start,
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
}

/// Makes a snapshot the present state of its LUN
#[derive(Args)]
#[command(after_help = "\
What was written since is lost, unless another snapshot has it. All snapshots stay.

Examples:
  jetcell raid snapshot create arr1 mail undo && jetcell raid snapshot rollback arr1 mail before-update --force

Exit code: 0 done, 2 refused; nothing was changed then.")]
pub struct RollBack {
    #[command(flatten)]
    named: Named,
    /// Confirm that what was written since may be lost
    #[arg(long)]
    force: bool,
}

/// Makes a LUN with the content of a snapshot
#[derive(Args)]
#[command(after_help = "\
Both share blocks until one of them changes. The clone stays if the snapshot or its LUN is deleted.

Examples:
  jetcell raid snapshot clone arr1 mail before-update trial

Exit code: 0 done, 2 refused; nothing was changed then.")]
pub struct CloneSnapshot {
    #[command(flatten)]
    named: Named,
    /// Name of the new LUN
    #[arg(value_name = "NEW")]
    new: String,
}

impl SnapshotCommand {
    pub fn run(self) -> Result<Outcome, Failure> {
        match self {
            SnapshotCommand::Create(named) => {
                named.change("snapshot_created", "was made", |volume, named| {
                    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
                    volume.create_snapshot(&named.lun, &named.snapshot, now)
                })
            }
            SnapshotCommand::Delete(named) => {
                named.change("snapshot_deleted", "was deleted", |volume, named| {
                    volume.delete_snapshot(&named.lun, &named.snapshot)
                })
            }
            SnapshotCommand::Rollback(RollBack { named, force }) => {
                if !force {
                    let (array, lun) = (named.start.array.display(), &named.lun);
                    return Err(format!(
                        "{array}: what was written to {lun} since the snapshot would be lost; add --force if that is intended"
                    )
                    .into());
                }
                named.change("snapshot_rolled_back", "is the present state of its LUN", |volume, named| {
                    volume.roll_back(&named.lun, &named.snapshot)
                })
            }
            SnapshotCommand::Clone(CloneSnapshot { named, new }) => {
                named.change("snapshot_cloned", &format!("is shared by the LUN {new}"), |volume, named| {
                    volume.clone_snapshot(&named.lun, &named.snapshot, &new)
                })
            }
            SnapshotCommand::List(list) => list.list(),
        }
    }
}

impl Named {
    /// Runs something on the volume, notes the event, and says what was done.
    fn change(
        &self,
        event: &str,
        done: &str,
        run: impl FnOnce(&mut LunVolume, &Named) -> Result<(), ArrayError>,
    ) -> Result<Outcome, Failure> {
        let ((), mut files) = with_luns(&self.start, |volume| run(volume, self))?;
        let Named { lun, snapshot, .. } = self;
        let figures = json!({ "lun": lun, "snapshot": snapshot });
        let text = format!("Snapshot {snapshot} of {lun} {done}.");
        files.event(event, Severity::Information, &text, figures.clone());
        let array = self.start.array.display();
        self.shown.print(&figures, &format!("{array}: snapshot {snapshot} of {lun} {done}"));
        Ok(Outcome::Good)
    }
}

impl List {
    fn list(&self) -> Result<Outcome, Failure> {
        let (luns, _) = with_luns(&self.start, LunVolume::luns)?;
        let at = |seconds: u64| {
            let time = i64::try_from(seconds).ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
            time.map_or_else(String::new, |time| {
                time.with_timezone(&Local).to_rfc3339_opts(SecondsFormat::Secs, false)
            })
        };
        let snapshots = luns.iter().flat_map(|lun| lun.snapshots.iter().map(move |snapshot| (lun, snapshot)));
        let lines = snapshots.map(|(lun, snapshot)| match self.json {
            true => format!(
                "{}\n",
                json!({ "lun": lun.name, "snapshot": snapshot.name, "created": at(snapshot.created) })
            ),
            false => format!("{} {} {}\n", lun.name, snapshot.name, at(snapshot.created)),
        });
        console::show(&lines.collect::<String>());
        Ok(Outcome::Good)
    }
}
