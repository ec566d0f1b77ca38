//! Reasons why all hosts of a fleet stop early.

use jetcell_workload::units::TimeSpan;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Reason why all hosts in a fleet stop early.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The fleet cannot run. Either no test was started, or all tests are being stopped.
    #[error(transparent)]
    Refused(FleetRefusal),
    /// The user requested the stop.
    #[error("stopped on request")]
    Requested,
    /// The user requested the stop. Earlier versions stored this reason together with its text.
    #[error("{requested}")]
    #[serde(untagged)]
    RequestedWithText {
        /// The stored text.
        requested: String,
    },
}

/// Reason why a fleet cannot run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum FleetRefusal {
    #[error(
        "{} runs jetcell {program} with message version {protocol}, but the coordinator runs jetcell \
         {own_program} with message version {own_protocol}; install the same version on all hosts",
        rank.map_or("another host".into(), |rank| format!("the host with rank {rank}"))
    )]
    OtherVersion { rank: Option<u32>, program: String, protocol: u32, own_program: String, own_protocol: u32 },
    #[error("another coordinator is running the fleet {0:?}; stop it, or choose another name for this fleet")]
    OtherCoordinator(String),
    #[error("{}", not_joined(missing, *timeout))]
    NotJoined { missing: Vec<u32>, timeout: TimeSpan },
    #[error("{0} timed out before the test started")]
    TimedOut(String),
    #[error("{host} joined a fleet of {size} hosts; the rank must be between 0 and {}", size.saturating_sub(1))]
    Rank { host: String, size: u32 },
    #[error(
        "{host} was started for {other} hosts, but the configuration has {size}; use the same number in both"
    )]
    Size { host: String, other: u32, size: u32 },
    #[error(
        "the configuration of {0} differs from the configuration of the coordinator; use the same file for both"
    )]
    Configuration(String),
    #[error("two hosts have rank {rank}: {one} and {other}; give each host a unique --rank")]
    SameRank { rank: u32, one: String, other: String },
    #[error("{host}: {reason}")]
    Host { host: String, reason: String },
    /// Earlier versions stored only the text of the reason.
    #[error("{0}")]
    #[serde(untagged)]
    Text(String),
}

fn not_joined(missing: &[u32], timeout: TimeSpan) -> String {
    let shown: Vec<String> = missing.iter().take(10).map(u32::to_string).collect();
    let shown = shown.join(", ");
    let more = match missing.len().saturating_sub(10) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (hosts, them) = if missing.len() == 1 { ("host", "it") } else { ("hosts", "them") };
    format!(
        "the {hosts} with rank {shown}{more} did not join within {timeout}; start jetcell fleet join on {them}, or \
         raise join_timeout"
    )
}

#[cfg(test)]
#[path = "stop_reason_tests.rs"]
mod tests;
