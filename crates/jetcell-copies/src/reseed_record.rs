//! The file that lists the pages that an interrupted reseed must still patch.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use jetcell_backup::text_file;
use jetcell_vfs::{FileName, Vfs};
use serde::{Deserialize, Serialize};

use crate::copy_state::is_id;
use crate::error::{FullReseedReason, Result};

/// Name of the file.
pub(crate) const RESEED_FILE: &str = "reseed.json";

/// Contents of the file [`RESEED_FILE`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReseedRecord {
    pub first_diverged: Option<u32>,
    pub commits_given_up: u64,
    /// Generation at which redo would have started for the databases on this side.
    pub redo_from: u32,
    /// Identifier that this side had as a copy.
    pub id: String,
    pub databases: Vec<ReseedDatabase>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReseedDatabase {
    pub path: PathBuf,
    pub signature: String,
    pub page_bytes: u32,
    pub pages: BTreeSet<u32>,
}

impl ReseedRecord {
    /// Reads the file. Returns `None` if no reseed was interrupted.
    pub fn read(vfs: &dyn Vfs, directory: &Path) -> Result<Option<ReseedRecord>> {
        let Some(text) = text_file::read(vfs, &directory.join(RESEED_FILE))? else { return Ok(None) };
        let is_inside = |database: &ReseedDatabase| {
            let name = FileName::from_path(&database.path);
            name.is_ok_and(|name| database.path == directory.join(name))
        };
        let stored = serde_json::from_str(&text).ok();
        let is_possible = |stored: &ReseedRecord| is_id(&stored.id) && stored.databases.iter().all(is_inside);
        Ok(Some(stored.filter(is_possible).ok_or(FullReseedReason::DamagedRecord)?))
    }
}
