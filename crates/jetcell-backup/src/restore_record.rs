//! The record of a completed restore: the file `restored.json` in the restored directory.
//!
//! The record is used only to detect a repeated restore. An instance on the directory ignores it.

use std::path::Path;

use ese_format::LogPosition;
use ese_format::header::DatabaseHeader;
use jetcell_input::bounded_list;
use jetcell_input::hex::hex64;
use jetcell_vfs::{FileName, Vfs};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::file_names::RESTORED_FILE;
use crate::manifest::MAX_DATABASES;
use crate::text_file;

/// Maximum number of backups in a restore record.
const MAX_BACKUPS: usize = 10_000;
/// Maximum number of databases in a restore record.
const MAX_RESTORED: usize = 2 * MAX_DATABASES;

/// A record of a completed restore, with the restored databases and their final state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestoreRecord {
    /// Identifiers of the backups in chain order, at most 10,000.
    #[serde(deserialize_with = "bounded_list::<_, _, MAX_BACKUPS>")]
    pub backups: Vec<String>,
    /// Position before which the replay stopped, in hexadecimal digits.
    pub until: String,
    /// True if surviving logs were replayed, too.
    pub with_logs: bool,
    /// Time at which the restore completed, in milliseconds since 1970 UTC.
    pub restored_unix_ms: i64,
    /// The databases from the backup, and the databases that the logs created.
    #[serde(deserialize_with = "bounded_list::<_, _, MAX_RESTORED>")]
    pub databases: Vec<RestoredDatabase>,
}

/// A restored database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestoredDatabase {
    /// File name of the database.
    pub file: FileName,
    /// Signature and state of the database, and the position and time of the shutdown that ended the restore. Any
    /// later use of the database changes these values.
    pub shutdown: String,
}

impl RestoredDatabase {
    /// Describes a clean database from its header.
    pub fn new(file: FileName, header: &DatabaseHeader) -> RestoredDatabase {
        let position = hex64(header.consistent_position.to_u64());
        let shutdown =
            format!("{} {:?} {position} {}", header.signature.to_hex(), header.state, header.consistent_time);
        RestoredDatabase { file, shutdown }
    }
}

impl RestoreRecord {
    /// Reads the record in a directory. Returns `None` if there is no record or it was written by a later version.
    pub fn read(vfs: &dyn Vfs, directory: &Path) -> Result<Option<RestoreRecord>> {
        let text = text_file::read_trusted(vfs, &directory.join(RESTORED_FILE))?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Writes the record and makes it durable.
    pub fn write(&self, vfs: &dyn Vfs, directory: &Path) -> Result<()> {
        text_file::write_json(vfs, &directory.join(RESTORED_FILE), self)
    }

    /// Returns true if a restore of the same backups to the same position would have the same result.
    pub fn matches(&self, backups: &[String], until: LogPosition) -> bool {
        !self.with_logs && self.backups == backups && self.until == hex64(until.to_u64())
    }
}
