//! Reader of the segments of a log and of their records, with fragments reassembled.
//!
//! ```text
//! | header | good | good | shadow of the last | empty or left from an earlier use ... |
//! ```
//!
//! Invariants: at most three segments and one record are in memory. Every segment is read, which makes it possible to
//! detect contents after the end of the log.

use ese_format::LogPosition;
use ese_format::log::header::SEGMENT_BYTES;
use ese_format::log::record::LogRecord;
use ese_format::log::segment::{RECORDS_AT, SegmentKind, classify, shadow_of};
use serde::Serialize;

use crate::output::DumpProblem;
use crate::{DumpSource, Result};

const NOP: u8 = 0;
/// Maximum length of a record in bytes. A record may contain two page images and some keys.
const MAX_RECORD_LEN: usize = 1 << 20;

/// A record read from the log.
pub(super) struct LoggedRecord {
    /// Position of the first byte of the record.
    pub(super) position: LogPosition,
    pub(super) record: LogRecord,
    /// Bytes of the record, reassembled from fragments.
    pub(super) bytes: Vec<u8>,
}

/// An item read from a log: a record or a problem.
pub(super) enum LogItem {
    Record(LoggedRecord),
    Problem(DumpProblem),
}

/// Segment counts, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct SegmentTotals {
    /// Number of valid segments with records.
    pub(super) good: u16,
    /// Number of segments that are copies of the previous segment.
    pub(super) shadow: u16,
    /// Number of all-zero segments.
    pub(super) zero: u16,
    /// Number of segments left over from an earlier use of the file.
    pub(super) stale: u16,
    /// Number of damaged segments.
    pub(super) bad: u16,
    /// XOR of the checksums of the valid segments. The header of the next log stores this value.
    pub(super) accumulated_checksum: u64,
}

type VisitLogItem<'v> = &'v mut dyn FnMut(LogItem) -> Result<()>;

/// A record some of whose fragments have not been read yet.
struct FragmentedRecord {
    position: LogPosition,
    total: usize,
    bytes: Vec<u8>,
}

/// Reads all segments. If `generation` is absent, the generation of the first segment is used.
pub(super) fn read_log(
    source: &DumpSource,
    generation: Option<u32>,
    visit: VisitLogItem<'_>,
) -> Result<SegmentTotals> {
    let count = source.size() / SEGMENT_BYTES as u64;
    let mut reader = RecordAssembler { visit, pending: None, segments: SegmentTotals::default() };
    let mut generation = generation;
    let mut ended = None;
    for index in 1..u16::try_from(count).unwrap_or(u16::MAX) {
        let offset = u64::from(index) * SEGMENT_BYTES as u64;
        let mut two = match source.read(offset, 2 * SEGMENT_BYTES) {
            Ok(two) => two,
            Err(error) => {
                reader.segments.bad += 1;
                reader.report_gap(
                    offset,
                    format!("segment {index} cannot be read ({error}); its records are missing"),
                )?;
                continue;
            }
        };
        let behind = two.split_off(SEGMENT_BYTES.min(two.len()));
        let of = *generation.get_or_insert_with(|| segment_position(&two).generation.0);
        let expected = LogPosition::new(of, index, 0);
        let mut kind = classify(&mut two, expected);
        if kind == SegmentKind::Bad
            && let Some(mut copy) = shadow_of(&behind, expected)
        {
            kind = classify(&mut copy, expected);
            two = copy;
            reader.report(
                offset,
                format!("segment {index} is torn; the copy that follows it is intact and is shown"),
            )?;
        }
        match kind {
            SegmentKind::Valid { checksum, .. } => {
                reader.segments.good += 1;
                reader.segments.accumulated_checksum ^= checksum;
                if let Some(end) = ended.take() {
                    reader.report_gap(
                        offset,
                        format!(
                            "segment {index} has content although the log ended at segment {end}; it is shown"
                        ),
                    )?;
                }
                reader.records(expected, offset, &two)?;
            }
            SegmentKind::Bad => {
                reader.segments.bad += 1;
                let what = format!("segment {index} is damaged (checksum); its records are missing");
                reader.report_gap(offset, what)?;
            }
            SegmentKind::Later(position) => {
                reader.segments.bad += 1;
                let what = format!("segment {index} has number {position}; its records are omitted");
                reader.report_gap(offset, what)?;
            }
            SegmentKind::Shadow => reader.segments.shadow += 1,
            SegmentKind::Zero => reader.segments.zero += 1,
            SegmentKind::Stale => reader.segments.stale += 1,
        }
        if matches!(kind, SegmentKind::Shadow | SegmentKind::Zero | SegmentKind::Stale) {
            ended.get_or_insert(index);
        }
    }
    let tail = source.size() % SEGMENT_BYTES as u64;
    if tail != 0 {
        let what = format!("{tail} bytes follow the last complete segment; the file may be truncated");
        reader.report(source.size() - tail, what)?;
    }
    Ok(reader.segments)
}

