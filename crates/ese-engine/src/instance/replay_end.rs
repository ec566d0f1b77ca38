//! End of a replay: the engine takes over the log, and undo makes the databases clean.

use super::Instance;
use crate::Result;
use crate::options::InstanceOptions;
use crate::recovery::{RecoverySummary, Replayed, Replayer};

impl Replayer {
    /// Ends the replay and leaves the databases clean. Rolls back the transactions that have not ended, and logs the
    /// rollback. The log directory of the options must contain the whole stream up to the replayed position, and
    /// nothing after it. The engine appends to this stream and keeps its version.
    ///
    /// The instance that rolls back redoes the log from the checkpoint again, as after a crash. This costs little:
    /// all pages that may be written have been written by then, so the checkpoint is at the start of the oldest of
    /// these transactions. Reusing the instance avoids a second implementation of the end of recovery. The state of
    /// the replayer assumes a log to which nothing is appended. It includes files of closed generations, and pages
    /// that wait for the end of a transaction because their before-images cannot be logged. Undo needs a log that can
    /// be appended to from its first change on.
    ///
    /// The second result describes what was rolled back. It is empty if the log ended cleanly.
    pub fn finish(self) -> Result<(Replayed, RecoverySummary)> {
        self.check_complete()?;
        let options = InstanceOptions { shared_cache: None, ..self.options().clone() };
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
