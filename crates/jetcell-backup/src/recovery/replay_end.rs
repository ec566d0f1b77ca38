//! The point at which a replay ends.

use ese_engine::RecoverySet;
use ese_format::{LogPosition, LogTime};
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

/// Point at which a replay ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayEnd {
    /// Stop after this generation.
    Generation(u32),
    /// Stop before the record at this position. If the position is inside a record, stop after that record.
    Position(LogPosition),
    /// Stop before the first log segment that was started after this time.
    Time(LogTime),
}

impl ReplayEnd {
    /// Returns the position before which replay stops.
    pub(crate) fn position(self, vfs: &Arc<dyn Vfs>, set: &RecoverySet) -> ese_engine::Result<LogPosition> {
        match self {
            ReplayEnd::Generation(number) => Ok(LogPosition::new(number.saturating_add(1), 0, 0)),
            ReplayEnd::Position(position) => Ok(set.stop_position(vfs, position)),
            ReplayEnd::Time(time) => set.position_after(vfs, time),
        }
    }
}
