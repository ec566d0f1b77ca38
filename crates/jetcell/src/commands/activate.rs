//! `jetcell activate`: makes a copy the active side.

use std::path::{Path, PathBuf};

use clap::Args;
use jetcell_copies::{
    ActivatedCopy, ActivationCandidates, ActivationRequest, CopyError, LossLimit, LossPolicy,
};
use jetcell_host::host_name;
use jetcell_input::{OptionValueError, json_path, json_paths};
use jetcell_remote::{HostAddress, is_address};
use jetcell_report::{StyledText, Tone};
use serde_json::json;

use crate::commands::copies::format_time;
use crate::console;
use crate::outcome::{CommandError, CommandOutcome, CommandResult};
use crate::shared::files::event_sink;
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

impl ActivateArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        let directories: Vec<PathBuf> =
            self.directories.iter().filter(|directory| !is_address(directory)).cloned().collect();
        let here = confined_vfs(directories.iter().map(PathBuf::as_path))?;
        let limit = self.policy.map(LossPolicy::limit).or(self.lossy).unwrap_or(LossLimit::Nothing);
        let copies = self.directories.iter().map(|directory| {
            let directory = absolute(directory)?;
            if is_address(&directory) {
                return Err(CommandError::new("a copy can only be activated on its own host")
                    .context(directory.display())
                    .advise("run the command there"));
            }
            Ok(directory)
        });
        let copies = copies.collect::<CommandResult<Vec<_>>>()?;
        let skipped = |error: CopyError| report_skipped(error.into());
        let candidates = ActivationCandidates::read(&*here, &copies, limit, skipped)?;
        let places = self.remote.file_systems_with_copies(candidates.sources(), None, &directories)?;
        let request = ActivationRequest {
            ask_host: &|source: &Path| self.ask_host(&places, source),
            successor: &|directory: &Path, source: &str| self.successor(directory, source),
            open_events: &|directory: &Path| event_sink(directory, true),
            skipped: &report_skipped,
        };
        let copy = candidates.activate(places.vfs(), &request)?;
        console::print_result(self.json, || as_json(&copy), || as_text(&copy));
        Ok(if copy.result.lost.is_some() { CommandOutcome::Findings } else { CommandOutcome::Good })
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
}

/// Reports a copy that could not be activated, before the next copy is tried.
fn report_skipped(error: CommandError) {
    console::print_note(&format!("not activated: {}", error.full_text()));
}

fn as_json(copy: &ActivatedCopy) -> serde_json::Value {
    let ActivatedCopy { directory, result: activated, .. } = copy;
    json!({
        "path": json_path(directory), "last_generation": activated.last.0, "lost": activated.lost,
        "rolled_back": activated.rolled_back, "databases": json_paths(&activated.databases),
        "stepped_down": activated.stepped_down,
    })
}

fn as_text(copy: &ActivatedCopy) -> StyledText {
    let ActivatedCopy { directory, source, result: activated } = copy;
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