fn segment_position(segment: &[u8]) -> LogPosition {
    let word = segment.get(8..).and_then(<[u8]>::first_chunk);
    LogPosition::from_u64(word.map_or(0, |bytes| u64::from_le_bytes(*bytes)))
}

struct RecordAssembler<'v> {
    visit: VisitLogItem<'v>,
    pending: Option<FragmentedRecord>,
    segments: SegmentTotals,
}

impl RecordAssembler<'_> {
    fn report(&mut self, offset: u64, what: String) -> Result<()> {
        (self.visit)(LogItem::Problem(DumpProblem::at(offset, what)))
    }

    /// Reports a gap. Discards the fragments before the gap, because no record can continue across it.
    fn report_gap(&mut self, offset: u64, what: String) -> Result<()> {
        self.pending = None;
        self.report(offset, what)
    }

    fn records(&mut self, start: LogPosition, offset: u64, segment: &[u8]) -> Result<()> {
        let mut at = RECORDS_AT;
        while let Some(rest) = segment.get(at..).filter(|rest| !rest.is_empty()) {
            if rest.first() == Some(&NOP) {
                at += 1;
                continue;
            }
            let position = LogPosition { offset: at as u16, ..start };
            let place = offset + at as u64;
            let (record, len) = match LogRecord::decode(rest) {
                Ok(decoded) => decoded,
                Err(error) => {
                    return self.report_gap(place, format!("{error}; the rest of the segment is not shown"));
                }
            };
            at += len;
            match record {
                LogRecord::FragmentBegin(first) => {
                    let total = first.total as usize;
                    self.pending = Some(FragmentedRecord { position, total, bytes: first.piece });
                    if total > MAX_RECORD_LEN {
                        self.report_gap(
                            place,
                            format!("a record cannot have {total} bytes; it is not shown"),
                        )?;
                    }
                }
                LogRecord::Fragment(next) => self.add_fragment(place, &next.piece)?,
                record => {
                    // If a crash left a record's fragments incomplete, they are followed by the records written by
                    // recovery.
                    self.pending = None;
                    let bytes = rest.get(..len).unwrap_or_default().to_vec();
                    (self.visit)(LogItem::Record(LoggedRecord { position, record, bytes }))?;
                }
            }
        }
        Ok(())
    }

    fn add_fragment(&mut self, place: u64, piece: &[u8]) -> Result<()> {
        let Some(mut whole) = self.pending.take() else {
            return self
                .report(place, "the start of a long record is missing; the record is not shown".to_owned());
        };
        whole.bytes.extend_from_slice(piece);
        if whole.bytes.len() < whole.total {
            self.pending = Some(whole);
            return Ok(());
        }
        match LogRecord::decode(&whole.bytes) {
            Ok((record, len)) if len == whole.total && len == whole.bytes.len() => {
                let FragmentedRecord { position, bytes, .. } = whole;
                (self.visit)(LogItem::Record(LoggedRecord { position, record, bytes }))
            }
            Ok(_) => self.report(place, "the fragments of a long record do not fit together".to_owned()),
            Err(error) => self.report(place, format!("a long record cannot be read: {error}")),
        }
    }
}
