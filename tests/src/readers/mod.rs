//! Three ESE readers that nobody of this project wrote (libesedb, dissect.esedb, impacket), asked to read a file
//! and compared with what it should hold.
//!
//! They are Python packages in an environment that `scripts/setup-readers.sh` makes. Without it a comparison
//! prints that it was skipped; with `JETCELL_REQUIRE_READERS=1` in the environment that is an error instead.
//!
//! A reader that cannot show something says so cell by cell (`unseen`), or is known to show NULL differently;
//! those few rules are in [`compare`](self) and nowhere else. Everything else must be equal, and each cell
//! must be seen by at least one reader. Inputs that a reader gets wrong by a defect of its own (a plain long-value
//! chunk whose first byte looks like a compression header) are to be avoided by the writer of the test.

mod compare;
mod expected;
mod run;

pub use compare::compare;
pub use expected::{ExpectedCell, ExpectedColumn, ExpectedDatabase, ExpectedRows, ExpectedTable};
pub use run::{ReadCell, ReadTable, Reader, Readers};
