//! Check of log files: the headers and their chain, every segment, and the end of each file.
//!
//! ```text
//!  log file:  segment 0 = header (32-bit XOR) | segments 1.. of 4 KiB, each with its checksum and its position
//!  chain:     a header stores the creation time of its predecessor and the XOR of the predecessor's segment checksums
//! ```
//!
//! The last segment is written twice. The copy occupies the next segment and verifies only with the index of the
//! original. A bad segment that is followed by such a copy is a torn write, which recovery repairs. It is reported as
//! a state, not as damage. If segments store the start of their write, a torn write of several segments can also be
//! distinguished from damage (`ese_format::log::scan`).

use std::path::{Path, PathBuf};

use ese_format::LogPosition;
use ese_format::checksum::SEGMENT_LEN;
use ese_format::log::has_log_extension;
use ese_format::log::header::{LogHeader, LogHeaderError};
use ese_format::log::segment::{SegmentKind, classify, shadow_of};
use jetcell_host::Cancellation;
use jetcell_vfs::{File, IoBuffer, IoReason, OpenMode, Vfs};
use serde::Serialize;

use crate::error::CheckError;
use crate::findings::Findings;
use crate::findings::finding::{Finding, FindingKind, Severity};

/// Number of segments per read.
const SEGMENTS_PER_READ: u64 = 64;
/// First format update in which a log header contains the checksum of the previous log.
const FIRST_CHAINED_UPDATE: (u32, u32) = (5, 13);

/// Result of checking a log directory.
#[derive(Clone, Debug, Serialize)]
pub struct LogReport {
    /// Path of the directory.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub path: PathBuf,
    /// Logs of the chain, sorted by generation.
    pub logs: Vec<LogSummary>,
    /// All findings.
    pub findings: Vec<Finding>,
}

impl LogReport {
    /// Returns true if no damage was found.
    pub fn is_sound(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity < Severity::Error)
    }
}

/// Result of checking one log file.
#[derive(Clone, Debug, Serialize)]
pub struct LogSummary {
    /// Path of the file.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub path: PathBuf,
    /// Generation of the log.
    pub generation: u32,
    /// Number of segments that contain records.
    pub valid_segments: u16,
    /// Whether the last write was torn. Even if it was, all acknowledged data is present.
    pub torn: bool,
    /// XOR of the checksums of the valid segments.
    pub accumulated_checksum: u64,
    /// Number of segments of each kind.
    pub segments: SegmentCounts,
}

/// Segment counts by kind, not including the header.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct SegmentCounts {
    /// Number of segments in the file.
    pub total: u64,
    /// Number of segments with a valid checksum and records of this generation.
    pub good: u64,
    /// Number of segments that are copies of the previous segment.
    pub shadow: u64,
    /// Number of segments that were never written.
    pub zero: u64,
    /// Number of segments left over from an earlier use of the file.
    pub stale: u64,
    /// Number of damaged segments.
    pub bad: u64,
    /// Number of segments with a flipped bit that the checksum can correct.
    pub repairable: u64,
}

/// A log file that was checked.
pub(crate) struct CheckedLog {
    pub(crate) header: LogHeader,
    pub(crate) summary: LogSummary,
    /// Whether the records are usable up to the end of the log.
    pub(crate) sound: bool,
}

/// Checks the logs in a directory that are named `<base>.log` or `<base><generation>.log` (or `.jtx`).
///
/// Once the check is cancelled, no more logs are read.
pub fn check_logs(
    vfs: &dyn Vfs,
    directory: &Path,
    base: &str,
    cancel: &Cancellation,
) -> Result<LogReport, CheckError> {
    let io = |error| CheckError::Io { path: directory.to_owned(), error };
    let mut findings = Findings::new(directory);
    let mut logs = Vec::new();
    for path in vfs.list(directory).map_err(io)? {
        if cancel.is_cancelled() || !is_log(&path, base) {
            continue;
        }
        findings.set_file(&path);
        match check_log(vfs, &path, &mut findings) {
            Ok(log) => logs.push(log),
            // The log was removed or renamed after the directory was listed. Any resulting gap between the other logs
            // is reported below.
            Err((FindingKind::FileUnreadable, _)) if matches!(vfs.exists(&path), Ok(false)) => {}
            Err((kind, what)) => findings.add_at_offset(Severity::Error, kind, 0, what),
        }
    }
    logs.sort_by_key(|log| log.header.generation);
    for pair in logs.windows(2) {
        if let [before, log] = pair {
            findings.set_file(&log.summary.path);
            check_successor(before, log, &mut findings);
        }
    }
    let logs = logs.into_iter().map(|log| log.summary).collect();
    Ok(LogReport { path: directory.to_owned(), logs, findings: findings.finish().0 })
}

fn is_log(path: &Path, base: &str) -> bool {
    let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.strip_prefix(base));
    has_log_extension(path)
        && number.is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// Reports a finding if `log` is not the successor of `before`.
