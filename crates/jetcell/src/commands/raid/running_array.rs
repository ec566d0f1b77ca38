//! An array that a command uses. It is started from its directory, with its event file, and shut down at the end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{Local, SecondsFormat};
use clap::Args;
use jetcell_array::{
    Array, ArrayError, ArrayExamination, ArrayRefusal, ArrayState, ArrayStatus, AssembleOptions, MemberState,
};
use jetcell_luns::LunVolume;
use jetcell_vfs::Vfs;
use jetcell_workload::EventFile;
use serde_json::{Value, json};

use super::array_directory::{ArrayDirectory, find_locked_member};
use crate::console;
use crate::outcome::{CommandContext, CommandError, CommandResult};
use crate::shared::files::vfs;

/// Options for starting an array.
#[derive(Args)]
pub struct ArrayStartOptions {
    /// Directory of the array
    #[arg(value_name = "ARRAY")]
    pub array: PathBuf,
    /// Start even if the array was not shut down cleanly and members are missing; the last writes may be lost
    #[arg(long)]
    start_degraded: bool,
}

/// A started array, with its file system and files.
pub struct RunningArray {
    pub array: Array,
    /// The machine's file system, with an additional layer if the members are simulated drives.
    pub vfs: Arc<dyn Vfs>,
    pub files: ArrayFiles,
}

/// The files that belong to an array, in its directory.
pub struct ArrayFiles {
    pub directory: ArrayDirectory,
    events: EventFile,
}

impl ArrayStartOptions {
    /// Creates options for starting the array in a directory without `--start-degraded`.
    pub fn for_array(array: &Path) -> ArrayStartOptions {
        ArrayStartOptions { array: array.to_path_buf(), start_degraded: false }
    }

    /// Starts the array from the members that are listed in its directory and confirmed by their superblocks.
    pub fn start(&self) -> CommandResult<RunningArray> {
        let directory = ArrayDirectory::open(&self.array)?;
        let vfs = vfs()?;
        if let Some(used) = find_locked_member(&directory.members) {
            let (array, member) = (self.array.display(), used.display());
            return Err(CommandError::new(format_args!(
                "{array}: another process is using the array (its member {member})"
            ))
            .advise("stop that process first"));
        }
        let found = ArrayExamination::new(&*vfs, directory.id, &directory.members)
            .map_err(|error| with_array_name(&self.array, error))?;
        let events = EventFile::open(&directory.path, true)
            .context(format_args!("{}: events cannot be written", self.array.display()))?;
        let (known, left_out): (Vec<_>, Vec<_>) =
            found.members.into_iter().partition(|(_, state)| state.is_used());
        for (path, state) in &left_out {
            console::print_note(&format!("{}: skipped: {}", path.display(), describe_exclusion(state)));
        }
        let members: Vec<PathBuf> = known.into_iter().map(|(path, _)| path).collect();
        let options = AssembleOptions { force: self.start_degraded, ..AssembleOptions::default() };
        let of_members = match &directory.simulated_drive {
            Some(drive) => drive.wrap_vfs(vfs.clone())?,
            None => vfs.clone(),
        };
        let mut array = Array::assemble(of_members, &members, options).map_err(|error| match error {
            ArrayError::Refused(ArrayRefusal::DirtyDegraded { .. }) => with_array_name(&self.array, error)
                .advise(
                    "reconnect the members, or start the array once with jetcell raid serve --start-degraded",
                ),
            error => with_array_name(&self.array, error),
        })?;
        LunVolume::clear_torn_rows(&mut array).map_err(|error| with_array_name(&self.array, error))?;
        let mut running = RunningArray { array, vfs, files: ArrayFiles { directory, events } };
        for (path, state) in left_out {
            running.event(
                "member_left_out",
                ArrayEventSeverity::Warning,
                &format!("{} was skipped: {}.", path.display(), describe_exclusion(&state)),
                json!({}),
            );
        }
        running.save_members()?;
        Ok(running)
    }
}

/// Severity of an array event.
#[derive(Clone, Copy)]
pub enum ArrayEventSeverity {
    Information,
    Warning,
    Error,
}

