//! Words and values that describe the states of arrays and members to users and programs.

use std::fmt;

use jetcell_array::{ArrayState, MemberState, MemberTransferCounters, TransferCounters};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Health of an array, without numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrayHealth {
    /// Every slot has its member.
    Optimal,
    /// Every slot has its member, but some data was lost before.
    DataLost,
    /// Slots have lost their members.
    Degraded,
    /// More members failed than the level tolerates.
    Stopped,
}

impl ArrayHealth {
    /// Returns the health of an array in this state. `lost_rows` is the number of rows that have lost data.
    pub fn new(state: ArrayState, lost_rows: u64) -> ArrayHealth {
        match state {
            ArrayState::Optimal if lost_rows > 0 => ArrayHealth::DataLost,
            ArrayState::Optimal => ArrayHealth::Optimal,
            ArrayState::Degraded(_) => ArrayHealth::Degraded,
            ArrayState::Stopped => ArrayHealth::Stopped,
        }
    }
}

impl fmt::Display for ArrayHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ArrayHealth::Optimal => "optimal",
            ArrayHealth::DataLost => "data lost",
            ArrayHealth::Degraded => "degraded",
            ArrayHealth::Stopped => "stopped",
        })
    }
}

/// Describes why a file is not used.
pub fn describe_exclusion(state: &MemberState) -> String {
    match state {
        MemberState::Slot(slot) => format!("it is the member of slot {slot}"),
        MemberState::Replacement(slot) => format!("it is the rebuild target of slot {slot}"),
        MemberState::Spare => "it is a spare".into(),
        MemberState::Stale => "it has missed writes, or was replaced".into(),
        MemberState::Foreign => "it belongs to another array".into(),
        MemberState::TooSmall { bytes, needed } => {
            format!("it has become too small: it has {bytes} bytes, and the array needs {needed}")
        }
        MemberState::NotAMember => {
            "it does not have an array superblock, or both superblocks are damaged".into()
        }
        MemberState::Absent => "the file does not exist".into(),
        MemberState::Unreadable(error) => format!("it cannot be read: {error}"),
    }
}

/// Returns the members' transfers as JSON, grouped by purpose.
pub fn transfers_json(members: &MemberTransferCounters) -> Value {
    let of_purpose = |(name, transfers): (&str, TransferCounters)| {
        let TransferCounters { reads, blocks_read, writes, blocks_written } = transfers;
        let value = json!({ "reads": reads, "blocks_read": blocks_read, "writes": writes, "blocks_written": blocks_written });
        (name.to_string(), value)
    };
    Value::Object(members.by_purpose().map(of_purpose).into_iter().collect())
}
