//! `jetcell copies`: state, queues, lag and health of a copy, or of the copies of an instance.

mod pages_checked;
mod scanned;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ese_engine::{CopyRegistration, InstanceOptions};
use jetcell_copies::{CopyError, CopyState, History, Lag, Phase, Relation, health};
use jetcell_report::printable_lines;
use jetcell_vfs::{Clock, RealClock, Vfs};
use jetcell_workload::units::human_bytes;
use serde_json::{Value, json};

use self::pages_checked::{PagesChecked, checks_of};
pub use self::scanned::scan_json;
use self::scanned::{scan_lines, scan_of};
use crate::commands::backup::vfs;
use crate::commands::recover::files;
use crate::console;
use crate::outcome::{Failure, Outcome, print_error};

const EXAMPLES: &str = "\
Examples:
  jetcell copies /mnt/other/app-copy              one copy
  jetcell copies /var/lib/app                     all copies of the instance whose logs are there
  jetcell copies /var/lib/app --with /mnt/other/app-copy
                                                  how the histories of two sides stand to each other
  jetcell copies /var/lib/app --json | jq '.copies[].lag.generations'

Exit code: 0 all copies can follow, 1 a copy is unfit or cut off, or the histories have parted, 2 could not run.";

/// Shows the state of copies: queues, lag and health
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Copies {
    /// Directory of a copy, or of the logs of an instance
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Compare the history with that of another copy, instance or backup
    #[arg(long, value_name = "DIR")]
    with: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// A copy of an instance, as it has registered.
struct Registered {
    registration: CopyRegistration,
    cut_off: bool,
    state: Option<CopyState>,
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
        let vfs = vfs()?;
        if let Some(other) = &self.with {
            return self.compare(&vfs, other);
        }
        if let Some(state) = CopyState::read(&*vfs, &self.directory).map_err(explained)? {
            show_copy(&self.directory, &state, self.json);
            return Ok(outcome(is_fit(&state)));
        }
        let copies = self.registered(&*vfs)?;
        match self.json {
            true => {
                let copies: Vec<Value> = copies.iter().map(registered_json).collect();
                console::print(&format!("{}\n", json!({ "path": self.directory, "copies": copies })));
            }
            false => {
                let mut lines: Vec<String> = copies.iter().map(registered_text).collect();
                if lines.is_empty() {
                    lines.push(format!("{}: no copies are registered", self.directory.display()));
                }
                console::print(&format!("{}\n", printable_lines(&lines.join("\n"))));
            }
        }
        let fit = |copy: &Registered| !copy.cut_off && copy.state.as_ref().is_none_or(is_fit);
        Ok(outcome(copies.iter().all(fit)))
    }

    /// Says how the history in the directory stands to another one, and what to do.
    fn compare(&self, vfs: &Arc<dyn Vfs>, other: &Path) -> Result<Outcome, Failure> {
        let history = |directory: &Path| {
            let files = files(&[directory.to_path_buf()])?;
            History::of_files(vfs, &files).and_then(|history| history.with_part(directory)).map_err(explained)
        };
        let (ours, theirs) = (history(&self.directory)?, history(other)?);
        let relation = ours.compare(&theirs).map_err(explained)?;
        let (here, there) = (self.directory.display(), other.display());
        let is_backup = other.join("manifest.json").exists();
        let first = match relation {
            Relation::OtherContent(first) => Some(first),
            _ => None,
        };
        let commits = |ours: &History, theirs: &History| {
            first.and_then(|first| ours.changes_from(first, theirs).ok()).map(|changes| changes.commits)
        };
        let (only_here, only_there) = (commits(&ours, &theirs), commits(&theirs, &ours));
        let (name, text) = relation_text(relation, &here.to_string(), &there.to_string(), is_backup);
        let mut lines = vec![text];
        for (place, commits) in [(&here, only_here), (&there, only_there)] {
            if let Some(commits) = commits {
                lines.push(format!("  {commits} committed transactions are only in {place}"));
            }
        }
        console::print(&match self.json {
            true => format!(
                "{}\n",
                json!({
                    "path": self.directory, "with": other, "relation": name,
                    "first_different_generation": first.map(|first| first.0),
                    "commits_only_here": only_here, "commits_only_there": only_there,
                })
            ),
            false => format!("{}\n", printable_lines(&lines.join("\n"))),
        });
        Ok(outcome(!relation.is_divergence() && relation != Relation::NoCommonLog))
    }

    fn registered(&self, vfs: &dyn Vfs) -> Result<Vec<Registered>, Failure> {
        let failed = |error: std::io::Error| Failure::from(format!("{}: {error}", self.directory.display()));
        let files = vfs.list(&self.directory).map_err(failed)?;
        let extension = |path: &&PathBuf, wanted: &str| path.extension().is_some_and(|found| found == wanted);
        let is_log = |path: &&PathBuf| extension(path, "log") || extension(path, "jtx");
        if !files.iter().any(|path| is_log(&path)) {
            let what = "neither a copy nor the directory of the logs of an instance; name one of them";
            return Err(format!("{}: {what}", self.directory.display()).into());
        }
        let mut bases: Vec<String> = files
            .iter()
            .filter(|path| extension(path, "copy"))
            .filter_map(|path| Some(path.file_stem()?.to_str()?.rsplit_once('-')?.0.to_string()))
            .collect();
        bases.dedup();
        let mut copies = Vec::new();
        for base in bases {
            let newest = files.iter().filter_map(|path| generation(path, &base)).max().unwrap_or_default();
            let found = CopyRegistration::list(vfs, &self.directory, &base)
                .map_err(|error| explained(error.into()))?;
            for (path, registration) in found {
                let Some(registration) = registration else {
                    let what = "the registration of a copy cannot be read, so all logs are kept; remove it";
                    return Err(format!("{}: {what}", path.display()).into());
                };
                let limit = InstanceOptions::COPY_LAG_LIMIT;
                let cut_off = registration.is_cut_off(ese_format::Generation(newest), limit);
                let state = CopyState::read(vfs, Path::new(&registration.copy)).ok().flatten();
                let state = state.filter(|state| state.id == registration.id);
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

/// The generation of a log with this base name, by its name.
fn generation(path: &Path, base: &str) -> Option<u32> {
    let digits = path.file_stem()?.to_str()?.strip_prefix(base)?;
    u32::from_str_radix(digits, 16).ok().filter(|_| matches!(digits.len(), 5..=8))
}

/// A relation in one word, and in a sentence with the next command.
fn relation_text(relation: Relation, here: &str, there: &str, is_backup: bool) -> (&'static str, String) {
    let reseed = match is_backup {
        true => format!("restore the backup into a new directory to use it, or make a new one of {here}"),
        false => format!(
            "jetcell reseed --from THE_SIDE_TO_KEEP --to THE_OTHER --incremental, with {here} and {there}"
        ),
    };
    match relation {
        Relation::Equal => ("equal", format!("{here}: the same logs as in {there}; nothing is to be done")),
        Relation::Behind(logs) => (
            "behind",
            format!(
                "{here}: {there} continues it by {logs} logs; jetcell replicate --from {there} --to {here}"
            ),
        ),
        Relation::Ahead(logs) if is_backup => {
            ("ahead", format!("{here}: {logs} logs more than the backup, of the same history"))
        }
        Relation::Ahead(logs) => (
            "ahead",
            format!(
                "{here}: {logs} logs more than {there}, of the same history; jetcell replicate --from {here} --to {there}, or \
                 jetcell activate {here} if it is a copy"
            ),
        ),
        Relation::OtherContent(first) => (
            "other_content",
            format!(
                "{here}: log generation {:X} (hexadecimal) is another one than in {there}; {reseed}",
                first.0
            ),
        ),
        Relation::ForeignPast(first) => (
            "foreign_past",
            format!(
                "{here}: it ends, and log generation {:X} (hexadecimal) of {there} does not continue it; {reseed}",
                first.0
            ),
        ),
        Relation::OtherStream => {
            ("other_stream", format!("{here}: the logs in {there} are of another stream (-530)"))
        }
        Relation::NoCommonLog => (
            "no_common_log",
            format!(
                "{here}: the logs do not meet those in {there}; a copy has to be reseeded without --incremental"
            ),
        ),
    }
}

/// A time for people.
pub fn time_text(unix_ms: i64) -> String {
    ese_format::LogTime::from_unix_ms(unix_ms).to_string()
}

/// Prints the state of one copy.
pub fn show_copy(directory: &Path, state: &CopyState, json: bool) {
    let text = match json {
        true => copy_json(directory, state).to_string(),
        false => copy_text(directory, state),
    };
    console::print(&format!("{}\n", printable_lines(&text)));
}

/// One line about a copy that is working.
pub fn line(state: &CopyState) -> String {
    let lag = Lag::of(state, RealClock::new().unix_ms());
    format!(
        "generation {:X} replayed; queues: copy {}, replay {}; {} behind",
        state.replayed,
        state.copy_queue(),
        state.replay_queue(),
        human_bytes(lag.bytes)
    )
}

fn copy_json(directory: &Path, state: &CopyState) -> Value {
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
        "checks": checks_of(directory, state).iter().map(PagesChecked::json).collect::<Vec<_>>(),
        "scan": scan_json(directory, &scan_of(directory)),
        "streamed": streamed(directory).map(|(generation, bytes)| json!({ "generation": generation, "bytes": bytes })),
    })
}

/// The part of the log that the active side is writing which has arrived: its generation, and its bytes.
fn streamed(directory: &Path) -> Option<(u32, u64)> {
    let vfs = vfs().ok()?;
    jetcell_copies::streamed(&vfs, directory).map(|(generation, bytes)| (generation.0, bytes))
}

fn copy_text(directory: &Path, state: &CopyState) -> String {
    let lag = Lag::of(state, RealClock::new().unix_ms());
    let mut lines = vec![format!("{}: {}", directory.display(), health(state))];
    if let Phase::Unfit { what, .. } = &state.phase {
        lines.push(format!("  {what}"));
    }
    lines.push(format!("  active side: {}", state.source));
    if let Some(active) = state.active {
        let ago = RealClock::new().unix_ms().saturating_sub(active.at_unix_ms).max(0) / 1000;
        lines
            .push(format!("  closed generation there: {:X} (hexadecimal), asked {ago} s ago", active.closed));
    }
    lines.push(format!(
        "  copied up to generation {:X}, replayed up to {:X} (hexadecimal)",
        state.next.saturating_sub(1),
        state.replayed
    ));
    let seconds = lag.seconds.map_or("unknown time".to_string(), |seconds| format!("{seconds} s"));
    lines.push(format!(
        "  queues: copy {}, replay {}; behind by {} generations, {}, {seconds}",
        state.copy_queue(),
        state.replay_queue(),
        lag.generations,
        human_bytes(lag.bytes)
    ));
    if state.delay_seconds > 0 {
        lines.push(format!("  delay: {} s", state.delay_seconds));
    }
    if let Some((generation, bytes)) = streamed(directory) {
        let bytes = human_bytes(bytes);
        lines.push(format!("  of generation {generation:X}, which is being written, {bytes} have arrived"));
    }
    lines.extend(checks_of(directory, state).iter().map(PagesChecked::text));
    lines.extend(scan_lines(&scan_of(directory)));
    lines.join("\n")
}

fn registered_json(copy: &Registered) -> Value {
    let Registered { registration, cut_off, state } = copy;
    let directory = Path::new(&registration.copy);
    json!({
        "id": registration.id, "path": registration.copy, "needs_generation": registration.needs.0,
        "contact_unix_ms": registration.contact_unix_ms, "waiting": registration.waiting, "cut_off": cut_off,
        "state": state.as_ref().map(|state| copy_json(directory, state)),
    })
}

fn registered_text(copy: &Registered) -> String {
    let Registered { registration, cut_off, state } = copy;
    let cut = if *cut_off { "; CUT OFF: its logs are not kept any more, reseed it" } else { "" };
    let waits = registration.waiting.as_deref().map(|what| format!("\n  waits: {what}")).unwrap_or_default();
    let needs = format!("  needs generation {:X} (hexadecimal) and later{cut}{waits}", registration.needs.0);
    match state {
        Some(state) => format!("{}\n{needs}", copy_text(Path::new(&registration.copy), state)),
        None => format!("{}: cannot be read here\n{needs}", registration.copy),
    }
}

/// The error, with the number and the name that ESE has for it.
pub fn explained(error: CopyError) -> Failure {
    crate::commands::backup::explained_of_copy(error)
}
