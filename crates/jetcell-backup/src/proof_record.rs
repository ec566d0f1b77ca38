//! Record of a proof, next to the manifest of the backup that was proved.

use std::path::Path;

use jetcell_input::{bounded_list, shortened};
use jetcell_vfs::Vfs;
use serde::{Deserialize, Serialize};

use crate::error::{BackupError, Result};
use crate::file_damage::FileDamage;
use crate::file_names::PROVED_FILE;
use crate::manifest::BackupManifest;
use crate::text_file;

/// Maximum number of problems that a record lists.
const MAX_PROBLEMS: usize = 100;
/// Maximum length of a problem in characters.
const MAX_PROBLEM_CHARS: usize = 500;
/// Maximum length of a record in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Result of a proof, as recorded in the file `proved.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupProof {
    /// Checksum of the manifest that was proved.
    pub(crate) manifest: String,
    /// Time of the proof, in milliseconds since 1970 UTC.
    pub proved_unix_ms: i64,
    /// Duration of the proof in seconds.
    pub seconds: f64,
    /// Number of restored databases.
    pub databases: usize,
    /// Number of pages that were checked.
    pub pages: u64,
    /// Log position up to which the logs were replayed.
    pub position: String,
    /// Reasons why the proof failed, at most 100.
    #[serde(deserialize_with = "bounded_list::<_, _, MAX_PROBLEMS>")]
    pub problems: Vec<String>,
}

impl BackupProof {
    /// Reads the record of a backup. Returns `None` if there is no record, or if it belongs to another manifest.
    ///
    /// # Errors
    /// Returns an error if the record cannot be read or is damaged. The result of the last proof is then unknown.
    pub(crate) fn read(
        vfs: &dyn Vfs,
        directory: &Path,
        manifest: &BackupManifest,
    ) -> Result<Option<BackupProof>> {
        let path = directory.join(PROVED_FILE);
        let Some(text) = text_file::read_at_most(vfs, &path, MAX_BYTES)? else { return Ok(None) };
        let proof: BackupProof =
            serde_json::from_str(&text).map_err(|_| BackupError::changed(&path, FileDamage::Content))?;
        Ok((proof.manifest == manifest.checksum).then_some(proof))
    }

    pub(crate) fn write(&self, vfs: &dyn Vfs, directory: &Path) -> Result<()> {
        text_file::write_json(vfs, &directory.join(PROVED_FILE), self)
    }

    /// Returns true if the proof found no problems.
    pub fn is_good(&self) -> bool {
        self.problems.is_empty()
    }

    pub(crate) fn add(&mut self, problem: &str) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(shortened(problem, MAX_PROBLEM_CHARS).into_owned());
        }
    }
}
