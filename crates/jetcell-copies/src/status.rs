//! Lag and health of a copy.

use crate::copy_state::{CopyPhase, CopyState};

/// How far a copy lags its active side, as of their last contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyLag {
    /// Number of closed generations that have not been replayed.
    pub generations: u32,
    /// Size of these logs in bytes.
    pub bytes: u64,
    /// Age in seconds of the newest state whose changes have all been replayed; `None` before the first replay.
    pub seconds: Option<u64>,
}

impl CopyLag {
    /// Returns the lag of a copy at a time in milliseconds since 1970 UTC.
    pub fn from_state(state: &CopyState, now_unix_ms: i64) -> CopyLag {
        let generations = state.copy_queue() + state.replay_queue();
        let age = |replayed: i64| now_unix_ms.saturating_sub(replayed).max(0) as u64 / 1000;
        let seconds = if generations == 0 { Some(0) } else { state.replayed_unix_ms.map(age) };
        CopyLag { generations, bytes: u64::from(generations) * state.log_bytes, seconds }
    }
}

/// Returns a copy's health as a word that both people and programs can read.
pub fn health(state: &CopyState) -> &'static str {
    match state.phase {
        CopyPhase::Seeding => "seeding",
        CopyPhase::Unfit { .. } => "unfit",
        CopyPhase::Activating { .. } => "activating",
        CopyPhase::Following if state.tries > 0 => "retrying",
        CopyPhase::Following if state.copy_queue() + state.replay_queue() == 0 => "healthy",
        CopyPhase::Following => "catching up",
    }
}
