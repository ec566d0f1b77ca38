//! A segment of a log file.
//!
//! ```text
//! 0 ECC checksum (8), salted with the index of the segment in its file   8 position of the segment (8)
//! 16 time (8)   24 zero (12)   36 flags (4), 0x2000   40 records ... 4096
//! ```
//!
//! A *shadow* is a byte-identical copy one segment later: it fails the checksum with its own index and passes with
//! the one before.

use crate::checksum::{SegmentVerdict, seal_segment, verify_segment};
use crate::log::header::SEGMENT_BYTES;
use crate::{LogPosition, LogTime};

/// Where records start in a segment.
pub const RECORDS_AT: usize = 40;
const FLAGS: u32 = 0x2000;

/// Puts header and checksum into a segment whose records are in place.
pub fn finish(segment: &mut [u8; SEGMENT_BYTES], position: LogPosition, time: LogTime) {
    let head = segment.first_chunk_mut::<RECORDS_AT>();
    if let Some(head) = head {
        head.fill(0);
        let (fields, flags) = head.split_at_mut(36);
        for (at, bytes) in [(8, position.to_u64().to_le_bytes()), (16, time.0)] {
            if let Some(place) = fields.get_mut(at..at + 8) {
                place.copy_from_slice(&bytes);
            }
        }
        flags.copy_from_slice(&FLAGS.to_le_bytes());
    }
    seal_segment(segment, u32::from(position.segment));
}

/// What the bytes of one segment are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// The segment that belongs here. The value is its checksum.
    Valid(u64),
    /// A good segment of an older use of the file.
    Stale,
    /// A copy of the segment before.
    Shadow,
    /// Nothing.
    Zero,
    /// Damaged.
    Bad,
}

/// Classifies a segment read at `expected`; a single flipped bit is repaired in place.
pub fn classify(segment: &mut [u8], expected: LogPosition) -> SegmentKind {
    if segment.iter().all(|&byte| byte == 0) {
        return SegmentKind::Zero;
    }
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
    };
    let index = u32::from(expected.segment);
    if verify_segment(segment, index) != SegmentVerdict::Bad {
        return match LogPosition::from_u64(word(segment, 8)) {
            position if position == expected => SegmentKind::Valid(word(segment, 0)),
            position if position < expected => SegmentKind::Stale,
            _ => SegmentKind::Bad,
        };
    }
    match index.checked_sub(1) {
        Some(before) if verify_segment(segment, before) != SegmentVerdict::Bad => SegmentKind::Shadow,
        _ => SegmentKind::Bad,
    }
}
