//! What can be said about an array from outside.

use std::path::PathBuf;

use super::{Array, Filling, Mode};
use crate::geometry::Level;
use crate::member::MemberId;

/// How well an array is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArrayState {
    /// All slots have their member.
    Optimal,
    /// This many slots have lost theirs.
    Degraded(usize),
    /// More members failed than the level bears.
    Stopped,
}

/// What a slot has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotState {
    /// A member with all blocks.
    Present,
    /// Such a member, which is being copied to another one.
    Copying,
    /// No member with all blocks; one is being rebuilt.
    Rebuilding,
    /// No member.
    Missing,
}

impl SlotState {
    pub(super) fn of(has_member: bool, has_replacement: bool) -> SlotState {
        match (has_member, has_replacement) {
            (true, false) => SlotState::Present,
            (true, true) => SlotState::Copying,
            (false, true) => SlotState::Rebuilding,
            (false, false) => SlotState::Missing,
        }
    }
}

/// A slot of the array.
#[derive(Clone, PartialEq, Debug)]
pub struct SlotStatus {
    /// Its state.
    pub state: SlotState,
    /// The member with all blocks.
    pub member: Option<PathBuf>,
    /// The member that is being rebuilt or copied to.
    pub replacement: Option<PathBuf>,
    /// The share of zones that the replacement has, between 0 and 1.
    pub progress: f64,
}

/// The state of an array.
#[derive(Clone, PartialEq, Debug)]
pub struct Status {
    /// The level.
    pub level: Level,
    /// How well it is.
    pub state: ArrayState,
    /// Bytes of the array.
    pub bytes: u64,
    /// Its slots.
    pub slots: Vec<SlotStatus>,
    /// Spares.
    pub spares: Vec<PathBuf>,
    /// Members that failed since the array was assembled.
    pub failed: Vec<PathBuf>,
    /// Blocks that are staged and not committed.
    pub staged_blocks: usize,
}

impl Array {
    /// The state of the array and its slots.
    pub fn status(&self) -> Status {
        let path = |member: MemberId| self.device_of(member).map(|device| self.devices[device].path());
        let zones = self.config.layout.zones();
        let slots = self.config.slots.iter().map(|slot| {
            let (member, replacement) = (path(slot.member), path(slot.replacement));
            let state = SlotState::of(member.is_some(), replacement.is_some());
            let progress = slot.rebuilt.len() as f64 / zones as f64;
            SlotStatus { state, member, replacement, progress }
        });
        let lost = self.lost_slots();
        let state = match self.mode {
            Mode::Stopped => ArrayState::Stopped,
            _ if !self.bears(&lost) => ArrayState::Stopped,
            _ if lost.is_empty() => ArrayState::Optimal,
            _ => ArrayState::Degraded(lost.len()),
        };
        Status {
            level: self.config.layout.level,
            state,
            bytes: self.config.layout.bytes(),
            slots: slots.collect(),
            spares: self.config.spares.iter().filter_map(|spare| path(*spare)).collect(),
            failed: self.failed.clone(),
            staged_blocks: self.staged.len() + self.filling.as_ref().map_or(0, Filling::len),
        }
    }
}
