//! Backups of the instance, and holds that retain its logs.

use ese_format::Generation;

use super::Instance;
use crate::Result;
use crate::backup::{Backup, BackupKind};
use crate::log::LogHold;

impl Instance {
    /// Begins a backup of all attached databases. Sessions continue to work. Until the backup ends, databases cannot
    /// be attached, detached or created, and the instance cannot be shut down.
    ///
    /// Returns [`crate::Error::Backup`] in these cases:
    /// - Another backup is running (-505).
    /// - The backup is incremental or differential, and a database has no full backup to continue from (-560).
    /// - Logs that the backup needs were removed (-569).
    /// - The instance uses circular logging and the backup contains no pages (-526).
    pub fn begin_backup(&self, kind: BackupKind) -> Result<Backup> {
        let _one = self.attaching.lock();
        self.core.check_no_backup()?;
        Backup::begin(self.core.clone(), kind, self.options.log.circular)
    }

    /// Retains all logs from generation `from` on until the result is dropped, for a copy that has not received them
    /// yet. Logs that were already removed are not restored.
    pub fn hold_logs(&self, from: Generation) -> LogHold {
        let _steady = self.core.checkpoint.lock();
        self.core.log().hold(from)
    }
}
