//! Calculates the number of disks that an array needs for capacity and for the load in each state, and determines the
//! largest requirement.
//!
//! A disk's load is the fraction of time in which it is busy. A random operation takes `1 / iops` seconds, and a long
//! transfer takes `MB / sequential`. An array has enough groups if no disk is busier than the required latency
//! allows.

use std::fmt;

use serde::Serialize;

use crate::catalogue::CatalogueDisk;
use crate::config::StorageConfig;
use crate::error::SizingError;
use crate::raid::{GroupLayout, RaidKind};
use crate::sheet::{CalculationSheet, ceil, max};
use crate::states::SystemState;

/// Load on an array in one system state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArrayLoad {
    /// State of the system.
    pub state: SystemState,
    /// Host reads per second.
    pub reads: f64,
    /// Host writes per second.
    pub writes: f64,
    /// Long reads, MB/s.
    pub sequential_mb_s: f64,
}

/// The number of disks in an array, in total and for each requirement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizedArray {
    /// Number of disks to buy, without spares.
    pub disks: f64,
    /// Number of disks required for capacity.
    pub disks_for_capacity: f64,
    /// Number of disks required for the load of each state.
    pub disks_for_load: Vec<StateDisks>,
    /// The requirement that determines the number of disks.
    pub constraint: SizingConstraint,
    /// State that determines the number of disks, or `None` if capacity does.
    pub state: Option<SystemState>,
    /// Time to rebuild one drive, hours.
    pub rebuild_hours: f64,
}

/// Requirement that determines the number of disks in an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SizingConstraint {
    /// Disk space.
    Capacity,
    /// Random operations within the maximum latency.
    Iops,
    /// Long transfers.
    Throughput,
}

impl fmt::Display for SizingConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SizingConstraint::Capacity => "capacity",
            SizingConstraint::Iops => "IOPS",
            SizingConstraint::Throughput => "throughput",
        })
    }
}

/// Number of disks required for the load in one system state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StateDisks {
    /// State of the system.
    pub state: SystemState,
    /// Number of disks.
    pub disks: f64,
    /// Random disk operations per second caused by the host's operations.
    pub disk_iops: f64,
    /// Kind of transfer that keeps the disks busier: random operations or long transfers.
    pub busier_with: SizingConstraint,
}

/// Maximum number of disks. A larger requirement is treated as an input error.
const MAX_DISKS: f64 = 1e7;

impl SizedArray {
    /// Calculates the smallest array of whole groups that provides `capacity_gib` and supports the load in every
    /// state of `storage.states`.
    pub fn new(
        layout: &GroupLayout,
        disk: &CatalogueDisk,
        storage: &StorageConfig,
        works: &[ArrayLoad],
        capacity_gib: f64,
        sheet: &mut CalculationSheet,
    ) -> Result<SizedArray, SizingError> {
        sheet.heading(format!("{layout} of {}: capacity", disk.name));
        input!(sheet, group_disks = f64::from(layout.group_disks()), "disks in a group");
        input!(sheet, data_disks = f64::from(layout.data_disks()), "of which contain data");
        input!(sheet, capacity_gib = capacity_gib, "GiB");
        input!(sheet, disk_gib = disk.capacity.gib(), "GiB as sold");
        input!(sheet, formatted = storage.formatted.0, "remains after formatting");
        formula!(
            sheet,
            disks_for_capacity = ceil(ceil(capacity_gib / (disk_gib * formatted)) / data_disks) * group_disks,
            "disks"
        );
        let mut disks_for_load = Vec::new();
        for work in works {
            disks_for_load.push(disks_for(layout, disk, storage, work, sheet)?);
        }
        input!(sheet, rebuild_share = storage.rebuild_share.0, "of a disk's time");
        input!(sheet, disk_mb = disk.capacity.0 / 1e6, "MB");
        input!(sheet, sequential_mb_s = disk.sequential.mb_s(), "MB/s");
        formula!(sheet, rebuild_hours = disk_mb / (sequential_mb_s * rebuild_share) / 3600.0, "h");

        let counted = disks_for_load.iter().filter(|need| storage.states.contains(&need.state));
        // If several states have the same requirement, the first one is reported, because it is the simplest.
        let worst = counted.fold(None::<&StateDisks>, |worst, need| match worst {
            Some(worst) if need.disks <= worst.disks => Some(worst),
            _ => Some(need),
        });
        let (mut disks, mut constraint, mut state) = (disks_for_capacity, SizingConstraint::Capacity, None);
        if let Some(need) = worst.filter(|need| need.disks > disks) {
            (disks, constraint, state) = (need.disks, need.busier_with, Some(need.state));
        }
        if disks.is_nan() || disks > MAX_DISKS {
            return Err(SizingError::TooManyDisks { layout: layout.to_string(), disk: disk.name.clone() });
        }
        Ok(SizedArray { disks, disks_for_capacity, disks_for_load, constraint, state, rebuild_hours })
    }
}

