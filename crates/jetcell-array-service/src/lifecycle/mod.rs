//! Creation and destruction of arrays.

mod create;
mod destroy;

pub use self::create::{CreatedArray, NewArray};
pub use self::destroy::DestroyedArray;
