//! `jetcell replicate`: creates a passive copy of an instance, and updates it by replaying the logs.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use ese_engine::RecoverySet;
use jetcell_backup::{BackupOptions, Cancellation};
use jetcell_copies::{
    ContinuousScan, ContinuousScanOptions, CopyError, CopyState, DirectorySource, FollowEvent, LogSource,
    ReplayOptions, Replicator, SeedOptions, StreamDirectory, seed_from_files, seed_with_retries,
};
use jetcell_host::cancel_on_signals;
use jetcell_input::number::human_bytes;
use jetcell_input::quantity::ByteRate;
use jetcell_workload::units::{ByteSize, TimeSpan};

use crate::commands::copies;
use crate::console;
use crate::live::{CopyFigures, CopyMetricsHandle, MetricsServer};
use crate::outcome::{CommandContext, CommandError, CommandOutcome, CommandResult};
use crate::shared::files::open_events;
use crate::shared::listen_address::listen_address;
use crate::shared::remote::{CommandFileSystems, RemoteAccessOptions, absolute, refuse_nested};
use crate::shared::transfer_progress::TransferProgress;

const EXAMPLES: &str = "\
If --to is empty or new, the copy is first seeded by a backup of the databases; the instance must be stopped for that. Afterwards,
it may run. Its closed logs are copied, inspected and replayed, without undo, until Ctrl-C. The same command resumes later. The
instance retains the logs that the copy needs. Events are written to events.jsonl in the copy.

Examples:
  jetcell replicate --from /var/lib/app --to /mnt/other/app-copy
      seeds the copy and follows the instance
  jetcell replicate --from /var/lib/app --to /mnt/other/app-copy --once
      replays the existing logs, then stops
  jetcell replicate --from /var/lib/app --to /mnt/other/app-copy --mode block
      also copies the current log
  jetcell replicate --from /var/lib/app --to /mnt/other/app-copy --scan
      also verifies every page of the copy once a day
  jetcell replicate --from /var/lib/app --to /mnt/other/app-copy --metrics 9100
      queues and lag at http://127.0.0.1:9100/metrics
  jetcell replicate --from /var/lib/app --to /mnt/other/app-copy --delay 8h
      replays each log when it is eight hours old
  jetcell replicate --from /logs/app --from /data/app --to copy
      logs and databases in two directories
  jetcell replicate --from run/log002 --from run/Jetstress002001.edb --to copy
      one instance of a test; several instances are refused
  jetcell replicate --from tls://db1:9440/app --to /copies/app --tls-ca ca.pem --token-file token
      from another host, which runs jetcell serve
  jetcell copies /mnt/other/app-copy
      queues, lag and health

Exit code: 0 stopped (with --once: all existing logs are replayed, or wait for --delay), 2 could not run.";

/// Interval between progress lines.
const LINE_INTERVAL: Duration = Duration::from_secs(2);

/// Part of the log that is copied.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ReplicationMode {
    /// Closed logs
    File,
    /// Closed logs, and the durable part of the current log
    Block,
}

/// Make a passive copy of an instance, and update it by replaying the logs
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ReplicateArgs {
    /// Directory or files with the instance's logs and, for seeding, its databases, or tls://HOST:PORT/NAME for a directory
    /// that jetcell serve provides on another host; may be repeated
    #[arg(long, required = true, value_name = "DIR|ADDRESS")]
    from: Vec<PathBuf>,
    /// Directory of the copy
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Stop once all existing logs have been replayed
    #[arg(long)]
    once: bool,
    /// Copy only closed logs, or also the current log, so that a failover loses less
    #[arg(long, value_enum, default_value_t = ReplicationMode::File)]
    mode: ReplicationMode,
    /// Replay a log only once it has reached this age
    #[arg(long, default_value = "0s", value_name = "TIME")]
    delay: TimeSpan,
    /// Keep the replaying engine and its cache between batches of logs; false corresponds to Exchange 2007 before SP1
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    keep_instance: bool,
    /// Size of the page cache
    #[arg(long, default_value = "64MiB", value_name = "SIZE")]
    cache: ByteSize,
    /// Limit the disk transfer rate while the copy is seeded, and at any time the rate of data received from another
    /// host
    #[arg(long, value_name = "BYTES/S")]
    rate: Option<ByteRate>,
    /// Also read and verify all pages of the copy during replay, in one pass per day; with --once, in one immediate
    /// pass
    #[arg(long)]
    scan: bool,
    /// Pause after each 256 KiB that the scan reads
    #[arg(long, default_value = "100ms", value_name = "TIME")]
    scan_pause: TimeSpan,
    /// Serve queues and lag as OpenMetrics text over HTTP; without an address, only on the loopback interface
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen_address)]
    metrics: Option<SocketAddr>,
    /// Print the final state as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: RemoteAccessOptions,
}

