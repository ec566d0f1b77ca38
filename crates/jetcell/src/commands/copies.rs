//! `jetcell copies`: shows the state, queues, lag and health of a copy, or of all copies of an instance.

mod compared;
mod pages_checked;
mod scanned;
mod table;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ese_engine::{CopyRegistration, InstanceOptions};
use ese_format::{Generation, Signature};
use jetcell_copies::{CopyError, CopyState, Lag, Phase, health};
use jetcell_input::printable_rows;
use jetcell_vfs::{Clock, FileStem, RealClock, Vfs, host_name};
use jetcell_workload::units::human_bytes;
use serde_json::{Value, json};

use self::pages_checked::{PagesChecked, checks_of};
pub use self::scanned::scan_json;
use self::scanned::{scan_lines, scan_of};
use crate::commands::remote::{Places, RemoteArgs, said_of};
use crate::console;
use crate::outcome::{Failure, Outcome, print_error};

const EXAMPLES: &str = "\
Examples:
  jetcell copies /mnt/other/app-copy              one copy
  jetcell copies /var/lib/app                     all copies of the instance whose logs are in this directory
  jetcell copies /var/lib/app --with /mnt/other/app-copy
                                                  compares the histories of two sides
  jetcell copies tls://db1:9440/app tls://db2:9440/app --tls-ca ca.pem --token-file token
                                                  one table for several hosts
  jetcell copies /var/lib/app --json | jq '.copies[].lag.generations'

Exit code: 0 all copies can follow, 1 a copy is unfit or cut off, or the histories have diverged, 2 could not run.";

/// Show the state of copies: queues, lag and health
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Copies {
    /// Directory of a copy or of an instance's logs, or tls://HOST:PORT/NAME for a directory that jetcell serve
    /// provides on another host; several directories are shown in one table
    #[arg(value_name = "DIR|ADDRESS", required = true)]
    directories: Vec<PathBuf>,
    /// Compare the history with that of another copy, an instance or a backup
    #[arg(long, value_name = "DIR|ADDRESS")]
    with: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// A registered copy of an instance.
struct Registered {
    registration: CopyRegistration,
    cut_off: bool,
    state: Option<CopyState>,
}

/// Contents of a directory.
enum Side {
    Copy(Box<CopyState>),
    /// An instance with its registered copies.
    Instance(Vec<Registered>),
}

impl Copies {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        self.show().unwrap_or_else(|what| {
            print_error(what);
            Outcome::CouldNotRun
        })
    }

    fn show(&self) -> Result<Outcome, Failure> {
        let paths = self.directories.iter().chain(&self.with).map(PathBuf::as_path);
        let places = self.remote.places(paths, None)?;
        let [directory] = &self.directories[..] else {
            if self.with.is_some() {
                return Err("--with compares a single directory; give only one".into());
            }
            return Ok(table::show(&places, &self.directories, self.json));
        };
        if let Some(other) = &self.with {
            return compared::compare(&places, directory, other, self.json);
        }
        let (vfs, copies) = match Side::of(&places, directory)? {
            Side::Copy(state) => {
                show_copy(places.vfs(), directory, &state, self.json);
                return Ok(outcome(is_fit(&state)));
            }
            Side::Instance(copies) => (places.vfs(), copies),
        };
        match self.json {
            true => {
                let copies: Vec<Value> = copies.iter().map(|copy| registered_json(vfs, copy)).collect();
                console::print_json(&format!("{}\n", json!({ "path": directory, "copies": copies })));
            }
            false => {
                let mut lines: Vec<String> =
                    copies.iter().flat_map(|copy| registered_lines(vfs, copy)).collect();
                if lines.is_empty() {
                    lines.push(format!("{}: no copies are registered", directory.display()));
                }
                console::show(&(printable_rows(&lines) + "\n"));
            }
        }
        Ok(outcome(copies.iter().all(Registered::is_fit)))
    }
}

impl Registered {
    fn is_fit(&self) -> bool {
        !self.cut_off
            && self.registration.unreadable_since.is_none()
            && self.state.as_ref().is_none_or(is_fit)
    }
}

