//! The end of a log file, and whether a crash or damage made it.
//!
//! ```text
//! | header | valid | valid | valid | shadow or nothing ... |        a log that ends
//! | header | valid | valid |  bad  | shadow of the bad one ... |    torn: the copy is as good
//! | header | valid | valid |  bad, lost or good in any mixture |    torn write of several segments
//! ```
//!
//! ESE's rules: after the first segment without content nothing valid and nothing damaged may follow, and a damaged
//! segment must have its shadow behind it. They leave no room for a gathered write of which a power cut kept an
//! arbitrary part. Segments of this engine say where their write began, so the rule for them is exact: the log may
//! end at a segment that is not good unless a later one proves that its write had been completed before. Where
//! nothing says so (logs of ESE), ESE's rules hold.

use crate::log::header::SEGMENT_BYTES;
use crate::log::segment::{SegmentKind, classify, shadow_of};
use crate::{Generation, LogPosition};

/// Why a log file is damaged, not merely cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanErrorKind {
    /// Bad checksum, and neither a shadow nor a torn write explains it.
    #[error("it is damaged and there is no copy of it")]
    Damaged,
    /// A later segment was written when this one was durable.
    #[error("it is damaged or was never stored, though its write had been acknowledged")]
    LostWrite,
    /// The position in the segment lies ahead.
    #[error("it claims to be segment {0}")]
    LaterPosition(LogPosition),
    /// Content behind the end.
    #[error("it has content, but the log ends before it")]
    ValidAfterEnd,
    /// Damage behind the end.
    #[error("it is damaged, and the log ends before it")]
    DamagedAfterEnd,
}

/// Damage in a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("log segment {segment} (last good one before it: {last_good}): {reason}")]
pub struct ScanError {
    /// Index of the segment.
    pub segment: u16,
    /// Index of the last good segment in front of it; 0 is the header.
    pub last_good: u16,
    /// What is wrong with it.
    pub reason: ScanErrorKind,
}

/// The content of an undamaged log file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogScan {
    /// Segments 1 to this one carry records.
    pub last: u16,
    /// XOR of their checksums, for the next log's header.
    pub accumulated: u64,
    /// Segments that were put right in memory: a flipped bit, or content taken from the shadow.
    pub repaired: Vec<u16>,
    /// Behind the end are remains of a write that a crash cut off.
    pub torn: bool,
    /// The last segment says where its write began, or there is none: torn writes can be told from damage here.
    pub marked: bool,
}

/// Scans a whole log file (header included), repairing in memory what can be repaired.
pub fn scan_log(file: &mut [u8], generation: Generation) -> Result<LogScan, ScanError> {
    let mut scan = LogScan { marked: true, ..LogScan::default() };
    // Segment at which the log ends, and whether damage ends it.
    let mut end: Option<(u16, bool)> = None;
    // The last segment of a file is only ever a shadow.
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

/// A segment, and what follows it.
fn split(file: &mut [u8], index: u16) -> (&mut [u8], &[u8]) {
    let at = usize::from(index) * SEGMENT_BYTES;
    let (_, rest) = file.split_at_mut_checked(at).unwrap_or_default();
    let (segment, behind) = rest.split_at_mut_checked(SEGMENT_BYTES).unwrap_or_default();
    (segment, behind.get(..SEGMENT_BYTES).unwrap_or_default())
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
