//! Which dirty pages may be written now, and how a page is copied and written.

mod retained_copies;
mod retained_run;
mod write_back;

pub(super) use self::write_back::{UnflushedPagePolicy, WRITE_BATCH, WriteBack, WriteReason};
