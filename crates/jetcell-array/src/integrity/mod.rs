//! Per-block metadata that detects damage: checksum, location, and the generation of the last write.

mod record;
mod row_state;

pub(crate) use record::{BlockRecord, RECORD_BYTES, RecordSlot};
pub(crate) use row_state::{CellState, RowState, generation_after};
