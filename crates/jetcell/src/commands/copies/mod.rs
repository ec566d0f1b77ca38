//! `jetcell copies`: shows the state, queues, lag and health of a copy, or of all copies of an instance.

mod comparison;
mod page_comparison;
mod scan_output;
mod table;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use jetcell_copies::{CopyPhase, CopyState, CopyStatus, RegisteredCopy};
use jetcell_input::number::human_bytes;
use jetcell_input::{json_path, json_paths, printable_rows};
use jetcell_remote::HostAddress;
use jetcell_vfs::{Clock, RealClock, Vfs};
use jetcell_workload::units::TimeSpan;
use serde_json::{Value, json};

use self::page_comparison::{PageComparisonState, page_checks};
pub use self::scan_output::scan_json;
use self::scan_output::{read_scan, scan_lines};
use crate::console;
use crate::outcome::{CommandError, CommandOutcome, CommandResult};
use crate::shared::remote::{CommandFileSystems, RemoteAccessOptions, remote_error};

const EXAMPLES: &str = "\
Examples:
  jetcell copies /mnt/other/app-copy
      one copy
  jetcell copies /var/lib/app
      all copies of the instance whose logs are in this directory
  jetcell copies /var/lib/app --with /mnt/other/app-copy
      compares the histories of two sides
  jetcell copies tls://db1:9440/app tls://db2:9440/app --tls-ca ca.pem --token-file token
      one table for several hosts
  jetcell copies /var/lib/app --max-lag 5m
      fails if a copy lags by more than five minutes
  jetcell copies /var/lib/app --json | jq '.copies[].status.lag.generations'

Exit code: 0 all copies can follow, 1 a copy is unfit or cut off, has no contact or lags too much, or the histories have
diverged, 2 could not run.";

/// Show the state of copies: queues, lag and health
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CopiesArgs {
    /// Directory of a copy or of an instance's logs, or tls://HOST:PORT/NAME for a directory that jetcell serve
    /// provides on another host; several directories are shown in one table
    #[arg(value_name = "DIR|ADDRESS", required = true)]
    directories: Vec<PathBuf>,
    /// Compare the history with that of another copy, an instance or a backup
    #[arg(long, value_name = "DIR|ADDRESS")]
    with: Option<PathBuf>,
    /// Maximum lag of each copy; replaces the limit of 60 s since the last contact
    #[arg(long, value_name = "TIME", conflicts_with = "with")]
    max_lag: Option<TimeSpan>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: RemoteAccessOptions,
}

/// Contents of a directory.
enum CopiesSide {
    Copy(Box<CopyState>),
    /// An instance with its registered copies.
    Instance(Vec<RegisteredCopy>),
}

impl CopiesArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        let paths = self.directories.iter().chain(&self.with).map(PathBuf::as_path);
        let places = self.remote.file_systems(paths, None)?;
        let [directory] = &self.directories[..] else {
            if self.with.is_some() {
                return Err(
                    CommandError::new("--with can compare only one directory").advise("specify only one")
                );
            }
            return Ok(table::show(&places, &self.directories, self.max_lag(), self.json));
        };
        if let Some(other) = &self.with {
            return comparison::print_comparison(&places, directory, other, self.json);
        }
        let (vfs, copies) = match CopiesSide::detect(&places, directory)? {
            CopiesSide::Copy(state) => {
                let status = copy_status(places.vfs(), directory, &state);
                show_status(places.vfs(), directory, (&state, &status), self.json);
                return Ok(CommandOutcome::good_if(status.is_fit(&state, self.max_lag())));
            }
            CopiesSide::Instance(copies) => (places.vfs(), copies),
        };
        let as_json = || {
            let copies: Vec<Value> = copies.iter().map(|copy| registered_json(vfs, copy)).collect();
            json!({ "path": json_path(directory), "copies": copies })
        };
        let as_text = || {
            let lines: Vec<String> = copies.iter().flat_map(|copy| registered_lines(vfs, copy)).collect();
            let none = || format!("{}: no copies are registered", directory.display());
            printable_rows(if lines.is_empty() { vec![none()] } else { lines })
        };
        console::print_result(self.json, as_json, as_text);
        Ok(CommandOutcome::good_if(copies.iter().all(|copy| copy.is_fit(self.max_lag()))))
    }

    fn max_lag(&self) -> Option<Duration> {
        self.max_lag.map(|max| max.0)
    }
}

