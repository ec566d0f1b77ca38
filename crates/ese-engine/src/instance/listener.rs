//! What the log needs of the instance: its databases, whose headers name generations, and its checkpoint.

use jetcell_sync::{Arc, Weak};

use ese_format::attachment::Attachment;
use ese_format::{Generation, LogPosition, LogTime};

use crate::Result;
use crate::core::Core;
use crate::log::LogListener;

/// Tells attached databases about new generations. It does not keep the instance alive: the log is part of it.
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

    fn checkpoint(&self) -> LogPosition {
        // The lock is held while a checkpoint is written, which may itself need the log: never wait for it here.
        self.0
            .upgrade()
            .and_then(|core| core.checkpoint.try_lock().map(|last| *last))
            .unwrap_or(LogPosition::MIN)
    }
}
