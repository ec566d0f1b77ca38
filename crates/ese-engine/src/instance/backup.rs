//! Begins backups and freezes of the instance, and holds that retain its logs.

use std::time::Duration;

use ese_format::header::BackupInfo;
use ese_format::log::record::{self, DatabaseIdInLog, LogRecord};
use ese_format::{Generation, LogTime};

use super::Instance;
use crate::Result;
use crate::backup::{Backup, BackupKind, Freeze};
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

    /// Freezes the instance so that a snapshot of its files can be made; see [`Freeze`].
    ///
    /// Until the freeze ends, databases cannot be attached, detached or created, no backup can begin, and the
    /// instance cannot be shut down. Dropping the instance waits for the freeze to end.
    ///
    /// Only the instance is frozen, not the file system, so other files can still be written. The snapshot must
    /// capture all databases and logs of the instance at the same moment. [`crate::Backup::freeze`] does the same as
    /// part of a backup.
    ///
    /// Returns an error if a backup or another freeze is running (-505), if the pending changes took longer than
    /// `limit` (-2402), or if the disk has no space for another log. After an error, nothing is frozen.
    #[doc(alias = "JetOSSnapshotPrepare")]
    #[doc(alias = "JetOSSnapshotFreeze")]
    pub fn freeze(&self, limit: Duration) -> Result<Freeze> {
        let _one = self.attaching.lock();
        self.core.begin_backup()?;
        let time = LogTime::from_unix_ms(self.core.vfs.clock().unix_ms());
        let mark = record::BackupRecord {
            phase: record::BackupRecord::PREPARE_LOGS,
            kind: record::BackupRecord::SNAPSHOT,
            scope: BackupKind::Copy.scope(),
            database: DatabaseIdInLog(0),
            details: BackupInfo { time, ..BackupInfo::default() },
            reserved: 0,
            path: Vec::new(),
        };
        Freeze::begin(self.core.clone(), &LogRecord::Backup2(mark), limit, true)
    }
}
