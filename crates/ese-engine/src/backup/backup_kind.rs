//! The kinds of backup that ESE defines.

use std::fmt;

use crate::storage::backup_scope;

/// Kind of backup, which determines its contents and which logs may be removed afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BackupKind {
    /// Contains pages, and the logs that are needed to make them consistent. Older logs are removed.
    Full,
    /// Contains the logs since the last full or incremental backup. These logs are removed.
    Incremental,
    /// Contains pages and logs, but does not affect other backups. No logs are removed.
    Copy,
    /// Contains the logs since the last full backup. No logs are removed.
    Differential,
}

impl BackupKind {
    /// Returns whether the backup contains pages.
    pub fn has_pages(self) -> bool {
        matches!(self, BackupKind::Full | BackupKind::Copy)
    }

    /// Returns whether logs that are no longer needed are removed when the backup ends.
    pub fn truncates(self) -> bool {
        matches!(self, BackupKind::Full | BackupKind::Incremental)
    }

    /// Returns the number that identifies the kind in headers and in the log.
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
