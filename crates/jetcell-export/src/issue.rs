//! Issues found by an export: missing data and notes.

use std::fmt;

use ese_format::PageNumber;

/// An issue found during an export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportIssue {
    /// True if data is missing. Otherwise the issue is only a note.
    pub missing: bool,
    /// Table to which the issue applies, if known.
    pub table: Option<String>,
    /// Page to which the issue applies, if known.
    pub page: Option<PageNumber>,
    /// Description of the issue.
    pub message: String,
}

impl fmt::Display for ExportIssue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(table) = &self.table {
            write!(f, "table {table}: ")?;
        }
        if let Some(page) = self.page {
            write!(f, "page {page}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// Maximum number of issues to store. Any further issues are only counted.
const MAX_STORED: usize = 1000;

/// The issues found during an export. Only a limited number of them is stored.
#[derive(Default, Debug)]
pub struct ExportIssues {
    stored: Vec<ExportIssue>,
    dropped: u64,
    missing: u64,
    last_missing: Option<ExportIssue>,
    table: Option<String>,
}

impl ExportIssues {
    /// Returns the stored issues in order.
    pub fn stored(&self) -> &[ExportIssue] {
        &self.stored
    }

    /// Returns the number of issues that were not stored.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns true if any data is missing.
    pub fn has_missing(&self) -> bool {
        self.missing > 0
    }

    /// Returns the last missing-data issue, even if it was not stored.
    pub fn last_missing(&self) -> Option<&ExportIssue> {
        self.last_missing.as_ref()
    }

    /// Returns the number of missing-data issues.
    pub(crate) fn missing_count(&self) -> u64 {
        self.missing
    }

    /// Sets the table for subsequent issues.
    pub fn set_table(&mut self, table: Option<&str>) {
        self.table = table.map(str::to_owned);
    }

    pub(crate) fn add_missing(&mut self, page: Option<PageNumber>, what: impl fmt::Display) {
        self.push(true, page, what);
    }

    pub(crate) fn add_note(&mut self, page: Option<PageNumber>, what: impl fmt::Display) {
        self.push(false, page, what);
    }

    fn push(&mut self, missing: bool, page: Option<PageNumber>, what: impl fmt::Display) {
        let issue = ExportIssue { missing, table: self.table.clone(), page, message: what.to_string() };
        if missing {
            self.missing += 1;
            self.last_missing = Some(issue.clone());
        }
        if self.stored.len() < MAX_STORED {
            self.stored.push(issue);
        } else {
            self.dropped += 1;
        }
    }
}
