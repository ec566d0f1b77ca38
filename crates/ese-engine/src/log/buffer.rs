//! Segments in memory: the open one that records are copied into, and the full ones that wait for the writer.
//!
//! Invariants: the open segment always has room for a byte; segments are contiguous, the last record segment of a
//! generation being followed by segment 1 of the next; what the writer took is never changed again.

use std::collections::VecDeque;

use ese_format::LogPosition;
use ese_format::log::header::SEGMENT_BYTES;
use ese_format::log::record::LogRecord;
use ese_format::log::segment::RECORDS_AT;

/// Below this the rest of a segment is filled rather than used for a fragment.
const SMALLEST_FRAGMENT: usize = 32;
/// Type, total length and length of the first piece of a record; type and length of the following ones.
const FRAGMENT_BEGIN: u8 = 76;
const FRAGMENT_BEGIN_BYTES: usize = 7;
const FRAGMENT: u8 = 77;
const FRAGMENT_BYTES: usize = 3;

/// A segment whose header is still to be written.
pub(super) struct Segment {
    /// Its first byte.
    pub position: LogPosition,
    /// Its content.
    pub bytes: Box<[u8; SEGMENT_BYTES]>,
}

/// What was appended and not yet handed to the writer.
pub(super) struct SegmentBuffer {
    open: Segment,
    /// Bytes of the open segment in use, its header included.
    used: usize,
    full: VecDeque<Segment>,
    /// Blocks for new segments.
    spare: Vec<Box<[u8; SEGMENT_BYTES]>>,
    file_segments: usize,
}

impl SegmentBuffer {
    /// Goes on at the start of the segment of `position`; files have `file_segments`, header and shadow included.
    pub fn new(position: LogPosition, file_segments: usize) -> SegmentBuffer {
        let open =
            Segment { position: LogPosition { offset: 0, ..position }, bytes: Box::new([0; SEGMENT_BYTES]) };
        SegmentBuffer { open, used: RECORDS_AT, full: VecDeque::new(), spare: Vec::new(), file_segments }
    }

    /// Segments that records of `bytes` together may take, however they fall.
    pub fn segments_for(bytes: usize) -> usize {
        bytes / (SEGMENT_BYTES - RECORDS_AT - SMALLEST_FRAGMENT - FRAGMENT_BEGIN_BYTES) + 2
    }

    /// Where the next record will stand.
    pub fn tip(&self) -> LogPosition {
        LogPosition { offset: self.used as u16, ..self.open.position }
    }

    /// Where the open segment begins.
    pub fn open_at(&self) -> LogPosition {
        self.open.position
    }

    /// Where the records start that the writer has not taken.
    pub fn untaken(&self) -> LogPosition {
        let segment = self.full.front().unwrap_or(&self.open);
        LogPosition { offset: RECORDS_AT as u16, ..segment.position }
    }

    /// Full segments waiting.
    pub fn waiting(&self) -> usize {
        self.full.len()
    }

    /// Segments for records that the open generation still has, the open one included.
    pub fn left(&self) -> usize {
        self.file_segments - 1 - usize::from(self.open.position.segment)
    }

