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
                    "The copy '{copy}' is in block mode: log generation {generation:X} (hexadecimal) is \
                     received as it is written."
                ),
            ),
            CopyEvent::BlockModeEnded { what } => says(
                None,
                warns,
                vec![("what", text(what))],
                format!("The copy '{copy}' is in file mode: it receives logs after they are closed. {what}."),
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
                    format!("The copy '{copy}' did not accept a log: {what}."),
                )
            }
            CopyEvent::Waiting { what } => says(
                None,
                warns,
                vec![("what", text(what))],
                format!("The copy '{copy}' is waiting and will retry: {what}."),
            ),
            CopyEvent::Continued => says(None, informs, vec![], format!("The copy '{copy}' continues.")),
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
                        "{pages} pages of the database '{}' were patched with pages from the active side in \
                         {seconds:.1} s.",
                        database.display()
                    ),
                )
            }
            CopyEvent::Unfit { what } => says(
                None,
                fails,
                vec![("what", text(what))],
                format!("The copy '{copy}' can no longer follow the active side: {what}."),
            ),
            CopyEvent::CutOff { needs, limit } => says(
                None,
                fails,
                vec![("needs", (*needs).into()), ("limit", (*limit).into())],
                format!(
                    "The copy '{copy}' needs log generation {needs:X} (hexadecimal) and lags by more than \
                     {limit} generations. Its logs are no longer retained; reseed the copy, or remove its \
                     registration."
                ),
            ),
        }
    }
}
