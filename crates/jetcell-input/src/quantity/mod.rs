//! Quantities with units. One grammar covers all of them.
//!
//! ```text
//! quantity = number [space] unit
//! number   = digits [. digits] [e [+ or -] digits]
//! size     = B, K M G T P and KiB MiB GiB TiB PiB (powers of 1024), kB MB GB TB PB (powers of 1000)
//! rate     = size / time, or kbit Mbit Gbit Tbit / time; a size alone is a rate per second
//! time     = us, ms, s, m or min, h, d, w, y (365 days), or a word such as hours
//! ```
//!
//! A time may be a sum in descending units, such as `1h30m`. Case is ignored, except that `M` does not mean minutes,
//! and that `Mb` is refused in rates. Each [`QuantityKind`] decides whether a number without a unit is accepted, and
//! whether units must be exact ([`units::exact_bytes`]).

mod error;
mod kind;
mod text;
pub mod units;
mod values;

pub use self::error::QuantityError;
pub use self::kind::{QuantityKind, number_and_unit};
pub use self::text::QuantityText;
pub use self::values::{ByteRate, ByteSize, Quantity, TimeSpan, positive, within};
