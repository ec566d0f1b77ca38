//! What is known about each block beside its content: checksum, place, and the generation of its last write.

mod record;
mod row_state;

pub(crate) use record::{BlockRecord, RECORD, RecordSlot};
pub(crate) use row_state::{CellState, RowState, generation_after};
