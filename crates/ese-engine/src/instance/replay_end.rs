//! The end of a replay: the engine takes over the log, and undo makes the databases clean.

use super::Instance;
use crate::Result;
use crate::options::CacheSource;
use crate::recovery::{RecoverySummary, ReplaySummary, Replayer};

impl Replayer {
    /// Ends the replay and leaves the databases clean. Rolls back unfinished transactions and logs the rollback. The
    /// log directory in the options must contain the whole stream up to the replayed position, and nothing after it.
    /// The engine appends to this stream and keeps its version.
    ///
    /// The instance that rolls back redoes the log from the checkpoint again, as after a crash. This costs little: by
    /// then, all pages that may be written have been written, so the checkpoint is at the start of the oldest
    /// unfinished transaction. Reusing the instance avoids a second implementation of the end of recovery. The
    /// replayer's own state cannot be used, because it assumes that nothing is appended to the log. That state includes
    /// files of closed generations, and pages that wait for the end of a transaction because their before-images cannot
    /// be logged. Undo, in contrast, must be able to append to the log from its first change on.
    ///
    /// The second result describes what was rolled back. It is empty if the log ended cleanly.
    pub fn finish(self) -> Result<(ReplaySummary, RecoverySummary)> {
        self.check_complete()?;
        let mut options = self.options().clone();
        if let CacheSource::Shared(_) = options.cache {
            options.cache = CacheSource::default();
        }
        let replayed = self.stop()?;
        if replayed.attached.is_empty() {
            return Ok((replayed, RecoverySummary::default()));
        }
        let instance = Instance::open(options)?;
        let recovery = instance.recovery().clone();
        instance.shutdown()?;
        Ok((replayed, recovery))
    }
}
