//! Backups of the instance, and logs that it must keep.

use ese_format::Generation;

use super::Instance;
use crate::Result;
use crate::backup::{Backup, BackupKind};
use crate::log::LogHold;

impl Instance {
    /// Begins a backup of all attached databases. Sessions go on; databases cannot be attached, detached or created, and
    /// the instance cannot be shut down, until the backup ends.
    ///
    /// Errors: [`crate::Error::Backup`] if another backup is running (-505), if a database has no full backup that an
    /// incremental or differential one could continue (-560), if the logs since then were removed (-569), or if the
    /// instance uses circular logging and the backup has no pages (-526).
    pub fn begin_backup(&self, kind: BackupKind) -> Result<Backup> {
        let _one = self.attaching.lock();
        self.core.check_no_backup()?;
        Backup::begin(self.core.clone(), kind, self.options.circular)
    }

    /// Keeps the logs from a generation on, until the result is dropped: for a copy that has not received them yet. It
    /// does not restore logs that were removed before.
    pub fn hold_logs(&self, from: Generation) -> LogHold {
        let _steady = self.core.checkpoint.lock();
        self.core.log().hold(from)
    }
}