pub(crate) fn check_successor(before: &CheckedLog, log: &CheckedLog, findings: &mut Findings) {
    let (summary, header, before) = (&before.summary, &log.header, &before.header);
    let mut wrong = |kind, offset, what: String| findings.add_at_offset(Severity::Error, kind, offset, what);
    let (last, this) = (before.generation, header.generation);
    if this == last {
        return wrong(FindingKind::LogChain, 4, format!("generation {:X} exists twice", this.0));
    }
    if this != last.next() {
        let what = format!("generation {:X} follows {:X}: logs are missing between them", this.0, last.0);
        return wrong(FindingKind::LogMissing, 4, what);
    }
    if header.signature != before.signature {
        let what = "the log and the previous log do not belong to the same log stream".to_owned();
        wrong(FindingKind::LogForeign, 44, what);
    }
    if header.previous_created != before.created {
        let (named, created) = (header.previous_created, before.created);
        let what = format!(
            "according to the header, the previous log was created at {named}, but it was created \
             at {created}"
        );
        wrong(FindingKind::LogChain, 24, what);
    }
    // In earlier formats, this field is zero.
    let has_checksum = (header.version_update, header.version_update_minor) >= FIRST_CHAINED_UPDATE;
    if has_checksum && header.previous_checksum != summary.accumulated_checksum {
        let (stored, sum) = (header.previous_checksum, summary.accumulated_checksum);
        let what = format!(
            "the header expects checksum {stored:016x} for the previous log, but its checksum is {sum:016x}"
        );
        wrong(FindingKind::LogChain, 653, what);
    }
}

/// Reads all segments of one file. Offsets in the findings refer to this file.
pub(crate) fn check_log(
    vfs: &dyn Vfs,
    path: &Path,
    findings: &mut Findings,
) -> Result<CheckedLog, (FindingKind, String)> {
    let to_finding = |error: std::io::Error| (FindingKind::FileUnreadable, error.to_string());
    let file = vfs.open(path, OpenMode::Read).map_err(to_finding)?;
    let len = file.len().map_err(to_finding)?;
    let segments = len / SEGMENT_LEN as u64;
    let mut first = IoBuffer::zeroed(len.min(SEGMENT_LEN as u64) as usize);
    file.read_at(0, &mut first, IoReason::LogRead).map_err(to_finding)?;
    let header = LogHeader::decode(&first).map_err(header_finding)?;
    if len % SEGMENT_LEN as u64 != 0 || u64::from(header.file_segments) != segments {
        let part = if len % SEGMENT_LEN as u64 == 0 { "" } else { " and a partial segment" };
        let what = format!(
            "the file contains {segments} segments{part}, but its header specifies {}",
            header.file_segments
        );
        findings.add_at_offset(Severity::Error, FindingKind::LogLength, 12, what);
    }
    let mut scan = SegmentScan::new(LogPosition { generation: header.generation, segment: 0, offset: 0 });
    let mut at = 1;
    while at < segments {
        let count = SEGMENTS_PER_READ.min(segments - at);
        // Also read the following segment, if there is one, because it may be a copy of the last segment.
        let mut bytes = read_segments(&*file, at, (count + 1).min(segments - at)).map_err(to_finding)?;
        for index in 0..count {
            let (_, rest) = bytes.split_at_mut(index as usize * SEGMENT_LEN);
            let (segment, behind) = rest.split_at_mut(SEGMENT_LEN);
            let Ok(number) = u16::try_from(at + index) else { break };
            scan.check_segment(number, segment, behind.get(..SEGMENT_LEN).unwrap_or_default(), findings);
        }
        at += count;
    }
    scan.finish(findings);
    scan.counts.total = segments.saturating_sub(1);
    let summary = LogSummary {
        path: path.to_owned(),
        generation: header.generation.0,
        valid_segments: scan.valid,
        torn: scan.torn.is_some(),
        accumulated_checksum: scan.sum,
        segments: scan.counts,
    };
    Ok(CheckedLog { header, summary, sound: !scan.damaged })
}

/// Converts a header error to a finding.
fn header_finding(error: LogHeaderError) -> (FindingKind, String) {
    match error {
        LogHeaderError::UnknownVersion { .. } => {
            (FindingKind::LogVersion, format!("{error}; use the tools of the version that wrote the log"))
        }
        _ => (FindingKind::LogHeader, error.to_string()),
    }
}

fn read_segments(file: &dyn File, first: u64, count: u64) -> std::io::Result<IoBuffer> {
    let mut buffer = IoBuffer::zeroed(count as usize * SEGMENT_LEN);
    file.read_at(first * SEGMENT_LEN as u64, &mut buffer, IoReason::LogRead)?;
    Ok(buffer)
}

/// End of a log, and why it ends there.
#[derive(Clone, Copy)]
struct ScannedLogEnd {
    segment: u16,
    /// Whether the log ends at a damaged segment, which may be a torn write.
    damaged: bool,
}

