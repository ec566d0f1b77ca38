//! The members of an array: which files they are, which slot each of them has, the transfers to and from them, and
//! their cached records.

mod admission;
mod buffer_pool;
mod counters;
mod partial_rebuild;
mod record_cache;
mod slot_devices;
mod transfers;
mod zone_generations;

use std::path::PathBuf;

use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use crate::error::{ArrayError, ArrayRefusal, Result};
use crate::geometry::{ArrayLayout, RedundancyCode};
use crate::member::{ArrayConfig, LifetimeTotals, MemberDevice, MemberId};

pub use self::admission::{MemberPurpose, MemberRequirements, PreparedMember};
pub(crate) use self::buffer_pool::{BufferPool, MIN_POOLED_BYTES};
pub use self::counters::ArrayIoCounters;
pub(crate) use self::partial_rebuild::{PartialZoneRebuild, RebuildTarget};
pub(crate) use self::record_cache::RecordCache;
pub(crate) use self::transfers::{InFlightTransfers, MAX_SEGMENT_BYTES, TransferSegment};

/// Operations that the state of the members permits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ArrayMode {
    ReadWrite,
    ReadOnly,
    /// More members failed than the level tolerates.
    Stopped,
}

/// The members of an array, its configuration, and the records that were read from the members. This is the lowest
/// part of an array: it knows slots, records and transfers, but not what is in a row.
pub(crate) struct MemberSet {
    vfs: Arc<dyn Vfs>,
    config: ArrayConfig,
    code: RedundancyCode,
    devices: Vec<MemberDevice>,
    records: RecordCache,
    buffers: BufferPool,
    mode: ArrayMode,
    /// Whether the configuration has changed but is not saved on the members yet.
    is_config_changed: bool,
    /// The zone that is partially rebuilt.
    partial_rebuild: Option<PartialZoneRebuild>,
    failed: Vec<PathBuf>,
    counters: ArrayIoCounters,
    /// Whether a step of a rebuild, copy or scrub is running.
    is_maintenance: bool,
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
            failed: vec![],
            counters: ArrayIoCounters::default(),
            is_maintenance: false,
        }
    }

    pub fn config(&self) -> &ArrayConfig {
        &self.config
    }

    /// Returns the configuration for a change, which [`MemberSet::save_config`] makes durable.
    pub fn config_mut(&mut self) -> &mut ArrayConfig {
        &mut self.config
    }

    pub fn layout(&self) -> &ArrayLayout {
        &self.config.layout
    }

    pub fn code(&self) -> RedundancyCode {
        self.code
    }

    pub fn device(&self, device: usize) -> &MemberDevice {
        &self.devices[device]
    }

    /// Returns the member that a device is.
    pub fn member_of(&self, device: usize) -> MemberId {
        self.devices[device].member
    }

    /// Returns all devices, including failed ones, in the order of their numbers.
    pub fn devices(&self) -> &[MemberDevice] {
        &self.devices
    }

    pub fn records(&self) -> &RecordCache {
        &self.records
    }

    pub fn records_mut(&mut self) -> &mut RecordCache {
        &mut self.records
    }

    pub fn buffers(&mut self) -> &mut BufferPool {
        &mut self.buffers
    }

    pub fn counters(&self) -> &ArrayIoCounters {
        &self.counters
    }

    pub fn counters_mut(&mut self) -> &mut ArrayIoCounters {
        &mut self.counters
    }

    /// Sets whether transfers are counted as maintenance.
    pub fn set_maintenance(&mut self, is_maintenance: bool) {
        self.is_maintenance = is_maintenance;
    }

    pub fn partial_rebuild(&self) -> Option<&PartialZoneRebuild> {
        self.partial_rebuild.as_ref()
    }

    pub fn set_partial_rebuild(&mut self, partial: Option<PartialZoneRebuild>) {
        self.partial_rebuild = partial;
    }

    pub fn mode(&self) -> ArrayMode {
        self.mode
    }

    /// Returns the paths of the members that failed since the array was assembled.
    pub fn failed(&self) -> &[PathBuf] {
        &self.failed
    }

    /// Returns the totals since the array was created.
    pub fn lifetime(&self) -> LifetimeTotals {
        let ArrayIoCounters { blocks_read, blocks_written, defects, members, .. } = self.counters;
        self.lifetime_before.plus(&LifetimeTotals { blocks_read, blocks_written, defects, members })
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
