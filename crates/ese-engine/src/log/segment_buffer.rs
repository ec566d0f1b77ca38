//! Log segments in memory: the open one, into which records are copied, and full ones that wait for the writer.
//!
//! Segments lie next to each other in blocks, and are written from there without a copy. A block that the writer takes
//! before it is full is not used further, so that no thread changes what is being written.
//!
//! Invariants: the open segment always has room for a byte; segments are contiguous, and segment 1 of the next generation
//! follows the last record segment of a generation; the segments of a block are of one generation; segments that the
//! writer took are never changed again.

use std::collections::VecDeque;

use ese_format::LogPosition;
use ese_format::log::header::SEGMENT_BYTES;
use ese_format::log::record::LogRecord;
use ese_format::log::segment::RECORDS_AT;
use jetcell_vfs::IoBuffer;

/// If less room is left in a segment, it is filled instead of used for a fragment.
const SMALLEST_FRAGMENT: usize = 32;
/// The first fragment of a record has a type, the total length and its own length; the others a type and their length.
const FRAGMENT_BEGIN: u8 = 76;
const FRAGMENT_BEGIN_BYTES: usize = 7;
const FRAGMENT: u8 = 77;
const FRAGMENT_BYTES: usize = 3;
/// How far ahead of the records their memory is prefetched: a record or two.
const AHEAD: usize = 2048;
/// Segments of a block at most, and the part of a file that a block has: a long write should have few pieces, and the
/// buffer of a stream that writes little should be small.
const MOST_OF_BLOCK: usize = 64;
const LEAST_OF_BLOCK: usize = 4;
const BLOCKS_OF_FILE: usize = 16;
/// Blocks that are kept for later, whatever the last write had.
const SPARE_BLOCKS: usize = 2;

/// Consecutive full segments, whose headers are still to be written.
pub(super) struct Run {
    /// The first byte of the first segment.
    pub position: LogPosition,
    block: IoBuffer,
    segments: usize,
}

impl Run {
    /// The number of segments.
    pub fn len(&self) -> usize {
        self.segments
    }

    /// The bytes of the segments.
    pub fn bytes(&self) -> &[u8] {
        &self.block[..self.segments * SEGMENT_BYTES]
    }

    /// Each segment with its position.
    pub fn segments_mut(&mut self) -> impl Iterator<Item = (LogPosition, &mut [u8; SEGMENT_BYTES])> {
        let (segments, _) = self.block.as_chunks_mut();
        let positions = (self.position.segment..).map(|segment| LogPosition { segment, ..self.position });
        positions.zip(segments).take(self.segments)
    }
}

/// What was appended and not yet taken by the writer.
pub(super) struct SegmentBuffer {
    /// First byte of the open segment.
    open: LogPosition,
    /// Bytes of the open segment in use, its header included.
    used: usize,
    /// Full segments, and the open one behind them.
    block: IoBuffer,
    in_block: usize,
    full: VecDeque<Run>,
    /// Full segments, those of the block included.
    waiting: usize,
    /// Blocks for new segments.
    spare: Vec<IoBuffer>,
    /// Segments of a block.
    of_block: usize,
    file_segments: usize,
}

