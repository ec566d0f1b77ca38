//! Obtains a frame for a page: from the available pool, by an eviction, or after a write.

mod cleaner;
mod frame_supply;

pub(super) use self::frame_supply::FrameSupply;
