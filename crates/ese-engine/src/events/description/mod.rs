//! Number, category, severity, parameters and text of events.

mod defragmentation;
mod divergence;
mod replication;
mod snapshot;
mod space;

use std::path::Path;

use ese_format::LogTime;

use super::profile::PassStage;
use super::{EventCategory, EventKind, EventProfile, EventSeverity, PageDamage, PageDamageKind, PassReport};

/// Description of an event for users and programs.
#[derive(Clone, Debug, PartialEq)]
pub struct EventDescription {
    /// ESE's number for the event. `None` if ESE has no such event.
    pub id: Option<u16>,
    /// Category of the event.
    pub category: EventCategory,
    /// Severity of the event.
    pub severity: EventSeverity,
    /// Event parameters by name.
    pub parameters: Vec<(&'static str, EventValue)>,
    /// Text of the event, in one or two sentences.
    pub text: String,
}

/// Value of an event parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum EventValue {
    /// Text or a path.
    Text(String),
    /// A number.
    Number(i64),
    /// A time span, or another fractional number.
    Fraction(f64),
}

impl From<&Path> for EventValue {
    fn from(path: &Path) -> EventValue {
        EventValue::Text(path.display().to_string())
    }
}

impl From<u64> for EventValue {
    fn from(number: u64) -> EventValue {
        EventValue::Number(number.try_into().unwrap_or(i64::MAX))
    }
}

impl From<u32> for EventValue {
    fn from(number: u32) -> EventValue {
        EventValue::Number(number.into())
    }
}

impl From<i32> for EventValue {
    fn from(number: i32) -> EventValue {
        EventValue::Number(number.into())
    }
}

/// Number of days after which a pass counts as late. ESE: `JET_paramDbScanIntervalMaxSec`.
#[doc(alias = "JET_paramDbScanIntervalMaxSec")]
const LATE_AFTER_DAYS: u64 = 7;

