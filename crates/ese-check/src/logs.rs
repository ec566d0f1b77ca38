//! A log directory: headers and how they chain, every segment, the end of each file.
//!
//! ```text
//!  log file:  segment 0 = header (32-bit XOR) | segments 1.. of 4 KiB, each with its checksum and its position
//!  chain:     a header names its predecessor's creation time and the XOR of that one's segment checksums
//! ```
//!
//! The last segment is written twice, the copy one place further on; it verifies only with the index before it. A
//! bad segment with such a copy behind it is a torn write, which recovery repairs: a state, not damage.

use std::path::{Path, PathBuf};

use ese_format::checksum::{SEGMENT_LEN, SegmentVerdict, header_checksum, verify_segment};
use ese_format::{Generation, LogPosition, LogTime, Signature};
use serde::Serialize;
use vfs::{File, IoBuffer, IoReason, OpenMode, Vfs};

use crate::finding::{Findings, Severity};
use crate::{CheckError, Finding};

/// File type of a log, at byte 667 of its header.
const FILE_TYPE_LOG: u32 = 3;
/// Segments per read.
const BATCH: u64 = 64;

/// What was found in a log directory.
#[derive(Clone, Debug, Serialize)]
pub struct LogReport {
    /// The directory.
    pub path: PathBuf,
    /// Every log of the chain, by generation.
    pub logs: Vec<LogSummary>,
    /// Everything found.
    pub findings: Vec<Finding>,
}

impl LogReport {
    /// No damage was found.
    pub fn is_sound(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity < Severity::Error)
    }
}

/// One log file.
#[derive(Clone, Debug, Serialize)]
pub struct LogSummary {
    /// The file.
    pub path: PathBuf,
    /// Its number.
    pub generation: u32,
    /// Segments that carry records.
    pub valid_segments: u16,
    /// The last segment was torn and its copy is good.
    pub torn: bool,
    /// XOR of the checksums of the valid segments.
    pub accumulated_checksum: u64,
}

struct Header {
    generation: Generation,
    segments: u16,
    created: LogTime,
    previous_created: LogTime,
    update: (u32, u32),
    signature: Signature,
    previous_checksum: u64,
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

impl Header {
    fn decode(bytes: &[u8]) -> Result<Header, String> {
        let stored = array(bytes, 0).map(u32::from_le_bytes);
        let computed = header_checksum(bytes);
        if stored != Some(computed) {
            return Err(format!("header checksum is {:08x}, should be {computed:08x}", stored.unwrap_or(0)));
        }
        let word = |at| array(bytes, at).map(u32::from_le_bytes);
        if word(667) != Some(FILE_TYPE_LOG) {
            return Err("not a log file".to_owned());
        }
        let header = || {
            Some(Header {
                generation: Generation(word(4)?),
                segments: u16::from_le_bytes(array(bytes, 12)?),
                created: LogTime(array(bytes, 16)?),
                previous_created: LogTime(array(bytes, 24)?),
                update: (word(40)?, word(648)?),
                signature: Signature::from_bytes(&array(bytes, 44)?),
                previous_checksum: u64::from_le_bytes(array(bytes, 653)?),
            })
        };
        let header = header().ok_or("the header is cut off")?;
        let segment_len = array(bytes, 8).map(u16::from_le_bytes);
        if segment_len.map(usize::from) != Some(SEGMENT_LEN) {
            return Err(format!(
                "segments of {} bytes are a format this program does not know",
                segment_len.unwrap_or(0)
            ));
        }
        Ok(header)
    }
}

/// Checks the logs `<base>.log` and `<base><generation>.log` (or `.jtx`) of a directory.
pub fn check_logs(vfs: &dyn Vfs, directory: &Path, base: &str) -> Result<LogReport, CheckError> {
    let io = |error| CheckError::Io { path: directory.to_owned(), error };
    let mut findings = Findings::new(directory);
    let mut logs: Vec<(Header, LogSummary)> = Vec::new();
    for path in vfs.list(directory).map_err(io)? {
        if !is_log(&path, base) {
            continue;
        }
        findings.set_file(&path);
        match check_log(vfs, &path, &mut findings) {
            Ok(log) => logs.push(log),
            Err(what) => findings.push(Severity::Error, Some(0), None, None, what),
        }
    }
    logs.sort_by_key(|(header, _)| header.generation);
    for pair in logs.windows(2) {
        if let [(before, summary), (header, log)] = pair {
            findings.set_file(&log.path);
            check_link(before, summary, header, &mut findings);
        }
    }
    let logs = logs.into_iter().map(|(_, summary)| summary).collect();
    Ok(LogReport { path: directory.to_owned(), logs, findings: findings.finish() })
}

fn is_log(path: &Path, base: &str) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.strip_prefix(base));
    matches!(extension.to_ascii_lowercase().as_str(), "log" | "jtx")
        && number.is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

