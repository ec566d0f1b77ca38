//! Encoded records that are appended together.

use ese_format::log::record::{Insert, LogRecord, NodeChange, Replace};

/// Encoded log records in one buffer, with the end offset of each record.
#[derive(Default, Clone, Debug)]
pub struct RecordBatch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl RecordBatch {
    /// Creates an empty batch.
    pub fn new() -> RecordBatch {
        RecordBatch::default()
    }

    /// Removes all records but keeps the allocated memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds one record.
    pub fn push(&mut self, record: &LogRecord) {
        record.encode(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Adds an Insert record. Its key is given in two parts: the part covered by the page's prefix, and the rest.
    pub fn push_insert(&mut self, node: &NodeChange, key: [&[u8]; 2], data: &[u8]) {
        Insert::encode_parts(&mut self.bytes, node, key, data);
        self.ends.push(self.bytes.len());
    }

    /// Adds a Replace record that contains the complete new data.
    pub fn push_replace(&mut self, node: &NodeChange, old_len: u16, data: &[u8]) {
        Replace::encode_parts(&mut self.bytes, node, old_len, data);
        self.ends.push(self.bytes.len());
    }

    /// Returns the total number of bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the records in order.
    pub(super) fn records(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }
}