/// State of a scan of one file, segment by segment.
struct SegmentScan {
    start: LogPosition,
    valid: u16,
    sum: u64,
    counts: SegmentCounts,
    end: Option<ScannedLogEnd>,
    /// Whether the last valid segment stores the start of its write, which makes it possible to detect torn writes.
    has_write_start: bool,
    torn: Option<(u16, &'static str)>,
    damaged: bool,
}

impl SegmentScan {
    fn new(start: LogPosition) -> SegmentScan {
        let counts = SegmentCounts::default();
        SegmentScan {
            start,
            valid: 0,
            sum: 0,
            counts,
            end: None,
            has_write_start: false,
            torn: None,
            damaged: false,
        }
    }

    fn report_damage(&mut self, kind: FindingKind, number: u16, what: String, findings: &mut Findings) {
        self.damaged = true;
        findings.add_at_offset(Severity::Error, kind, offset(number), what);
    }

    fn accept_segment(&mut self, checksum: u64, write: Option<u16>) {
        self.valid += 1;
        self.sum ^= checksum;
        self.has_write_start = write.is_some();
    }

    /// Checks a segment. `following` is the segment that follows it.
    fn check_segment(&mut self, number: u16, segment: &mut [u8], following: &[u8], findings: &mut Findings) {
        let expected = LogPosition { segment: number, ..self.start };
        let kind = classify(segment, expected);
        let count = match kind {
            SegmentKind::Valid { .. } => &mut self.counts.good,
            SegmentKind::Shadow => &mut self.counts.shadow,
            SegmentKind::Zero => &mut self.counts.zero,
            SegmentKind::Stale => &mut self.counts.stale,
            SegmentKind::Later(_) | SegmentKind::Bad => &mut self.counts.bad,
        };
        *count += 1;
        match (kind, self.end) {
            (SegmentKind::Later(found), _) => {
                let what = format!("the segment has number {found}, expected {expected}");
                self.report_damage(FindingKind::LogSegmentBad, number, what, findings);
            }
            (SegmentKind::Valid { checksum, write, repaired }, None) => {
                self.accept_segment(checksum, write);
                if repaired {
                    self.counts.repairable += 1;
                    let what = "flipped bit; the checksum can correct it".to_owned();
                    let kind = FindingKind::LogSegmentRepairable;
                    findings.add_at_offset(Severity::Error, kind, offset(number), what);
                }
            }
            (SegmentKind::Valid { write, .. }, Some(end)) => {
                self.check_segment_after_end(number, write, end, findings);
            }
            (SegmentKind::Stale | SegmentKind::Shadow | SegmentKind::Zero, _) => {
                self.end.get_or_insert(ScannedLogEnd { segment: number, damaged: false });
            }
            (SegmentKind::Bad, None) => {
                if let Some(mut copy) = shadow_of(following, expected)
                    && let SegmentKind::Valid { checksum, write, .. } = classify(&mut copy, expected)
                {
                    self.accept_segment(checksum, write);
                    self.torn =
                        Some((number, "torn write; the copy that follows is good, and recovery will use it"));
                } else if self.has_write_start {
                    self.end = Some(ScannedLogEnd { segment: number, damaged: true });
                } else {
                    let what = "bad checksum, and no good copy follows (ESE -501)".to_owned();
                    self.report_damage(FindingKind::LogSegmentBad, number, what, findings);
                }
            }
            (SegmentKind::Bad, Some(_)) if self.has_write_start => {}
            (SegmentKind::Bad, Some(end)) => {
                let what =
                    format!("there is a damaged segment after the end of the log in segment {}", end.segment);
                self.report_damage(FindingKind::LogAfterEnd, number, what, findings);
            }
        }
    }

    /// Handles a valid segment after the end of the log. It is either the rest of a torn write or proof that an
    /// earlier segment was lost.
    fn check_segment_after_end(
        &mut self,
        number: u16,
        write: Option<u16>,
        end: ScannedLogEnd,
        findings: &mut Findings,
    ) {
        match write.filter(|_| self.has_write_start) {
            Some(start) if start <= end.segment => self.end = Some(ScannedLogEnd { damaged: true, ..end }),
            Some(_) => {
                let what =
                    "the segment is damaged or was never stored, although a later segment shows that it was written".to_owned();
                self.report_damage(FindingKind::LogSegmentBad, end.segment, what, findings);
            }
            None => {
                let what =
                    format!("there is a valid segment after the end of the log in segment {}", end.segment);
                self.report_damage(FindingKind::LogAfterEnd, number, what, findings);
            }
        }
    }

    fn finish(&mut self, findings: &mut Findings) {
        if let Some(ScannedLogEnd { segment, damaged: true }) = self.end
            && !self.damaged
        {
            self.torn.get_or_insert((
                segment,
                "torn write; it was never acknowledged, and recovery will end here",
            ));
        }
        if let Some((segment, what)) = self.torn {
            findings.add_at_offset(Severity::Warning, FindingKind::LogTorn, offset(segment), what.to_owned());
        }
    }
}

fn offset(segment: u16) -> u64 {
    u64::from(segment) * SEGMENT_LEN as u64
}