impl ReplicateArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        for from in &self.from {
            refuse_nested(from, &self.to)?;
        }
        let rate = self.rate.map(|rate| rate.0);
        let from = self.from.iter().map(PathBuf::as_path);
        let places = self.remote.file_systems_with_copies(from, rate, std::slice::from_ref(&self.to))?;
        let vfs = places.vfs().clone();
        let (cancel, monitor) = (places.cancellation().clone(), CopyMetricsHandle::default());
        let serve = |address| MetricsServer::start(address, Box::new(monitor.clone()));
        let server = self.metrics.map(serve).transpose()?;
        if let Some(server) = &server {
            console::print_note(&format!("Metrics: {}", server.url()));
        }
        let known = CopyState::read(&*vfs, &self.to)?;
        let is_seeded = known.as_ref().is_some_and(|state| state.phase != jetcell_copies::CopyPhase::Seeding);
        let source = match &known {
            Some(state) if is_seeded => self.source_of(&places, state)?,
            _ => {
                cancel_on_signals(&cancel)?;
                self.seed(&places, &cancel)?
            }
        };
        if is_seeded {
            cancel_on_signals(&cancel)?;
        }
        let events = open_events(&self.to)?;
        let options = ReplayOptions {
            keep_instance: self.keep_instance,
            stream_log: self.mode == ReplicationMode::Block,
            delay: self.delay.0,
            cache_bytes: usize::try_from(self.cache.0).unwrap_or(usize::MAX),
            events: Some(events.clone()),
            ..ReplayOptions::default()
        };
        let mut copy = Replicator::open(&vfs, &self.to, Box::new(source), options)?;
        let scan = ContinuousScanOptions { pause: self.scan_pause.0, once: self.once, events };
        let not_scanned = |error| print_error("the copy is not scanned", error);
        let start_scan = || ContinuousScan::start(&vfs, &self.to, scan, not_scanned);
        let scan = self.scan.then(start_scan).transpose().context("could not start the scan")?;
        let mut shown = Instant::now();
        let followed = copy.follow(&cancel, self.once, scan.as_ref(), &mut |copy, event| match event {
            FollowEvent::Waiting(error) => print_error("waiting", error.clone()),
            FollowEvent::Step { is_waiting } => {
                monitor.update(CopyFigures::from_replication(&self.to, copy, is_waiting));
                if shown.elapsed() > LINE_INTERVAL && std::io::stderr().is_terminal() {
                    shown = Instant::now();
                    let scan = scan.as_ref().and_then(ContinuousScan::progress);
                    let scan = scan.map_or(String::new(), |progress| format!("; scan: {progress}"));
                    console::print_note(&format!("{}{scan}", copies::summary_line(copy.state())));
                }
            }
        });
        let scanned = scan.map_or(Ok(()), ContinuousScan::stop);
        let state = copy.stop()?;
        followed.and(scanned)?;
        copies::show_copy(&vfs, &self.to, &state, self.json);
        Ok(CommandOutcome::Good)
    }

    /// Returns the active side of a copy, which may have changed since the last run.
    fn source_of(&self, places: &CommandFileSystems, state: &CopyState) -> CommandResult<DirectorySource> {
        let (files, directories): (Vec<&PathBuf>, Vec<&PathBuf>) =
            self.from.iter().partition(|from| self.from.len() > 1 && from.is_file());
        for file in files {
            console::print_note(&format!(
                "{}: not used, because {} was already seeded, and only its logs are followed",
                file.display(),
                self.to.display()
            ));
        }
        let directories = directories.into_iter().map(|from| {
            places.require_directory(from)?;
            let directory = absolute(from)?;
            Ok(StreamDirectory::new(places.vfs(), &directory, state.base_name, state.log_name_form()))
        });
        let directories = directories.collect::<CommandResult<_>>()?;
        Ok(DirectorySource::new(StreamDirectory::with_logs(directories)?))
    }

    /// Seeds the copy. If a host is temporarily unreachable, seeding waits for it.
    fn seed(&self, places: &CommandFileSystems, cancel: &Cancellation) -> CommandResult<DirectorySource> {
        let from: Vec<PathBuf> = self.from.iter().map(|from| absolute(from)).collect::<Result<_, _>>()?;
        let to = absolute(&self.to)?;
        let mut files = places.files(&from)?;
        RecoverySet::require_ese_files(places.vfs(), &from, &files)?;
        let seed = || {
            // A log may have been closed since the previous attempt.
            if let Ok(listed) = places.files(&from) {
                files = listed;
            }
            let (progress, pace) = TransferProgress::with_cancel("Seeding", self.rate, cancel.clone());
            let backup = BackupOptions { pace, ..BackupOptions::default() };
            let options = SeedOptions { backup, replace_existing: false };
            let seeded = seed_from_files(places.vfs(), &files, &to, &options);
            drop(progress);
            seeded
        };
        let waiting = |error| print_error("waiting", error);
        let (source, seeded) =
            seed_with_retries(places.vfs(), &to, (!self.once).then_some(cancel), seed, waiting)?;
        console::print_note(&format!(
            "{}: seeded with {} from {}",
            self.to.display(),
            human_bytes(seeded.copied_bytes),
            source.address()
        ));
        Ok(source)
    }
}

/// Prints an error that does not stop the command.
fn print_error(what: &str, error: CopyError) {
    console::print_note(&format!("{what}: {}", CommandError::from(error).full_text()));
}
