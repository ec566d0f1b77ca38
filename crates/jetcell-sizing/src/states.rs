//! The five states in which a storage must bear its load.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Everything works.
    Normal,
    /// Some array misses one drive.
    DriveLost,
    /// That drive's content is being restored to a spare.
    Rebuilding,
    /// Other servers are lost, their databases are active here.
    ServerLost,
    /// A backup reads every database.
    BackupRunning,
}

impl State {
    /// In the order of tables.
    pub const ALL: [State; 5] =
        [State::Normal, State::DriveLost, State::Rebuilding, State::ServerLost, State::BackupRunning];

    /// Whether a drive is missing.
    pub fn degraded(self) -> bool {
        matches!(self, State::DriveLost | State::Rebuilding)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Normal => "normal",
            State::DriveLost => "one drive lost",
            State::Rebuilding => "rebuilding",
            State::ServerLost => "server lost",
            State::BackupRunning => "backup running",
        })
    }
}
