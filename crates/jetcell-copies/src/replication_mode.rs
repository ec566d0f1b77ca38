//! Replication modes: a copy fetches closed logs, or receives the current log as it is written.

use ese_engine::CopyEvent;

use crate::copy_events::CopyEvents;
use crate::copy_state::{CopyPhase, CopyState};
use crate::log_source::AvailableLogs;
use crate::streamed_log::StreamedLog;

/// How a copy receives changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReplicationMode {
    /// The copy fetches logs after the active side has closed them.
    File,
    /// The copy has all closed logs, and receives the current log as it is written.
    Block,
}

impl ReplicationMode {
    /// Returns true if the current log may be received: the copy follows the active side and has all closed logs.
    pub fn can_be_block(state: &CopyState, offer: AvailableLogs) -> bool {
        state.next > offer.closed.0 && state.phase == CopyPhase::Following
    }

    /// Begins block mode once a part of the current log has been received.
    pub fn enter_block_mode(&mut self, streamed: Option<&StreamedLog>, events: &CopyEvents) {
        let (ReplicationMode::File, Some(streamed)) = (*self, streamed) else { return };
        *self = ReplicationMode::Block;
        events.report(CopyEvent::BlockModeBegan { generation: streamed.generation().0 });
    }

    /// Returns to file mode.
    pub fn leave_block_mode(&mut self, why: &str, events: &CopyEvents) {
        if std::mem::replace(self, ReplicationMode::File) == ReplicationMode::Block {
            events.report(CopyEvent::BlockModeEnded { what: why.to_string() });
        }
    }
}
