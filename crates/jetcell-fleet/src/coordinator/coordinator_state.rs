//! The saved state of a coordinator, from which another process can continue the run.

use std::borrow::Cow;

use jetcell_workload::units::TimeSpan;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Coordinator, FleetMember, LostHost, StopReason, StorageOutcome};
use crate::config::FleetConfig;
use crate::message::{Barrier, HostHeartbeat};

/// Format version.
const VERSION: u32 = 1;

/// A fleet host, as stored in a coordinator's saved state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedMember {
    /// The host's last heartbeat.
    pub beat: HostHeartbeat,
    /// Information about the loss, if the host was declared lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostHost>,
    /// Whether the host's result was stored successfully; `None` if it has not been stored yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<StorageOutcome>,
}

/// Error for a run that cannot be resumed because its configuration has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the configuration has changed since the run started")]
pub struct ResumeError;

impl ResumeError {
    /// Returns what the user can do about the error.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some("restore it, or add --new to discard the run".into())
    }
}

/// The state of a fleet coordinator, as saved on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoordinatorState {
    version: u32,
    /// The run's random identifier.
    pub run: String,
    /// Configuration digest.
    pub configuration: String,
    /// Start time of the run.
    pub began_ns: u64,
    open: Option<Barrier>,
    start_ns: Option<u64>,
    #[serde(default)]
    alone_first: Option<TimeSpan>,
    stop: Option<StopReason>,
    /// Hosts that have joined.
    pub members: Vec<SavedMember>,
}

impl Coordinator {
    /// Returns the state to save, if it has changed since the last call.
    pub fn take_changed_state(&mut self) -> Option<CoordinatorState> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        let member = |member: &FleetMember| SavedMember {
            beat: member.heartbeat().clone(),
            lost: member.loss().cloned(),
            stored: member.storage_outcome().cloned(),
        };
        Some(CoordinatorState {
            version: VERSION,
            run: self.run.clone(),
            configuration: self.config.digest.clone(),
            began_ns: self.began_ns,
            open: self.open,
            start_ns: self.start_ns,
            alone_first: self.config.alone_first,
            stop: self.stop.clone(),
            members: self.members.values().map(member).collect(),
        })
    }

    /// Resumes a run that was coordinated by another process. The hosts get the usual time to send a message before
    /// they are considered silent.
    pub fn resume(
        config: FleetConfig,
        program: &str,
        saved: CoordinatorState,
        epoch: String,
        now: u64,
    ) -> Result<Coordinator, ResumeError> {
        if saved.version != VERSION || saved.configuration != config.digest {
            return Err(ResumeError);
        }
        // The option may have come from the command line instead of the file.
        let mut config = config;
        config.alone_first = saved.alone_first;
        let mut coordinator = Coordinator::new(config, program, saved.run, epoch, now);
        (coordinator.open, coordinator.start_ns) = (saved.open, saved.start_ns);
        coordinator.stop = saved.stop;
        if saved.open.is_some() {
            coordinator.began_ns = saved.began_ns;
        }
        for SavedMember { beat, lost, stored } in saved.members {
            coordinator.members.insert(beat.rank, FleetMember::restored(beat, now, lost, stored));
        }
        Ok(coordinator)
    }
}
