//! The five states in which the storage must support its load.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A state of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
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

impl State {
    /// All states, in the order used in tables.
    pub const ALL: [State; 5] =
        [State::Normal, State::DriveLost, State::Rebuilding, State::ServerLost, State::BackupRunning];

    /// Returns a description of the state: a sentence without a period.
    pub fn meaning(self) -> &'static str {
        match self {
            State::Normal => "all drives and servers work",
            State::DriveLost => {
                "a group operates without one of its drives; reads from it are reconstructed or sent to the copy"
            }
            State::Rebuilding => {
                "a spare is rebuilt while the load runs, which uses a share of the time of each drive"
            }
            State::ServerLost => "the remaining servers carry the databases of the failed servers",
            State::BackupRunning => "every database is read completely while the load runs",
        }
    }

    /// Returns true if a drive is missing in this state.
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
