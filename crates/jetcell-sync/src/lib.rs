//! Locks, condition variables, atomics, channels and threads used by Jetcell, in one place.
//!
//! The virtual file system and the engine use only the primitives of this crate and never those of `std` or
//! `parking_lot`. A test build can therefore replace all primitives at once:
//!
//! | built with | primitives | for |
//! | --- | --- | --- |
//! | nothing | `parking_lot` and `std` | everything that ships |
//! | `--cfg shuttle` | the scheduler of the `shuttle` crate | tests of whole components (`scripts/concurrency.sh`) |
//! | `--cfg loom` | atomics and threads of `loom`, no locks | tests of single words of memory and their orderings |
//!
//! Shuttle treats every atomic operation as sequentially consistent and runs one thread at a time; loom explores the
//! weaker orderings, but only for small programs. See `docs/internals/testing.md`.

#![cfg_attr(not(shuttle), forbid(unsafe_code))]

#[cfg(loom)]
mod loom;
#[cfg(not(any(shuttle, loom)))]
mod native;
mod pin_count;
#[cfg(shuttle)]
mod shuttle;

pub use pin_count::PinCount;

#[cfg(loom)]
pub use crate::loom::*;
#[cfg(not(any(shuttle, loom)))]
pub use crate::native::*;
#[cfg(shuttle)]
pub use crate::shuttle::*;
