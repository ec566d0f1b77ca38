//! Numbers, parameters and texts of online defragmentation events.

use std::path::Path;

use super::{EventDescription, EventValue, date, informational};
use crate::events::{DefragEvent, DefragReport, EventCategory, EventSeverity, LayoutReport};

impl DefragReport {
    fn parameters(&self, database: &Path) -> Vec<(&'static str, EventValue)> {
        vec![
            ("database", database.into()),
            ("pages_freed", self.pages_freed.into()),
            ("started", EventValue::Text(date(self.began_unix_ms))),
            ("seconds", self.seconds.into()),
            ("invocations", self.invocations.into()),
            ("days", self.days.into()),
            ("pages_visited", self.pages_visited.into()),
            ("partial_merges", self.partial_merges.into()),
            ("passes", self.total.passes.into()),
            ("total_days", self.total.days.into()),
        ]
    }
}

impl LayoutReport {
    fn describe(&self, database: &Path) -> EventDescription {
        let (table, index) = (self.table.clone(), self.index.clone().unwrap_or_default());
        let tree = match &self.index {
            Some(index) => format!("index '{index}' of table '{table}'"),
            None => format!("table '{table}'"),
        };
        let text = format!(
            "Online defragmentation has arranged {tree} in database '{}' in key order. It started on {}, \
             visited {} pages, freed {}, partially merged {} and moved {}.",
            database.display(),
            date(self.began_unix_ms),
            self.pages_visited,
            self.pages_freed,
            self.partial_merges,
            self.pages_moved,
        );
        let parameters = vec![
            ("database", database.into()),
            ("table", EventValue::Text(table)),
            ("index", EventValue::Text(index)),
            ("started", EventValue::Text(date(self.began_unix_ms))),
            ("pages_visited", self.pages_visited.into()),
            ("pages_freed", self.pages_freed.into()),
            ("partial_merges", self.partial_merges.into()),
            ("pages_moved", self.pages_moved.into()),
        ];
        informational(728, EventCategory::Maintenance, parameters, text)
    }
}

impl DefragEvent {
    pub(super) fn describe(&self, database: &Path) -> EventDescription {
        let path = database.display();
        let only_database = || vec![("database", EventValue::from(database))];
        let says = |id, parameters, text| informational(id, EventCategory::Maintenance, parameters, text);
        match self {
            DefragEvent::Started => says(
                700,
                only_database(),
                format!("Online defragmentation of database '{path}' has started a pass."),
            ),
            DefragEvent::Resumed(report) => says(
                702,
                vec![
                    ("database", database.into()),
                    ("started", EventValue::Text(date(report.began_unix_ms))),
                    ("days", report.days.into()),
                ],
                format!(
                    "Online defragmentation of database '{path}' resumes a pass that started on {}, {} days ago.",
                    date(report.began_unix_ms),
                    report.days.saturating_sub(1),
                ),
            ),
            DefragEvent::Completed(report) => {
                let (id, kind) =
                    if report.invocations > 1 { (703, "the resumed pass") } else { (701, "a pass") };
                says(
                    id,
                    report.parameters(database),
                    format!(
                        "Online defragmentation has completed {kind} over database '{path}' and freed {} \
                         pages. The pass started on {} and ran for {} seconds, in {} invocations over {} \
                         days. Since the database was created, it was defragmented {} times over {} days.",
                        report.pages_freed,
                        date(report.began_unix_ms),
                        report.seconds,
                        report.invocations,
                        report.days,
                        report.total.passes,
                        report.total.days,
                    ),
                )
            }
            DefragEvent::Interrupted => says(
                704,
                only_database(),
                format!(
                    "Online defragmentation of database '{path}' was interrupted. It will resume where it stopped."
                ),
            ),
            DefragEvent::Paused => says(
                715,
                only_database(),
                format!(
                    "Online defragmentation of database '{path}' is paused for lack of clean pages in the cache."
                ),
            ),
            DefragEvent::Continued => says(
                716,
                only_database(),
                format!("Online defragmentation of database '{path}' resumes after a pause."),
            ),
            DefragEvent::TreeLaidOut(report) => report.describe(database),
            DefragEvent::LayoutQueued { outstanding, not_started } => says(
                752,
                vec![
                    ("outstanding", (*outstanding).into()),
                    ("database", database.into()),
                    ("not_started", (*not_started).into()),
                ],
                format!(
                    "{outstanding} trees of database '{path}' are waiting for a sequential layout; \
                     {not_started} of them have not been started."
                ),
            ),
            DefragEvent::Failed { error, what } => EventDescription {
                severity: EventSeverity::Error,
                ..says(
                    705,
                    vec![
                        ("database", database.into()),
                        ("error", (*error).into()),
                        ("what", EventValue::Text(what.clone())),
                    ],
                    format!("Online defragmentation of database '{path}' failed with error {error}: {what}."),
                )
            },
        }
    }
}
