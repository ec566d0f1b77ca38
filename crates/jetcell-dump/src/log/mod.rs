//! Dump of the records in a log file, one per line.
//!
//! The file is read segment by segment. If a segment is damaged, its records are lost, as is any record that
//! continues into it.

mod filter;
mod reader;
mod record;
mod stats;

use std::fmt;
use std::path::PathBuf;

use ese_format::log::record::LogRecord;
use jetcell_input::Printable;
use serde::Serialize;

pub use self::filter::LogFilter;
use self::filter::RunningTransactions;
use self::reader::{LogItem, SegmentTotals, read_log};
use self::record::RecordDump;
use self::stats::RecordCounters;
use crate::format::read_start;
use crate::header::{read_header, report_damage};
use crate::{DumpOutput, DumpSource, DumpedValue, EseFileKind, NamedValues, Result, UnusableReason};

/// Options for dumping a log ([`dump_log`]).
#[derive(Clone, Debug, Default)]
pub struct LogDumpOptions {
    /// Filter for the records to show.
    pub filter: LogFilter,
    /// Whether to show totals by type instead of the records.
    pub stats: bool,
}

/// Start of a log dump, which identifies the log.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename = "log")]
struct LogDumpHead {
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    path: PathBuf,
    generation: DumpedValue,
    created: DumpedValue,
    previous_created: DumpedValue,
    signature: DumpedValue,
    databases: DumpedValue,
}

impl LogDumpHead {
    fn from_fields(path: PathBuf, fields: &NamedValues) -> LogDumpHead {
        let get = |name| fields.get(name).cloned().unwrap_or(DumpedValue::None);
        LogDumpHead {
            path,
            generation: get("generation"),
            created: get("created"),
            previous_created: get("previous_created"),
            signature: get("signature"),
            databases: get("attachment_list"),
        }
    }
}

impl fmt::Display for LogDumpHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: generation {}, created {}",
            Printable(self.path.display()),
            self.generation,
            self.created
        )?;
        write!(f, "\nlog signature {}", self.signature)?;
        if let DumpedValue::List(databases) = &self.databases {
            for database in databases {
                if let DumpedValue::Group(values) = database {
                    let get = |name| values.get(name).cloned().unwrap_or(DumpedValue::None);
                    write!(f, "\ndatabase {}: {}", get("database"), get("path"))?;
                }
            }
        }
        writeln!(f)
    }
}

/// Segment totals, and the end of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "end")]
struct LogTotals {
    #[serde(flatten)]
    segments: SegmentTotals,
    /// Number of records in the file, not counting filler.
    records: u64,
    /// Number of records that matched the filter.
    matched: u64,
    /// Type name of the last record that is not filler. It is `Term2` if the engine was stopped properly.
    last_record: Option<&'static str>,
}

impl fmt::Display for LogTotals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SegmentTotals { good, shadow, zero, stale, bad, accumulated_checksum } = self.segments;
        write!(
            f,
            "\n{} of {} records; segments: {good} good, {shadow} shadow, ",
            self.matched, self.records
        )?;
        write!(f, "{zero} empty, {stale} from an earlier use, {bad} bad; ")?;
        let last = self.last_record.unwrap_or("none");
        write!(f, "checksum of all {accumulated_checksum:016x}; last record {last}")
    }
}

/// Dumps the records of a log file or, if `options` asks for them, totals by record type.
pub fn dump_log(source: &DumpSource, options: &LogDumpOptions, output: &mut DumpOutput<'_>) -> Result<()> {
    read_start(source, EseFileKind::Log)?;
    let header = read_header(source)?;
    let get = |name| header.fields.get(name).cloned().unwrap_or(DumpedValue::None);
    let (major, minor) = (get("version_major"), get("version_minor"));
    if header.checksum.good && (&major, &minor) != (&DumpedValue::Number(8), &DumpedValue::Number(4000)) {
        return Err(source.unusable_error(UnusableReason::LogFormat(format!("{major}.{minor}"))));
    }
    output.item(&LogDumpHead::from_fields(source.path().to_owned(), &header.fields))?;
    report_damage(&header, output)?;
    let generation = match get("generation") {
        DumpedValue::Generation(number) if header.checksum.good => u32::try_from(number).ok(),
        _ => None,
    };
    let mut end = LogTotals::default();
    let mut stats = RecordCounters::default();
    let mut transactions = RunningTransactions::default();
    end.segments = read_log(source, generation, &mut |event| {
        let stored = match event {
            LogItem::Problem(problem) => return Ok(output.problem(problem)?),
            LogItem::Record(stored) => stored,
        };
        let filler = matches!(stored.record, LogRecord::Nop2(_));
        if !filler {
            end.records += 1;
            end.last_record = Some(stored.record.name());
        }
        let transaction = transactions.begin_number(&stored.record);
        let wanted = options.filter.matches(&stored.record, transaction);
        // Filler is included in statistics. It is shown only if the filter names its type.
        if !wanted || filler && !options.stats && options.filter.kinds.is_empty() {
            return Ok(());
        }
        end.matched += u64::from(!filler);
        if options.stats {
            stats.add(&stored.record, stored.bytes.len());
        } else {
            output.item(&RecordDump::new(&stored, transaction))?;
        }
        Ok(())
    })?;
    if options.stats {
        output.item(&stats.finish())?;
    }
    output.item(&end)?;
    Ok(())
}
