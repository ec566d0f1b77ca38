//! Which kind of ESE file this is, told by its content.

use std::fmt;

use ese_format::checkpoint::{CHECKPOINT_LEN, FILE_TYPE_CHECKPOINT};
use ese_format::flush_map::FILE_TYPE_FLUSH_MAP;
use ese_format::header::DATABASE_MAGIC;
use ese_format::log::header::FILE_TYPE_LOG;
use serde::Serialize;

/// Where every ESE header has its file type.
pub(crate) const FILE_TYPE_AT: usize = 667;
/// Possible places of the second copy of a database header.
const SHADOWS: [usize; 5] = [2048, 4096, 8192, 16384, 32768];
/// Longest beginning of a file that recognition needs: two header pages of 32 KiB.
pub const START_LEN: usize = 2 * 32768;

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// A database.
    Database,
    /// A log file.
    Log,
    /// A checkpoint.
    Checkpoint,
    /// A flush map.
    FlushMap,
    /// None of these.
    Unknown,
}

impl Format {
    /// Looks at the beginning of a file. Damaged files are recognised by what is left of them.
    pub fn of(start: &[u8]) -> Format {
        if word(start, 4) == Some(DATABASE_MAGIC) {
            return Format::Database;
        }
        match word(start, FILE_TYPE_AT) {
            Some(FILE_TYPE_LOG) => Format::Log,
            Some(FILE_TYPE_CHECKPOINT) => Format::Checkpoint,
            Some(FILE_TYPE_FLUSH_MAP) => Format::FlushMap,
            _ if SHADOWS.iter().any(|at| word(start, at + 4) == Some(DATABASE_MAGIC)) => Format::Database,
            _ if word(start, CHECKPOINT_LEN + FILE_TYPE_AT) == Some(FILE_TYPE_CHECKPOINT) => {
                Format::Checkpoint
            }
            _ if is_old_log(start) => Format::Log,
            _ => Format::Unknown,
        }
    }
}

/// Logs from before the file type existed: sectors of 512 bytes or more, a small major version.
pub(crate) fn is_old_log(start: &[u8]) -> bool {
    let (sector, header) = (half(start, 8), half(start, 10));
    matches!(sector, Some(512 | 1024 | 2048 | 4096))
        && header.is_some_and(|sectors| (1..=16).contains(&sectors))
        && matches!(word(start, 32), Some(5..=8))
        && matches!(word(start, 36), Some(1000..=9999))
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Database => "an ESE database",
            Format::Log => "an ESE log file",
            Format::Checkpoint => "an ESE checkpoint file",
            Format::FlushMap => "an ESE flush map",
            Format::Unknown => "no ESE file",
        })
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_le_bytes(*word))
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}
