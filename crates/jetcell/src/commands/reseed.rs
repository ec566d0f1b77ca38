//! `jetcell reseed`: resynchronizes a copy, or a side that has diverged, with the active side.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ese_engine::{EventSink, RecoverySet};
use jetcell_backup::{BackupOptions, BackupProgress, Cancellation};
use jetcell_copies::{CopyError, LogSource, Reseed, ReseedPlan, SeedOptions, seed_from_files};
use jetcell_host::cancel_on_signals;
use jetcell_input::number::human_bytes;
use jetcell_input::quantity::ByteRate;
use jetcell_input::with_advice;
use jetcell_input::{json_path, printable_rows};
use serde_json::json;

use crate::console;
use crate::outcome::{CommandError, CommandOutcome, CommandResult};
use crate::shared::files::open_events;
use crate::shared::remote::{CommandFileSystems, RemoteAccessOptions, absolute, refuse_nested};
use crate::shared::transfer_progress::TransferProgress;

const EXAMPLES: &str = "\
A full reseed copies the databases again; the side in --from must be stopped for that. An incremental reseed patches only the pages
that the logs of the two sides changed since the histories diverged; the side in --from may be running. The side in --to must be
stopped. Logs of a discarded history are retained in the directory diverged of --to. The same command continues an interrupted reseed.

Examples:
  jetcell reseed --from /mnt/other/app-copy --to /var/lib/app --incremental --dry-run
      shows what would be done
  jetcell reseed --from /mnt/other/app-copy --to /var/lib/app --incremental
  jetcell reseed --from /mnt/other/app-copy --to /var/lib/app --incremental --or-full
      a full reseed if that is not possible
  jetcell reseed --from /mnt/other/app-copy --to /var/lib/app
      a full reseed
  jetcell replicate --from /mnt/other/app-copy --to /var/lib/app
      then follows
  jetcell reseed --from tls://db2:9440/app --to /var/lib/app --incremental --tls-ca ca.pem --token-file token
      from another host

Exit code: 0 reseeded, 2 could not run.";

/// Resynchronize a copy, or a side that has diverged, with the active side
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ReseedArgs {
    /// Directory with the logs and databases of the active side, or tls://HOST:PORT/NAME for a directory that jetcell
    /// serve provides on another host; may be repeated
    #[arg(long, required = true, value_name = "DIR|ADDRESS")]
    from: Vec<PathBuf>,
    /// Directory of the copy, or of the old active side's logs
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Patch only those pages that may differ
    #[arg(long)]
    incremental: bool,
    /// Only show how many pages would be patched
    #[arg(long, requires = "incremental")]
    dry_run: bool,
    /// Run a full reseed if an incremental reseed is not possible
    #[arg(long, requires = "incremental")]
    or_full: bool,
    /// Limit the disk transfer rate of a full reseed, and the rate of data received from another host
    #[arg(long, value_name = "BYTES/S")]
    rate: Option<ByteRate>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: RemoteAccessOptions,
}