fn check_link(before: &Header, summary: &LogSummary, header: &Header, findings: &mut Findings) {
    let mut wrong = |offset, what: String| findings.push(Severity::Error, Some(offset), None, None, what);
    let (last, this) = (before.generation, header.generation);
    if this != last.next() {
        return wrong(
            4,
            format!("generation {:X} follows {:X}: logs are missing between them", this.0, last.0),
        );
    }
    if header.signature != before.signature {
        wrong(44, "the log belongs to another log stream than the one before it".to_owned());
    }
    if header.previous_created != before.created {
        wrong(
            24,
            format!(
                "it names {} as its predecessor's time, which is {}",
                header.previous_created, before.created
            ),
        );
    }
    // Earlier formats leave the field zero.
    let has_checksum = header.update >= (5, 13);
    if has_checksum && header.previous_checksum != summary.accumulated_checksum {
        let (stored, sum) = (header.previous_checksum, summary.accumulated_checksum);
        wrong(653, format!("the log before it should sum up to {stored:016x}, but does to {sum:016x}"));
    }
}

/// Reads all segments of one file; findings have offsets in it.
fn check_log(vfs: &dyn Vfs, path: &Path, findings: &mut Findings) -> Result<(Header, LogSummary), String> {
    let text = |error: std::io::Error| error.to_string();
    let file = vfs.open(path, OpenMode::Read).map_err(text)?;
    let segments = file.len().map_err(text)? / SEGMENT_LEN as u64;
    let first = read(&*file, 0, 1).map_err(text)?;
    let header = Header::decode(&first)?;
    if u64::from(header.segments) != segments {
        let what = format!("the file has {segments} segments, its header says {}", header.segments);
        findings.push(Severity::Error, Some(12), None, None, what);
    }
    let mut scan = Scan { generation: header.generation, valid: 0, sum: 0, end: None, torn: None };
    let mut at = 1;
    while at < segments {
        let count = BATCH.min(segments - at);
        // One segment more, where there is one: the copy of the last.
        let bytes = read(&*file, at, (count + 1).min(segments - at)).map_err(text)?;
        for index in 0..count {
            let here = index as usize * SEGMENT_LEN;
            let (segment, behind) = bytes.get(here..).unwrap_or_default().split_at(SEGMENT_LEN);
            let Ok(number) = u16::try_from(at + index) else { break };
            if let Some(what) = scan.segment(number, segment, behind.get(..SEGMENT_LEN)) {
                let offset = (at + index) * SEGMENT_LEN as u64;
                let severity = if scan.torn == Some(number) { Severity::Warning } else { Severity::Error };
                findings.push(severity, Some(offset), None, None, what);
            }
        }
        at += count;
    }
    let summary = LogSummary {
        path: path.to_owned(),
        generation: header.generation.0,
        valid_segments: scan.valid,
        torn: scan.torn.is_some(),
        accumulated_checksum: scan.sum,
    };
    Ok((header, summary))
}

fn read(file: &dyn File, first: u64, count: u64) -> std::io::Result<IoBuffer> {
    let mut buffer = IoBuffer::zeroed(count as usize * SEGMENT_LEN);
    file.read_at(first * SEGMENT_LEN as u64, &mut buffer, IoReason::Verify)?;
    Ok(buffer)
}

/// The state of reading one file, segment by segment.
struct Scan {
    generation: Generation,
    valid: u16,
    sum: u64,
    /// First segment that carries nothing.
    end: Option<u16>,
    torn: Option<u16>,
}

impl Scan {
    /// Judges a segment; returns what is wrong with it.
    fn segment(&mut self, number: u16, segment: &[u8], behind: Option<&[u8]>) -> Option<String> {
        let mut bytes = segment.to_vec();
        let verdict = verify_segment(&mut bytes, number.into());
        let position = |bytes: &[u8]| LogPosition::from_u64(array(bytes, 8).map_or(0, u64::from_le_bytes));
        let expected = LogPosition { generation: self.generation, segment: number, offset: 0 };
        if verdict != SegmentVerdict::Bad {
            let found = position(&bytes);
            if found > expected {
                return Some(format!("the segment says it is {found}, not {expected}"));
            }
            if found < expected {
                // Left from the file's last use.
                self.end.get_or_insert(number);
                return None;
            }
            if let Some(end) = self.end {
                return Some(format!("a valid segment after the end of the log in segment {end}"));
            }
            self.valid += 1;
            self.sum ^= array(&bytes, 0).map_or(0, u64::from_le_bytes);
            let repaired = verdict == SegmentVerdict::Repaired;
            return repaired.then(|| "flipped bit; the checksum can put it right".to_owned());
        }
        let is_copy = number.checked_sub(1).is_some_and(|before| {
            let mut copy = segment.to_vec();
            // Behind the end, a copy may also be left from the file's last use.
            before > 0
                && verify_segment(&mut copy, before.into()) != SegmentVerdict::Bad
                && (before == self.valid || self.end.is_some() && position(&copy) < expected)
        });
        if is_copy || segment.iter().all(|&byte| byte == 0) {
            self.end.get_or_insert(number);
            return None;
        }
        if let Some(end) = self.end {
            return Some(format!("a damaged segment after the end of the log in segment {end}"));
        }
        let copy = behind.map(<[u8]>::to_vec).filter(|copy| {
            verify_segment(&mut copy.clone(), number.into()) != SegmentVerdict::Bad
                && position(copy) == expected
        });
        match copy {
            Some(copy) => {
                self.torn = Some(number);
                self.valid += 1;
                self.sum ^= array(&copy, 0).map_or(0, u64::from_le_bytes);
                Some("torn write; the copy behind it is good and recovery will use it".to_owned())
            }
            None => Some("bad checksum, and no good copy behind it (ESE -501)".to_owned()),
        }
    }
}
