//! LUNs on an array that never write in place: block devices with thin provisioning, snapshots and clones.
//!
//! ```text
//! blocks 0 to 255      catalogue, written when its number is even
//! blocks 256 to 511    catalogue, written when its number is odd
//! behind               blocks of data and of block maps, in any order
//! ```
//!
//! Writes are kept in memory; a flush makes them durable in the [write log](write_log). A *consistency point* writes them, and the
//! nodes of the [block maps](block_map) above them, to blocks that nothing refers to: to [whole rows](space) where there are any, which
//! need no journal and no old parity. Then it syncs the members, and then it writes the catalogue, which makes the new state the one that
//! counts, all or nothing. Only after that, the blocks of the state before are free.
//!
//! Writes without a flush go to whole rows when there are many of them, and wait there for the next consistency point: see
//! [early writes](early_writes) and the [filling](filling) of zones.
//!
//! While the rows of a consistency point are being written, callers read and write on: they find what it writes in memory, and what they
//! write belongs to the next point. A flush waits for its end.
//!
//! Which blocks are free is not stored: it follows from the block maps, which a start reads. A block that only the present state of one
//! LUN refers to is freed when it is replaced. All others are found by a *sweep* through all maps, after the deletion of a snapshot or a LUN.

mod block_map;
mod catalogue;
mod cleaning;
mod device;
mod early_writes;
mod filling;
#[cfg(test)]
mod history_tests;
mod point;
mod shared;
mod snapshots;
mod space;
mod start;
#[cfg(test)]
mod tests;
mod write_log;
#[cfg(test)]
mod writes_in_flight_tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use jetcell_sync::Arc;

use self::block_map::{Node, Nodes};
use self::catalogue::{Catalogue, LunId};
use self::early_writes::EarlyWrites;
use self::filling::Filling;
use self::point::PointUnderWay;
use self::space::Space;
use self::write_log::WriteLog;
use crate::array::{Array, NewMember};
use crate::error::{ArrayError, Result};
use crate::geometry::BLOCK;
use crate::shared_block::SharedBlock;

pub use self::catalogue::check_name as check_lun_name;
pub use self::cleaning::CleaningProgress;
pub use self::device::Lun;
#[cfg(test)]
pub use self::history_tests::{Done, run};
pub use self::shared::SharedLuns;
pub use self::snapshots::{LunStatus, SnapshotStatus};
pub use self::start::LogOptions;

/// What happened since the volume was started.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct LunCounters {
    /// Writes of callers.
    pub host_writes: u64,
    /// Blocks of these writes.
    pub host_blocks: u64,
    /// Blocks of callers that were replaced or given up in memory, before they were written. All others are written.
    pub blocks_absorbed: u64,
    /// Consistency points.
    pub points: u64,
    /// Blocks of data and of maps that they wrote, or that were written before.
    pub data_blocks: u64,
    /// See `data_blocks`.
    pub map_blocks: u64,
    /// Blocks that went to whole rows, without the journal.
    pub blocks_in_whole_rows: u64,
    /// Blocks that cleaning moved.
    pub blocks_moved: u64,
}

/// A block that the next consistency point writes.
enum Pending {
    Data(SharedBlock),
    /// It is given up, and reads as zeros.
    Hole,
}

/// LUNs on an array. One thread at a time uses them.
pub struct LunVolume {
    array: Array,
    catalogue: Catalogue,
    space: Space,
    log: WriteLog,
    maps: Maps,
    /// What is written since the last consistency point began.
    pending: BTreeMap<(LunId, u64), Pending>,
    /// What is on the array and waits for the next consistency point.
    early: EarlyWrites,
    /// The zone that writes go to now.
    filling: Option<Filling>,
    /// The consistency point that is being written. Only reads and writes of callers leave it so; what else uses the array or the catalogue
    /// ends it first.
    point: Option<PointUnderWay>,
    /// Pending blocks that are not given up.
    pending_data: u64,
    /// Pending blocks that are not in the log.
    unlogged: BTreeSet<(LunId, u64)>,
    /// Nodes above data that are to be written: LUN and first block by their span.
    pending_leaves: BTreeSet<(LunId, u64)>,
    counters: LunCounters,
    /// A consistency point failed halfway: the volume must be started again.
    has_failed: bool,
}