fn disks_for(
    layout: &GroupLayout,
    disk: &CatalogueDisk,
    storage: &StorageConfig,
    work: &ArrayLoad,
    sheet: &mut CalculationSheet,
) -> Result<StateDisks, SizingError> {
    let state = work.state;
    let degraded = state.is_degraded();
    let latency = if degraded { storage.degraded_latency } else { storage.latency };
    let usable = disk.iops_at(latency.0);
    if usable < 1.0 {
        return Err(SizingError::SlowDisk { disk: disk.name.clone(), latency });
    }
    let costs = if degraded { layout.costs_degraded() } else { layout.costs_intact() };
    sheet.heading(format!("{layout} of {}: {state}", disk.name));
    input!(sheet, host_reads = work.reads, "reads/s");
    input!(sheet, host_writes = work.writes, "writes/s");
    input!(sheet, long_mb_s = work.sequential_mb_s, "MB/s of long reads");
    input!(sheet, read_cost = costs.read, "disk operations per read");
    input!(sheet, write_cost = costs.write, "disk operations per write");
    input!(sheet, serving = costs.serving, "disks of a group share them");
    input!(sheet, random_iops = disk.random_iops, "random operations/s of a disk at 20 ms");
    input!(sheet, latency_s = latency.0, "s that a random operation may take");
    input!(sheet, sequential_mb_s = disk.sequential.mb_s(), "MB/s of a disk");
    let rebuild = if state == SystemState::Rebuilding { storage.rebuild_share.0 } else { 0.0 };
    input!(sheet, rebuild = rebuild, "of a disk's time is used for a rebuild");
    formula!(sheet, disk_iops = host_reads * read_cost + host_writes * write_cost, "disk operations/s");
    formula!(sheet, usable_iops = random_iops + 1.0 / 0.02 - 1.0 / latency_s, "operations/s of a disk");
    formula!(sheet, busy_random = disk_iops / usable_iops, "disks busy with random operations");
    formula!(sheet, busy_long = long_mb_s * read_cost / sequential_mb_s, "disks busy with long transfers");
    formula!(sheet, busy_disks = (busy_random + busy_long) / (1.0 - rebuild), "disks fully busy");
    let busier_with =
        if busy_long > busy_random { SizingConstraint::Throughput } else { SizingConstraint::Iops };
    input!(sheet, group_disks = f64::from(layout.group_disks()), "disks in a group");
    if layout.raid == RaidKind::Jbod && degraded {
        formula!(sheet, disks = ceil(busy_disks) + 1.0, "disks, including one failed disk");
        return Ok(StateDisks { state, disks, disk_iops, busier_with });
    }
    formula!(sheet, groups = max(1.0, ceil(busy_disks / serving)), "whole groups");
    formula!(sheet, disks = groups * group_disks, "disks");
    Ok(StateDisks { state, disks, disk_iops, busier_with })
}
