//! Numbers, parameters and texts of events about snapshots.

use super::{EventDescription, EventValue, informational};
use crate::events::{EventCategory, EventSeverity, SnapshotEvent};

impl SnapshotEvent {
    pub(super) fn describe(&self) -> EventDescription {
        let says = |id, parameters, text: &str| {
            informational(id, EventCategory::Snapshot, parameters, text.to_string())
        };
        let as_error = |described| EventDescription { severity: EventSeverity::Error, ..described };
        match self {
            SnapshotEvent::Started { full: true } => {
                says(2005, vec![], "A snapshot of the instance is being prepared, as a full backup.")
            }
            SnapshotEvent::Started { full: false } => {
                says(2009, vec![], "A snapshot of the instance is being prepared, as a copy.")
            }
            SnapshotEvent::FreezeStarted => {
                says(2001, vec![], "The instance is being frozen for a snapshot.")
            }
            SnapshotEvent::FreezeFailed { error, what } => as_error(says(
                2002,
                vec![("error", (*error).into()), ("what", EventValue::Text(what.clone()))],
                &format!("The instance could not be frozen for a snapshot, error {error}: {what}."),
            )),
            SnapshotEvent::FreezeEnded => {
                says(2003, vec![], "The freeze has ended, and the instance continues.")
            }
            SnapshotEvent::FreezeTimedOut { milliseconds } => as_error(says(
                2004,
                vec![("milliseconds", (*milliseconds).into())],
                &format!(
                    "The freeze timed out after {milliseconds} ms. A snapshot taken during the freeze is not usable."
                ),
            )),
            SnapshotEvent::Completed => says(2006, vec![], "The snapshot of the instance is complete."),
            SnapshotEvent::Aborted => EventDescription {
                severity: EventSeverity::Warning,
                ..says(2007, vec![], "The snapshot of the instance was abandoned and is not usable.")
            },
        }
    }
}