impl SegmentBuffer {
    /// A buffer that starts with the segment of `position`. Files have `file_segments`, header and shadow included.
    pub fn new(position: LogPosition, file_segments: usize) -> SegmentBuffer {
        let of_block = (file_segments / BLOCKS_OF_FILE).clamp(LEAST_OF_BLOCK, MOST_OF_BLOCK);
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

    /// The most segments that records of `bytes` can take.
    pub fn segments_for(bytes: usize) -> usize {
        bytes / (SEGMENT_BYTES - RECORDS_AT - SMALLEST_FRAGMENT - FRAGMENT_BEGIN_BYTES) + 2
    }

    /// Where the next record will start.
    pub fn tail(&self) -> LogPosition {
        LogPosition { offset: self.used as u16, ..self.open }
    }

    /// Where the open segment begins.
    pub fn open_at(&self) -> LogPosition {
        self.open
    }

    /// Where the records start that the writer has not taken yet.
    pub fn untaken(&self) -> LogPosition {
        let first = self.full.front().map_or_else(|| self.first_of_block(), |run| run.position);
        LogPosition { offset: RECORDS_AT as u16, ..first }
    }

    /// The number of full segments that wait for the writer.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Segments for records that the open generation still has, including the open segment.
    pub fn left(&self) -> usize {
        self.file_segments - 1 - usize::from(self.open.segment)
    }

    /// Appends a record, in fragments if it does not fit. Returns where it starts, and the bytes of padding before it.
    pub fn append(&mut self, record: &[u8]) -> (LogPosition, usize) {
        let mut padding = 0;
        if record.len() > SEGMENT_BYTES - self.used && SEGMENT_BYTES - self.used < SMALLEST_FRAGMENT {
            // The bytes left are zero: no-operation records.
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

    /// Closes the open segment with filler, so that it can be written once and for all. Returns the bytes of filler: 0 if
    /// the segment is empty.
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
        let generation = self.open.generation;
        let filled = self.fill();
        if self.open.generation == generation {
            self.end_block();
            self.open = LogPosition { generation: generation.next(), segment: 1, offset: 0 };
        }
        filled
    }

    /// The oldest full segments, all of one generation. `most` is at least a block.
    pub fn take(&mut self, most: usize) -> Vec<Run> {
        let mut taken = Vec::new();
        let mut count = 0;
        loop {
            if self.full.is_empty() {
                self.end_block();
            }
            let Some(next) = self.full.pop_front() else { break };
            let same = |first: &Run| first.position.generation == next.position.generation;
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

    /// Takes back the memory of written segments, and gives up what a smaller write than those before does not need.
    pub fn recycle(&mut self, runs: Vec<Run>) {
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
            self.block.about_to_write(at - part.len() + AHEAD..at + AHEAD);
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

    /// The full segments of the block are complete; the open one goes on in another.
    fn end_block(&mut self) {
        if self.in_block == 0 {
            return;
        }
        let position = self.first_of_block();
        let next = self.spare.pop().unwrap_or_else(|| new_block(self.of_block));
        next.about_to_write(0..AHEAD);
        let block = std::mem::replace(&mut self.block, next);
        let segments = std::mem::take(&mut self.in_block);
        if self.used > RECORDS_AT {
            let start = segments * SEGMENT_BYTES;
            self.block[..self.used].copy_from_slice(&block[start..start + self.used]);
        }
        self.full.push_back(Run { position, block, segments });
    }
}

fn new_block(segments: usize) -> IoBuffer {
    IoBuffer::zeroed(segments * SEGMENT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = MOST_OF_BLOCK;

    fn buffer() -> SegmentBuffer {
        SegmentBuffer::new(LogPosition::new(1, 1, 0), 5)
    }

    fn segments(runs: &[Run]) -> Vec<(u32, u16)> {
        let of = |run: &Run| {
            let at = run.position;
            (at.segment..).take(run.len()).map(move |segment| (at.generation.0, segment))
        };
        runs.iter().flat_map(of).collect()
    }

    #[test]
    fn taken_segments_do_not_change_and_the_open_segment_moves_to_another_block() {
        let mut log = SegmentBuffer::new(LogPosition::new(1, 1, 0), 1024);
        log.append(&[1; 4056]);
        log.append(&[2; 100]);
        let taken = log.take(BLOCK);
        assert_eq!((segments(&taken), log.waiting()), (vec![(1, 1)], 0));
        assert_eq!(log.untaken(), LogPosition::new(1, 2, 40));
        log.append(&[3; 3956]);
        for _ in 0..2 * BLOCK {
            log.append(&[4; 4056]);
        }
        assert_eq!((taken[0].bytes()[40], taken[0].bytes()[4095]), (1, 1));
        assert_eq!((log.waiting(), log.tail()), (2 * BLOCK + 1, LogPosition::new(1, 131, 40)));
        let next = log.take(2 * BLOCK);
        assert_eq!(next.iter().map(Run::len).collect::<Vec<_>>(), [BLOCK, BLOCK]);
        assert_eq!((next[0].bytes()[40..140].to_vec(), next[0].bytes()[140]), (vec![2; 100], 3));
        assert_eq!((segments(&next)[0], segments(&log.take(BLOCK))), ((1, 2), vec![(1, 130)]));
        log.recycle(next);
        log.append(&[5; 50]);
        assert_eq!((log.take(BLOCK).len(), log.untaken()), (0, LogPosition::new(1, 131, 40)));
    }

    #[test]
    fn a_record_that_does_not_fit_is_split_and_a_small_rest_is_left_empty() {
        let mut log = buffer();
        assert_eq!(log.append(&[9; 4000]), (LogPosition::new(1, 1, 40), 0));
        // 56 bytes are left: 7 of header and 49 of content; the other 51 follow a header of 3.
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
    fn generations_are_contiguous_and_the_last_segment_stays_free_for_a_shadow() {
        let mut log = buffer();
        for expected in [(1, 2), (1, 3), (2, 1), (2, 2)] {
            log.append(&[1; 4056]);
            assert_eq!(log.tail(), LogPosition::new(expected.0, expected.1, 40));
        }
        assert_eq!(segments(&log.take(BLOCK)), [(1, 1), (1, 2), (1, 3)], "one generation at a time");
        assert_eq!((segments(&log.take(BLOCK)), log.waiting()), (vec![(2, 1)], 0));
        assert_eq!(log.begin_generation(), 0);
        assert_eq!((log.tail(), log.untaken()), (LogPosition::new(3, 1, 40), LogPosition::new(3, 1, 40)));
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
