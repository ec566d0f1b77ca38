//! The kinds of backup, as ESE defines them.

use std::fmt;

use crate::storage::backup_scope;

/// What a backup contains, and what may be removed behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BackupKind {
    /// Pages, and the logs that make them one state. Older logs are removed.
    Full,
    /// The logs since the last full or incremental backup. They are removed.
    Incremental,
    /// Pages and logs, without an effect on other backups. Nothing is removed.
    Copy,
    /// The logs since the last full backup. Nothing is removed.
    Differential,
}

impl BackupKind {
    /// Whether it contains pages.
    pub fn has_pages(self) -> bool {
        matches!(self, BackupKind::Full | BackupKind::Copy)
    }

    /// Whether logs that are not needed any more are removed when it ends.
    pub fn truncates(self) -> bool {
        matches!(self, BackupKind::Full | BackupKind::Incremental)
    }

    /// The kind in headers and in the log.
    pub(crate) fn scope(self) -> u8 {
        match self {
            BackupKind::Full => backup_scope::FULL,
            BackupKind::Incremental => backup_scope::INCREMENTAL,
            BackupKind::Copy => backup_scope::COPY,
            BackupKind::Differential => backup_scope::DIFFERENTIAL,
        }
    }
}

impl fmt::Display for BackupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BackupKind::Full => "full",
            BackupKind::Incremental => "incremental",
            BackupKind::Copy => "copy",
            BackupKind::Differential => "differential",
        })
    }
}
