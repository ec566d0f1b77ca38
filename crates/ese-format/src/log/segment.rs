//! A segment of a log file.
//!
//! ```text
//! 0 ECC checksum (8), salted with the index of the segment in its file   8 position of the segment (8)
//! 16 time (8)   24 first segment of its write (2), or zero   26 hash of its records (6), or zero   32 zero (4)
//! 36 flags (4), 0x2000   40 records ... 4096
//! ```
//!
//! A *shadow* is an identical copy in the next segment. The checksum of a shadow does not match the shadow's own index.
//! It matches the index of the previous segment.
//!
//! Bytes 24..32 are reserved in ESE, which writes zeros there and does not read them. The stored start of the write
//! distinguishes a torn write from damage (see [`scan`](super::scan)). A lost segment at or after that start was not
//! acknowledged, whereas an earlier one was. ESE's checksum is linear, so it may match even if sectors with repeated
//! content are missing. For this reason, the hash (the lower 48 bits of XXH3 with the position as seed) must match
//! too.

use twox_hash::XxHash3_64;

use crate::checksum::{BlockIntegrity, is_zero, seal_segment, verify_segment};
use crate::log::header::SEGMENT_BYTES;
use crate::{LogPosition, LogTime};

/// Offset of the records in a segment.
pub const RECORDS_AT: usize = LogPosition::FIRST_RECORD as usize;
const POSITION_AT: usize = 8;
const TIME_AT: usize = 16;
const WRITE_AT: usize = 24;
const HASH_AT: usize = 26;
const HASH_BYTES: usize = 6;
const FLAGS_AT: usize = 36;
const FLAGS: u32 = 0x2000;

/// Writes the header and checksum into a segment that contains records. `write` is the first segment of the write
/// that includes this segment. All segments before `write` are durable.
pub fn finish(segment: &mut [u8; SEGMENT_BYTES], position: LogPosition, time: LogTime, write: LogPosition) {
    let mut head = [0; RECORDS_AT];
    let hash = hash_of(segment, position);
    let fields: [(usize, &[u8]); 5] = [
        (POSITION_AT, &position.to_u64().to_le_bytes()),
        (TIME_AT, &time.0),
        (WRITE_AT, &write.segment.to_le_bytes()),
        (HASH_AT, &hash),
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

/// Classification of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// The segment is valid and stores its own position.
    Valid {
        /// Checksum of the segment.
        checksum: u64,
        /// Index of the first segment in the same write, if the segment stores it.
        write: Option<u16>,
        /// Whether a flipped bit was corrected.
        repaired: bool,
    },
    /// The segment is valid but is left over from an earlier use of the file.
    Stale,
    /// The segment is valid but contains a later log position than expected.
    Later(LogPosition),
    /// The segment is a copy of the previous segment.
    Shadow,
    /// All bytes are zero.
    Zero,
    /// The segment is damaged.
    Bad,
}

/// Classifies a segment read from position `expected`. If one bit of an otherwise valid segment is flipped, corrects
/// it in place.
pub fn classify(segment: &mut [u8], expected: LogPosition) -> SegmentKind {
    if is_zero(segment) {
        return SegmentKind::Zero;
    }
    let index = u32::from(expected.segment);
    let verdict = verify_segment(segment, index);
    if verdict != BlockIntegrity::Bad {
        let found = position(segment);
        return match found.cmp(&expected) {
            std::cmp::Ordering::Less => SegmentKind::Stale,
            std::cmp::Ordering::Greater => SegmentKind::Later(found),
            std::cmp::Ordering::Equal if !hash_matches(segment, expected) => SegmentKind::Bad,
            std::cmp::Ordering::Equal => SegmentKind::Valid {
                checksum: word(segment, 0),
                write: write_start(segment, expected),
                repaired: verdict == BlockIntegrity::Repaired,
            },
        };
    }
    let is_shadow = index > 1 && verify_segment(&mut segment.to_vec(), index - 1) != BlockIntegrity::Bad;
    if is_shadow { SegmentKind::Shadow } else { SegmentKind::Bad }
}

/// Returns a copy of `next`, the segment after the one at `expected`, if it is a valid shadow of that segment.
pub fn shadow_of(next: &[u8], expected: LogPosition) -> Option<Vec<u8>> {
    let mut copy = next.to_vec();
    let good = verify_segment(&mut copy, u32::from(expected.segment)) != BlockIntegrity::Bad;
    (good && position(&copy) == expected && hash_matches(&copy, expected)).then_some(copy)
}

fn word(segment: &[u8], at: usize) -> u64 {
    segment.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn position(segment: &[u8]) -> LogPosition {
    LogPosition::from_u64(word(segment, POSITION_AT))
}

fn write_start(segment: &[u8], own: LogPosition) -> Option<u16> {
    let start = word(segment, WRITE_AT) as u16;
    (1..=own.segment).contains(&start).then_some(start)
}

fn hash_of(segment: &[u8], position: LogPosition) -> [u8; HASH_BYTES] {
    let records = segment.get(RECORDS_AT..).unwrap_or_default();
    let hash = XxHash3_64::oneshot_with_seed(position.to_u64(), records).to_le_bytes();
    let mut low = [0; HASH_BYTES];
    low.copy_from_slice(&hash[..HASH_BYTES]);
    low
}

/// Returns true if the segment's hash matches. Segments written by ESE have no hash and are always accepted.
fn hash_matches(segment: &[u8], position: LogPosition) -> bool {
    let position = LogPosition { offset: 0, ..position };
    let stored = segment.get(HASH_AT..HASH_AT + HASH_BYTES).unwrap_or_default();
    write_start(segment, position).is_none() || stored == hash_of(segment, position)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::BlockIntegrity;

    #[test]
    fn the_hash_detects_a_tear_in_repeated_content_that_the_checksum_misses() {
        let at = LogPosition::new(3, 7, 0);
        let mut segment = [0xB1; SEGMENT_BYTES];
        finish(&mut segment, at, LogTime::NONE, LogPosition::new(3, 6, 0));
        let whole = SegmentKind::Valid { checksum: word(&segment, 0), write: Some(6), repaired: false };
        assert_eq!(classify(&mut segment.clone(), at), whole);

        let mut flipped = segment;
        flipped[HASH_AT] ^= 4;
        let repaired = SegmentKind::Valid { checksum: word(&segment, 0), write: Some(6), repaired: true };
        assert_eq!(classify(&mut flipped, at), repaired);

        let mut torn = segment;
        torn[1024..2048].fill(0);
        assert_eq!(verify_segment(&mut torn.clone(), 7), BlockIntegrity::Good);
        assert_eq!(classify(&mut torn, at), SegmentKind::Bad);
        assert_eq!(shadow_of(&torn, at), None);
        assert!(shadow_of(&segment, at).is_some());
    }
}
