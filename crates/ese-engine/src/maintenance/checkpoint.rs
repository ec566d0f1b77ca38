//! Advances the checkpoint: writes old dirty pages, then database headers, then the checkpoint file.
//!
//! Invariant: checkpoint = min(durable end of the log, oldest change that is not durable in a database file, oldest
//! checkpoint pin, waypoint).
//!
//! Order: first the pages become durable, then the database headers are written, then the checkpoint file. A crash
//! between two steps only makes recovery start earlier than necessary.

use ese_format::LogPosition;
use ese_format::checkpoint::Checkpoint;

use crate::core::Core;
use crate::{InternalError, Result};

/// Divisor of the checkpoint depth that gives the minimum advance of the checkpoint. Advancing costs a few syncs, so
/// the checkpoint must advance by at least an eighth of the depth.
const MIN_ADVANCE_DIVISOR: u64 = 8;

/// Returns the distance in bytes from the checkpoint to the durable end of the log at which the checkpoint must
/// advance.
fn deepest(depth: u64) -> u64 {
    depth.saturating_add(depth / MIN_ADVANCE_DIVISOR)
}

/// Returns the maximum number of older generations that redo may need.
pub(crate) fn generations_needed(depth: u64, log_file_size: u32) -> usize {
    // Allow four more generations in case a checkpoint takes a long time.
    (deepest(depth) / u64::from(log_file_size.max(1))).min(1 << 16) as usize + 4
}

/// Advances the checkpoint of one instance.
pub(crate) struct Checkpointer {
    /// Maximum number of log bytes that redo should need to read. ESE: `JET_paramCheckpointDepthMax`.
    pub depth: u64,
    /// The checkpoint file.
    pub file: crate::log::CheckpointFile,
    pub signature: ese_format::Signature,
    pub circular: bool,
}

impl Checkpointer {
    /// Performs one bounded step: starts to write pages that are older than the depth allows, and advances the
    /// checkpoint if that gains enough. Returns whether there may be more work right away.
    pub fn step(&self, core: &Core, max_pages: usize) -> Result<bool> {
        super::cleanup::release_durable(core);
        // Use the size of the existing files, because the stream may be older than the options.
        let file_size = u64::from(core.log().file_size());
        let tip = bytes(core.log().tail(), file_size);
        let target = position(tip.saturating_sub(self.depth), file_size);
        let mut started = 0;
        for database in core.databases() {
            started += core.cache.write_below(database.file.file_id, target, max_pages)?;
        }
        let current = *core.checkpoint.lock();
        let behind = bytes(core.log().durable(), file_size).saturating_sub(bytes(current, file_size));
        // The waypoint is in the generation before the ones that may be lost. A copy of a page waits for the same
        // number of generations.
        let waiting = match u64::from(core.log().waypoint_latency()) {
            0 => 0,
            latency => (latency + 1) * file_size,
        };
        if behind > deepest(self.depth).saturating_add(waiting) {
            self.advance(core)?;
        }
        Ok(started >= max_pages)
    }

    /// Advances the checkpoint to the latest position that the durable state allows.
    pub fn advance(&self, core: &Core) -> Result<LogPosition> {
        let mut last = core.checkpoint.lock();
        // The order of these reads matters. A change that is logged after this call to `durable` starts after
        // `position`. A change logged earlier is pinned until its page is dirty. Therefore the pins or the dirty pages
        // limit `position`.
        let mut position = core.log().durable();
        if let Some(pinned) = core.pins.oldest() {
            position = position.min(pinned);
        }
        for database in core.databases() {
            core.cache.sync_file(database.file.file_id)?;
            if let Some(oldest) = core.cache.oldest_dirty(database.file.file_id) {
                position = position.min(oldest);
            }
        }
        if position <= *last {
            return Ok(*last);
        }
        // A header must name the generation of the checkpoint that is written to it.
        core.log().name_generation()?;
        if core.log().waypoint_latency() > 0 {
            // Redo must not have to start in the newest generations, because they may be lost.
            let waypoint = core.databases().iter().map(|database| database.file.waypoint()).min();
            position = waypoint.map_or(position, |waypoint| position.min(waypoint));
            if position <= *last {
                return Ok(*last);
            }
        }
        for database in core.databases() {
            database.file.advance_checkpoint(position)?;
        }
        self.write(core, position)?;
        *last = position;
        if self.circular {
            truncate(core, position)?;
        }
        Ok(position)
    }

    /// Writes the checkpoint file.
    pub fn write(&self, core: &Core, position: LogPosition) -> Result<()> {
        let mut checkpoint = Checkpoint::new(position, self.signature);
        checkpoint.set_attachments(&core.attachments()).map_err(InternalError::from)?;
        self.file.write(&checkpoint)
    }
}

/// Returns the distance in bytes from the beginning of the log to a position, for files of `file_size` bytes.
fn bytes(position: LogPosition, file_size: u64) -> u64 {
    u64::from(position.generation.0) * file_size
        + u64::from(position.segment) * 4096
        + u64::from(position.offset)
}

fn position(bytes: u64, file_size: u64) -> LogPosition {
    let (generation, rest) = ((bytes / file_size) as u32, bytes % file_size);
    LogPosition::new(generation, (rest / 4096) as u16, (rest % 4096) as u16)
}

