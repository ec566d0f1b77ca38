//! Decides which dirty pages may be written now, copies them, and writes the copies.

mod retained_copies;
mod retained_run;
mod write_back;

pub(super) use self::write_back::{UnflushedPagePolicy, WRITE_BATCH, WriteBack, WriteReason};