impl CopiesSide {
    /// Determines what a directory contains.
    fn detect(places: &CommandFileSystems, directory: &Path) -> CommandResult<CopiesSide> {
        let vfs = places.vfs();
        if let Some(connected) = places.connect(directory) {
            connected.map_err(|error| remote_error(directory, error))?;
        }
        if let Some(state) = CopyState::read(&**vfs, directory)? {
            return Ok(CopiesSide::Copy(Box::new(state)));
        }
        Ok(CopiesSide::Instance(RegisteredCopy::list(vfs, directory)?))
    }
}

fn copy_status(vfs: &Arc<dyn Vfs>, directory: &Path, state: &CopyState) -> CopyStatus {
    let now = RealClock::new().unix_ms();
    // The path of the active side of a copy on another host is a path on that host.
    match HostAddress::from_path(directory) {
        Some(_) => CopyStatus::new(state, now),
        None => CopyStatus::examine(vfs, state, None, now),
    }
}

/// Returns the number of seconds since a time in milliseconds since 1970 UTC.
pub fn seconds_since(unix_ms: i64) -> u64 {
    RealClock::new().unix_ms().saturating_sub(unix_ms).max(0) as u64 / 1000
}

/// Formats a time for display.
pub fn format_time(unix_ms: i64) -> String {
    ese_format::LogTime::from_unix_ms(unix_ms).to_string()
}

/// Prints the state of one copy.
pub fn show_copy(vfs: &Arc<dyn Vfs>, directory: &Path, state: &CopyState, json: bool) {
    show_status(vfs, directory, (state, &copy_status(vfs, directory, state)), json);
}

fn show_status(vfs: &Arc<dyn Vfs>, directory: &Path, copy: (&CopyState, &CopyStatus), json: bool) {
    let text = || printable_rows(copy_lines(vfs, directory, copy));
    console::print_result(json, || copy_json(vfs, directory, copy), text);
}

/// Returns a one-line summary of a copy that is following.
pub fn summary_line(state: &CopyState) -> String {
    let status = CopyStatus::new(state, RealClock::new().unix_ms());
    let contact = contact_gap(&status).map(|gap| format!("; {gap}")).unwrap_or_default();
    format!(
        "generation {:X} replayed; queues: copy {}, replay {}; lags by {}{contact}",
        state.replayed,
        status.copy_queue,
        status.replay_queue,
        human_bytes(status.lag.bytes)
    )
}

/// Describes how long a copy has been without contact with its active side. Returns `None` if the copy is in contact.
fn contact_gap(status: &CopyStatus) -> Option<String> {
    let since = |time| format!("no contact since {}", format_time(time));
    (!status.is_in_contact).then(|| status.contact_unix_ms.map_or("no contact yet".to_string(), since))
}

fn status_json(status: &CopyStatus) -> Value {
    let lag = &status.lag;
    json!({
        "copy_queue": status.copy_queue, "replay_queue": status.replay_queue,
        "lag": { "generations": lag.generations, "bytes": lag.bytes, "seconds": lag.seconds },
        "contact_unix_ms": status.contact_unix_ms, "is_in_contact": status.is_in_contact,
    })
}

fn copy_json(vfs: &Arc<dyn Vfs>, directory: &Path, (state, status): (&CopyState, &CopyStatus)) -> Value {
    let lag = &status.lag;
    let unfit = match &state.phase {
        CopyPhase::Unfit { reason, what } => json!({ "reason": reason, "what": what }),
        _ => Value::Null,
    };
    let databases: Vec<_> = state.databases.iter().map(|database| directory.join(&database.file)).collect();
    json!({
        "path": json_path(directory), "id": state.id, "source": state.source, "health": status.health(state), "unfit": unfit,
        "copied_generation": state.next.saturating_sub(1), "replayed_generation": state.replayed,
        "copy_queue": status.copy_queue, "replay_queue": status.replay_queue,
        "lag": { "generations": lag.generations, "bytes": lag.bytes, "seconds": lag.seconds },
        "contact_unix_ms": status.contact_unix_ms, "is_in_contact": status.is_in_contact,
        "active": state.active, "delay_seconds": state.delay_seconds, "databases": json_paths(&databases),
        "checks": page_checks(&**vfs, directory, state).iter().map(PageComparisonState::json).collect::<Vec<_>>(),
        "scan": scan_json(directory, &read_scan(&**vfs, directory)),
        "streamed": streamed(vfs, directory).map(|(generation, bytes)| json!({ "generation": generation, "bytes": bytes })),
    })
}