fn informational(
    id: u16,
    category: EventCategory,
    parameters: Vec<(&'static str, EventValue)>,
    text: String,
) -> EventDescription {
    EventDescription { id: Some(id), category, severity: EventSeverity::Information, parameters, text }
}

impl EventKind {
    /// Returns the number, category, severity, parameters and text of the event.
    pub fn describe(&self, profile: EventProfile) -> EventDescription {
        match self {
            EventKind::InstanceStarting
            | EventKind::InstanceStarted { .. }
            | EventKind::InstanceStopped { .. }
            | EventKind::DatabaseCreated { .. }
            | EventKind::DatabaseAttached { .. }
            | EventKind::DatabaseDetached { .. } => self.lifecycle(),
            EventKind::FullBackupStarted
            | EventKind::InternalCopyStarted
            | EventKind::IncrementalBackupStarted
            | EventKind::BackupCompleted { .. }
            | EventKind::BackupAborted { .. }
            | EventKind::BackupFileStarted { .. }
            | EventKind::BackupLogsStarted { .. }
            | EventKind::LogsTruncated { .. }
            | EventKind::NoLogsTruncated => self.backup(),
            EventKind::RecoveryStarted { .. }
            | EventKind::LogReplayed { .. }
            | EventKind::RecoveryCompleted { .. }
            | EventKind::ReplayCompleted { .. }
            | EventKind::CommittedLogsLost { .. }
            | EventKind::RecoveryFailed { .. } => self.recovery(),
            EventKind::DatabaseDiskFull { file } => full(424, file, "database"),
            EventKind::LogDiskFull { file } => full(429, file, "log"),
            EventKind::PageDamaged(damage) => damaged(damage),
            EventKind::ZeroingPaused { database } => {
                zeroing(729, database, "is paused for lack of clean pages in the cache")
            }
            EventKind::ZeroingContinued { database } => zeroing(730, database, "resumes after a pause"),
            EventKind::Defragmentation { database, event } => event.describe(database),
            EventKind::Space { database, event } => event.describe(database),
            EventKind::Snapshot(event) => event.describe(),
            EventKind::Copy { copy, event } => event.describe(copy),
            EventKind::PageDiffers(divergence) => divergence.describe(),
            EventKind::PageRepaired { database, page, on_copy } => {
                divergence::repaired(database, *page, *on_copy)
            }
            EventKind::ScanFoundPage { file, offset, page, what } => EventDescription {
                severity: EventSeverity::Error,
                ..informational(
                    727,
                    EventCategory::Maintenance,
                    vec![
                        ("file", (&**file).into()),
                        ("offset", (*offset).into()),
                        ("page", page.get().into()),
                        ("what", EventValue::Text(what.clone())),
                    ],
                    format!(
                        "The scan found a bad page in '{}' at offset {offset} (page {page}): {what}.",
                        file.display()
                    ),
                )
            },
            _ => self.pass(profile),
        }
    }

    fn lifecycle(&self) -> EventDescription {
        let database = |id, path: &Path, what: &str| {
            let text = format!("The database engine {what} the database '{}'.", path.display());
            informational(id, EventCategory::General, vec![("database", path.into())], text)
        };
        match self {
            EventKind::DatabaseCreated { database: path } => database(325, path, "created"),
            EventKind::DatabaseAttached { database: path } => database(326, path, "attached"),
            EventKind::DatabaseDetached { database: path } => database(327, path, "detached"),
            EventKind::InstanceStarted { seconds } => informational(
                105,
                EventCategory::General,
                vec![("seconds", EventValue::Fraction(*seconds))],
                format!("The database engine opened an instance in {seconds:.3} seconds."),
            ),
            EventKind::InstanceStopped { dirty } => informational(
                103,
                EventCategory::General,
                vec![("dirty_shutdown", i32::from(*dirty).into())],
                if *dirty {
                    "The instance was not shut down cleanly: its databases are dirty.".to_string()
                } else {
                    "The instance was shut down cleanly.".to_string()
                },
            ),
            _ => {
                informational(102, EventCategory::General, vec![], "An instance is being opened.".to_string())
            }
        }
    }

    fn backup(&self) -> EventDescription {
        let says =
            |id, text: &str| informational(id, EventCategory::LoggingRecovery, vec![], text.to_string());
        let logs = |id, first: u32, last: u32, what: &str| {
            let parameters = vec![("first", first.into()), ("last", last.into())];
            let text = format!("{what} log generations {first:X} to {last:X} (hexadecimal).");
            informational(id, EventCategory::LoggingRecovery, parameters, text)
        };
        match self {
            EventKind::FullBackupStarted => says(210, "A full backup has started."),
            EventKind::InternalCopyStarted => {
                says(240, "A copy backup of the databases has started. It does not affect other backups.")
            }
            EventKind::IncrementalBackupStarted => says(211, "An incremental backup has started."),
            EventKind::BackupCompleted { internal_copy: true } => {
                says(243, "The copy backup of the databases is complete.")
            }
            EventKind::BackupCompleted { .. } => says(213, "The backup is complete."),
            EventKind::BackupFileStarted { file, bytes } => informational(
                220,
                EventCategory::LoggingRecovery,
                vec![("file", (&**file).into()), ("bytes", (*bytes).into())],
                format!("The backup reads '{}' ({bytes} bytes).", file.display()),
            ),
            EventKind::BackupLogsStarted { first, last } => logs(223, first.0, last.0, "The backup reads"),
            EventKind::LogsTruncated { first, last } => logs(224, first.0, last.0, "The backup removed"),
            EventKind::NoLogsTruncated => {
                says(225, "The backup did not remove any logs, because all logs are still needed.")
            }
            EventKind::BackupAborted { internal_copy: true } => EventDescription {
                severity: EventSeverity::Warning,
                ..says(
                    245,
                    "The copy backup of the databases was stopped before it completed and is not usable.",
                )
            },
            _ => EventDescription {
                severity: EventSeverity::Warning,
                ..says(215, "The backup was stopped before it completed and is not usable.")
            },
        }
    }

    fn recovery(&self) -> EventDescription {
        let says = |id, parameters, text| informational(id, EventCategory::LoggingRecovery, parameters, text);
        match self {
            EventKind::LogReplayed { generation, records } => says(
                301,
                vec![("generation", generation.0.into()), ("records", (*records).into())],
                format!("Log generation {:X} (hexadecimal) was replayed: {records} records.", generation.0),
            ),
            EventKind::RecoveryCompleted { records, applied, rolled_back, torn_pages } => says(
                302,
                vec![
                    ("records", (*records).into()),
                    ("applied", (*applied).into()),
                    ("rolled_back", (*rolled_back).into()),
                    ("torn_pages", (*torn_pages).into()),
                ],
                format!(
                    "Recovery is complete: {records} log records read, {applied} page changes applied, \
                     {rolled_back} transactions rolled back, {torn_pages} torn pages replaced."
                ),
            ),
            EventKind::ReplayCompleted { generations, changed } => {
                let [first, last] = generations.map_or([0; 2], |(first, last)| [first.0, last.0]);
                says(
                    304,
                    vec![("first", first.into()), ("last", last.into()), ("changed", (*changed).into())],
                    match generations {
                        None => "The replay is complete. There were no logs to replay.".to_string(),
                        Some(_) => format!(
                            "Log generations {first:X} to {last:X} (hexadecimal) were replayed: {changed} \
                             page changes applied. The databases remain dirty and can replay more logs."
                        ),
                    },
                )
            }
            EventKind::CommittedLogsLost { first, last } => EventDescription {
                severity: EventSeverity::Warning,
                ..says(
                    524,
                    vec![("first", first.0.into()), ("last", last.0.into())],
                    format!(
                        "Log generations {:X} to {:X} (hexadecimal) are missing. Any committed transactions \
                         in them are lost. No database needs them to be consistent.",
                        first.0, last.0
                    ),
                )
            },
            EventKind::RecoveryFailed { error, what } => EventDescription {
                severity: EventSeverity::Error,
                ..says(
                    454,
                    vec![("error", (*error).into()), ("what", EventValue::Text(what.clone()))],
                    format!("Recovery failed with error {error}: {what}."),
                )
            },
            EventKind::RecoveryStarted { first, last } => says(
                300,
                vec![("first", first.0.into()), ("last", last.0.into())],
                format!(
                    "Recovery has started and will replay log generations {:X} to {:X} (hexadecimal).",
                    first.0, last.0
                ),
            ),
            _ => unreachable!("only events of recovery are described here"),
        }
    }

    fn pass(&self, profile: EventProfile) -> EventDescription {
        let says = |step, zeroing, parameters, text| {
            informational(profile.pass_id(step, zeroing), EventCategory::Maintenance, parameters, text)
        };
        let task = |zeroing: bool| if zeroing { "Zeroing of deleted data" } else { "The checksum scan" };
        match self {
            EventKind::PassResumed { report, page } => says(
                PassStage::Resumed,
                report.zeroing,
                vec![
                    ("database", (&*report.database).into()),
                    ("page", page.get().into()),
                    ("started", EventValue::Text(date(report.began_unix_ms))),
                    ("days", report.days.into()),
                ],
                format!(
                    "{} resumes for database '{}' at page {page}. This pass started on {}, {} days ago.",
                    task(report.zeroing),
                    report.database.display(),
                    date(report.began_unix_ms),
                    report.days.saturating_sub(1),
                ),
            ),
            EventKind::PassCompleted(report) => {
                let late = report.days > LATE_AFTER_DAYS;
                says(
                    PassStage::Completed { late },
                    report.zeroing,
                    report.parameters(),
                    format!(
                        "{} has completed a pass over database '{}'. The pass started on {} and ran for {} \
                         seconds, in {} invocations over {} days. {}",
                        task(report.zeroing),
                        report.database.display(),
                        date(report.began_unix_ms),
                        report.seconds,
                        report.invocations,
                        report.days,
                        report.counts(),
                    ),
                )
            }
            EventKind::PassFailed { database, zeroing, error, what } => EventDescription {
                severity: EventSeverity::Error,
                ..says(
                    PassStage::Failed,
                    *zeroing,
                    vec![
                        ("database", (&**database).into()),
                        ("error", (*error).into()),
                        ("what", EventValue::Text(what.clone())),
                    ],
                    format!(
                        "{} of database '{}' failed with error {error}: {what}.",
                        task(*zeroing),
                        database.display()
                    ),
                )
            },
            EventKind::PassInterrupted { database, zeroing } => says(
                PassStage::Interrupted,
                *zeroing,
                vec![("database", (&**database).into())],
                format!(
                    "{} of database '{}' was interrupted. It will resume where it stopped.",
                    task(*zeroing),
                    database.display()
                ),
            ),
            EventKind::PassStarted { database, zeroing } => says(
                PassStage::Started,
                *zeroing,
                vec![("database", (&**database).into())],
                format!("{} of database '{}' has started a pass.", task(*zeroing), database.display()),
            ),
            _ => unreachable!("only events of passes are described here"),
        }
    }
}

impl PassReport {
    /// Returns the counters by name. Zeroing counters are included only if the pass overwrites data.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut counters = vec![
            ("pages seen", self.pages),
            ("bad checksums", self.bad),
            ("uninitialized pages", self.uninitialized),
        ];
        if self.zeroing {
            counters.extend([
                ("pages unchanged since last zero", self.unchanged),
                ("unused pages zeroed", self.unused_zeroed),
                ("used pages seen", self.used),
                ("deleted records zeroed", self.records_zeroed),
                ("unreferenced data chunks zeroed", self.chunks_zeroed),
                ("pages in none of these categories", self.remainder()),
            ]);
        }
        counters
    }

    /// Returns the number of pages that are not included in any other page counter.
    pub fn remainder(&self) -> u64 {
        let known = self.bad + self.uninitialized + self.unchanged + self.unused_zeroed + self.used;
        self.pages.saturating_sub(known)
    }

    fn counts(&self) -> String {
        let counted = self.counters().into_iter().map(|(name, count)| format!("{count} {name}"));
        format!("Summary: {}.", counted.collect::<Vec<_>>().join(", "))
    }

    fn parameters(&self) -> Vec<(&'static str, EventValue)> {
        let mut parameters = vec![
            ("database", (&*self.database).into()),
            ("started", EventValue::Text(date(self.began_unix_ms))),
            ("seconds", self.seconds.into()),
            ("invocations", self.invocations.into()),
            ("days", self.days.into()),
            ("pages", self.pages.into()),
            ("bad", self.bad.into()),
            ("uninitialized", self.uninitialized.into()),
        ];
        if self.zeroing {
            parameters.extend([
                ("unchanged", self.unchanged.into()),
                ("unused_zeroed", self.unused_zeroed.into()),
                ("used", self.used.into()),
                ("records_zeroed", self.records_zeroed.into()),
                ("chunks_zeroed", self.chunks_zeroed.into()),
                ("remainder", self.remainder().into()),
            ]);
        }
        parameters
    }
}

