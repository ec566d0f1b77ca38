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
use self::filter::Transactions;
use self::reader::{LogEvent, Segments, read_log};
use self::record::RecordLine;
use self::stats::Stats;
use crate::format::start_of;
use crate::header::{read_header, report};
use crate::{Format, NamedValues, Output, Result, Source, Value};

/// Options for [`dump_log`].
#[derive(Clone, Debug, Default)]
pub struct LogOptions {
    /// Filter for the records to show.
    pub filter: LogFilter,
    /// Whether to show totals by type instead of the records.
    pub stats: bool,
}

/// Identity of the log.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename = "log")]
struct LogHead {
    path: PathBuf,
    generation: Value,
    created: Value,
    previous_created: Value,
    signature: Value,
    databases: Value,
}

impl LogHead {
    fn of(path: PathBuf, fields: &NamedValues) -> LogHead {
        let get = |name| fields.get(name).cloned().unwrap_or(Value::None);
        LogHead {
            path,
            generation: get("generation"),
            created: get("created"),
            previous_created: get("previous_created"),
            signature: get("signature"),
            databases: get("attachment_list"),
        }
    }
}

impl fmt::Display for LogHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: generation {}, created {}",
            Printable(self.path.display()),
            self.generation,
            self.created
        )?;
        write!(f, "\nlog signature {}", self.signature)?;
        if let Value::List(databases) = &self.databases {
            for database in databases {
                if let Value::Group(values) = database {
                    let get = |name| values.get(name).cloned().unwrap_or(Value::None);
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
struct LogEnd {
    #[serde(flatten)]
    segments: Segments,
    /// Number of records in the file, not counting filler.
    records: u64,
    /// Number of records that matched the filter.
    matched: u64,
    /// Type name of the last record that is not filler. It is `Term2` if the engine was stopped properly.
    last_record: Option<&'static str>,
}

impl fmt::Display for LogEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Segments { good, shadow, zero, stale, bad, accumulated_checksum } = self.segments;
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
pub fn dump_log(source: &Source, options: &LogOptions, output: &mut Output<'_>) -> Result<()> {
    start_of(source, Format::Log)?;
    let header = read_header(source)?;
    let get = |name| header.fields.get(name).cloned().unwrap_or(Value::None);
    let (major, minor) = (get("version_major"), get("version_minor"));
    if header.checksum.good && (&major, &minor) != (&Value::Number(8), &Value::Number(4000)) {
        return Err(source.unusable(format!(
            "log format {major}.{minor} is not supported (only 8.4000 is), and its records cannot be read; \
             use dump header for its header"
        )));
    }
    output.item(&LogHead::of(source.path().to_owned(), &header.fields))?;
    report(&header, output)?;
    let generation = match get("generation") {
        Value::Generation(number) if header.checksum.good => u32::try_from(number).ok(),
        _ => None,
    };
    let mut end = LogEnd::default();
    let mut stats = Stats::default();
    let mut transactions = Transactions::default();
    end.segments = read_log(source, generation, &mut |event| {
        let stored = match event {
            LogEvent::Problem(problem) => return Ok(output.problem(problem)?),
            LogEvent::Record(stored) => stored,
        };
        let filler = matches!(stored.record, LogRecord::Nop2(_));
        if !filler {
            end.records += 1;
            end.last_record = Some(stored.record.name());
        }
        let transaction = transactions.of(&stored.record);
        let wanted = options.filter.matches(&stored.record, transaction);
        // Filler is included in statistics. It is shown only if the filter names its type.
        if !wanted || filler && !options.stats && options.filter.kinds.is_empty() {
            return Ok(());
        }
        end.matched += u64::from(!filler);
        match options.stats {
            true => stats.add(&stored.record, stored.bytes.len()),
            false => output.item(&RecordLine::new(&stored, transaction))?,
        }
        Ok(())
    })?;
    if options.stats {
        output.item(&stats.finish())?;
    }
    output.item(&end)?;
    Ok(())
}
