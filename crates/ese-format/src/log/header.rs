//! The header of a log file, in its first segment.
//!
//! ```text
//!   0 checksum (4)   4 generation (4)   8 segment size (2)   10 header segments (2)   12 file segments (2)
//!  14 database page size (2)   16 created (8)   24 previous generation created (8)   32 version (4, 4, 4)
//!  44 log signature (28)   72 engine parameters (567)   639 flags (1)   640 checkpoint at creation (8)
//! 648 version update minor (4)   652 sector code (1)   653 previous log's accumulated checksum (8)
//! 661 engine version (4)   665 zero (2)   667 file type (4)   671 attachment list (2048)   2719 zero
//! ```

use crate::attachment::ATTACHMENT_LIST_LEN;
use crate::checksum::{header_checksum, u32_at};
use crate::declare::layout;
use crate::fields::{self, Fields};
use crate::layout::{BinaryLayout, Input};
use crate::log::parameters::EngineParameters;
use crate::{Generation, LogPosition, LogTime, Signature};

/// Length of a log segment and of the header, in bytes. ESE: `LOG_SEGMENT_SIZE`.
#[doc(alias = "LOG_SEGMENT_SIZE")]
pub const SEGMENT_BYTES: usize = crate::checksum::SEGMENT_LEN;
/// File type of a log, at byte 667 of every ESE header.
pub const FILE_TYPE_LOG: u32 = 3;
/// Length in bytes of the checksum, which precedes the fields.
const CHECKSUM_LEN: usize = 4;
/// Log format version that Jetcell writes: 8.4000.5.14, as in Exchange 2016.
pub const LOG_VERSION: (u32, u32, u32, u32) = (8, 4000, 5, 14);
/// Engine format version that Jetcell writes.
pub const ENGINE_VERSION: u32 = 8520;

layout! {
    /// Fields of a log header in file order, from byte 4. ESE: `LGFILEHDR`.
    #[doc(alias = "LGFILEHDR")]
    pub struct LogHeader {
        /// Number of the log file in its stream.
        generation: Generation,
        /// Number of bytes per segment; 4096 in this format.
        segment_bytes: u16,
        /// Number of segments in the header; always 1.
        header_segments: u16,
        /// Number of segments in the file.
        file_segments: u16,
        /// Page size of the databases; 0 means 4096.
        database_page_size: u16,
        /// Creation time of the generation.
        created: LogTime,
        /// Creation time of the previous generation. It links the generations of a stream. ESE: `tmPrevGen`.
        previous_created: LogTime,
        /// Format version, major.
        version_major: u32,
        /// Format version, minor. It never changes.
        version_minor: u32,
        /// Format version, update major.
        version_update: u32,
        /// Signature of the log stream.
        signature: Signature,
        /// Settings of the engine.
        parameters: EngineParameters,
        /// Flags: 1 if created from a reserve log, 2 if circular logging is on, 4 if circular logging was on in the
        /// past.
        flags: u8,
        /// Checkpoint when the file was created.
        checkpoint: LogPosition,
        /// Format version, update minor.
        version_update_minor: u32,
        /// Code for the disk's sector size; 0 means unknown.
        sector_code: u8,
        /// XOR of the segment checksums of the previous log.
        previous_checksum: u64,
        /// Engine format version of the writer.
        engine_version: u32,
        /// Reserved; always zero.
        reserved: [u8; 2],
        /// File type; always [`FILE_TYPE_LOG`].
        file_type: u32,
        /// Databases that were attached when the file was created.
        attachment_list: [u8; ATTACHMENT_LIST_LEN],
    }
}
const _: () = assert!(4 + <LogHeader as BinaryLayout>::FIXED == 2719);

