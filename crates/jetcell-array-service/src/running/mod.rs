//! A running array: its start, its content, its users and its maintenance.

mod activity;
mod content;
mod maintainer;
mod owner;
mod start;

pub(crate) use self::activity::ConcurrentActivity;
pub(crate) use self::content::{
    ArrayContent, RunningContent, SharedContent, log_options, start_with_content, start_with_luns,
};
pub(crate) use self::maintainer::{ArrayInUse, MIN_PAUSE, maintenance_throttle};
pub use self::maintainer::{ArraySnapshot, ZONE_BYTES};
pub(crate) use self::owner::{ArrayGuard, ArrayOwner, with_exclusive_access};
pub use self::start::ArrayStartOptions;
pub(crate) use self::start::RunningArray;
