//! State of an array, its slots and its members, for callers.

use std::path::PathBuf;

use super::members::{ArrayMode, MemberSet};
use crate::geometry::RaidLevel;
use crate::member::{MemberId, SlotConfig};

/// Health of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArrayState {
    /// Every slot has its member.
    Optimal,
    /// This many slots have lost their members.
    Degraded(usize),
    /// More members failed than the level tolerates.
    Stopped,
}

/// State of a slot in an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotState {
    /// The slot has a member with all blocks.
    Present,
    /// The slot has a member with all blocks, which is being copied to another member.
    Copying,
    /// The slot has no member with all blocks, but a member is being rebuilt.
    Rebuilding,
    /// The slot has no member.
    Missing,
}

/// An array slot, its members, and the progress of a rebuild or copy.
#[derive(Clone, PartialEq, Debug)]
pub struct SlotStatus {
    /// State of the slot.
    pub state: SlotState,
    /// The member with all blocks.
    pub member: Option<PathBuf>,
    /// The member that is being rebuilt, or to which the slot is being copied.
    pub replacement: Option<PathBuf>,
    /// Fraction of zones that the replacement already has, between 0 and 1.
    pub progress: f64,
}

impl SlotStatus {
    /// Returns the state of a slot that has this number of zones. `path` maps a member to its path, if it has one.
    pub(super) fn new(
        slot: &SlotConfig,
        zones: u64,
        path: impl Fn(MemberId) -> Option<PathBuf>,
    ) -> SlotStatus {
        let (member, replacement) = (path(slot.member), path(slot.replacement));
        let state = match (&member, &replacement) {
            (Some(_), None) => SlotState::Present,
            (Some(_), Some(_)) => SlotState::Copying,
            (None, Some(_)) => SlotState::Rebuilding,
            (None, None) => SlotState::Missing,
        };
        SlotStatus { state, member, replacement, progress: slot.rebuilt.len() as f64 / zones as f64 }
    }
}

/// State of an array and of each of its slots.
#[derive(Clone, PartialEq, Debug)]
pub struct ArrayStatus {
    /// RAID level of the array.
    pub level: RaidLevel,
    /// Health of the array.
    pub state: ArrayState,
    /// Capacity of the array in bytes.
    pub bytes: u64,
    /// Slots of the array.
    pub slots: Vec<SlotStatus>,
    /// Spares of the array.
    pub spares: Vec<PathBuf>,
    /// Number of rows with data that cannot be recovered.
    pub lost_rows: u64,
    /// Members that failed since the array was assembled.
    pub failed: Vec<PathBuf>,
    /// Number of staged blocks, which are not committed yet.
    pub staged_blocks: usize,
}

impl ArrayStatus {
    /// Returns the state of an array with these members. `staged_blocks` is the number of staged blocks, which are not
    /// committed yet.
    pub(super) fn new(members: &MemberSet, staged_blocks: usize) -> ArrayStatus {
        let config = &members.config;
        let path = |member: MemberId| members.device_of(member).map(|device| members.devices[device].path());
        let zones = config.layout.zones();
        let slots = config.slots.iter().map(|slot| SlotStatus::new(slot, zones, path));
        let lost = members.lost_slots();
        let state = match members.mode {
            ArrayMode::Stopped => ArrayState::Stopped,
            _ if !members.tolerates_loss(&lost) => ArrayState::Stopped,
            _ if lost.is_empty() => ArrayState::Optimal,
            _ => ArrayState::Degraded(lost.len()),
        };
        ArrayStatus {
            level: config.layout.level,
            state,
            bytes: config.layout.bytes(),
            slots: slots.collect(),
            spares: config.spares.iter().filter_map(|spare| path(*spare)).collect(),
            lost_rows: config.lost_rows.len(),
            failed: members.failed.clone(),
            staged_blocks,
        }
    }
}
