//! Files in the directory of an array that change while the array is in use: the list of members, and the events.

use std::path::PathBuf;

use chrono::{Local, SecondsFormat};
use jetcell_array::ArrayStatus;
use jetcell_host::EventLines;
use serde::Serialize;
use serde_json::{Value, json};

use super::state_file::ArrayDirectory;
use crate::error::Result;

/// The files that belong to an array, in its directory.
pub(crate) struct ArrayFiles {
    pub directory: ArrayDirectory,
    pub events: EventLines,
}

/// Severity of an array event.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ArrayEventSeverity {
    Information,
    Warning,
    Error,
}

impl ArrayFiles {
    /// Records files that are about to become members. The next start can then find them after a crash.
    pub fn record_candidates(&mut self, paths: &[PathBuf]) -> Result<()> {
        let directory = &mut self.directory;
        let new = paths.iter().filter(|path| !directory.members.contains(path)).cloned();
        directory.members = directory.members.iter().cloned().chain(new).collect();
        directory.former.retain(|path| !paths.contains(path));
        directory.save()
    }

    /// Adds an event with additional values to the array's event file.
    pub fn event(&self, name: &str, severity: ArrayEventSeverity, text: &str, figures: Value) {
        let at = Local::now().to_rfc3339_opts(SecondsFormat::Millis, false);
        let mut line = json!({ "at": at, "event": name, "severity": severity, "text": text });
        if let (Some(line), Value::Object(figures)) = (line.as_object_mut(), figures) {
            line.extend(figures);
        }
        self.events.add(&line);
    }

    /// Records the completion of a rebuild. The reliability model assumes that the next rebuild has the same rate.
    pub fn rebuild_completed(&self, bytes: u64, seconds: f64, rows_lost: u64) {
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
    pub fn save_members(&mut self, status: &ArrayStatus) -> Result<()> {
        let members = member_paths(status);
        if members != self.directory.members {
            self.directory.set_members(members);
            self.directory.save()?;
        }
        Ok(())
    }
}

fn member_paths(status: &ArrayStatus) -> Vec<PathBuf> {
    let of_slots = status.slots.iter().flat_map(|slot| [&slot.member, &slot.replacement]).flatten();
    of_slots.chain(&status.spares).cloned().collect()
}
