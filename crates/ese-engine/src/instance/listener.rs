//! The interface through which the log queries an instance's databases and checkpoint, and reports new generations and
//! full disks.

use jetcell_sync::{Arc, Weak};
use std::path::Path;

use ese_format::attachment::Attachment;
use ese_format::{Generation, LogPosition, LogTime};

use crate::Result;
use crate::core::Core;
use crate::events::EventKind;
use crate::log::LogListener;

/// Informs attached databases about new generations. It holds only a weak reference to the instance's core, which
/// owns the log.
pub(crate) struct InstanceListener(Weak<Core>);

impl InstanceListener {
    pub fn new(core: &Arc<Core>) -> InstanceListener {
        InstanceListener(Arc::downgrade(core))
    }
}

impl LogListener for InstanceListener {
    fn attachments(&self) -> Vec<u8> {
        let attachments = self.0.upgrade().map(|core| core.attachments()).unwrap_or_default();
        Attachment::encode_list(&attachments).unwrap_or_default()
    }

    fn entered(&self, generation: Generation, created: LogTime) -> Result<()> {
        let Some(core) = self.0.upgrade() else { return Ok(()) };
        core.databases().iter().try_for_each(|database| database.file.enter_generation(generation, created))
    }

    fn disk_full(&self, next: &Path) {
        if let Some(core) = self.0.upgrade() {
            core.events.report(EventKind::LogDiskFull { file: next.to_path_buf() });
        }
    }

    fn checkpoint(&self) -> LogPosition {
        // The thread that writes a checkpoint holds this lock, and may itself need the log. Therefore this function
        // must never wait for the lock.
        self.0
            .upgrade()
            .and_then(|core| core.checkpoint.try_lock().map(|last| *last))
            .unwrap_or(LogPosition::MIN)
    }
}
