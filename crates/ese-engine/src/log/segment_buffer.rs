//! Log segments in memory: the open segment, into which records are copied, and full segments that wait for the
//! writer.
//!
//! Segments are adjacent within blocks, and are written from there without being copied. If the writer takes a block
//! before it is full, the rest of the block stays unused. Therefore no thread changes data that is being written.
//!
//! Invariants: the open segment always has room for a byte; segments are contiguous, and segment 1 of the next
//! generation follows the last record segment of a generation; all segments of a block belong to one generation;
//! segments that the writer took are never changed again.

use std::collections::VecDeque;

use ese_format::LogPosition;
use ese_format::log::header::SEGMENT_BYTES;
use ese_format::log::record::LogRecord;
use ese_format::log::segment::RECORDS_AT;
use jetcell_vfs::IoBuffer;

/// Minimum space in a segment that is used for a fragment. If less space is left, it is filled with padding.
const MIN_FRAGMENT: usize = 32;
/// Type of a record's first fragment. This fragment has a type, the record's total length and its own length. Other
/// fragments have only a type and their own length.
const FRAGMENT_BEGIN: u8 = 76;
const FRAGMENT_BEGIN_BYTES: usize = 7;
const FRAGMENT: u8 = 77;
const FRAGMENT_BYTES: usize = 3;
/// Number of bytes ahead of the appended records to prefetch. This is about the size of one or two records.
const PREFETCH_BYTES: usize = 2048;
/// Maximum number of segments in a block. This and the next two limits balance two goals: a long write should have
/// few parts, and a stream that writes little should have a small buffer.
const MAX_OF_BLOCK: usize = 64;
const MIN_OF_BLOCK: usize = 4;
const BLOCKS_OF_FILE: usize = 16;
/// Minimum number of blocks that are retained for reuse, regardless of the size of the last write.
const SPARE_BLOCKS: usize = 2;

/// Consecutive full segments whose headers have not been written yet.
pub(super) struct SegmentRun {
    /// Position of the first byte of the first segment.
    pub position: LogPosition,
    block: IoBuffer,
    segments: usize,
}

impl SegmentRun {
    /// Returns the number of segments.
    pub fn len(&self) -> usize {
        self.segments
    }

    /// Returns the bytes of the segments.
    pub fn bytes(&self) -> &[u8] {
        &self.block[..self.segments * SEGMENT_BYTES]
    }

    /// Returns each segment with its position.
    pub fn segments_mut(&mut self) -> impl Iterator<Item = (LogPosition, &mut [u8; SEGMENT_BYTES])> {
        let (segments, _) = self.block.as_chunks_mut();
        let positions = (self.position.segment..).map(|segment| LogPosition { segment, ..self.position });
        positions.zip(segments).take(self.segments)
    }
}

/// Buffer for segments that have been appended but not yet taken by the writer.
pub(super) struct SegmentBuffer {
    /// Position of the first byte of the open segment.
    open: LogPosition,
    /// Number of bytes in use in the open segment, including its header.
    used: usize,
    /// Block that contains full segments, followed by the open segment.
    block: IoBuffer,
    in_block: usize,
    full: VecDeque<SegmentRun>,
    /// Number of full segments, including those in `block`.
    waiting: usize,
    /// Pool of blocks for new segments.
    spare: Vec<IoBuffer>,
    /// Number of segments per block.
    of_block: usize,
    file_segments: usize,
}

impl SegmentBuffer {
    /// Creates a buffer that starts with the segment at `position`. Files have `file_segments` segments, including
    /// header and shadow.
    pub fn new(position: LogPosition, file_segments: usize) -> SegmentBuffer {
        let of_block = (file_segments / BLOCKS_OF_FILE).clamp(MIN_OF_BLOCK, MAX_OF_BLOCK);
        SegmentBuffer {
            open: LogPosition { offset: 0, ..position },
            used: RECORDS_AT,
            block: new_block(of_block),
            in_block: 0,
            full: VecDeque::new(),
            waiting: 0,
            spare: Vec::new(),
            of_block,
            file_segments,
        }
    }

    /// Returns the maximum number of segments that records with a total of `bytes` bytes can occupy.
    pub fn segments_for(bytes: usize) -> usize {
        bytes / (SEGMENT_BYTES - RECORDS_AT - MIN_FRAGMENT - FRAGMENT_BEGIN_BYTES) + 2
    }

    /// Returns the position at which the next record will start.
    pub fn tail(&self) -> LogPosition {
        LogPosition { offset: self.used as u16, ..self.open }
    }

