//! The five states in which the storage must support its load.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A system state for which storage is sized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SystemState {
    /// All drives and servers are working.
    Normal,
    /// An array has lost a drive.
    DriveLost,
    /// The content of the lost drive is being rebuilt on a spare.
    Rebuilding,
    /// Other servers have been lost, and their databases are active on this server.
    ServerLost,
    /// A backup is reading every database.
    BackupRunning,
}

impl SystemState {
    /// All states, in the order used in tables.
    pub const ALL: [SystemState; 5] = [
        SystemState::Normal,
        SystemState::DriveLost,
        SystemState::Rebuilding,
        SystemState::ServerLost,
        SystemState::BackupRunning,
    ];

    /// Returns a description of the state: a sentence without a period.
    pub fn description(self) -> &'static str {
        match self {
            SystemState::Normal => "all drives and servers work",
            SystemState::DriveLost => {
                "a group operates without one of its drives; reads from it are reconstructed or sent to the copy"
            }
            SystemState::Rebuilding => {
                "a spare is rebuilt while the load runs, which uses a share of the time of each drive"
            }
            SystemState::ServerLost => "the remaining servers carry the databases of the failed servers",
            SystemState::BackupRunning => "every database is read completely while the load runs",
        }
    }

    /// Returns true if a drive is missing in this state.
    pub fn is_degraded(self) -> bool {
        matches!(self, SystemState::DriveLost | SystemState::Rebuilding)
    }
}

impl fmt::Display for SystemState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SystemState::Normal => "normal",
            SystemState::DriveLost => "one drive lost",
            SystemState::Rebuilding => "rebuilding",
            SystemState::ServerLost => "server lost",
            SystemState::BackupRunning => "backup running",
        })
    }
}
