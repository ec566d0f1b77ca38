//! Comparison of drives for a buyer: tests of each drive, the mail load on it, its price, and its energy, in one
//! summary.
//!
//! A [`DriveList`] contains the paths of the results and the costs of the drives. [`Summary`] has the advantage of
//! each drive over the first.

mod claims;
mod drive;
mod drive_list;
mod rows;
mod summary;

pub use claims::{Claim, Finding};
pub use drive::{Drive, Relation};
pub use drive_list::{
    Advantage, DriveEntry, DriveList, DriveListError, MailLoad, Measured, PowerSource, PrintedClaim,
};
pub use rows::{Row, RunFigures, rows_of_runs, rows_of_tests};
pub use summary::{SCHEMA, Summary};
