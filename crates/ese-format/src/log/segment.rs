//! A segment of a log file.
//!
//! ```text
//! 0 ECC checksum (8), salted with the index of the segment in its file   8 position of the segment (8)
//! 16 time (8)   24 where its write began (8), or zero   32 zero (4)   36 flags (4), 0x2000   40 records ... 4096
//! ```
//!
//! A *shadow* is a byte-identical copy one segment later: it fails the checksum with its own index and passes with
//! the one before.
//!
//! Bytes 24..32 are reserved in ESE, which writes zeros and reads nothing. The first segment of a write that was
//! not durable when this segment was written tells a torn write from damage (see [`scan`](super::scan)): a lost
//! segment at or behind it was never acknowledged, one before it was.

use crate::checksum::{SegmentVerdict, seal_segment, verify_segment};
use crate::log::header::SEGMENT_BYTES;
use crate::{LogPosition, LogTime};

/// Where records start in a segment.
pub const RECORDS_AT: usize = 40;
const POSITION_AT: usize = 8;
const TIME_AT: usize = 16;
const WRITE_AT: usize = 24;
const FLAGS_AT: usize = 36;
const FLAGS: u32 = 0x2000;

/// Puts header and checksum into a segment whose records are in place. Everything before `write` is durable.
pub fn finish(segment: &mut [u8; SEGMENT_BYTES], position: LogPosition, time: LogTime, write: LogPosition) {
    let mut head = [0; RECORDS_AT];
    let fields: [(usize, &[u8]); 4] = [
        (POSITION_AT, &position.to_u64().to_le_bytes()),
        (TIME_AT, &time.0),
        (WRITE_AT, &LogPosition { offset: 0, ..write }.to_u64().to_le_bytes()),
        (FLAGS_AT, &FLAGS.to_le_bytes()),
    ];
    for (at, bytes) in fields {
        if let Some(place) = head.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
    if let Some(place) = segment.first_chunk_mut() {
        *place = head;
    }
    seal_segment(segment, u32::from(position.segment));
}

/// What the bytes of one segment are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// The segment that belongs here.
    Valid {
        /// Its checksum word.
        checksum: u64,
        /// Index of the first segment of its write, if its writer says so.
        write: Option<u16>,
        /// A flipped bit was put right.
        repaired: bool,
    },
    /// A good segment of an older use of the file.
    Stale,
    /// A good segment that claims a later position.
    Later(LogPosition),
    /// A copy of the segment before.
    Shadow,
    /// Nothing.
    Zero,
    /// Damaged.
    Bad,
}

/// Classifies a segment read at `expected`; a single flipped bit of a valid one is repaired in place.
pub fn classify(segment: &mut [u8], expected: LogPosition) -> SegmentKind {
    if segment.iter().all(|&byte| byte == 0) {
        return SegmentKind::Zero;
    }
    let index = u32::from(expected.segment);
    let verdict = verify_segment(segment, index);
    if verdict != SegmentVerdict::Bad {
        let found = position(segment);
        return match found.cmp(&expected) {
            std::cmp::Ordering::Less => SegmentKind::Stale,
            std::cmp::Ordering::Greater => SegmentKind::Later(found),
            std::cmp::Ordering::Equal => SegmentKind::Valid {
                checksum: word(segment, 0),
                write: write_start(segment, expected),
                repaired: verdict == SegmentVerdict::Repaired,
            },
        };
    }
    let is_shadow = index > 1 && verify_segment(&mut segment.to_vec(), index - 1) != SegmentVerdict::Bad;
    if is_shadow { SegmentKind::Shadow } else { SegmentKind::Bad }
}

/// The copy of the segment at `expected` that `behind`, one segment later, may be; whole, and right for its index.
pub fn shadow_of(behind: &[u8], expected: LogPosition) -> Option<Vec<u8>> {
    let mut copy = behind.to_vec();
    let good = verify_segment(&mut copy, u32::from(expected.segment)) != SegmentVerdict::Bad;
    (good && position(&copy) == expected).then_some(copy)
}

fn word(segment: &[u8], at: usize) -> u64 {
    segment.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn position(segment: &[u8]) -> LogPosition {
    LogPosition::from_u64(word(segment, POSITION_AT))
}

fn write_start(segment: &[u8], own: LogPosition) -> Option<u16> {
    let start = LogPosition::from_u64(word(segment, WRITE_AT));
    (start.generation == own.generation && (1..=own.segment).contains(&start.segment))
        .then_some(start.segment)
}
