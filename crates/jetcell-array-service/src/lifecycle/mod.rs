//! The beginning and the end of an array.

mod create;
mod destroy;

pub use self::create::{CreatedArray, NewArray};
pub use self::destroy::DestroyedArray;
