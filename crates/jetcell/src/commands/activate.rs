//! `jetcell activate`: makes a copy the active side.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ese_engine::EventSink;
use jetcell_copies::{
    ActivationResult, CopyError, CopyPhase, CopyState, DirectorySource, LossLimit, LossPolicy, ReplayOptions,
    StreamDirectory, activate_as,
};
use jetcell_host::host_name;
use jetcell_input::{OptionValueError, json_path, json_paths};
use jetcell_remote::{HostAddress, is_address};
use jetcell_report::{StyledText, Tone};
use jetcell_vfs::Vfs;
use jetcell_workload::EventFile;
use serde_json::json;

use crate::commands::copies::format_time;
use crate::console;
use crate::outcome::{CommandError, CommandOutcome, CommandResult};
use crate::shared::files::open_events;
use crate::shared::remote::{CommandFileSystems, RemoteAccessOptions, absolute, confined_vfs, remote_error};

const EXAMPLES: &str = "\
The instance must be stopped or must have crashed. Its last logs, including the current log, are copied, and nothing is lost. The
instance then steps down: it can no longer be opened and is a copy of the new active side. With --lossy, the copy is activated
even if logs of the instance are missing or damaged; the instance has then diverged and must be reseeded. The same command
completes an interrupted activation.

Examples:
  jetcell activate /mnt/other/app-copy
      activates without loss, or fails
  jetcell activate /mnt/other/app-copy --lossy 6
      loses at most six closed logs and the current log
  jetcell activate /mnt/other/app-copy --lossy any
  jetcell activate /copies/one /copies/two --policy good-availability
      the copy that lacks the fewest logs; loses at most six closed logs
  jetcell replicate --from /mnt/other/app-copy --to /var/lib/app
      then replicates in the opposite direction
  jetcell activate /copies/app --advertise tls://db2:9440/app --tls-ca ca.pem --token-file token
      the instance is on another host, which runs jetcell serve
      with --allow-handover

Exit code: 0 activated without loss, 1 activated with the loss that --lossy allowed, 2 not activated.";

/// Make a copy the active side
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ActivateArgs {
    /// Directory of the copy; if several are specified, the copy that lacks the fewest logs is activated
    #[arg(value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,
    /// Maximum number of closed logs that may be lost: a number, or any
    #[arg(long, value_name = "N|any", value_parser = limit)]
    lossy: Option<LossLimit>,
    /// Lose nothing if possible, otherwise at most the number of closed logs that the policy allows: lossless 0,
    /// good-availability 6, best-availability 12
    #[arg(long, value_name = "POLICY", value_parser = policy, conflicts_with = "lossy")]
    policy: Option<LossPolicy>,
    /// Address of jetcell serve on this host where the old active side on another host can reach the copy
    #[arg(long, value_name = "ADDRESS", value_parser = advertised)]
    advertise: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: RemoteAccessOptions,
}

fn advertised(text: &str) -> Result<String, OptionValueError> {
    let form = "use the form tls://HOST:PORT/NAME";
    match HostAddress::from_path(Path::new(text)) {
        Some(Ok(_)) => Ok(text.to_string()),
        Some(Err(error)) => Err(OptionValueError::new(error, form)),
        None => Err(OptionValueError::unknown(text, "an address", form)),
    }
}

fn limit(text: &str) -> Result<LossLimit, OptionValueError> {
    match text {
        "any" => Ok(LossLimit::Any),
        number => number.parse().map(LossLimit::Generations).map_err(|_| {
            OptionValueError::unparsable(
                number,
                "a number of generations",
                "specify a number such as 6, or any",
            )
        }),
    }
}

fn policy(text: &str) -> Result<LossPolicy, OptionValueError> {
    LossPolicy::ALL.into_iter().find(|policy| policy.name() == text).ok_or_else(|| {
        let names = LossPolicy::ALL.map(LossPolicy::name).join(", ");
        OptionValueError::unknown(text, "a policy", format!("use one of {names}"))
    })
}

/// Sorts the copies into the order in which they are tried. An interrupted activation comes first, then the copies
/// that are following, those that lack the fewest generations first. Copies that cannot follow come last.
fn in_order(copies: &mut [(PathBuf, CopyState)]) {
    copies.sort_by_key(|(_, state)| {
        let rank = match state.phase {
            CopyPhase::Activating { .. } => 0,
            CopyPhase::Following => 1,
            CopyPhase::Unfit { .. } => 2,
            CopyPhase::Seeding => 3,
        };
        (rank, std::cmp::Reverse(state.next), state.replay_queue())
    });
}