/// Releases the logs that redo from `position` does not need.
///
/// Logs that a header names must also be retained, even if redo would not read them. `position` may be before a
/// generation that no header names yet.
pub(crate) fn truncate(core: &Core, position: LogPosition) -> Result<()> {
    let named = core.databases().iter().map(|database| database.file.oldest_log()).min();
    core.log().truncate_below(named.map_or(position.generation, |named| named.min(position.generation)))
}

#[cfg(test)]
mod tests {
    use jetcell_sync::Arc;

    use std::path::Path;

    use ese_format::header::DatabaseHeader;
    use ese_format::page::PageFlags;
    use ese_format::{PageNumber, PageSize};
    use jetcell_vfs::{FileStem, SimVfs, Vfs};

    use super::*;
    use crate::btree::tests::create_tree;
    use crate::cache::{Cache, CacheOptions};
    use crate::log::{LogNames, LogReader};
    use crate::transaction::ActiveTransaction;
    use crate::{BackgroundThreads, DatabaseOptions, Instance, InstanceOptions};

    const SIZE: PageSize = PageSize::KIB_4;

    fn open(disk: &SimVfs, depth: u64) -> Arc<Instance> {
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        for directory in ["/db", "/log"] {
            vfs.create_directory(Path::new(directory)).unwrap();
        }
        let cache = Cache::new(CacheOptions::new(256 * SIZE.bytes(), SIZE, vfs.clock()));
        let mut options = InstanceOptions::with_cache(vfs, "/log".into(), cache);
        (options.background, options.log.circular, options.log.file_size) =
            (BackgroundThreads::None, true, 64 << 10);
        options.checkpoint.depth = depth;
        Instance::open(options).unwrap()
    }

    /// Commits durable transactions until `done` returns true.
    fn commit(instance: &Instance, root: PageNumber, next: &mut u32, done: impl Fn(&Core) -> bool) {
        let core = instance.core();
        let tree = core.databases()[0].trees.tree_at(root).unwrap();
        let mut session = ActiveTransaction::new(core.clone(), 1);
        while !done(core) {
            session.begin().unwrap();
            tree.insert(session.changes().unwrap(), &next.to_be_bytes(), &[7; 900]).unwrap();
            session.commit().unwrap();
            instance.flush().unwrap();
            *next += 1;
        }
    }

    /// Checks that a log is kept while a header names it. A checkpoint may be before the first record of a generation
    /// that no header names yet. In that case, redo no longer reads the previous generation, but the headers still
    /// require it.
    #[test]
    fn a_log_that_a_header_names_is_not_overwritten() {
        for reopened in [false, true] {
            let mut disk = SimVfs::new();
            let mut instance = open(&disk, 20 << 20);
            let db =
                instance.create_database(Path::new("/db/test.edb"), &DatabaseOptions::default()).unwrap();
            let root = create_tree(&instance, &db, PageFlags::empty()).root;
            let mut next = 0;
            let at_the_end = |core: &Core| {
                let tip = core.log().tail();
                tip == LogPosition::new(tip.generation.0, 1, 40)
                    && core.log().named_generation().0 < tip.generation
            };
            commit(&instance, root, &mut next, at_the_end);
            let core = instance.core();
            crate::maintenance::cleanup::release_durable(core);
            crate::maintenance::cleanup::step(core, usize::MAX).unwrap();
            core.cache.flush_file(db.file_id()).unwrap();
            let position = instance.checkpoint().unwrap();
            assert!(at_the_end(core) && position == core.log().tail(), "{position:?}");
            drop(db);
            if reopened {
                disk = disk.process_kill();
                instance = open(&disk, 20 << 20);
            }
            for ahead in 1..12 {
                let goal = position.generation.0 + ahead;
                commit(&instance, root, &mut next, |core| core.log().tail().generation.0 > goal);
                instance.step().unwrap();
                let bytes = disk.contents(Path::new("/db/test.edb")).unwrap();
                let header = DatabaseHeader::read_from_start(&bytes[..2 * SIZE.bytes()]).unwrap().0;
                let reader =
                    LogReader::open(Arc::new(disk.clone()), LogNames::new(Path::new("/log"), FileStem::E00));
                let (oldest, newest) = reader.unwrap().unwrap().range();
                let needed = header.gen_min_required..=header.gen_max_required;
                assert!(
                    *needed.start() >= oldest && *needed.end() <= newest,
                    "reopened {reopened}: {needed:?} of {oldest:?} to {newest:?}"
                );
            }
        }
    }

    #[test]
    fn log_positions_convert_to_bytes_and_back() {
        for file_size in [64 << 10, 1 << 20, 128 << 20] {
            for at in (0..40).map(|at| at * file_size / 7 + at).chain([4095, 4096, file_size - 1, file_size])
            {
                let found = position(at, file_size);
                assert_eq!(bytes(found, file_size), at, "{found:?}");
                assert!(found.offset < 4096 && u64::from(found.segment) < file_size / 4096, "{found:?}");
            }
        }
    }

    #[test]
    fn any_checkpoint_depth_is_accepted() {
        assert_eq!(generations_needed(u64::MAX, 1 << 20), (1 << 16) + 4);
        assert_eq!(generations_needed(8 << 20, 1 << 20), 9 + 4);
        let instance = open(&SimVfs::new(), u64::MAX);
        instance.create_database(Path::new("/db/deep.edb"), &DatabaseOptions::default()).unwrap();
        instance.step().unwrap();
        instance.shutdown().unwrap();
    }
}
