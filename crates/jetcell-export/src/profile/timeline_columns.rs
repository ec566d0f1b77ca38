//! Declarations for time lines: the meaning of an application's times, and the columns that describe a row.

/// A profile's declarations about times and about the rows that contain them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimelineColumns {
    /// Meaning of the times in a column, by the name of the column.
    pub(crate) meanings: &'static [(&'static str, &'static str)],
    /// Columns that describe a row, the most important first. If there are none, the first text columns are used.
    pub(crate) descriptions: &'static [&'static str],
}