impl Side {
    /// Determines what a directory contains.
    fn of(places: &Places, directory: &Path) -> Result<Side, Failure> {
        let vfs = &**places.vfs();
        if let Some(connected) = places.connect(directory) {
            connected.map_err(|error| said_of(directory, &error))?;
        }
        if let Some(state) = CopyState::read(vfs, directory).map_err(explained)? {
            return Ok(Side::Copy(Box::new(state)));
        }
        Side::registered(vfs, directory).map(Side::Instance)
    }

    fn registered(vfs: &dyn Vfs, directory: &Path) -> Result<Vec<Registered>, Failure> {
        let failed = |error: std::io::Error| Failure::from(format!("{}: {error}", directory.display()));
        let files = vfs.list(directory).map_err(failed)?;
        let extension = |path: &&PathBuf, wanted: &str| path.extension().is_some_and(|found| found == wanted);
        let is_log = |path: &&PathBuf| extension(path, "log") || extension(path, "jtx");
        if !files.iter().any(|path| is_log(&path)) {
            let what = "neither a copy nor the log directory of an instance; give one of these";
            return Err(format!("{}: {what}", directory.display()).into());
        }
        let mut bases: Vec<FileStem> = files
            .iter()
            .filter(|path| extension(path, "copy"))
            .filter_map(|path| FileStem::new(path.file_stem()?.to_str()?.rsplit_once('-')?.0).ok())
            .collect();
        bases.dedup();
        let mut copies = Vec::new();
        for base in bases {
            let newest = files.iter().filter_map(|path| generation(path, &base)).max().unwrap_or_default();
            let found =
                CopyRegistration::list(vfs, directory, base).map_err(|error| explained(error.into()))?;
            for (path, registration) in found {
                // An unreadable registration must not prevent the others from being shown.
                let id = path.file_name().and_then(|name| CopyRegistration::id_of(name.to_str()?, base));
                let stand_in = |id| {
                    let (stream, newest) = (Signature::default(), Generation(newest));
                    CopyRegistration::unreadable(id, stream, newest)
                };
                let Some(registration) = registration.or_else(|| id.map(stand_in)) else { continue };
                let limit = InstanceOptions::COPY_LAG_LIMIT;
                let cut_off = registration.is_cut_off(Generation(newest), limit);
                // The same path on another host refers to a different directory.
                let is_here = registration.host.as_ref().is_none_or(|host| *host == host_name());
                let directory = Path::new(&registration.copy);
                let read = || CopyState::read(vfs, directory).ok().flatten();
                let state = is_here.then(read).flatten().filter(|state| state.id == registration.id);
                copies.push(Registered { registration, cut_off, state });
            }
        }
        Ok(copies)
    }
}

fn outcome(good: bool) -> Outcome {
    if good { Outcome::Good } else { Outcome::Findings }
}

fn is_fit(state: &CopyState) -> bool {
    !matches!(state.phase, Phase::Unfit { .. })
}

/// Parses the generation from the name of a log file with the given base name.
fn generation(path: &Path, base: &str) -> Option<u32> {
    let digits = path.file_stem()?.to_str()?.strip_prefix(base)?;
    u32::from_str_radix(digits, 16).ok().filter(|_| matches!(digits.len(), 5..=8))
}

/// Formats a time for display.
pub fn time_text(unix_ms: i64) -> String {
    ese_format::LogTime::from_unix_ms(unix_ms).to_string()
}

/// Prints the state of one copy.
pub fn show_copy(vfs: &Arc<dyn Vfs>, directory: &Path, state: &CopyState, json: bool) {
    let text = match json {
        true => copy_json(vfs, directory, state).to_string(),
        false => printable_rows(copy_lines(vfs, directory, state)),
    };
    console::answer(json, &format!("{text}\n"));
}

/// Returns a one-line summary of a copy that is following.
pub fn line(state: &CopyState) -> String {
    let lag = Lag::of(state, RealClock::new().unix_ms());
    format!(
        "generation {:X} replayed; queues: copy {}, replay {}; lags by {}",
        state.replayed,
        state.copy_queue(),
        state.replay_queue(),
        human_bytes(lag.bytes)
    )
}

