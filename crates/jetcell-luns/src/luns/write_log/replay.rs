//! Log replay: finds all records that follow a consistency point, and distinguishes the end of the log from damage.

use jetcell_array::{ArrayError, BLOCK, Result, WriteLogError};
use jetcell_vfs::{IoBuffer, IoReason};

use super::WriteLog;
use super::record::{RecordPrefix, WriteLogEntry};

/// A complete record in the log.
struct ReplayedRecord {
    number: u64,
    entries: Vec<WriteLogEntry>,
    bytes: u64,
}

/// Content of a location in the log.
enum RecordLocationContent {
    Complete(ReplayedRecord),
    /// A record of this consistency point begins here, but extends past the end of its area.
    Truncated {
        number: u64,
    },
    /// There is no complete record of this consistency point here.
    Empty,
    Unreadable(ArrayError),
}

impl WriteLog {
    /// Returns all entries that follow a consistency point. After this, no record can be appended until
    /// [`WriteLog::restart`] is called.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or if acknowledged records are lost.
    pub fn replay(&mut self, point: u64) -> Result<Vec<WriteLogEntry>> {
        self.restart(point);
        self.refuse_newer(point)?;
        let mut entries = vec![];
        while let Some(record) = self.next_record()? {
            entries.extend(record.entries);
            self.next_offset += record.bytes;
            self.number += 1;
        }
        self.refuse_lost_records()?;
        self.repair_headers();
        // There may be a torn record after the last one, so nothing is appended here. Each replay is followed by a
        // consistency point.
        self.next_offset = self.geometry.records_end();
        Ok(entries)
    }

    /// Returns the record with the next number, from its location or from its shadow.
    fn next_record(&self) -> Result<Option<ReplayedRecord>> {
        let end = self.geometry.records_end();
        let place = match self.record_at(self.next_offset, end) {
            RecordLocationContent::Complete(record) if record.number == self.number => {
                return Ok(Some(record));
            }
            place => place,
        };
        let shadow = match self.shadow(self.number) {
            // The shadow only counts if the record would have fit at its location.
            RecordLocationContent::Complete(shadow)
                if shadow.number == self.number && self.next_offset + shadow.bytes <= end =>
            {
                return Ok(Some(shadow));
            }
            shadow => shadow,
        };
        match (place, shadow) {
            // Each record is written only where it fits. A power cut cannot change its stored length, because its
            // first bytes are in one sector.
            (RecordLocationContent::Truncated { number }, _) if number == self.number => Err(self.damaged()),
            // If one copy is readable, the other one is not needed. If neither is readable, the record may be lost.
            (RecordLocationContent::Unreadable(error), RecordLocationContent::Unreadable(_)) => Err(error),
            (RecordLocationContent::Unreadable(error), _) if !self.geometry.has_shadows() => Err(error),
            _ => Ok(None),
        }
    }

    /// Fails if records were lost. Each record was durable before the next one was written, and each shadow was
    /// written together with its record. Therefore, a record or shadow with a higher number shows that records were
    /// lost.
    fn refuse_lost_records(&self) -> Result<()> {
        // The headers receive a consistency point's number only after its first record is durable.
        if self.number == 0 && self.used == self.point {
            return Err(self.damaged());
        }
        let mut has_both_shadows = self.geometry.has_shadows();
        for area in 0..2 {
            match self.shadow(area) {
                RecordLocationContent::Complete(shadow) if shadow.number >= self.number => {
                    return Err(self.damaged());
                }
                RecordLocationContent::Unreadable(_) => has_both_shadows = false,
                _ => {}
            }
        }
        let end = self.geometry.records_end();
        for at in (self.next_offset..end).step_by(BLOCK) {
            match self.record_at(at, end) {
                RecordLocationContent::Complete(record) if record.number >= self.number => {
                    return Err(self.damaged());
                }
                // Both shadows are readable, and show that no record was lost.
                RecordLocationContent::Unreadable(error) if !has_both_shadows => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn damaged(&self) -> ArrayError {
        WriteLogError::Damaged { path: self.file.path().to_owned(), offset: self.next_offset }.into()
    }

    /// Fails if a record, or a record's shadow, follows a consistency point that the catalogue does not have.
    fn refuse_newer(&self, point: u64) -> Result<()> {
        let shadows = (0..2).map(|area| self.geometry.shadow(area));
        let shadows = shadows.filter(|_| self.geometry.has_shadows());
        let heads = std::iter::once(self.geometry.records_start()).chain(shadows).filter_map(|at| {
            let block = self.read(at, BLOCK).ok()?;
            RecordPrefix::decode(&block, self.array)
        });
        let newest = heads.map(|head| head.point).fold(self.used, u64::max);
        if newest <= point {
            return Ok(());
        }
        let path = self.file.path().to_owned();
        Err(WriteLogError::NewerThanCatalogue { path, newer: newest, point }.into())
    }

    /// Returns the shadow from the area for records with this number.
    fn shadow(&self, number: u64) -> RecordLocationContent {
        if !self.geometry.has_shadows() {
            return RecordLocationContent::Empty;
        }
        match self.record_at(self.geometry.shadow(number), self.geometry.shadow_end(number)) {
            RecordLocationContent::Complete(record) if record.number % 2 != number % 2 => {
                RecordLocationContent::Empty
            }
            place => place,
        }
    }

    /// Returns the record at a location, if it belongs to the current consistency point. The record's area ends at
    /// `end`.
    fn record_at(&self, at: u64, end: u64) -> RecordLocationContent {
        self.try_record_at(at, end).unwrap_or_else(RecordLocationContent::Unreadable)
    }

    fn try_record_at(&self, at: u64, end: u64) -> Result<RecordLocationContent> {
        if at + BLOCK as u64 > end {
            return Ok(RecordLocationContent::Empty);
        }
        let first = self.read(at, BLOCK)?;
        let head = RecordPrefix::decode(&first, self.array).filter(|head| head.point == self.point);
        let Some((head, bytes)) = head.and_then(|head| Some((head, head.bytes()?))) else {
            return Ok(RecordLocationContent::Empty);
        };
        if at + bytes as u64 > end {
            return Ok(RecordLocationContent::Truncated { number: head.number });
        }
        let record = self.read(at, bytes)?;
        // Both reads must agree. Otherwise, entries could be read from offsets that the checksum does not cover.
        let is_same = RecordPrefix::decode(&record, self.array) == Some(head);
        Ok(match head.entries(&record).filter(|_| is_same) {
            Some(entries) => RecordLocationContent::Complete(ReplayedRecord {
                number: head.number,
                entries,
                bytes: bytes as u64,
            }),
            None => RecordLocationContent::Empty,
        })
    }

    fn read(&self, at: u64, bytes: usize) -> Result<IoBuffer> {
        let mut buffer = IoBuffer::zeroed(bytes);
        let read_error = |error| ArrayError::io(self.file.path(), "reading", at, error);
        self.file.read_at(at, &mut buffer, IoReason::LogRead).map_err(read_error)?;
        Ok(buffer)
    }
}
