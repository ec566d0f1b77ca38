//! One record as a line.

use std::fmt;

use ese_format::log::record::LogRecord;
use serde::Serialize;

use super::reader::StoredRecord;
use crate::{Fact, Facts};

/// A record, its place and its fields.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename = "record")]
pub(super) struct RecordLine {
    /// Generation, segment and byte in it, in hexadecimal.
    position: String,
    record: &'static str,
    /// Its type byte.
    kind: u8,
    /// Bytes in the log, without the heads of fragments.
    length: usize,
    /// Begin number of the transaction it belongs to.
    transaction: Option<u32>,
    fields: Facts,
}

impl RecordLine {
    pub(super) fn new(stored: &StoredRecord, transaction: Option<u32>) -> RecordLine {
        // A record that was decoded has fields.
        let fields = LogRecord::fields(&stored.bytes).unwrap_or_default();
        let mut flat = Facts::default();
        flatten(Facts::of(fields), &mut flat);
        if let LogRecord::MacroInfo(pages) = &stored.record {
            let pages = pages.as_chunks::<4>().0.iter();
            let numbers = pages.map(|page| Fact::Number(u32::from_le_bytes(*page).into())).collect();
            flat = Facts(vec![("pages".to_owned(), Fact::List(numbers))]);
        }
        RecordLine {
            position: stored.position.to_string(),
            record: stored.record.name(),
            kind: stored.record.kind(),
            length: stored.bytes.len(),
            transaction,
            fields: flat,
        }
    }
}

/// What many types begin with stands among their own fields; its flags are those of the page change.
fn flatten(facts: Facts, into: &mut Facts) {
    for (name, value) in facts.0 {
        match value {
            Fact::Group(inner) if matches!(name.as_str(), "node" | "page" | "change") => {
                let mut prefix = Facts::default();
                flatten(inner, &mut prefix);
                let rename = |(name, value)| match name {
                    flags if flags == "flags" => ("change_flags".to_owned(), value),
                    other => (other, value),
                };
                into.0.extend(prefix.0.into_iter().map(rename));
            }
            Fact::Group(inner) if matches!(name.as_str(), "shrink" | "freed") => flatten(inner, into),
            value => into.0.push((name, value)),
        }
    }
}

impl fmt::Display for RecordLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:<21} {:>5}  ", self.position, self.record, self.length)?;
        let mut line = String::new();
        self.fields.line(&mut line)?;
        f.write_str(&line)
    }
}
