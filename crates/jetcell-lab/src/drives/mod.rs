//! Compares drives for a buyer: drive tests, the mail load on each drive, prices, and energy, in one summary.
//!
//! A [`DriveList`] contains the paths of the results and the drives' costs. A [`Summary`] contains each drive's
//! advantage over the first.

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