fn copy_json(vfs: &Arc<dyn Vfs>, directory: &Path, state: &CopyState) -> Value {
    let lag = Lag::of(state, RealClock::new().unix_ms());
    let unfit = match &state.phase {
        Phase::Unfit { reason, what } => json!({ "reason": reason, "what": what }),
        _ => Value::Null,
    };
    let databases: Vec<_> = state.databases.iter().map(|database| directory.join(&database.file)).collect();
    json!({
        "path": directory, "id": state.id, "source": state.source, "health": health(state), "unfit": unfit,
        "copied_generation": state.next.saturating_sub(1), "replayed_generation": state.replayed,
        "copy_queue": state.copy_queue(), "replay_queue": state.replay_queue(),
        "lag": { "generations": lag.generations, "bytes": lag.bytes, "seconds": lag.seconds },
        "active": state.active, "delay_seconds": state.delay_seconds, "databases": databases,
        "checks": checks_of(&**vfs, directory, state).iter().map(PagesChecked::json).collect::<Vec<_>>(),
        "scan": scan_json(directory, &scan_of(&**vfs, directory)),
        "streamed": streamed(vfs, directory).map(|(generation, bytes)| json!({ "generation": generation, "bytes": bytes })),
    })
}

/// Returns how much of the active side's current log has arrived: its generation, and the number of bytes.
fn streamed(vfs: &Arc<dyn Vfs>, directory: &Path) -> Option<(u32, u64)> {
    jetcell_copies::streamed(vfs, directory).map(|(generation, bytes)| (generation.0, bytes))
}

fn copy_lines(vfs: &Arc<dyn Vfs>, directory: &Path, state: &CopyState) -> Vec<String> {
    let lag = Lag::of(state, RealClock::new().unix_ms());
    let mut lines = vec![format!("{}: {}", directory.display(), health(state))];
    if let Phase::Unfit { what, .. } = &state.phase {
        lines.push(format!("  {what}"));
    }
    lines.push(format!("  active side: {}", state.source));
    if let Some(active) = state.active {
        let ago = RealClock::new().unix_ms().saturating_sub(active.at_unix_ms).max(0) / 1000;
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
    let seconds = lag.seconds.map_or("unknown time".to_string(), |seconds| format!("{seconds} s"));
    lines.push(format!(
        "  queues: copy {}, replay {}; lags by {} generations, {}, {seconds}",
        state.copy_queue(),
        state.replay_queue(),
        lag.generations,
        human_bytes(lag.bytes)
    ));
    if state.delay_seconds > 0 {
        lines.push(format!("  delay: {} s", state.delay_seconds));
    }
    if let Some((generation, bytes)) = streamed(vfs, directory) {
        let bytes = human_bytes(bytes);
        lines.push(format!("  current generation {generation:X}: {bytes} received"));
    }
    lines.extend(checks_of(&**vfs, directory, state).iter().flat_map(PagesChecked::lines));
    lines.extend(scan_lines(&scan_of(&**vfs, directory)));
    lines
}

fn registered_json(vfs: &Arc<dyn Vfs>, copy: &Registered) -> Value {
    let Registered { registration, cut_off, state } = copy;
    let directory = Path::new(&registration.copy);
    json!({
        "id": registration.id, "host": registration.host, "path": registration.copy, "needs_generation": registration.needs.0,
        "contact_unix_ms": registration.contact_unix_ms, "waiting": registration.waiting, "cut_off": cut_off,
        "state": state.as_ref().map(|state| copy_json(vfs, directory, state)),
    })
}

fn registered_lines(vfs: &Arc<dyn Vfs>, copy: &Registered) -> Vec<String> {
    let Registered { registration, cut_off, state } = copy;
    let mut lines = match state {
        Some(state) => copy_lines(vfs, Path::new(&registration.copy), state),
        None => vec![format!("{}: cannot be read from this host", registration.copy)],
    };
    lines.extend(registration.host.as_ref().map(|host| format!("  host: {host}")));
    let cut = if *cut_off { "; CUT OFF: its logs are no longer retained, reseed it" } else { "" };
    lines.push(format!("  needs generation {:X} (hexadecimal) and later{cut}", registration.needs.0));
    lines.extend(registration.waiting.as_ref().map(|what| format!("  waits: {what}")));
    lines
}

/// Converts the error to a failure whose message includes ESE's number and name for the error.
pub fn explained(error: CopyError) -> Failure {
    crate::commands::backup::explained_of_copy(error)
}
