//! Types of backups.

use ese_engine::BackupKind;
use serde::{Deserialize, Serialize};

/// Backup type, which determines what the backup contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackupType {
    /// All databases, and the logs that they need.
    #[default]
    Full,
    /// The logs since the last full or incremental backup.
    Incremental,
    /// All databases and the logs that they need. Does not affect other backups.
    Copy,
    /// The logs since the last full backup.
    Differential,
}

impl BackupType {
    /// Converts the kind to the corresponding engine type.
    pub fn to_engine_kind(self) -> BackupKind {
        match self {
            BackupType::Full => BackupKind::Full,
            BackupType::Incremental => BackupKind::Incremental,
            BackupType::Copy => BackupKind::Copy,
            BackupType::Differential => BackupKind::Differential,
        }
    }

    /// Returns true if the backup contains databases.
    pub fn has_pages(self) -> bool {
        self.to_engine_kind().has_pages()
    }
}