/// Nodes of block maps in memory.
#[derive(Default)]
struct Maps {
    nodes: BTreeMap<u64, Arc<Node>>,
}

/// Blocks of one of the two areas of the catalogue.
const AREA: u64 = 256;
/// The first block that LUNs can have.
const FIRST_BLOCK: u64 = 2 * AREA;

/// Nodes that are kept.
const MOST_NODES: usize = 16384;

/// The nodes of a volume: from memory, or from its array.
struct MapReader<'volume> {
    maps: &'volume mut Maps,
    array: &'volume mut Array,
    sequence: u64,
}

impl Nodes for MapReader<'_> {
    fn node(&mut self, block: u64) -> Result<Arc<Node>> {
        if let Some(node) = self.maps.nodes.get(&block) {
            return Ok(node.clone());
        }
        let mut bytes = vec![0; BLOCK];
        self.array.read(block, &mut bytes)?;
        let node = Node::decode(&bytes, self.array.layout().blocks(), self.sequence);
        let node = Arc::new(node.ok_or_else(|| {
            ArrayError::Luns(format!(
                "block {block} of the array is no node of a block map; the volume is damaged"
            ))
        })?);
        self.maps.insert(block, node.clone());
        Ok(node)
    }
}

impl Maps {
    fn insert(&mut self, block: u64, node: Arc<Node>) {
        while self.nodes.len() >= MOST_NODES {
            self.nodes.pop_first();
        }
        self.nodes.insert(block, node);
    }
}

impl LunVolume {
    fn reader(&mut self) -> MapReader<'_> {
        MapReader { maps: &mut self.maps, array: &mut self.array, sequence: self.catalogue.sequence }
    }

    /// The array below. Writes to it would destroy the volume.
    pub fn array(&mut self) -> &mut Array {
        // An error is kept: all later writes of the volume fail.
        let _ = self.finish_point();
        self.has_failed |= self.array.finish_rows().is_err();
        &mut self.array
    }

    /// What happened since the volume was started.
    pub fn counters(&self) -> LunCounters {
        self.counters
    }

    /// Bytes that nothing uses.
    pub fn free_bytes(&self) -> u64 {
        self.space.free() * BLOCK as u64
    }

    /// Bytes of writes that the next consistency point writes.
    pub fn pending_bytes(&self) -> u64 {
        (self.pending.len() * BLOCK) as u64
    }

    /// Adds members: their room is free for all LUNs at once. See [`Array::grow`].
    ///
    /// # Errors
    /// The array refuses the members, or failed.
    pub fn grow(&mut self, paths: &[PathBuf], force: bool) -> Result<()> {
        self.consistency_point()?;
        self.array.grow(paths, force)?;
        self.sweep()
    }

    /// The same with members that were prepared. See [`Array::admit`].
    ///
    /// # Errors
    /// The array refuses the members, or failed.
    pub fn grow_by(&mut self, members: Vec<NewMember>) -> Result<()> {
        self.consistency_point()?;
        self.array.admit(members)?;
        self.sweep()
    }

    fn check_running(&self) -> Result<()> {
        if self.has_failed {
            return Err(ArrayError::Luns("a consistency point failed; start the volume again".into()));
        }
        Ok(())
    }

    /// Makes all writes durable: in the write log, or by a consistency point if they do not fit.
    pub fn flush(&mut self) -> Result<()> {
        // The log starts again when a consistency point ends: what is logged belongs to the next one.
        self.finish_point()?;
        if !self.early.is_empty() {
            return self.consistency_point();
        }
        if self.unlogged.is_empty() {
            return Ok(());
        }
        let entries = self.unlogged_entries();
        // The log only saves time: without it, a consistency point does the same.
        if matches!(self.log.append(&entries), Ok(true)) {
            self.unlogged.clear();
            return Ok(());
        }
        self.consistency_point()
    }

    /// Writes everything to the array, and shuts it down. The write log is not needed any more.
    pub fn close(mut self) -> Result<()> {
        self.shut_log()?;
        self.array.close()
    }

    /// Writes everything to the array. The write log is not needed any more, until the next state of the catalogue is written.
    fn shut_log(&mut self) -> Result<()> {
        self.consistency_point()?;
        self.catalogue.is_clean = true;
        self.end_point()
    }
}
