//! Compares drives for a buyer: drive tests, the mail load on each drive, prices, and energy, in one summary.
//!
//! A [`DriveList`] contains the paths of the results and the drives' costs. A [`DriveSummary`] contains each drive's
//! advantage over the first.

mod claims;
mod drive;
mod drive_list;
mod rows;
mod summary;

pub use claims::{CheckedPercentage, PercentageFinding};
pub use drive::{ComparedDrive, DifferenceFromFirst};
pub use drive_list::{
    DriveEntry, DriveList, DriveListError, DriveListMistake, MailLoad, MeasuredQuantity, PowerSource,
    PrintedPercentage, StatedAdvantage,
};
pub use rows::{DriveRow, RunFigures, run_rows, test_rows};
pub use summary::{DriveSummary, SCHEMA};
