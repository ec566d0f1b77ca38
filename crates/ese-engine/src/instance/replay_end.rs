//! The end of a replay: the log becomes the engine's own, and undo makes the databases clean.

use super::Instance;
use crate::Result;
use crate::options::InstanceOptions;
use crate::recovery::{RecoverySummary, Replayed, Replayer};

impl Replayer {
    /// Ends the replay and leaves the databases clean: rolls back the transactions that have not ended, and logs that. The
    /// log directory of the options must have the whole stream up to the replayed position, and nothing behind it. The
    /// engine appends to this stream and keeps its version.
    ///
    /// The instance that rolls back redoes the log from the checkpoint again, as after a crash. That costs little: by then
    /// all pages are written that may be, so the checkpoint is where the oldest of these transactions began. It replaces a
    /// second way to end a recovery. The state of the replayer belongs to a log to which nothing is appended: pages
    /// that wait for the end of a transaction, because their before-images cannot be logged, and files of closed
    /// generations. Undo needs a log that can be appended to from the first change on.
    ///
    /// The second result says what was rolled back. It is empty if the log ended cleanly.
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
