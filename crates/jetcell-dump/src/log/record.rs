//! A log record as an output item.

use std::fmt;

use ese_format::log::record::LogRecord;
use serde::Serialize;

use super::reader::LoggedRecord;
use crate::{DumpedValue, NamedValues};

/// A log record's position and fields, as shown in a dump.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename = "record")]
pub(super) struct RecordDump {
    /// Generation, segment, and offset in hexadecimal.
    position: String,
    record: &'static str,
    /// Type byte of the record.
    kind: u8,
    /// Length in bytes, not counting fragment headers.
    length: usize,
    /// Begin number of the transaction to which the record belongs.
    transaction: Option<u32>,
    fields: NamedValues,
}

impl RecordDump {
    pub(super) fn new(stored: &LoggedRecord, transaction: Option<u32>) -> RecordDump {
        // The fields of a record that has been decoded can always be decoded too.
        let fields = LogRecord::fields(&stored.bytes).unwrap_or_default();
        let mut flat = NamedValues::default();
        flatten(NamedValues::from_fields(fields), &mut flat);
        if let LogRecord::MacroInfo(pages) = &stored.record {
            let pages = pages.as_chunks::<4>().0.iter();
            let numbers = pages.map(|page| DumpedValue::Number(u32::from_le_bytes(*page).into())).collect();
            flat = NamedValues(vec![("pages".to_owned(), DumpedValue::List(numbers))]);
        }
        RecordDump {
            position: stored.position.to_string(),
            record: stored.record.name(),
            kind: stored.record.kind(),
            length: stored.bytes.len(),
            transaction,
            fields: flat,
        }
    }
}

/// Moves the fields of common prefixes up to the level of the record's own fields. A prefix's flags are renamed to
/// `change_flags`.
fn flatten(values: NamedValues, into: &mut NamedValues) {
    for (name, value) in values.0 {
        match value {
            DumpedValue::Group(inner) if matches!(name.as_str(), "node" | "page" | "change") => {
                let mut prefix = NamedValues::default();
                flatten(inner, &mut prefix);
                let rename = |(name, value)| match name {
                    flags if flags == "flags" => ("change_flags".to_owned(), value),
                    other => (other, value),
                };
                into.0.extend(prefix.0.into_iter().map(rename));
            }
            DumpedValue::Group(inner) if matches!(name.as_str(), "shrink" | "freed") => flatten(inner, into),
            value => into.0.push((name, value)),
        }
    }
}

impl fmt::Display for RecordDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:<21} {:>5}  ", self.position, self.record, self.length)?;
        let mut line = String::new();
        self.fields.write_line(&mut line)?;
        f.write_str(&line)
    }
}