/// Error returned when a segment cannot be decoded as a log header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogHeaderError {
    /// The input is shorter than a header.
    #[error("the log header needs {SEGMENT_BYTES} bytes, but only {available} are available")]
    Truncated {
        /// Length of the input in bytes.
        available: usize,
    },
    /// The stored checksum does not match the contents.
    #[error("the log header checksum is {stored:08x}, expected {computed:08x}")]
    BadChecksum {
        /// Checksum stored in the header.
        stored: u32,
        /// Checksum computed from the header.
        computed: u32,
    },
    /// The file is not a log.
    #[error("the file is not a log file (file type {file_type})")]
    NotALog {
        /// File type found in bytes 667..671.
        file_type: u32,
    },
    /// This crate does not support the format version.
    #[error(
        "log format {major}.{minor}{} is not supported; only 8.4000 (Windows 8, Exchange 2013 and later) is",
        if *major == 7 { " (Windows 7, Exchange 2007 and 2010)" } else { "" }
    )]
    UnknownVersion {
        /// Major format version.
        major: u32,
        /// Minor format version.
        minor: u32,
    },
}

/// Returns the major and minor version of a log, if its format could predate the file type field. The header of such
/// a log has a sector size of at least 512 bytes and a small major version. Current logs also meet these conditions.
pub(crate) fn old_log_version(start: &[u8]) -> Option<(u32, u32)> {
    let half = |at: usize| start.get(at..)?.first_chunk().map(|half| u16::from_le_bytes(*half));
    let (sector, header) = (half(8)?, half(10)?);
    let version = (u32_at(start, 32)?, u32_at(start, 36)?);
    let plausible = matches!(sector, 512 | 1024 | 2048 | 4096)
        && (1..=16).contains(&header)
        && matches!(version, (5..=8, 1000..=9999));
    plausible.then_some(version)
}

impl LogHeader {
    /// Decodes a log header.
    pub fn decode(bytes: &[u8]) -> Result<LogHeader, LogHeaderError> {
        LogHeader::decode_current(bytes).map_err(|error| {
            // Old formats have shorter segments and use a different checksum.
            let old = old_log_version(bytes).filter(|version| *version != (LOG_VERSION.0, LOG_VERSION.1));
            old.map_or(error, |(major, minor)| LogHeaderError::UnknownVersion { major, minor })
        })
    }

    fn decode_current(bytes: &[u8]) -> Result<LogHeader, LogHeaderError> {
        let truncated = LogHeaderError::Truncated { available: bytes.len() };
        let page = bytes.get(..SEGMENT_BYTES).ok_or(truncated)?;
        let input = &mut Input::new(page);
        let stored = u32::take(input).map_err(|_| truncated)?;
        let computed = header_checksum(page);
        if stored != computed {
            return Err(LogHeaderError::BadChecksum { stored, computed });
        }
        let header = LogHeader::take(input).map_err(|_| truncated)?;
        if header.file_type != FILE_TYPE_LOG {
            return Err(LogHeaderError::NotALog { file_type: header.file_type });
        }
        if (header.version_major, header.version_minor) != (LOG_VERSION.0, LOG_VERSION.1)
            || usize::from(header.segment_bytes) != SEGMENT_BYTES
        {
            let (major, minor) = (header.version_major, header.version_minor);
            return Err(LogHeaderError::UnknownVersion { major, minor });
        }
        Ok(header)
    }

    /// Returns the fields of a log header without validating them. Returns `None` if the page is too short.
    pub fn fields(page: &[u8]) -> Option<Fields> {
        fields::describe_fields::<LogHeader>(page.get(CHECKSUM_LEN..)?).ok()
    }

    /// Encodes the header as a segment, including the checksum.
    pub fn encode(&self) -> Vec<u8> {
        let mut page = Vec::with_capacity(SEGMENT_BYTES);
        0u32.put(&mut page);
        self.put(&mut page);
        page.resize(SEGMENT_BYTES, 0);
        let checksum = header_checksum(&page);
        if let Some(first) = page.first_chunk_mut() {
            *first = checksum.to_le_bytes();
        }
        page
    }
}