impl ActivateArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        let directories: Vec<PathBuf> =
            self.directories.iter().filter(|directory| !is_address(directory)).cloned().collect();
        let here = confined_vfs(directories.iter().map(PathBuf::as_path))?;
        let limit = self.policy.map(LossPolicy::limit).or(self.lossy).unwrap_or(LossLimit::Nothing);
        let may_lose_logs = limit != LossLimit::Nothing;
        let (mut copies, mut unreadable) = (Vec::new(), Vec::new());
        for directory in &self.directories {
            let directory = absolute(directory)?;
            if is_address(&directory) {
                return Err(CommandError::new("a copy can only be activated on its own host")
                    .context(directory.display())
                    .advise("run the command there"));
            }
            match CopyState::read(&*here, &directory) {
                Ok(Some(state)) => copies.push((directory, state)),
                Ok(None) => {
                    return Err(CommandError::new(format_args!("{} is not a copy", directory.display()))
                        .advise("specify the directory of a copy"));
                }
                Err(error) if error.may_try_another_copy(may_lose_logs) => {
                    unreadable.push(CommandError::from(error));
                }
                Err(error) => return Err(error.into()),
            }
        }
        let refused = if copies.is_empty() { unreadable.pop() } else { None };
        unreadable.iter().for_each(report_skipped);
        if let Some(error) = refused {
            return Err(error);
        }
        in_order(&mut copies);
        let sources = copies.iter().map(|(_, state)| Path::new(&state.source));
        let places = self.remote.file_systems_with_copies(sources, None, &directories)?;
        let last = copies.len().saturating_sub(1);
        for (at, (directory, state)) in copies.iter().enumerate() {
            self.ask_host(&places, Path::new(&state.source))?;
            let error = match open_events(directory) {
                Ok(events) => match self.activate_one(places.vfs(), directory, state, events, limit) {
                    // Another copy may have the logs that this copy lacks.
                    Err(error) if error.may_try_another_copy(may_lose_logs) => CommandError::from(error),
                    activated => return activated.map_err(CommandError::from),
                },
                // Nothing has been changed. If logs may be lost, another copy could lack more of them.
                Err(error) if may_lose_logs => return Err(error),
                Err(error) => error,
            };
            if at == last {
                return Err(error);
            }
            report_skipped(&error);
        }
        Err(CommandError::new("specify the directory of a copy"))
    }

    /// Asks the host of the active side to hand over its role. Fails if the host answers but refuses, because the
    /// activation must not treat such a host as unreachable.
    fn ask_host(&self, places: &CommandFileSystems, source: &Path) -> CommandResult<()> {
        match places.connect(source) {
            Some(Err(error)) if !error.is_temporary() => Err(remote_error(source, error)),
            Some(Ok(welcome)) if !welcome.allows_handover => {
                Err(CommandError::new("jetcell serve on the other host does not allow a handover")
                    .context(source.display())
                    .advise("start it with --allow-handover"))
            }
            Some(Ok(_)) => places.require_directory(source),
            _ => Ok(()),
        }
    }

    /// Returns the path or address at which the old active side can reach this copy.
    fn successor(&self, directory: &Path, source: &str) -> String {
        match &self.advertise {
            Some(address) => address.clone(),
            None if is_address(Path::new(source)) => format!("{}:{}", host_name(), directory.display()),
            None => directory.display().to_string(),
        }
    }

    fn activate_one(
        &self,
        vfs: &Arc<dyn Vfs>,
        directory: &Path,
        state: &CopyState,
        events: EventFile,
        limit: LossLimit,
    ) -> Result<CommandOutcome, CopyError> {
        let logs = StreamDirectory::new(vfs, state.source.as_ref(), state.base_name, state.log_name_form());
        let options = ReplayOptions {
            events: Some(Arc::new(events) as Arc<dyn EventSink>),
            ..ReplayOptions::default()
        };
        let source = Box::new(DirectorySource::new(logs));
        let successor = self.successor(directory, &state.source);
        let activated = activate_as(vfs, directory, &successor, source, limit, &options)?;
        let text = || as_text(directory, &activated, &state.source);
        console::print_result(self.json, || as_json(directory, &activated), text);
        Ok(if activated.lost.is_some() { CommandOutcome::Findings } else { CommandOutcome::Good })
    }
}

/// Reports a copy that was not activated, before another copy is tried.
fn report_skipped(error: &CommandError) {
    console::print_note(&format!("not activated: {}", error.full_text()));
}

fn as_json(directory: &Path, activated: &ActivationResult) -> serde_json::Value {
    json!({
        "path": json_path(directory), "last_generation": activated.last.0, "lost": activated.lost,
        "rolled_back": activated.rolled_back, "databases": json_paths(&activated.databases),
        "stepped_down": activated.stepped_down,
    })
}

fn as_text(directory: &Path, activated: &ActivationResult, source: &str) -> StyledText {
    let mut out = StyledText::new();
    out.add_line(&format!("{}: active; its databases are clean", directory.display()));
    out.add_line(&format!(
        "  {} unfinished transactions were rolled back; its logs continue after generation {:X} \
             (hexadecimal)",
        activated.rolled_back, activated.last.0
    ));
    match &activated.lost {
        None => out.add_line("  nothing was lost"),
        Some(lost) => {
            let what = if lost.first_in_part { "the end of log generation" } else { "log generation" };
            let to = if lost.last_known > lost.first {
                format!(" to at least {:X}", lost.last_known)
            } else {
                String::new()
            };
            out += "  ";
            out.push("LOST", Tone::Bad);
            out.add_line(&format!(": {what} {:X}{to} (hexadecimal)", lost.first));
            out.add_line(&match lost.commits {
                Some(commits) => format!("  the lost logs contained {commits} committed transactions"),
                None => "  the number of committed transactions in the lost logs is unknown".to_string(),
            });
            if let Some(kept) = lost.kept_until_unix_ms {
                out.add_line(&format!("  commits up to {} are retained", format_time(kept)));
            }
        }
    }
    out.add_line(&match (activated.stepped_down, activated.lost.is_some()) {
        (true, false) => format!("  {source} is now a copy: update it with jetcell replicate"),
        (true, true) => {
            format!("  {source} has diverged: resynchronize it with jetcell reseed --incremental")
        }
        (false, _) => format!("  {source} was unreachable: do not start it until it has been reseeded"),
    });
    for database in &activated.databases {
        out.add_line(&format!("  database: {}", database.display()));
    }
    out
}