impl ReseedArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        for from in &self.from {
            refuse_nested(from, &self.to)?;
        }
        if !self.to.is_dir() {
            return Err(CommandError::new(format_args!("{} does not exist", self.to.display()))
                .advise("create a new copy with jetcell replicate"));
        }
        let to = absolute(&self.to)?;
        let (from, rate) = (self.from.iter().map(PathBuf::as_path), self.rate.map(|rate| rate.0));
        let places = self.remote.file_systems_with_copies(from, rate, std::slice::from_ref(&to))?;
        let vfs = places.vfs().clone();
        let from: Vec<PathBuf> = self.from.iter().map(|from| absolute(from)).collect::<Result<_, _>>()?;
        let mut files = places.files(&from)?;
        RecoverySet::require_ese_files(&vfs, &from, &files)?;
        if !self.incremental {
            self.seed(&places, &files, &to)?;
            return Ok(CommandOutcome::Good);
        }
        let is_in_doubt = |planned: &Result<Reseed, CopyError>| planned.is_err();
        let plan = |files: &[PathBuf]| Reseed::plan(&vfs, files, &to);
        let planned = places.with_stable_files(&from, &mut files, plan, is_in_doubt);
        let patched = match planned {
            Ok(reseed) => {
                let events = if self.dry_run { None } else { Some(open_events(&to)?) };
                self.patch(reseed, events)
            }
            Err(error) => Err(error),
        };
        match patched {
            Err(error) if self.or_full && error.needs_full_reseed() => {
                self.fall_back(&places, &files, &to, &error)?;
            }
            patched => patched?,
        }
        Ok(CommandOutcome::Good)
    }

    /// Runs a full reseed because an incremental reseed, possibly one that was interrupted earlier, is not possible.
    fn fall_back(
        &self,
        places: &CommandFileSystems,
        from: &[PathBuf],
        to: &Path,
        error: &CopyError,
    ) -> CommandResult<()> {
        let advice = match error {
            CopyError::OnlyFullReseed(reason) => reason.advice(),
            _ => None,
        };
        let why = with_advice(error, advice);
        console::print_note(&format!("{why}: running a full reseed"));
        if !self.dry_run {
            return self.seed(places, from, to);
        }
        let text = printable_rows([format!("{}: would be fully reseeded: {why}", self.to.display())]);
        self.print(
            json!({ "path": json_path(&self.to), "incremental": false, "dry_run": true, "why": why }),
            &text,
        );
        Ok(())
    }

    fn patch(&self, mut reseed: Reseed, events: Option<Arc<dyn EventSink>>) -> Result<(), CopyError> {
        if let Some(events) = events {
            reseed.set_event_sink(events);
        }
        let plan = reseed.current_plan();
        if !self.dry_run {
            let (bar, pace) = TransferProgress::with_cancel("Patching", None, Cancellation::default());
            let bytes = plan.bytes.checked_div(plan.pages).unwrap_or(0);
            let show = |pages: u64| {
                if let Some(progress) = &pace.progress {
                    let done = pages * bytes;
                    progress(BackupProgress { done, total: plan.bytes, transferred: done });
                }
            };
            let mut show = show;
            let done = reseed.run(&mut show);
            drop(bar);
            done?;
        }
        self.print(json!({
            "path": json_path(&self.to), "incremental": true, "dry_run": self.dry_run, "pages": plan.pages, "bytes": plan.bytes,
            "first_diverged_generation": plan.first_diverged.map(|first| first.0),
            "commits_given_up": plan.discarded_commits, "continued": plan.is_resumed,
        }), &self.patch_text(plan));
        Ok(())
    }

    fn patch_text(&self, plan: &ReseedPlan) -> String {
        let would = if self.dry_run { "would be patched" } else { "patched" };
        let mut lines =
            vec![format!("{}: {} pages {would}, {}", self.to.display(), plan.pages, human_bytes(plan.bytes))];
        if let Some(first) = plan.first_diverged {
            lines.push(format!(
                "  the histories diverge in generation {:X} (hexadecimal); {} committed transactions are \
                 discarded here",
                first.0, plan.discarded_commits
            ));
        }
        if !self.dry_run {
            lines.push("  it is now a copy: update it with jetcell replicate".to_string());
        }
        printable_rows(&lines)
    }

    fn seed(&self, places: &CommandFileSystems, from: &[PathBuf], to: &Path) -> CommandResult<()> {
        let (vfs, cancel) = (places.vfs(), places.cancellation().clone());
        cancel_on_signals(&cancel)?;
        let (bar, pace) = TransferProgress::with_cancel("Seeding", self.rate, cancel);
        let backup = BackupOptions { pace, ..BackupOptions::default() };
        let seeded = seed_from_files(vfs, from, to, &SeedOptions { backup, replace_existing: true });
        drop(bar);
        let (source, seeded) = seeded?;
        let copied = human_bytes(seeded.copied_bytes);
        let text = printable_rows([
            format!("{}: reseeded with {copied} from {}", self.to.display(), source.address()),
            "  update it with jetcell replicate".to_string(),
        ]);
        self.print(
            json!({ "path": json_path(&self.to), "incremental": false, "bytes": seeded.copied_bytes }),
            &text,
        );
        Ok(())
    }

    fn print(&self, json: serde_json::Value, text: &str) {
        console::print_result(self.json, || json, || text);
    }
}
