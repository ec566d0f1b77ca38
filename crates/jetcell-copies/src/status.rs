//! How far a copy is behind its active side.

use crate::copy_state::{CopyState, Phase};

/// How far a copy is behind its active side, as far as the two have talked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    /// Closed generations that were not replayed.
    pub generations: u32,
    /// Bytes of these logs.
    pub bytes: u64,
    /// Age of the state up to which everything was replayed; `None` before the first replay.
    pub seconds: Option<u64>,
}

impl Lag {
    /// The lag of a copy at a time, in milliseconds since 1970 UTC.
    pub fn of(state: &CopyState, now_unix_ms: i64) -> Lag {
        let generations = state.copy_queue() + state.replay_queue();
        let age = |replayed: i64| now_unix_ms.saturating_sub(replayed).max(0) as u64 / 1000;
        let seconds = if generations == 0 { Some(0) } else { state.replayed_unix_ms.map(age) };
        Lag { generations, bytes: u64::from(generations) * state.log_bytes, seconds }
    }
}

/// Whether a copy does its work: a word, for people and programs.
pub fn health(state: &CopyState) -> &'static str {
    match state.phase {
        Phase::Seeding => "seeding",
        Phase::Unfit { .. } => "unfit",
        Phase::Activating { .. } => "activating",
        Phase::Following if state.tries > 0 => "retrying",
        Phase::Following if state.copy_queue() + state.replay_queue() == 0 => "healthy",
        Phase::Following => "catching up",
    }
}
