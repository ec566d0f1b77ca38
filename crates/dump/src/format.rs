//! Which kind of ESE file this is, told by its content.

use std::fmt;

use ese_format::checkpoint::{CHECKPOINT_LEN, FILE_TYPE_CHECKPOINT};
use ese_format::flush_map::FILE_TYPE_FLUSH_MAP;
use ese_format::header::DATABASE_MAGIC;
use ese_format::log::header::FILE_TYPE_LOG;
use serde::Serialize;

use crate::{DumpError, Result, Source};

/// Where every ESE header has its file type.
const FILE_TYPE_AT: usize = 667;
/// Possible places of the second copy of a database header.
const SHADOWS: [usize; 5] = [2048, 4096, 8192, 16384, 32768];

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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
            _ => Format::Unknown,
        }
    }

    /// The kinds of dump that are for files of this format.
    fn hint(self) -> &'static str {
        match self {
            Format::Database => "use dump header, pages, tree, schema or space",
            Format::Log => "use dump header or log",
            Format::Checkpoint => "use dump header or checkpoint",
            Format::FlushMap => "use dump header or flushmap",
            Format::Unknown => "nothing here can show it",
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
            Format::Unknown => "no ESE file",
        })
    }
}

/// The beginning of a file that must be of the format `wanted`.
pub(crate) fn start_of(source: &Source, wanted: Format) -> Result<Vec<u8>> {
    let start = source.start()?;
    match Format::of(&start) {
        found if found == wanted => Ok(start),
        found => Err(DumpError::Format { path: source.path().to_owned(), found, wanted, hint: found.hint() }),
    }
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}