impl ArrayFiles {
    /// Records files that are about to become members, so that the next start can find them after a crash.
    pub fn record_candidates(&mut self, paths: &[PathBuf]) -> CommandResult<()> {
        let directory = &mut self.directory;
        let new = paths.iter().filter(|path| !directory.members.contains(path)).cloned();
        directory.members = directory.members.iter().cloned().chain(new).collect();
        directory.save()
    }

    /// Adds an event with additional values to the array's event file.
    pub fn event(&mut self, name: &str, severity: ArrayEventSeverity, text: &str, figures: Value) {
        add_event(&self.events, name, severity, text, figures);
    }

    /// Records the completion of a rebuild. The reliability model assumes that the next rebuild has the same rate.
    pub fn rebuild_completed(&mut self, bytes: u64, seconds: f64, rows_lost: u64) {
        let (severity, rest) = match rows_lost {
            0 => (ArrayEventSeverity::Information, String::new()),
            _ => (
                ArrayEventSeverity::Error,
                format!("; {rows_lost} rows lost too many blocks and cannot be recovered"),
            ),
        };
        let figures = json!({ "bytes": bytes, "seconds": seconds, "rows_lost": rows_lost });
        self.event("rebuild_completed", severity, &format!("The rebuild is complete{rest}."), figures);
    }

    /// Writes the array's current members.
    pub fn save_members(&mut self, status: &ArrayStatus) -> CommandResult<()> {
        let members = member_paths(status);
        if members != self.directory.members {
            self.directory.members = members;
            self.directory.save()?;
        }
        Ok(())
    }
}

impl RunningArray {
    /// Adds an event with additional values to the array's event file.
    pub fn event(&mut self, name: &str, severity: ArrayEventSeverity, text: &str, figures: Value) {
        self.files.event(name, severity, text, figures);
    }

    /// Writes the array's current members to `array.toml` in its directory.
    pub fn save_members(&mut self) -> CommandResult<()> {
        self.files.save_members(&self.array.status())
    }

    /// Shuts the array down.
    pub fn close(mut self) -> CommandResult<()> {
        self.save_members()?;
        let path = self.files.directory.path;
        self.array.close().map_err(|error| with_array_name(&path, error))
    }
}

/// Adds an event to an event file.
pub fn add_event(events: &EventFile, name: &str, severity: ArrayEventSeverity, text: &str, figures: Value) {
    let severity = match severity {
        ArrayEventSeverity::Information => "information",
        ArrayEventSeverity::Warning => "warning",
        ArrayEventSeverity::Error => "error",
    };
    let at = Local::now().to_rfc3339_opts(SecondsFormat::Millis, false);
    let mut line = json!({ "at": at, "event": name, "severity": severity, "text": text });
    if let (Some(line), Value::Object(figures)) = (line.as_object_mut(), figures) {
        line.extend(figures);
    }
    events.add(&line);
}

fn with_array_name(array: &Path, error: ArrayError) -> CommandError {
    CommandError::from(error).context(array.display())
}

fn member_paths(status: &ArrayStatus) -> Vec<PathBuf> {
    let of_slots = status.slots.iter().flat_map(|slot| [&slot.member, &slot.replacement]).flatten();
    of_slots.chain(&status.spares).cloned().collect()
}

/// Describes why a file is not used.
pub fn describe_exclusion(state: &MemberState) -> String {
    match state {
        MemberState::Slot(slot) => format!("it is the member of slot {slot}"),
        MemberState::Replacement(slot) => format!("it is the rebuild target of slot {slot}"),
        MemberState::Spare => "it is a spare".into(),
        MemberState::Stale => "it has missed writes, or was replaced".into(),
        MemberState::Foreign => "it belongs to another array".into(),
        MemberState::NotAMember => {
            "it does not have an array superblock, or both superblocks are damaged".into()
        }
        MemberState::Absent => "the file does not exist".into(),
        MemberState::Unreadable(error) => format!("it cannot be read: {error}"),
    }
}

/// Returns the state of an array as one word.
pub fn state_name(state: ArrayState) -> &'static str {
    match state {
        ArrayState::Optimal => "optimal",
        ArrayState::Degraded(_) => "degraded",
        ArrayState::Stopped => "stopped",
    }
}
