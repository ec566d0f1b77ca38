//! Numbers, parameters and texts of events about returning space to the file system.

use std::path::Path;

use super::{EventDescription, EventValue, informational};
use crate::events::{EventCategory, EventSeverity, SpaceEvent};

impl SpaceEvent {
    pub(super) fn describe(&self, database: &Path) -> EventDescription {
        let path = database.display();
        let with = |more: Vec<(&'static str, EventValue)>| {
            [("database", EventValue::from(database))].into_iter().chain(more).collect()
        };
        let says = |id, parameters, text| informational(id, EventCategory::General, parameters, text);
        let failure_description = |id, error: &i32, what: &String, task: &str| EventDescription {
            severity: EventSeverity::Error,
            ..says(
                id,
                with(vec![("error", (*error).into()), ("what", EventValue::Text(what.clone()))]),
                format!("The {task} of database '{path}' failed with error {error}: {what}."),
            )
        };
        match self {
            SpaceEvent::TrimStarted => says(
                740,
                with(Vec::new()),
                format!(
                    "The free space inside the file of database '{path}' is being returned to the file system."
                ),
            ),
            SpaceEvent::Trimmed(report) => says(
                741,
                with(vec![
                    ("pages", report.pages.into()),
                    ("holes", report.holes.into()),
                    ("bytes", (report.pages * report.page_bytes).into()),
                    ("released", report.released.into()),
                ]),
                format!(
                    "{} pages ({} bytes) inside the file of database '{path}' were returned to the file \
                     system, in {} holes.",
                    report.pages,
                    report.pages * report.page_bytes,
                    report.holes,
                ),
            ),
            SpaceEvent::NothingToTrim => says(
                742,
                with(Vec::new()),
                format!(
                    "The file of database '{path}' contains no free space that could be returned to the file system."
                ),
            ),
            SpaceEvent::Shrunk(report) => says(
                748,
                with(vec![
                    ("pages_before", report.pages_before.into()),
                    ("pages_after", report.pages_after.into()),
                    ("bytes_before", (report.pages_before * report.page_bytes).into()),
                    ("bytes_after", (report.pages_after * report.page_bytes).into()),
                    ("released", report.released.into()),
                    ("milliseconds", report.milliseconds.into()),
                ]),
                format!(
                    "The file of database '{path}' was shrunk from {} to {} pages.",
                    report.pages_before, report.pages_after
                ),
            ),
            SpaceEvent::TrimFailed { error, what } => failure_description(743, error, what, "trim"),
            SpaceEvent::ShrinkFailed { error, what } => failure_description(749, error, what, "shrink"),
        }
    }
}
