//! `events.jsonl`: the events of a run or an engine. The file has one JSON object per line, and each event is written
//! immediately.
//!
//! ```text
//! {"at": "2026-11-23T13:00:00+00:00", "event": "pass_completed", "id": 721, "category": "Online Defragmentation",
//!  "severity": "information", "instance": "/var/lib/app", "text": "The checksum scan has completed …",
//!  "pages": 5850768, …}
//! ```
//!
//! `id` and `category` are those of ESE. Test events have neither, and some copy events have no `id`.

use std::io;
use std::path::Path;

use chrono::{DateTime, Local, SecondsFormat, TimeZone};
use ese_engine::{Event, EventSink, EventValue};
pub use jetcell_host::EVENT_FILE;
use jetcell_host::EventLines;
use serde::Serialize;
use serde_json::{Map, Value};

/// An [`EventLines`] file that also receives the events of the engine. Clones refer to the same file.
#[derive(Clone)]
pub struct EventFile(EventLines);

/// Engine event as it appears on a line of the file.
#[derive(Serialize)]
struct EngineEventLine {
    at: String,
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u16>,
    category: String,
    severity: String,
    instance: String,
    text: String,
    #[serde(flatten)]
    parameters: Map<String, Value>,
}

impl EventFile {
    /// Opens the event file in a directory, either to append to it or to overwrite it.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn open(directory: &Path, append: bool) -> io::Result<EventFile> {
        EventLines::open(directory, append).map(EventFile)
    }

    /// Appends a line. A failure does not stop the run, but all further lines are dropped.
    pub fn add(&self, line: &impl Serialize) {
        self.0.add(line);
    }

    /// Returns the reason why events are missing from the file, or `None` if the file is complete.
    pub fn failure(&self) -> Option<String> {
        self.0.failure()
    }
}

impl EventSink for EventFile {
    fn event(&self, event: &Event) {
        let described = event.describe();
        let number = |value: &EventValue| match value {
            EventValue::Text(text) => Value::from(text.clone()),
            EventValue::Number(number) => Value::from(*number),
            EventValue::Fraction(number) => Value::from(*number),
        };
        let named = described.parameters.iter().map(|(name, value)| ((*name).to_string(), number(value)));
        let at = Local.timestamp_millis_opt(event.at_unix_ms).single().unwrap_or_default();
        self.add(&EngineEventLine {
            at: rfc3339(&at),
            event: event.kind.name(),
            id: described.id,
            category: described.category.to_string(),
            severity: described.severity.to_string(),
            instance: event.instance.clone(),
            text: described.text,
            parameters: named.collect(),
        });
    }
}

/// Formats a time as it appears in results and events.
pub(crate) fn rfc3339(time: &DateTime<Local>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, false)
}

#[cfg(test)]
mod tests {
    use ese_engine::{EventKind, EventProfile, PassReport};

    use super::*;

    #[test]
    fn an_engine_event_is_one_line_with_number_and_text() {
        let dir = tempfile::tempdir().unwrap();
        let report = PassReport { pages: 5_850_768, uninitialized: 72_682, ..PassReport::default() };
        let event = Event {
            at_unix_ms: 1_182_211_200_000,
            instance: "/logs".to_string(),
            kind: EventKind::PassCompleted(report),
            profile: EventProfile::Sp1,
        };
        for append in [false, true] {
            EventFile::open(dir.path(), append).unwrap().event(&event);
        }
        let text = std::fs::read_to_string(dir.path().join(EVENT_FILE)).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2, "{text}");
        let line = &lines[1];
        assert_eq!((&line["event"], &line["id"]), (&"pass_completed".into(), &721.into()));
        assert_eq!(
            (&line["pages"], &line["category"]),
            (&5_850_768.into(), &"Online Defragmentation".into())
        );
        assert!(line["text"].as_str().unwrap().contains("72682 uninitialized pages"), "{line}");
        assert!(line["at"].as_str().unwrap().starts_with("2007-06-1"), "{line}");
    }
}
