//! LUNs on an array: block devices with thin provisioning, snapshots and clones. LUN blocks are never overwritten in
//! place.
//!
//! ```text
//! blocks 0 to 255      catalogue, written when its number is even
//! blocks 256 to 511    catalogue, written when its number is odd
//! other blocks         data and block maps, in any order
//! ```
//!
//! Writes are collected in memory; a flush makes them durable in the [write log](write_log). A *consistency point*
//! writes them to blocks to which nothing refers, together with the nodes of the [block maps](block_map) above them.
//! If there are [whole rows](block_allocator) of such blocks, it uses these rows, because writes to them need neither
//! the journal nor old parity. Then it syncs the members. Finally, it writes the catalogue, which atomically makes
//! the new state the current one. Only then are replaced blocks of the previous state freed.
//!
//! The diagram shows the states of a written block, with the types that represent them. `LunVolume::admit` decides the
//! destination of a new block, and what must happen first:
//!
//! ```text
//!      write                                            write
//!        │ little is pending                              │ the last writes had no flush
//!        v                                                v
//!    unlogged ─── much is pending: write-through ───> open zone (ZonePlacement)
//!    (PendingMemory) <─── any other operation ────────────│
//!        │        └────────────┐                          │ full
//!        │ flush               │ whole rows               v
//!        v                     └──────────────────> written through (WriteThroughBlocks)
//!     logged ─────────┐                                   │
//!                     v   consistency point begins        │
//!              in the running point <─────────────────────┘
//!           (InFlightConsistencyPoint)
//!                     │ catalogue is written
//!                     v
//!                  durable
//! ```
//!
//! A consistency point takes unlogged blocks, too. It closes the open zone first.
//!
//! | state | after a crash |
//! | --- | --- |
//! | unlogged, open zone, written through | lost; nothing refers to the rows |
//! | logged | replayed from the log |
//! | in the running point | as before the point began |
//!
//! While the rows of a consistency point are being written, callers continue to read and write. Reads find the blocks
//! of the consistency point in memory, and new writes belong to the next consistency point. A flush waits for the
//! current consistency point to complete.
//!
//! The set of free blocks is not stored. It is derived from the block maps, which are read at startup. A block to
//! which only the current state of one LUN refers is freed when it is replaced. All other unused blocks are found by
//! a *sweep* through all maps after a snapshot or a LUN is deleted.

mod admission;
mod block_allocator;
mod block_map;
mod catalogue;
mod cleaning;
mod consistency_point;
mod device;
#[cfg(test)]
mod history_tests;
mod next_point;
mod shared;
mod snapshots;
mod start;
#[cfg(test)]
mod tests;
mod write_log;
mod write_through;
#[cfg(test)]
mod writes_in_flight_tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use jetcell_array::{Array, BLOCK, LunError, PreparedMember, Result};
use jetcell_sync::Arc;

use self::block_allocator::BlockAllocator;
use self::block_map::{MapNode, MapNodeSource, for_each_mapped};
use self::catalogue::{LunCatalogue, LunId};
use self::consistency_point::InFlightConsistencyPoint;
use self::next_point::{BlockContent, NextPoint};
use self::write_log::WriteLog;

pub use self::catalogue::check_name as check_lun_name;
pub use self::cleaning::CleaningProgress;
pub use self::device::Lun;
#[cfg(test)]
pub use self::history_tests::{HistoryCounters, run};
pub use self::shared::SharedLunVolume;
pub use self::snapshots::{LunStatus, SnapshotStatus};
pub use self::start::{TornRows, WriteLogOptions};
pub use self::write_log::has_write_log;

