//! How a file of a backup differs from the file that was backed up.

use jetcell_input::error_line;
use jetcell_sync::Arc;
use jetcell_vfs::FileName;

/// Difference between a file of a backup and the file that was backed up.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FileDamage {
    /// The bytes differ.
    #[error("its content differs from the content that was backed up")]
    Content,
    /// The manifest is not valid JSON, or does not have exactly the fields of a manifest.
    #[error("the file is not a manifest, or was changed: {}", error_line(.0))]
    Manifest(#[source] Arc<serde_json::Error>),
    /// The manifest has this version, which this program does not support.
    #[error("version {0} of the manifest is not supported")]
    Version(u32),
    /// The checksum of the manifest is wrong.
    #[error("its checksum is wrong: the file was changed after the backup")]
    Checksum,
    /// The manifest contains a log generation above the maximum.
    #[error("log generation {0:X} (hexadecimal) is out of range")]
    Generation(u32),
    /// The manifest contains an impossible page size.
    #[error("a database cannot have a page size of {0} bytes")]
    PageSize(u32),
    /// The manifest gives a file the name of another file.
    #[error("{0:?} is reserved for another file of a backup or of a restore")]
    ReservedName(FileName),
    /// The number of checksums of a file does not match its length.
    #[error("{0} has different numbers of checksums and ranges")]
    Ranges(FileName),
    /// A text file is too long.
    #[error("the file is {bytes} bytes long; the maximum is {max} bytes")]
    TooLong {
        /// Length of the file in bytes.
        bytes: u64,
        /// Maximum length in bytes.
        max: u64,
    },
    /// A text file is not valid UTF-8.
    #[error("the file is not a text file")]
    NotText,
}
