//! State of an array, its slots and its members, for callers.

use std::path::PathBuf;

use super::{Array, ArrayMode, ArrayOpenZone};
use crate::geometry::RaidLevel;
use crate::member::MemberId;

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

impl SlotState {
    pub(super) fn from_presence(has_member: bool, has_replacement: bool) -> SlotState {
        match (has_member, has_replacement) {
            (true, false) => SlotState::Present,
            (true, true) => SlotState::Copying,
            (false, true) => SlotState::Rebuilding,
            (false, false) => SlotState::Missing,
        }
    }
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
    /// Members that failed since the array was assembled.
    pub failed: Vec<PathBuf>,
    /// Number of blocks that are staged and not committed.
    pub staged_blocks: usize,
}

impl Array {
    /// Returns the state of the array and its slots.
    pub fn status(&self) -> ArrayStatus {
        let path = |member: MemberId| self.device_of(member).map(|device| self.devices[device].path());
        let zones = self.config.layout.zones();
        let slots = self.config.slots.iter().map(|slot| {
            let (member, replacement) = (path(slot.member), path(slot.replacement));
            let state = SlotState::from_presence(member.is_some(), replacement.is_some());
            let progress = slot.rebuilt.len() as f64 / zones as f64;
            SlotStatus { state, member, replacement, progress }
        });
        let lost = self.lost_slots();
        let state = match self.mode {
            ArrayMode::Stopped => ArrayState::Stopped,
            _ if !self.tolerates_loss(&lost) => ArrayState::Stopped,
            _ if lost.is_empty() => ArrayState::Optimal,
            _ => ArrayState::Degraded(lost.len()),
        };
        ArrayStatus {
            level: self.config.layout.level,
            state,
            bytes: self.config.layout.bytes(),
            slots: slots.collect(),
            spares: self.config.spares.iter().filter_map(|spare| path(*spare)).collect(),
            failed: self.failed.clone(),
            staged_blocks: self.staged.len() + self.open_zone.as_ref().map_or(0, ArrayOpenZone::len),
        }
    }
}
