//! Finds the end of a log file and distinguishes torn writes from damage.
//!
//! ```text
//! | header | valid | valid | valid | shadow or nothing ... |        a log that ends
//! | header | valid | valid |  bad  | shadow of the bad one ... |    torn: the shadow replaces it
//! | header | valid | valid |  bad, lost or valid in any order  |    torn write of several segments
//! ```
//!
//! ESE has two rules. After the first segment without content, no segment may be valid or damaged. A damaged segment
//! must be followed by its shadow. These rules do not cover a write of several segments of which only an arbitrary
//! part survived a power failure. Each segment that Jetcell writes therefore stores the first segment of its write,
//! which makes an exact rule possible. The log may end at a segment that is not valid, unless a later segment proves
//! that the write of the invalid segment was complete. ESE's rules apply to segments without this mark, such as those
//! in logs written by ESE.

use crate::log::header::SEGMENT_BYTES;
use crate::log::segment::{SegmentKind, classify, shadow_of};
use crate::{Generation, LogPosition};

/// Kind of damage in a log file. A torn write at the end of the log is not damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanErrorKind {
    /// The checksum is wrong, the segment has no shadow, and a torn write cannot be the cause.
    #[error("the segment is damaged and does not have a copy")]
    Damaged,
    /// The segment is damaged or missing, but a later segment proves that it was once durable.
    #[error("the segment is damaged or was never stored, although its write was acknowledged")]
    LostWrite,
    /// The segment contains a later log position than expected.
    #[error("the segment has number {0}")]
    LaterPosition(LogPosition),
    /// A valid segment follows the end of the log.
    #[error("the segment has content, but the log ends before it")]
    ValidAfterEnd,
    /// A damaged segment follows the end of the log.
    #[error("the segment is damaged, and the log ends before it")]
    DamagedAfterEnd,
}

/// Location and kind of damage in a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("log segment {segment} (last good segment before it: {last_good}): {reason}")]
pub struct ScanError {
    /// Index of the segment.
    pub segment: u16,
    /// Index of the last valid segment before the damaged one; 0 refers to the header.
    pub last_good: u16,
    /// Kind of damage.
    pub reason: ScanErrorKind,
}

/// Result of scanning an undamaged log file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogScan {
    /// Index of the last segment with records. The first is segment 1.
    pub last: u16,
    /// XOR of the checksums of all segments with records. The header of the next log contains it.
    pub accumulated: u64,
    /// Indexes of the segments corrected in memory, either by correcting a flipped bit or by using the shadow.
    pub repaired: Vec<u16>,
    /// Whether segments after the end of the log belong to a torn write.
    pub torn: bool,
    /// Whether torn writes can be distinguished from damage, which is the case if the last segment stores the first
    /// segment of its write or if the log has no segments.
    pub marked: bool,
}

/// Scans a whole log file, including its header. Correctable damage is corrected in memory.
pub fn scan_log(file: &mut [u8], generation: Generation) -> Result<LogScan, ScanError> {
    let mut scan = LogScan { marked: true, ..LogScan::default() };
    // Segment at which the log ends, and whether that segment is damaged.
    let mut end: Option<(u16, bool)> = None;
    // The last segment in a file can only be a shadow, so it is not classified itself.
    let count = u16::try_from(file.len() / SEGMENT_BYTES).unwrap_or(u16::MAX).saturating_sub(1);
    for index in 1..count {
        let expected = LogPosition { generation, segment: index, offset: 0 };
        let last_good = scan.last;
        let damaged = |segment, reason| Err(ScanError { segment, last_good, reason });
        let (segment, behind) = split(file, index);
        match (classify(segment, expected), end) {
            (SegmentKind::Later(position), _) => {
                return damaged(index, ScanErrorKind::LaterPosition(position));
            }
            (SegmentKind::Valid { checksum, write, repaired }, None) => {
                scan.last = index;
                scan.accumulated ^= checksum;
                scan.marked = write.is_some();
                if repaired {
                    scan.repaired.push(index);
                }
            }
            (SegmentKind::Valid { write, .. }, Some((at, is_damaged))) => match write {
                Some(start) if start <= at && scan.marked => scan.torn = true,
                Some(start) if start > at => {
                    return damaged(at, ScanErrorKind::LostWrite);
                }
                _ if is_damaged => return damaged(at, ScanErrorKind::Damaged),
                _ => return damaged(index, ScanErrorKind::ValidAfterEnd),
            },
            (SegmentKind::Stale | SegmentKind::Shadow | SegmentKind::Zero, _) => {
                end = end.or(Some((index, false)));
            }
            (SegmentKind::Bad, None) => {
                if let Some(copy) = shadow_of(behind, expected)
                    && let SegmentKind::Valid { checksum, write, .. } = classify(&mut copy.clone(), expected)
                {
                    segment.copy_from_slice(&copy);
                    scan.last = index;
                    scan.accumulated ^= checksum;
                    scan.repaired.push(index);
                    scan.marked = write.is_some();
                } else if scan.marked {
                    scan.torn = true;
                    end = Some((index, true));
                } else {
                    return damaged(index, ScanErrorKind::Damaged);
                }
            }
            (SegmentKind::Bad, Some(_)) if scan.marked => scan.torn = true,
            (SegmentKind::Bad, Some(_)) => return damaged(index, ScanErrorKind::DamagedAfterEnd),
        }
    }
    Ok(scan)
}

/// Returns a segment and the one that follows it.
fn split(file: &mut [u8], index: u16) -> (&mut [u8], &[u8]) {
    let at = usize::from(index) * SEGMENT_BYTES;
    let (_, rest) = file.split_at_mut_checked(at).unwrap_or_default();
    let (segment, behind) = rest.split_at_mut_checked(SEGMENT_BYTES).unwrap_or_default();
    (segment, behind.get(..SEGMENT_BYTES).unwrap_or_default())
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
