//! The comparison of drives that a buyer makes: tests of each drive, the mail load on it, its price and its energy, in one
//! summary.
//!
//! A [`DriveList`] says where the results are and what they cost; [`Summary`] has the advantage of each drive over the first.

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