/// LUN volume counters, accumulated since the volume was started.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct LunCounters {
    /// Number of writes by callers.
    pub host_writes: u64,
    /// Number of blocks in these writes.
    pub host_blocks: u64,
    /// Number of blocks that callers wrote and that were then replaced or deallocated while still in memory. All
    /// other blocks are written to the array.
    pub blocks_absorbed: u64,
    /// Number of consistency points.
    pub consistency_points: u64,
    /// Number of data blocks written for consistency points, including write-through.
    pub data_blocks: u64,
    /// Number of map blocks written for consistency points.
    pub map_blocks: u64,
    /// Number of blocks written to whole rows, without the journal.
    pub blocks_in_whole_rows: u64,
    /// Number of blocks moved by cleaning.
    pub blocks_moved: u64,
}

/// A volume on an array that stores LUNs. Only one thread at a time can use it.
pub struct LunVolume {
    array: Array,
    catalogue: LunCatalogue,
    space: BlockAllocator,
    log: WriteLog,
    maps: MapCache,
    next: NextPoint,
    /// The consistency point that is being written. Callers can read and write while it is in flight. All other
    /// operations on the array or the catalogue complete it first.
    in_flight_point: Option<InFlightConsistencyPoint>,
    counters: LunCounters,
    /// Whether a consistency point failed. The volume must then be started again.
    has_failed: bool,
}

/// Cached nodes of block maps.
#[derive(Default)]
struct MapCache {
    nodes: BTreeMap<u64, Arc<MapNode>>,
}

/// Number of blocks in each of the two catalogue areas.
const CATALOGUE_AREA_BLOCKS: u64 = 256;
/// First block that is available to LUNs.
const FIRST_BLOCK: u64 = 2 * CATALOGUE_AREA_BLOCKS;

/// Maximum number of blocks in an entry of the log.
const MAX_ENTRY_BLOCKS: u64 = 256;

/// Maximum number of cached nodes.
const MAX_NODES: usize = 16384;

/// Reads the nodes of a volume, from the cache or from its array.
struct MapReader<'volume> {
    maps: &'volume mut MapCache,
    array: &'volume mut Array,
    sequence: u64,
}

impl MapNodeSource for MapReader<'_> {
    fn node(&mut self, block: u64) -> Result<Arc<MapNode>> {
        if let Some(node) = self.maps.nodes.get(&block) {
            return Ok(node.clone());
        }
        let mut bytes = vec![0; BLOCK];
        self.array.read(block, &mut bytes)?;
        let node = MapNode::decode(&bytes, self.array.layout().blocks(), self.sequence);
        let node = Arc::new(node.ok_or(LunError::NotAMapNode(block))?);
        self.maps.insert(block, node.clone());
        Ok(node)
    }
}

impl MapCache {
    fn insert(&mut self, block: u64, node: Arc<MapNode>) {
        while self.nodes.len() >= MAX_NODES {
            self.nodes.pop_first();
        }
        self.nodes.insert(block, node);
    }
}

