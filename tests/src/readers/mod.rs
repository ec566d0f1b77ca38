//! Compares files with the results of three independent ESE readers: libesedb, dissect.esedb, and impacket.
//!
//! The readers are Python packages in an environment that `scripts/setup-readers.sh` creates. Without the
//! environment, a comparison prints that it was skipped; with `JETCELL_REQUIRE_READERS=1` it fails instead.
//!
//! A reader that cannot display a value marks that cell as `unseen`, and some readers display NULL differently. Only
//! [`compare`](self) has rules for these cases. All other cells must be equal, and at least one reader must confirm
//! each cell. Some inputs trigger a bug of a reader, such as a plain long-value chunk whose first byte looks like a
//! compression header; tests must not use such inputs.

mod compare;
mod expected;
mod run;

pub use compare::compare;
pub use expected::{ExpectedCell, ExpectedColumn, ExpectedDatabase, ExpectedRows, ExpectedTable};
pub use run::{IndependentReader, InstalledReaders, ReadCell, ReadTable, ReaderError};
