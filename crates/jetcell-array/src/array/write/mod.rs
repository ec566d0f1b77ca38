//! Writes: staged, committed through the journal, or written in place as whole rows.

mod array_open_zone;
mod commit;
mod free_rows;
mod new_rows;
mod open_rows;
mod parity_method;
mod staging;
mod writes_in_flight;
mod zone_buffer;
mod zone_encoding;
mod zone_worker;

pub(in crate::array) use self::array_open_zone::ArrayOpenZone;
pub(in crate::array) use self::free_rows::MAX_THREADS;
pub(in crate::array) use self::new_rows::NewRowWrites;
pub(in crate::array) use self::writes_in_flight::RowWrites;
pub use self::zone_buffer::ZoneBuffer;
pub use self::zone_encoding::FreeRowWrite;
