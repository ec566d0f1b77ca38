//! Compares files with what three independent ESE readers find in them: libesedb, dissect.esedb and impacket.
//!
//! The readers are Python packages in an environment that `scripts/setup-readers.sh` makes. Without the environment, a
//! comparison prints that it was skipped; with `JETCELL_REQUIRE_READERS=1` it fails instead.
//!
//! A reader that cannot show a value says so for that cell (`unseen`), and some readers show NULL differently. Only
//! [`compare`](self) has rules for these cases. All other cells must be equal, and at least one reader must confirm
//! each cell. Some inputs trigger a defect of a reader, such as a plain long-value chunk whose first byte looks like a
//! compression header; tests must not use such inputs.

mod compare;
mod expected;
mod run;

pub use compare::compare;
pub use expected::{ExpectedCell, ExpectedColumn, ExpectedDatabase, ExpectedRows, ExpectedTable};
pub use run::{ReadCell, ReadTable, Reader, ReaderError, Readers};
