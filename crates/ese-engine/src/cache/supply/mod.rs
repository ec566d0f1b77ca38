//! Where a frame for another page comes from: the available pool, an eviction, or a write.

mod cleaner;
mod frame_supply;

pub(super) use self::frame_supply::FrameSupply;
