//! Jetcell's atomic groups: records after a mark that take effect either all or not at all. ESE skips the mark.

use ese_format::LogPosition;
use ese_format::log::record::LogRecord;

use super::Redo;
use crate::Result;
use crate::recovery::decode;
use crate::recovery::replay_window::{BufferedRecord, Payloads};

/// A group whose records have not all been read.
pub(super) struct OpenGroup {
    pub begun: LogPosition,
    /// Number of the group's records that have not been read yet.
    missing: u32,
    records: Vec<BufferedRecord>,
}

impl Redo {
    /// Consumes a record that begins a group or belongs to one. Returns any other record.
    pub(super) fn take_for_group(
        &mut self,
        buffered: BufferedRecord,
        record: LogRecord,
        payloads: &Payloads,
    ) -> Result<Option<(BufferedRecord, LogRecord)>> {
        if let Some(missing) = record.marked_group() {
            let begun = buffered.start;
            self.group = (missing > 0).then_some(OpenGroup { begun, missing, records: Vec::new() });
            return Ok(None);
        }
        // A group that a crash interrupted is never completed.
        if matches!(record, LogRecord::RecoveryUndo2(_) | LogRecord::Init2(_)) {
            self.group = None;
        }
        let Some(group) = self.group.as_mut().filter(|_| record.counts_in_group()) else {
            return Ok(Some((buffered, record)));
        };
        group.records.push(buffered);
        group.missing -= 1;
        if group.missing > 0 {
            return Ok(None);
        }
        for buffered in self.group.take().into_iter().flat_map(|group| group.records) {
            let record = decode(&self.log, &buffered)?;
            self.one_record(buffered, record, payloads)?;
        }
        Ok(None)
    }
}