/// Formats a time as a UTC date, for example `2026-11-23`.
fn date(unix_ms: i64) -> String {
    let time = LogTime::from_unix_ms(unix_ms);
    let [_, _, _, day, month, year, ..] = time.0;
    format!("{:04}-{month:02}-{day:02}", 1900 + u32::from(year))
}

fn zeroing(id: u16, database: &Path, what: &str) -> EventDescription {
    let text = format!("Zeroing of deleted data in database '{}' {what}.", database.display());
    informational(id, EventCategory::Maintenance, vec![("database", database.into())], text)
}

fn full(id: u16, file: &Path, what: &str) -> EventDescription {
    EventDescription {
        id: Some(id),
        category: EventCategory::Space,
        severity: EventSeverity::Error,
        parameters: vec![("file", file.into())],
        text: format!(
            "The disk of the {what} is full: '{}' cannot grow. Free space; do not remove logs that recovery needs.",
            file.display()
        ),
    }
}

fn damaged(damage: &PageDamage) -> EventDescription {
    let PageDamage { file, offset, bytes, page, fault } = damage;
    let mut parameters: Vec<(&'static str, EventValue)> = vec![
        ("file", (&**file).into()),
        ("offset", (*offset).into()),
        ("bytes", (*bytes).into()),
        ("page", page.get().into()),
    ];
    let (id, error, what) = match fault {
        PageDamageKind::Corrected(bits) => {
            let bits: Vec<String> = bits.iter().map(u32::to_string).collect();
            parameters.push(("bits", EventValue::Text(bits.join(" "))));
            (399, 0, format!("had flipped bits ({}), which were corrected", bits.join(", ")))
        }
        PageDamageKind::Checksum => {
            (474, -1018, "failed verification: its checksum or structure is wrong".into())
        }
        PageDamageKind::WrongPage(stored) => {
            parameters.push(("stored_page", (*stored).into()));
            (475, -1118, format!("failed verification: it contains page {stored}"))
        }
        PageDamageKind::Missing => {
            (476, -1019, "failed verification: it was never written, or was lost".into())
        }
        PageDamageKind::Unreadable(why) => {
            parameters.push(("what", EventValue::Text(why.clone())));
            (481, -1022, format!("could not be read: {why}"))
        }
    };
    let (severity, advice) = match error {
        0 => (EventSeverity::Warning, "The device may be failing."),
        _ => (EventSeverity::Error, "Restore the database from a backup, and check the device."),
    };
    parameters.push(("error", error.into()));
    let text = format!(
        "The page read from '{}' at offset {offset} (page {page}, {bytes} bytes) {what}. {advice}",
        file.display()
    );
    EventDescription { id: Some(id), category: EventCategory::Corruption, severity, parameters, text }
}
