//! Numbers, parameters and texts of events about copies.

use super::{EventDescription, EventValue};
use crate::events::{CopyEvent, EventCategory, EventSeverity};

impl CopyEvent {
    /// Describes the event. `copy` is the directory of the copy.
    pub(super) fn describe(&self, copy: &str) -> EventDescription {
        let with = |more: Vec<(&'static str, EventValue)>| {
            [("copy", EventValue::Text(copy.to_string()))].into_iter().chain(more).collect()
        };
        let text = |what: &String| EventValue::Text(what.clone());
        let says = |id, severity, more, text| EventDescription {
            id,
            category: EventCategory::LoggingRecovery,
            severity,
            parameters: with(more),
            text,
        };
        let (informs, warns, fails) =
            (EventSeverity::Information, EventSeverity::Warning, EventSeverity::Error);
        match self {
            CopyEvent::BlockModeBegan { generation } => says(
                None,
                informs,
                vec![("generation", (*generation).into())],
                format!(
                    "The copy '{copy}' is in block mode: log generation {generation:X} (hexadecimal) arrives as it is written."
                ),
            ),
            CopyEvent::BlockModeEnded { what } => says(
                None,
                warns,
                vec![("what", text(what))],
                format!("The copy '{copy}' is in file mode: it gets logs when they are closed. {what}."),
            ),
            CopyEvent::LogRefused { generation, error, what } => {
                let id = match error {
                    -528 => Some(518),
                    -501 => Some(552),
                    -590 => Some(543),
                    _ => None,
                };
                says(
                    id,
                    fails,
                    vec![
                        ("generation", (*generation).into()),
                        ("error", (*error).into()),
                        ("what", text(what)),
                    ],
                    format!("The copy '{copy}' has not taken a log: {what}."),
                )
            }
            CopyEvent::Waiting { what } => says(
                None,
                warns,
                vec![("what", text(what))],
                format!("The copy '{copy}' waits, and tries again: {what}."),
            ),
            CopyEvent::Continued => says(None, informs, vec![], format!("The copy '{copy}' goes on.")),
            CopyEvent::Patched { database, pages, range, seconds } => {
                let [first, last] = range.map_or([0; 2], |(first, last)| [first.get(), last.get()]);
                says(
                    Some(334),
                    informs,
                    vec![
                        ("database", (&**database).into()),
                        ("pages", (*pages).into()),
                        ("first", first.into()),
                        ("last", last.into()),
                        ("seconds", EventValue::Fraction(*seconds)),
                    ],
                    format!(
                        "{pages} pages of the database '{}' were patched with those of the active side, in {seconds:.1} s.",
                        database.display()
                    ),
                )
            }
            CopyEvent::Unfit { what } => says(
                None,
                fails,
                vec![("what", text(what))],
                format!("The copy '{copy}' cannot follow any more: {what}."),
            ),
            CopyEvent::CutOff { needs, limit } => says(
                None,
                fails,
                vec![("needs", (*needs).into()), ("limit", (*limit).into())],
                format!(
                    "The copy '{copy}' needs log generation {needs:X} (hexadecimal) and is more than {limit} generations \
                     behind. Its logs are not kept any more; reseed it, or remove its registration."
                ),
            ),
        }
    }
}
