//! Recognition of ESE files by their content.

use std::fmt;

use crate::checkpoint::{CHECKPOINT_LEN, FILE_TYPE_CHECKPOINT};
use crate::flush_map::FILE_TYPE_FLUSH_MAP;
use crate::header::DATABASE_MAGIC;
use crate::log::header::FILE_TYPE_LOG;

/// Offset of the file type in every ESE header.
pub const FILE_TYPE_AT: usize = 667;
/// Possible offsets of the second copy of a database header.
const SHADOWS: [usize; 5] = [2048, 4096, 8192, 16384, 32768];
/// Number of bytes needed from the start of a file: two 32 KiB header pages.
pub const START_LEN: usize = 2 * 32768;

/// Kind of an ESE file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// A database.
    Database,
    /// A log file.
    Log,
    /// A checkpoint.
    Checkpoint,
    /// A flush map.
    FlushMap,
    /// The file is not an ESE file, or is damaged beyond recognition.
    Unknown,
}

impl Format {
    /// Recognises a file by its first bytes, using at most [`START_LEN`] of them. If the first header copy of a
    /// database or checkpoint is damaged, the second copy is used.
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
            _ if old_log_version(start).is_some() => Format::Log,
            _ => Format::Unknown,
        }
    }

    /// Returns the name of the format, as used in machine-readable output.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Database => "database",
            Format::Log => "log",
            Format::Checkpoint => "checkpoint",
            Format::FlushMap => "flush-map",
            Format::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Database => "an ESE database",
            Format::Log => "an ESE log file",
            Format::Checkpoint => "an ESE checkpoint file",
            Format::FlushMap => "an ESE flush map",
            Format::Unknown => "an unknown file format",
        })
    }
}

/// Returns the major and minor version of a log, if its format could predate the file type field. The header of such
/// a log has a sector size of at least 512 bytes and a small major version. Current logs also meet these conditions.
pub fn old_log_version(start: &[u8]) -> Option<(u32, u32)> {
    let (sector, header) = (half(start, 8)?, half(start, 10)?);
    let version = (word(start, 32)?, word(start, 36)?);
    let plausible = matches!(sector, 512 | 1024 | 2048 | 4096)
        && (1..=16).contains(&header)
        && matches!(version, (5..=8, 1000..=9999));
    plausible.then_some(version)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|half| u16::from_le_bytes(*half))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(len: usize, words: &[(usize, u32)]) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for (at, word) in words {
            bytes[*at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn files_are_recognised_by_their_content() {
        assert_eq!(Format::of(&with(4096, &[(4, DATABASE_MAGIC)])), Format::Database);
        assert_eq!(Format::of(&with(16384, &[(8196, DATABASE_MAGIC)])), Format::Database, "shadow only");
        for (code, kind) in [
            (FILE_TYPE_LOG, Format::Log),
            (FILE_TYPE_CHECKPOINT, Format::Checkpoint),
            (FILE_TYPE_FLUSH_MAP, Format::FlushMap),
            (99, Format::Unknown),
        ] {
            assert_eq!(Format::of(&with(4096, &[(FILE_TYPE_AT, code)])), kind);
        }
        let second = with(2 * CHECKPOINT_LEN, &[(CHECKPOINT_LEN + FILE_TYPE_AT, FILE_TYPE_CHECKPOINT)]);
        assert_eq!(Format::of(&second), Format::Checkpoint);
        let old = with(512, &[(8, 512 | 1 << 16), (32, 7), (36, 3704)]);
        assert_eq!((Format::of(&old), old_log_version(&old)), (Format::Log, Some((7, 3704))));
        for len in 0..700 {
            assert_eq!(Format::of(&vec![0; len]), Format::Unknown);
        }
    }
}