/// Returns how much of the active side's current log has arrived: its generation, and the number of bytes.
fn streamed(vfs: &Arc<dyn Vfs>, directory: &Path) -> Option<(u32, u64)> {
    jetcell_copies::streamed_progress(vfs, directory).map(|(generation, bytes)| (generation.0, bytes))
}

fn copy_lines(
    vfs: &Arc<dyn Vfs>,
    directory: &Path,
    (state, status): (&CopyState, &CopyStatus),
) -> Vec<String> {
    let gap = contact_gap(status).filter(|_| state.phase == CopyPhase::Following);
    let health = gap.unwrap_or_else(|| status.health(state).to_string());
    let mut lines = vec![format!("{}: {health}", directory.display())];
    if let CopyPhase::Unfit { what, .. } = &state.phase {
        lines.push(format!("  {what}"));
    }
    lines.push(format!("  active side: {}", state.source));
    if let Some(active) = state.active {
        let ago = seconds_since(active.at_unix_ms);
        lines.push(format!(
            "  last closed generation there: {:X} (hexadecimal), as of {ago} s ago",
            active.closed
        ));
    }
    lines.push(format!(
        "  copied up to generation {:X}, replayed up to {:X} (hexadecimal)",
        state.next.saturating_sub(1),
        state.replayed
    ));
    lines.push(queue_line(status));
    if state.delay_seconds > 0 {
        lines.push(format!("  delay: {} s", state.delay_seconds));
    }
    if let Some((generation, bytes)) = streamed(vfs, directory) {
        let bytes = human_bytes(bytes);
        lines.push(format!("  current generation {generation:X}: {bytes} received"));
    }
    lines.extend(page_checks(&**vfs, directory, state).iter().flat_map(PageComparisonState::lines));
    lines.extend(scan_lines(&read_scan(&**vfs, directory)));
    lines
}

fn queue_line(status: &CopyStatus) -> String {
    let lag = &status.lag;
    let seconds = lag.seconds.map_or("unknown time".to_string(), |seconds| format!("{seconds} s"));
    format!(
        "  queues: copy {}, replay {}; lags by {} generations, {}, {seconds}",
        status.copy_queue,
        status.replay_queue,
        lag.generations,
        human_bytes(lag.bytes)
    )
}

fn registered_json(vfs: &Arc<dyn Vfs>, copy: &RegisteredCopy) -> Value {
    let RegisteredCopy { registration, is_cut_off, state, status } = copy;
    let directory = Path::new(&registration.copy);
    json!({
        "id": registration.id, "host": registration.host, "path": registration.copy, "needs_generation": registration.needs.0,
        "contact_unix_ms": registration.contact_unix_ms, "waiting": registration.waiting, "cut_off": is_cut_off,
        "status": status_json(status),
        "state": state.as_ref().map(|state| copy_json(vfs, directory, (state, status))),
    })
}

fn registered_lines(vfs: &Arc<dyn Vfs>, copy: &RegisteredCopy) -> Vec<String> {
    let RegisteredCopy { registration, is_cut_off, state, status } = copy;
    let mut lines = match state {
        Some(state) => copy_lines(vfs, Path::new(&registration.copy), (state, status)),
        None => {
            let gap = contact_gap(status).map(|gap| format!("; {gap}")).unwrap_or_default();
            let first = format!("{}: cannot be read from this host{gap}", registration.copy);
            vec![first, queue_line(status)]
        }
    };
    lines.extend(registration.host.as_ref().map(|host| format!("  host: {host}")));
    let cut = if *is_cut_off { "; CUT OFF: its logs are no longer retained, reseed it" } else { "" };
    lines.push(format!("  needs generation {:X} (hexadecimal) and later{cut}", registration.needs.0));
    lines.extend(registration.waiting.as_ref().map(|what| format!("  waits: {what}")));
    lines
}