    /// Appends a record, in pieces if it does not fit; where it starts, and the bytes lost to padding.
    pub fn append(&mut self, record: &[u8]) -> (LogPosition, usize) {
        let mut padding = 0;
        if record.len() > SEGMENT_BYTES - self.used && SEGMENT_BYTES - self.used < SMALLEST_FRAGMENT {
            // The bytes left are zero: no-operation records.
            padding = SEGMENT_BYTES - self.used;
            self.close();
        }
        let start = self.tip();
        let room = SEGMENT_BYTES - self.used;
        if record.len() <= room {
            self.copy(&[record]);
            return (start, padding);
        }
        let (piece, mut rest) = record.split_at(room - FRAGMENT_BEGIN_BYTES);
        self.copy(&[
            &[FRAGMENT_BEGIN],
            &(record.len() as u32).to_le_bytes(),
            &(piece.len() as u16).to_le_bytes(),
            piece,
        ]);
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len().min(SEGMENT_BYTES - self.used - FRAGMENT_BYTES));
            self.copy(&[&[FRAGMENT], &(piece.len() as u16).to_le_bytes(), piece]);
            rest = behind;
        }
        (start, padding)
    }

    /// Closes the open segment with filler, so that it can be written and need not be written again. Returns the
    /// bytes of filler: none if it is empty.
    pub fn fill(&mut self) -> usize {
        let room = SEGMENT_BYTES - self.used;
        if self.used == RECORDS_AT {
            return 0;
        }
        match LogRecord::filler(room) {
            Some(filler) => self.copy(&[&filler.to_bytes()]),
            None => self.close(),
        }
        room
    }

    /// Fills the open segment and leaves the rest of its generation unused. Returns the bytes of filler.
    pub fn begin_generation(&mut self) -> usize {
        let generation = self.open.position.generation;
        let filled = self.fill();
        if self.open.position.generation == generation {
            self.open.position = LogPosition { generation: generation.next(), segment: 1, offset: 0 };
        }
        filled
    }

    /// The oldest full segments, all of one generation.
    pub fn take(&mut self, most: usize) -> Vec<Segment> {
        let Some(first) = self.full.front() else { return Vec::new() };
        let generation = first.position.generation;
        let same =
            self.full.iter().take(most).take_while(|segment| segment.position.generation == generation);
        let count = same.count();
        self.full.drain(..count).collect()
    }

    /// Takes back the memory of written segments.
    pub fn recycle(&mut self, segments: Vec<Segment>) {
        self.spare.extend(segments.into_iter().map(|segment| segment.bytes));
    }

    fn copy(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.open.bytes[self.used..self.used + part.len()].copy_from_slice(part);
            self.used += part.len();
        }
        if self.used == SEGMENT_BYTES {
            self.close();
        }
    }

    fn close(&mut self) {
        let at = self.open.position;
        let position = match usize::from(at.segment) + 2 < self.file_segments {
            true => LogPosition { segment: at.segment + 1, ..at },
            false => LogPosition { generation: at.generation.next(), segment: 1, offset: 0 },
        };
        self.open.bytes[self.used..].fill(0);
        let bytes = self.spare.pop().unwrap_or_else(|| Box::new([0; SEGMENT_BYTES]));
        let full = std::mem::replace(&mut self.open, Segment { position, bytes });
        self.full.push_back(full);
        self.used = RECORDS_AT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer() -> SegmentBuffer {
        SegmentBuffer::new(LogPosition::new(1, 1, 0), 5)
    }

    #[test]
    fn a_record_that_does_not_fit_is_cut_and_a_small_rest_is_left_empty() {
        let mut log = buffer();
        assert_eq!(log.append(&[9; 4000]), (LogPosition::new(1, 1, 40), 0));
        // 56 bytes are left: 7 of header and 49 of content; the other 51 follow a header of 3.
        assert_eq!(log.append(&[8; 100]), (LogPosition::new(1, 1, 4040), 0));
        assert_eq!(log.tip(), LogPosition::new(1, 2, 40 + 3 + 51));
        let first = &log.take(9)[0];
        assert_eq!(first.bytes[4040..4048], [76, 100, 0, 0, 0, 49, 0, 8]);
        log.append(&vec![9; 4096 - 94 - 31]);
        assert_eq!(log.append(&[7; 32]), (LogPosition::new(1, 3, 40), 31), "31 bytes are not worth a piece");
        assert_eq!(log.take(9)[0].bytes[4065..], [0; 31]);
    }

    #[test]
    fn generations_follow_each_other_and_the_last_segment_stays_free_for_a_shadow() {
        let mut log = buffer();
        for expected in [(1, 2), (1, 3), (2, 1), (2, 2)] {
            log.append(&[1; 4056]);
            assert_eq!(log.tip(), LogPosition::new(expected.0, expected.1, 40));
        }
        assert_eq!(log.take(9).len(), 3, "one generation at a time");
        assert_eq!((log.take(9).len(), log.waiting()), (1, 0));
        assert_eq!(log.begin_generation(), 0);
        assert_eq!((log.tip(), log.untaken()), (LogPosition::new(3, 1, 40), LogPosition::new(3, 1, 40)));
    }

    #[test]
    fn filler_is_a_record_or_zeros() {
        let mut log = buffer();
        assert_eq!(log.fill(), 0);
        log.append(&[9; 4056 - 4]);
        assert_eq!(log.fill(), 4);
        log.append(&[9; 4056 - 10]);
        assert_eq!(log.fill(), 10);
        let segments = log.take(9);
        assert_eq!(segments[0].bytes[4092..], [0; 4]);
        assert_eq!(segments[1].bytes[4086..], [71, 5, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
