//! Log totals by record type.

use std::collections::BTreeMap;
use std::fmt;

use ese_format::log::record::LogRecord;
use serde::Serialize;

/// Counters for each record type, updated as records are read.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordCounters {
    kinds: BTreeMap<&'static str, (u64, u64)>,
}

/// Totals for all record types.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "stats")]
pub(super) struct RecordStatistics {
    /// Number of records, including filler.
    records: u64,
    bytes: u64,
    /// Totals by record type, sorted by number of bytes in descending order.
    kinds: Vec<KindStats>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct KindStats {
    record: &'static str,
    count: u64,
    bytes: u64,
}

impl RecordCounters {
    pub(super) fn add(&mut self, record: &LogRecord, bytes: usize) {
        let entry = self.kinds.entry(record.name()).or_default();
        entry.0 += 1;
        entry.1 += bytes as u64;
    }

    pub(super) fn finish(self) -> RecordStatistics {
        let entry = |(record, (count, bytes))| KindStats { record, count, bytes };
        let mut kinds: Vec<KindStats> = self.kinds.into_iter().map(entry).collect();
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.bytes));
        let sum = |of: fn(&KindStats) -> u64| kinds.iter().map(of).sum();
        RecordStatistics { records: sum(|kind| kind.count), bytes: sum(|kind| kind.bytes), kinds }
    }
}

impl fmt::Display for RecordStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<26} {:>10} {:>12} {:>8} {:>7}", "record", "count", "bytes", "average", "bytes")?;
        for KindStats { record, count, bytes } in &self.kinds {
            let average = bytes / count.max(&1);
            let percent = *bytes as f64 * 100.0 / self.bytes.max(1) as f64;
            writeln!(f, "{record:<26} {count:>10} {bytes:>12} {average:>8} {percent:>5.1} %")?;
        }
        write!(f, "{:<26} {:>10} {:>12}", "total", self.records, self.bytes)
    }
}
