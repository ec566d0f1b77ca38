//! Moving the checkpoint: writing old dirty pages, then headers, then the checkpoint file.
//!
//! Invariant: checkpoint = min(log durable, oldest change not safely in a database file, oldest held transaction).
//! Order: pages durable, database headers, checkpoint file; each step only makes recovery start later.

use std::sync::Arc;

use ese_format::LogPosition;
use ese_format::attachment::Attachment;
use ese_format::checkpoint::Checkpoint;

use crate::core::Core;
use crate::{Error, Result};

/// Each move of the checkpoint costs a few syncs, so it must be worth this share of the depth: an eighth.
const WORTH_MOVING: u64 = 8;

/// How far behind the checkpoint is when it is moved.
fn deepest(depth: u64) -> u64 {
    depth.saturating_add(depth / WORTH_MOVING)
}

/// Older generations that redo may need, at most.
pub(crate) fn generations_needed(depth: u64, log_file_size: u32) -> usize {
    // Four more for a checkpoint that takes its time.
    (deepest(depth) / u64::from(log_file_size.max(1))).min(1 << 16) as usize + 4
}

/// Writes checkpoints of one instance.
pub(crate) struct Checkpointer {
    /// Bytes of log that redo may have to read. ESE: `JET_paramCheckpointDepthMax`.
    pub depth: u64,
    /// Where the checkpoint file is.
    pub file: crate::log::CheckpointFile,
    pub signature: ese_format::Signature,
    pub circular: bool,
}

impl Checkpointer {
    /// One bounded step: starts writing pages beyond the depth, and moves the checkpoint if it can move by a
    /// useful amount. Returns whether there may be more to do at once.
    pub fn step(&self, core: &Arc<Core>, max_pages: usize) -> Result<bool> {
        core.cleanup.release_durable(core);
        // Of the files that there are: the stream may be older than the options.
        let file_size = u64::from(core.log().file_size());
        let tip = bytes(core.log().tip(), file_size);
        let target = position(tip.saturating_sub(self.depth), file_size);
        let mut started = 0;
        for database in core.databases() {
            started += core.cache.write_below(database.file_id, target, max_pages)?;
        }
        let current = *core.checkpoint.lock();
        let behind = bytes(core.log().durable(), file_size).saturating_sub(bytes(current, file_size));
        if behind > deepest(self.depth) {
            self.advance(core)?;
        }
        Ok(started >= max_pages)
    }

    /// Moves the checkpoint as far as what is durable allows.
    pub fn advance(&self, core: &Arc<Core>) -> Result<LogPosition> {
        let mut last = core.checkpoint.lock();
        // In this order: a change that is logged after the first line starts later; one that is logged before has
        // its hold until its page is dirty, and its page is dirty before its hold ends.
        let mut position = core.log().durable();
        if let Some(held) = core.transactions.oldest_hold() {
            position = position.min(held);
        }
        for database in core.databases() {
            core.cache.sync_file(database.file_id)?;
            if let Some(oldest) = core.cache.oldest_dirty(database.file_id) {
                position = position.min(oldest);
            }
        }
        if position <= *last {
            return Ok(*last);
        }
        // Headers must name the generation that they are to begin with.
        core.settle()?;
        for database in core.databases() {
            database.advance_checkpoint(position)?;
        }
        self.write(core, position)?;
        *last = position;
        if self.circular {
            core.log().truncate_below(position.generation)?;
        }
        Ok(position)
    }

    /// Writes the checkpoint file.
    pub fn write(&self, core: &Core, position: LogPosition) -> Result<()> {
        let mut checkpoint = Checkpoint::new(position, self.signature);
        checkpoint
            .set_attachments(&attachments(core))
            .map_err(|e| Error::Usage(format!("too many databases attached to one log: {e}")))?;
        self.file.write(&checkpoint)
    }
}

/// Bytes of log up to a position, with files of `file_size`.
fn bytes(position: LogPosition, file_size: u64) -> u64 {
    u64::from(position.generation.0) * file_size
        + u64::from(position.segment) * 4096
        + u64::from(position.offset)
}

fn position(bytes: u64, file_size: u64) -> LogPosition {
    let (generation, rest) = ((bytes / file_size) as u32, bytes % file_size);
    LogPosition::new(generation, (rest / 4096) as u16, (rest % 4096) as u16)
}

/// The attached databases as log headers and checkpoints list them.
pub(crate) fn attachments(core: &Core) -> Vec<Attachment> {
    core.databases().iter().map(|database| database.attachment()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use vfs::{SimVfs, Vfs};

    use super::*;
    use crate::cache::{Cache, CacheOptions};
    use crate::{CreateOptions, Instance, InstanceOptions};

    #[test]
    fn any_depth_can_be_asked_for() {
        assert_eq!(generations_needed(u64::MAX, 1 << 20), (1 << 16) + 4);
        assert_eq!(generations_needed(8 << 20, 1 << 20), 9 + 4);
        let disk: Arc<dyn Vfs> = Arc::new(SimVfs::new());
        let cache = Cache::new(CacheOptions::new(256 << 12, ese_format::PageSize::KIB_4, disk.clock()));
        let mut options = InstanceOptions::new(disk, "/log".into(), cache);
        (options.threads, options.checkpoint_depth) = (false, u64::MAX);
        let instance = Instance::open(options).unwrap();
        instance.create_database(Path::new("/db/deep.edb"), &CreateOptions::default()).unwrap();
        instance.step().unwrap();
        instance.shutdown().unwrap();
    }
}