impl LunVolume {
    fn reader(&mut self) -> MapReader<'_> {
        MapReader { maps: &mut self.maps, array: &mut self.array, sequence: self.catalogue.sequence }
    }

    /// Returns the underlying array. Writes to it would destroy the volume.
    pub fn array(&mut self) -> &mut Array {
        // The error is not lost, because all later writes to the volume fail.
        let _ = self.finish_consistency_point();
        let finished = self.array.row_writer().finish_rows();
        let _ = self.fail_on_error(finished);
        &mut self.array
    }

    /// Returns the counters accumulated since the volume was started.
    pub fn counters(&self) -> LunCounters {
        self.counters
    }

    /// Returns the number of free bytes.
    pub fn free_bytes(&self) -> u64 {
        self.space.free() * BLOCK as u64
    }

    /// Adds members that were prepared. Their space is immediately available to all LUNs. See [`Array::admit`].
    ///
    /// # Errors
    /// Returns an error if the array refuses the members or has failed.
    pub fn add_members(&mut self, members: Vec<PreparedMember>) -> Result<()> {
        self.consistency_point()?;
        self.array.admit(members)?;
        self.rebuild_allocator()
    }

    /// Opens a LUN.
    ///
    /// # Errors
    /// Returns an error if there is no such LUN.
    pub fn lun(&mut self, name: &str) -> Result<Lun<'_>> {
        let entry = &self.catalogue.luns[self.catalogue.index_of(name)?];
        let (id, blocks) = (entry.id, entry.blocks);
        Ok(Lun { volume: self, id, blocks })
    }

    /// Returns a LUN's blocks that have content, pending or on the array, in ascending order.
    fn mapped_blocks(&mut self, lun: LunId, range: Range<u64>) -> Result<Vec<u64>> {
        self.finish_consistency_point()?;
        let entry = self.catalogue.luns.iter().find(|entry| entry.id == lun).ok_or(LunError::Deleted)?;
        let (root, height) = (entry.root, entry.height());
        let mut found = BTreeSet::new();
        for_each_mapped(&mut self.reader(), root, height, &range, &mut |index, _| {
            found.insert(index);
        })?;
        self.next.apply_to(&mut found, lun, range);
        Ok(found.into_iter().collect())
    }

    /// Returns the content of a LUN's block if it is in memory. It remains there until a consistency point, either
    /// the next one or the one in flight, has written it.
    fn content(&self, lun: LunId, index: u64) -> Option<BlockContent<'_>> {
        let of_point = || self.in_flight_point.as_ref()?.content(lun, index);
        self.next.content(lun, index).or_else(of_point)
    }

    /// Returns the location of a LUN's block that was written through and is not yet in a map on the array.
    fn written_through_block(&self, lun: LunId, index: u64) -> Option<u64> {
        let of_point = || self.in_flight_point.as_ref()?.write_through.block(lun, index);
        self.next.write_through.block(lun, index).or_else(of_point)
    }

    /// Waits until these blocks of the array can be read.
    ///
    /// # Errors
    /// Returns an error if the array failed. The volume must then be started again. No flushed write is lost.
    fn finish_write_through_of(&mut self, blocks: &[u64]) -> Result<()> {
        let finished = self.array.row_writer().finish_rows_of(blocks);
        self.fail_on_error(finished)
    }

    /// Empties some zones that contain used blocks but are at most half full. Moves nothing if there are no such zones,
    /// or if there is no room.
    ///
    /// # Errors
    /// Returns an error if the array failed.
    pub fn clean_step(&mut self) -> Result<CleaningProgress> {
        cleaning::clean_zones(self)
    }

    /// Marks the volume as failed after an error. It must then be started again.
    fn fail_on_error<T>(&mut self, result: Result<T>) -> Result<T> {
        self.has_failed |= result.is_err();
        result
    }

    fn check_running(&self) -> Result<()> {
        if self.has_failed {
            return Err(LunError::ConsistencyPointFailed.into());
        }
        Ok(())
    }

    /// Makes all writes durable, either in the write log or, if they do not fit there, by a consistency point.
    pub fn flush(&mut self) -> Result<()> {
        // The log restarts when a consistency point completes, and new records belong to the next consistency point.
        self.finish_consistency_point()?;
        if !self.next.write_through.is_empty() {
            return self.consistency_point();
        }
        if self.next.unlogged() == 0 {
            return Ok(());
        }
        let entries = self.next.unlogged_entries(self.log.max_entry_blocks().min(MAX_ENTRY_BLOCKS));
        // The log only saves time. If it fails, the writes are made durable by a consistency point instead.
        if matches!(self.log.append(&entries), Ok(true)) {
            self.next.mark_logged();
            return Ok(());
        }
        self.consistency_point()
    }

    /// Writes everything to the array, and shuts it down. The write log is then no longer needed.
    pub fn close(mut self) -> Result<()> {
        self.retire_log()?;
        self.array.close()
    }

    /// Writes everything to the array. After that, the write log is not needed until the next state of the catalogue
    /// is written.
    fn retire_log(&mut self) -> Result<()> {
        self.consistency_point()?;
        self.catalogue.is_clean = true;
        self.commit_catalogue()
    }
}
