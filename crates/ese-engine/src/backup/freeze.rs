//! A freeze of an instance: none of its files change while an external program makes a snapshot.

use std::io;
use std::time::Duration;

use ese_format::Generation;
use ese_format::log::record::LogRecord;
use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;
use jetcell_vfs::FrozenVfs;

use crate::core::Core;
use crate::error::BackupErrorKind;
use crate::events::{EventKind, SnapshotEvent};
use crate::{Error, FailedOperation, InstanceFailure, InternalError, Result};

/// Keeps an instance frozen. While the freeze lasts, the logs, databases, headers and checkpoint file do not change,
/// and they contain all durable commits. Reads continue. Commits and all other changes wait, but do not fail.
///
/// The log stays between the two renames that end a generation. All generations up to [`Freeze::generation`] are
/// complete and have their archive names. The next generation has a header but no records. Its file has the name of a
/// prepared log (`E00tmp.log`), where recovery finds it. The databases are dirty and need these logs.
///
/// The freeze ends when this value is dropped, or when its time limit is reached. The limit keeps a hung snapshot
/// from blocking the service. [`Freeze::thaw`] returns an error if the limit was reached.
///
/// ```
/// use ese_engine::*;
///
/// # fn main() -> Result<()> {
/// # let directory = std::env::temp_dir().join(format!("ese-engine-freeze-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory).unwrap();
/// # let instance = Instance::open(InstanceOptions::new(&directory)?)?;
/// # instance.create_database(&directory.join("data.edb"), &DatabaseOptions::default())?;
/// let freeze = instance.freeze(Freeze::DEFAULT_LIMIT)?;
/// // Make the snapshot here. It must contain all directories of the instance as of the same moment.
/// let last = freeze.thaw()?;
/// assert!(last.0 >= 1);
/// # instance.shutdown()?;
/// # std::fs::remove_dir_all(&directory).unwrap();
/// # Ok(())
/// # }
/// ```
#[doc(alias = "JetOSSnapshotFreeze")]
pub struct Freeze {
    core: Arc<Core>,
    frozen: Option<FrozenVfs>,
    generation: Generation,
    limit: Duration,
    /// Whether the freeze is independent of a backup. If so, databases can be attached again when it ends.
    alone: bool,
    /// Whether the freeze was ended before its time limit.
    complete: bool,
}

impl Freeze {
    /// Default time limit of a freeze. ESE: `JET_paramOSSnapshotTimeout`, 70 s. Windows snapshots (VSS) allow 20 s.
    #[doc(alias = "JET_paramOSSnapshotTimeout")]
    pub const DEFAULT_LIMIT: Duration = Duration::from_secs(70);

    /// Freezes the instance. The caller has set `backup_running`; if `alone`, the flag is cleared when the freeze
    /// ends. `mark` is the last log record before the freeze.
    pub(crate) fn begin(core: Arc<Core>, mark: &LogRecord, limit: Duration, alone: bool) -> Result<Freeze> {
        // From here on, dropping `freeze` clears the flag that the caller has set.
        let mut freeze =
            Freeze { core, frozen: None, generation: Generation(0), limit, alone, complete: false };
        if alone {
            freeze.report(SnapshotEvent::Started { full: false });
        }
        freeze.report(SnapshotEvent::FreezeStarted);
        let (generation, frozen) = freeze.hold(mark).inspect_err(|error| {
            freeze.report(SnapshotEvent::FreezeFailed { error: error.jet_code(), what: error.full_text() });
        })?;
        freeze.generation = generation;
        freeze.frozen = Some(frozen);
        Ok(freeze)
    }

    /// Makes all data durable and blocks all changes.
    fn hold(&self, mark: &LogRecord) -> Result<(Generation, FrozenVfs)> {
        let (core, limit) = (&self.core, self.limit);
        core.check_writable()?;
        let log = core.log();
        log.freeze(mark, || {
            let frozen = core.freezable.freeze(limit).map_err(|error| match error.kind() {
                io::ErrorKind::TimedOut => Error::from(BackupErrorKind::FreezeTimedOut(limit)),
                kind => InternalError::Freeze(kind).into(),
            })?;
            // Some kinds of snapshots omit data that is only in the kernel's page cache. A failed sync is not retried.
            frozen.sync_files().map_err(|error| {
                let failure =
                    InstanceFailure::io(log.names().directory(), &error).during(FailedOperation::SyncFiles);
                core.fail(failure.clone());
                Error::ReadOnly(failure)
            })?;
            Ok(frozen)
        })
    }

    fn report(&self, event: SnapshotEvent) {
        self.core.events.report(EventKind::Snapshot(event));
    }

    /// Returns the last generation that contains records.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Returns the time remaining until the freeze reaches its limit, or `None` if it has reached it.
    pub fn remaining(&self) -> Option<Duration> {
        self.frozen.as_ref().and_then(FrozenVfs::remaining)
    }

    /// Ends the freeze. Returns the last generation that contains records.
    ///
    /// Returns [`Error::Backup`] if the time limit was reached (-2402). In that case files may have changed, and the
    /// snapshot must not be used.
    #[doc(alias = "JetOSSnapshotThaw")]
    #[doc(alias = "JetOSSnapshotEnd")]
    pub fn thaw(mut self) -> Result<Generation> {
        let held = self.frozen.take().is_some_and(FrozenVfs::thaw);
        self.report(if held {
            SnapshotEvent::FreezeEnded
        } else {
            SnapshotEvent::FreezeTimedOut { milliseconds: self.limit.as_millis() as u64 }
        });
        self.core.log().name_generation()?;
        self.complete = held;
        if held { Ok(self.generation) } else { Err(BackupErrorKind::FreezeTimedOut(self.limit).into()) }
    }
}

impl Drop for Freeze {
    fn drop(&mut self) {
        if self.frozen.take().is_some() {
            self.report(SnapshotEvent::FreezeEnded);
            // If the log has failed, the next commit reports the error.
            let _ = self.core.log().name_generation();
        }
        if self.alone {
            self.report(if self.complete { SnapshotEvent::Completed } else { SnapshotEvent::Aborted });
            self.core.backup_running.store(false, Ordering::Release);
        }
    }
}
