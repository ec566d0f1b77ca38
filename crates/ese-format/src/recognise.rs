//! Recognition of ESE files by their content.

use std::fmt;
use std::path::Path;

use crate::checkpoint::{CHECKPOINT_LEN, FILE_TYPE_CHECKPOINT};
use crate::checksum::u32_at;
use crate::flush_map::FILE_TYPE_FLUSH_MAP;
use crate::header::DATABASE_MAGIC;
use crate::log::has_log_extension;
use crate::log::header::{FILE_TYPE_LOG, old_log_version};

/// Offset of the file type in every ESE header.
pub const FILE_TYPE_AT: usize = 667;
/// Possible offsets of the second copy of a database header.
const SHADOWS: [usize; 5] = [2048, 4096, 8192, 16384, 32768];
/// Number of bytes needed from the start of a file: two 32 KiB header pages.
pub const START_LEN: usize = 2 * 32768;

/// Extensions of databases.
const DATABASE_EXTENSIONS: [&str; 2] = ["edb", "dit"];

/// Returns true if a file has the extension of a database: `edb` or `dit`, ignoring case. Databases may also have other
/// extensions.
pub fn has_database_extension(path: &Path) -> bool {
    let is = |known: &str| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(known));
    DATABASE_EXTENSIONS.into_iter().any(is)
}

/// Returns true if a file has the extension of a database or log.
pub fn has_database_or_log_extension(path: &Path) -> bool {
    has_database_extension(path) || has_log_extension(path)
}

/// Kind of ESE file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EseFileKind {
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

impl EseFileKind {
    /// Recognises a file by its first bytes, using at most [`START_LEN`] of them. If the first header copy of a
    /// database or checkpoint is damaged, the second copy is used.
    pub fn detect(start: &[u8]) -> EseFileKind {
        if u32_at(start, 4) == Some(DATABASE_MAGIC) {
            return EseFileKind::Database;
        }
        match u32_at(start, FILE_TYPE_AT) {
            Some(FILE_TYPE_LOG) => EseFileKind::Log,
            Some(FILE_TYPE_CHECKPOINT) => EseFileKind::Checkpoint,
            Some(FILE_TYPE_FLUSH_MAP) => EseFileKind::FlushMap,
            _ if SHADOWS.iter().any(|at| u32_at(start, at + 4) == Some(DATABASE_MAGIC)) => {
                EseFileKind::Database
            }
            _ if u32_at(start, CHECKPOINT_LEN + FILE_TYPE_AT) == Some(FILE_TYPE_CHECKPOINT) => {
                EseFileKind::Checkpoint
            }
            _ if old_log_version(start).is_some() => EseFileKind::Log,
            _ => EseFileKind::Unknown,
        }
    }

    /// Returns the name of the format, as used in machine-readable output.
    pub const fn name(self) -> &'static str {
        match self {
            EseFileKind::Database => "database",
            EseFileKind::Log => "log",
            EseFileKind::Checkpoint => "checkpoint",
            EseFileKind::FlushMap => "flush-map",
            EseFileKind::Unknown => "unknown",
        }
    }
}

impl fmt::Display for EseFileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EseFileKind::Database => "an ESE database",
            EseFileKind::Log => "an ESE log file",
            EseFileKind::Checkpoint => "an ESE checkpoint file",
            EseFileKind::FlushMap => "an ESE flush map",
            EseFileKind::Unknown => "an unknown file format",
        })
    }
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
    fn databases_and_logs_are_recognised_by_their_extension() {
        for (name, is_database, is_log) in [
            ("a.edb", true, false),
            ("dir/NTDS.DIT", true, false),
            ("E00.log", false, true),
            ("edb.JTX", false, true),
            ("E00.chk", false, false),
            ("edb", false, false),
            ("a.edb.zst", false, false),
        ] {
            assert_eq!(has_database_extension(Path::new(name)), is_database, "{name}");
            assert_eq!(has_database_or_log_extension(Path::new(name)), is_database || is_log, "{name}");
        }
    }

    #[test]
    fn files_are_recognised_by_their_content() {
        assert_eq!(EseFileKind::detect(&with(4096, &[(4, DATABASE_MAGIC)])), EseFileKind::Database);
        assert_eq!(
            EseFileKind::detect(&with(16384, &[(8196, DATABASE_MAGIC)])),
            EseFileKind::Database,
            "shadow only"
        );
        for (code, kind) in [
            (FILE_TYPE_LOG, EseFileKind::Log),
            (FILE_TYPE_CHECKPOINT, EseFileKind::Checkpoint),
            (FILE_TYPE_FLUSH_MAP, EseFileKind::FlushMap),
            (99, EseFileKind::Unknown),
        ] {
            assert_eq!(EseFileKind::detect(&with(4096, &[(FILE_TYPE_AT, code)])), kind);
        }
        let second = with(2 * CHECKPOINT_LEN, &[(CHECKPOINT_LEN + FILE_TYPE_AT, FILE_TYPE_CHECKPOINT)]);
        assert_eq!(EseFileKind::detect(&second), EseFileKind::Checkpoint);
        let old = with(512, &[(8, 512 | 1 << 16), (32, 7), (36, 3704)]);
        assert_eq!((EseFileKind::detect(&old), old_log_version(&old)), (EseFileKind::Log, Some((7, 3704))));
        for len in 0..700 {
            assert_eq!(EseFileKind::detect(&vec![0; len]), EseFileKind::Unknown);
        }
    }
}
