//! A moment in which no file of the instance changes, for a snapshot that something else makes.

use std::io;
use std::time::Duration;

use ese_format::Generation;
use ese_format::log::record::LogRecord;
use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;
use jetcell_vfs::FrozenVfs;

use crate::core::Core;
use crate::error::BackupFault;
use crate::events::{EventKind, SnapshotEvent};
use crate::{Error, Result};

/// An instance that is frozen: its logs, databases, headers and checkpoint file do not change, and everything that was
/// committed durably is in them. Reads go on. Commits and all other changes wait; none fails.
///
/// The log is held between the two renames that end a generation. All generations up to [`Freeze::generation`] are complete
/// and have their archive names. The next one has a header and no records, and is in the file with the name of a prepared
/// log (`E00tmp.log`); a recovery finds it there. The databases are dirty, and need these logs.
///
/// The freeze ends when this is dropped, or by itself at its limit, so that a snapshot that hangs does not stop the service.
/// [`Freeze::thaw`] says which.
///
/// ```
/// use ese_engine::*;
///
/// # fn main() -> Result<()> {
/// # let directory = std::env::temp_dir().join(format!("ese-engine-freeze-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory).unwrap();
/// # let instance = Instance::open(InstanceOptions::new(&directory)?)?;
/// # instance.create_database(&directory.join("data.edb"), &CreateOptions::default())?;
/// let freeze = instance.freeze(Freeze::DEFAULT_LIMIT)?;
/// // Make the snapshot here: of all directories of the instance at the same time.
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
    /// The freeze is not a part of a backup, so its end lets databases be attached again.
    alone: bool,
    /// It was ended in time.
    complete: bool,
}

impl Freeze {
    /// How long a freeze lasts at most, unless the caller gives another limit. ESE: `JET_paramOSSnapshotTimeout`, 70 s. The
    /// snapshots of Windows (VSS) allow 20 s.
    #[doc(alias = "JET_paramOSSnapshotTimeout")]
    pub const DEFAULT_LIMIT: Duration = Duration::from_secs(70);

    /// Freezes the instance. `backup_running` is set, and is reset at the end if `alone`. `mark` is the last record
    /// in front of the freeze.
    pub(crate) fn begin(core: Arc<Core>, mark: &LogRecord, limit: Duration, alone: bool) -> Result<Freeze> {
        // From here on the drop resets what the caller has set.
        let mut freeze =
            Freeze { core, frozen: None, generation: Generation(0), limit, alone, complete: false };
        if alone {
            freeze.report(SnapshotEvent::Started { full: false });
        }
        freeze.report(SnapshotEvent::FreezeStarted);
        let (generation, frozen) = freeze.hold(mark).inspect_err(|error| {
            freeze.report(SnapshotEvent::FreezeFailed { error: error.jet_code(), what: error.to_string() });
        })?;
        freeze.generation = generation;
        freeze.frozen = Some(frozen);
        Ok(freeze)
    }

    /// Makes everything durable and lets all changes wait.
    fn hold(&self, mark: &LogRecord) -> Result<(Generation, FrozenVfs)> {
        let (core, limit) = (&self.core, self.limit);
        core.check_writable()?;
        core.log().freeze(mark, || {
            let frozen = core.freezable.freeze(limit).map_err(|error| match error.kind() {
                io::ErrorKind::TimedOut => timed_out(limit),
                _ => Error::Internal(format!("the files cannot be frozen: {error}")),
            })?;
            // Not all snapshots have what is in the kernel's cache only. A failed sync is not repeated.
            frozen.sync_files().map_err(|error| {
                let what = format!("files could not be made durable: {error}");
                core.fail(what.clone());
                Error::ReadOnly(what)
            })?;
            Ok(frozen)
        })
    }

    fn report(&self, event: SnapshotEvent) {
        self.core.events.report(EventKind::Snapshot(event));
    }

    /// The last generation with records.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// How long the freeze will still last. `None`: it has ended by itself.
    pub fn left(&self) -> Option<Duration> {
        self.frozen.as_ref().and_then(FrozenVfs::left)
    }

    /// Ends the freeze. Returns the last generation with records.
    ///
    /// Errors: [`Error::Backup`] if the freeze had ended by itself (-2402): files may have changed since, and a snapshot must
    /// not be used.
    #[doc(alias = "JetOSSnapshotThaw")]
    #[doc(alias = "JetOSSnapshotEnd")]
    pub fn thaw(mut self) -> Result<Generation> {
        let held = self.frozen.take().is_some_and(FrozenVfs::thaw);
        self.report(match held {
            true => SnapshotEvent::FreezeEnded,
            false => SnapshotEvent::FreezeTimedOut { milliseconds: self.limit.as_millis() as u64 },
        });
        self.core.log().name_generation()?;
        self.complete = held;
        if held { Ok(self.generation) } else { Err(timed_out(self.limit)) }
    }
}

impl Drop for Freeze {
    fn drop(&mut self) {
        if self.frozen.take().is_some() {
            self.report(SnapshotEvent::FreezeEnded);
            // If the log is down, the next commit reports it.
            let _ = self.core.log().name_generation();
        }
        if self.alone {
            self.report(if self.complete { SnapshotEvent::Completed } else { SnapshotEvent::Aborted });
            self.core.backup_running.store(false, Ordering::Release);
        }
    }
}

fn timed_out(limit: Duration) -> Error {
    let what = format!(
        "the instance was frozen for more than {} s, so the freeze ended by itself",
        limit.as_secs_f64()
    );
    Error::Backup { fault: BackupFault::FreezeTimedOut, what }
}
