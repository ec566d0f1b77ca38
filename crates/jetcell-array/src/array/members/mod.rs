//! The members of an array: their files, the slot that each of them occupies, the transfers to and from them, and their
//! cached records.

mod admission;
mod buffer_pool;
mod counters;
mod partial_rebuild;
mod record_cache;
mod slot_devices;
mod transfers;
mod zone_generations;

use std::collections::BTreeSet;
use std::path::PathBuf;

use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use crate::error::{ArrayError, ArrayRefusal, Result};
use crate::geometry::{ArrayLayout, RedundancyCode};
use crate::member::{ArrayConfig, LifetimeTotals, MemberDevice};

pub use self::admission::{MemberPurpose, MemberRequirements, PreparedMember};
pub(crate) use self::buffer_pool::{BufferPool, MIN_POOLED_BYTES};
pub use self::counters::ArrayIoCounters;
pub(crate) use self::partial_rebuild::{PartialZoneRebuild, RebuildTarget};
pub(crate) use self::record_cache::RecordCache;
pub(crate) use self::transfers::{InFlightTransfers, MAX_SEGMENT_BYTES, TransferSegment, join_writes};

/// Operations that the state of the members permits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ArrayMode {
    ReadWrite,
    ReadOnly,
    /// More members failed than the level tolerates.
    Stopped,
}

/// The members of an array, its configuration, and the records that were read from the members. This is the lowest part
/// of an array: it deals with slots, records and transfers, but not with the contents of rows.
pub(crate) struct MemberSet {
    pub vfs: Arc<dyn Vfs>,
    /// The configuration. [`MemberSet::save_config`] makes changes durable.
    pub config: ArrayConfig,
    pub code: RedundancyCode,
    /// All devices, including failed ones, in the order of their numbers.
    pub devices: Vec<MemberDevice>,
    pub records: RecordCache,
    pub buffers: BufferPool,
    pub mode: ArrayMode,
    /// Whether the configuration has changed but is not saved on the members yet.
    is_config_changed: bool,
    /// The zone that is partially rebuilt, if there is one.
    pub partial_rebuild: Option<PartialZoneRebuild>,
    /// Lost rows that were written since they were last examined.
    pub rewritten_rows: BTreeSet<u64>,
    /// Paths of the members that failed since the array was assembled.
    pub failed: Vec<PathBuf>,
    pub counters: ArrayIoCounters,
    /// Whether a step of a rebuild, copy or scrub is running. Its transfers are counted as maintenance.
    pub is_maintenance: bool,
    /// Totals from the superblocks, for the time before the array was assembled.
    lifetime_before: LifetimeTotals,
}

impl MemberSet {
    /// Combines the devices that were found with the newest configuration.
    pub fn new(
        vfs: Arc<dyn Vfs>,
        config: ArrayConfig,
        devices: Vec<MemberDevice>,
        mode: ArrayMode,
    ) -> MemberSet {
        MemberSet {
            vfs,
            code: config.layout.code(),
            lifetime_before: config.lifetime,
            config,
            devices,
            records: RecordCache::default(),
            buffers: BufferPool::default(),
            mode,
            is_config_changed: false,
            partial_rebuild: None,
            rewritten_rows: BTreeSet::new(),
            failed: vec![],
            counters: ArrayIoCounters::default(),
            is_maintenance: false,
        }
    }

    pub fn layout(&self) -> &ArrayLayout {
        &self.config.layout
    }

    /// Returns the totals since the array was created.
    pub fn lifetime(&self) -> LifetimeTotals {
        let ArrayIoCounters { blocks_read, blocks_written, defects, members, .. } = self.counters;
        self.lifetime_before.plus(&LifetimeTotals { blocks_read, blocks_written, defects, members })
    }

    /// Records which slots have lost their block of this row. A mask of 0 means that the row is no longer lost. The
    /// next [`MemberSet::save_changes`] makes the change durable.
    pub fn set_lost(&mut self, row: u64, slots: u32) {
        if self.config.lost_rows.slots_of(row) != slots {
            let before = self.config.lost_rows.clone();
            self.config.lost_rows.set(row, slots);
            // The list may be unchanged: if it is full, it may still contain a row that is no longer lost.
            self.is_config_changed |= before != self.config.lost_rows;
        }
    }

    /// Remembers the lost rows among these rows, so the next flush examines them. Called when writes of the rows start.
    pub fn note_written(&mut self, rows: impl Iterator<Item = u64>) {
        let lost = &self.config.lost_rows;
        if !lost.is_empty() {
            self.rewritten_rows.extend(rows.filter(|row| lost.slots_of(*row) != 0));
        }
    }

    pub fn check_running(&self) -> Result<()> {
        if self.mode != ArrayMode::Stopped {
            return Ok(());
        }
        Err(ArrayError::Stopped { level: self.config.layout.level, failed: self.failed.clone() })
    }

    pub fn check_writable(&self) -> Result<()> {
        if self.mode == ArrayMode::ReadOnly {
            return Err(ArrayRefusal::ReadOnly.into());
        }
        self.check_running()
    }
}