    /// Returns the beginning of the open segment.
    pub fn open_at(&self) -> LogPosition {
        self.open
    }

    /// Returns the start of the records that the writer has not taken yet.
    pub fn pending_start(&self) -> LogPosition {
        let first = self.full.front().map_or_else(|| self.first_of_block(), |run| run.position);
        LogPosition { offset: RECORDS_AT as u16, ..first }
    }

    /// Returns the number of full segments that wait for the writer.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the number of record segments that remain in the open generation, including the open segment.
    pub fn remaining_segments(&self) -> usize {
        self.file_segments - 1 - usize::from(self.open.segment)
    }

    /// Appends a record, in fragments if it does not fit. Returns where the record starts, and the number of padding
    /// bytes before it.
    pub fn append(&mut self, record: &[u8]) -> (LogPosition, usize) {
        let mut padding = 0;
        if record.len() > SEGMENT_BYTES - self.used && SEGMENT_BYTES - self.used < MIN_FRAGMENT {
            // The remaining bytes are zero, which readers interpret as no-operation records.
            padding = SEGMENT_BYTES - self.used;
            self.close();
        }
        let start = self.tail();
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

    /// Closes the open segment with filler. Its content is then final, and it is written only once. Returns the number
    /// of filler bytes, which is 0 if the segment is empty.
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

    /// Fills the open segment and leaves the rest of its generation unused. Returns the number of filler bytes.
    pub fn begin_generation(&mut self) -> usize {
        let generation = self.open.generation;
        let filled = self.fill();
        if self.open.generation == generation {
            self.end_block();
            self.open = LogPosition { generation: generation.next(), segment: 1, offset: 0 };
        }
        filled
    }

    /// Removes and returns the oldest full segments, all from one generation. `most` is the maximum number of
    /// segments, and must be at least one block.
    pub fn take(&mut self, most: usize) -> Vec<SegmentRun> {
        let mut taken = Vec::new();
        let mut count = 0;
        loop {
            if self.full.is_empty() {
                self.end_block();
            }
            let Some(next) = self.full.pop_front() else { break };
            let same = |first: &SegmentRun| first.position.generation == next.position.generation;
            if count + next.len() > most || !taken.first().is_none_or(same) {
                self.full.push_front(next);
                break;
            }
            count += next.len();
            taken.push(next);
        }
        self.waiting -= count;
        taken
    }

    /// Returns the memory of written segments to the pool, and frees blocks beyond what this write used.
    pub fn recycle(&mut self, runs: Vec<SegmentRun>) {
        let kept = runs.len().max(SPARE_BLOCKS);
        self.spare.extend(runs.into_iter().map(|run| run.block));
        self.spare.truncate(kept);
    }

    fn copy(&mut self, parts: &[&[u8]]) {
        let mut at = self.in_block * SEGMENT_BYTES + self.used;
        for part in parts {
            self.block[at..at + part.len()].copy_from_slice(part);
            at += part.len();
            self.used += part.len();
            self.block.prefetch_for_write(at - part.len() + PREFETCH_BYTES..at + PREFETCH_BYTES);
        }
        if self.used == SEGMENT_BYTES {
            self.close();
        }
    }

    fn close(&mut self) {
        let start = self.in_block * SEGMENT_BYTES;
        self.block[start + self.used..start + SEGMENT_BYTES].fill(0);
        self.used = RECORDS_AT;
        self.in_block += 1;
        self.waiting += 1;
        let at = self.open;
        let ends = usize::from(at.segment) + 2 >= self.file_segments;
        self.open.segment += 1;
        if ends || self.in_block == self.of_block {
            self.end_block();
        }
        if ends {
            self.open = LogPosition { generation: at.generation.next(), segment: 1, offset: 0 };
        }
    }

    fn first_of_block(&self) -> LogPosition {
        LogPosition { segment: self.open.segment - self.in_block as u16, ..self.open }
    }

    /// Moves the block, with its full segments, to the list of full runs. The open segment continues in another block.
    fn end_block(&mut self) {
        if self.in_block == 0 {
            return;
        }
        let position = self.first_of_block();
        let next = self.spare.pop().unwrap_or_else(|| new_block(self.of_block));
        next.prefetch_for_write(0..PREFETCH_BYTES);
        let block = std::mem::replace(&mut self.block, next);
        let segments = std::mem::take(&mut self.in_block);
        if self.used > RECORDS_AT {
            let start = segments * SEGMENT_BYTES;
            self.block[..self.used].copy_from_slice(&block[start..start + self.used]);
        }
        self.full.push_back(SegmentRun { position, block, segments });
    }
}

fn new_block(segments: usize) -> IoBuffer {
    IoBuffer::zeroed(segments * SEGMENT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = MAX_OF_BLOCK;

    fn buffer() -> SegmentBuffer {
        SegmentBuffer::new(LogPosition::new(1, 1, 0), 5)
    }

    fn segments(runs: &[SegmentRun]) -> Vec<(u32, u16)> {
        let run_segments = |run: &SegmentRun| {
            let at = run.position;
            (at.segment..).take(run.len()).map(move |segment| (at.generation.0, segment))
        };
        runs.iter().flat_map(run_segments).collect()
    }

    #[test]
    fn taken_segments_stay_unchanged_and_the_open_segment_is_moved() {
        let mut log = SegmentBuffer::new(LogPosition::new(1, 1, 0), 1024);
        log.append(&[1; 4056]);
        log.append(&[2; 100]);
        let taken = log.take(BLOCK);
        assert_eq!((segments(&taken), log.waiting()), (vec![(1, 1)], 0));
        assert_eq!(log.pending_start(), LogPosition::new(1, 2, 40));
        log.append(&[3; 3956]);
        for _ in 0..2 * BLOCK {
            log.append(&[4; 4056]);
        }
        assert_eq!((taken[0].bytes()[40], taken[0].bytes()[4095]), (1, 1));
        assert_eq!((log.waiting(), log.tail()), (2 * BLOCK + 1, LogPosition::new(1, 131, 40)));
        let next = log.take(2 * BLOCK);
        assert_eq!(next.iter().map(SegmentRun::len).collect::<Vec<_>>(), [BLOCK, BLOCK]);
        assert_eq!((next[0].bytes()[40..140].to_vec(), next[0].bytes()[140]), (vec![2; 100], 3));
        assert_eq!((segments(&next)[0], segments(&log.take(BLOCK))), ((1, 2), vec![(1, 130)]));
        log.recycle(next);
        log.append(&[5; 50]);
        assert_eq!((log.take(BLOCK).len(), log.pending_start()), (0, LogPosition::new(1, 131, 40)));
    }

    #[test]
    fn an_oversized_record_is_split_and_small_remainders_stay_empty() {
        let mut log = buffer();
        assert_eq!(log.append(&[9; 4000]), (LogPosition::new(1, 1, 40), 0));
        // 56 bytes are left: a header of 7 bytes and 49 bytes of content. The other 51 bytes follow a header of 3
        // bytes.
        assert_eq!(log.append(&[8; 100]), (LogPosition::new(1, 1, 4040), 0));
        assert_eq!(log.tail(), LogPosition::new(1, 2, 40 + 3 + 51));
        let first = &log.take(BLOCK)[0];
        assert_eq!(first.bytes()[4040..4048], [76, 100, 0, 0, 0, 49, 0, 8]);
        log.append(&vec![9; 4096 - 94 - 31]);
        assert_eq!(
            log.append(&[7; 32]),
            (LogPosition::new(1, 3, 40), 31),
            "31 bytes are too few for a fragment"
        );
        assert_eq!(log.take(BLOCK)[0].bytes()[4065..], [0; 31]);
    }

    #[test]
    fn generations_are_contiguous_with_the_last_segment_reserved_for_shadows() {
        let mut log = buffer();
        for expected in [(1, 2), (1, 3), (2, 1), (2, 2)] {
            log.append(&[1; 4056]);
            assert_eq!(log.tail(), LogPosition::new(expected.0, expected.1, 40));
        }
        assert_eq!(segments(&log.take(BLOCK)), [(1, 1), (1, 2), (1, 3)], "one generation at a time");
        assert_eq!((segments(&log.take(BLOCK)), log.waiting()), (vec![(2, 1)], 0));
        assert_eq!(log.begin_generation(), 0);
        assert_eq!(
            (log.tail(), log.pending_start()),
            (LogPosition::new(3, 1, 40), LogPosition::new(3, 1, 40))
        );
    }

    #[test]
    fn filler_is_a_record_or_zeros() {
        let mut log = buffer();
        assert_eq!(log.fill(), 0);
        log.append(&[9; 4056 - 4]);
        assert_eq!(log.fill(), 4);
        log.append(&[9; 4056 - 10]);
        assert_eq!(log.fill(), 10);
        let segments = log.take(BLOCK);
        assert_eq!(segments[0].bytes()[4092..4096], [0; 4]);
        assert_eq!(segments[0].bytes()[8182..], [71, 5, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
