//! What could not be exported, and what is worth knowing about what was.

use std::fmt;

use ese_format::PageNumber;

/// One thing missing or odd.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Issue {
    /// Data is missing because of it; otherwise it is only worth knowing.
    pub missing: bool,
    /// The table, if it concerns one.
    pub table: Option<String>,
    /// The page, if it is one.
    pub page: Option<PageNumber>,
    /// What.
    pub what: String,
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(table) = &self.table {
            write!(f, "table {table}: ")?;
        }
        if let Some(page) = self.page {
            write!(f, "page {page}: ")?;
        }
        f.write_str(&self.what)
    }
}

/// Issues kept in full; beyond this they are only counted.
const KEPT: usize = 1000;

/// Collects issues, a bounded number of them in full.
#[derive(Default, Debug)]
pub struct Issues {
    kept: Vec<Issue>,
    dropped: u64,
    missing: bool,
    table: Option<String>,
}

impl Issues {
    /// Those kept, in order of finding.
    pub fn kept(&self) -> &[Issue] {
        &self.kept
    }

    /// How many more there were.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Is any data missing?
    pub fn any_missing(&self) -> bool {
        self.missing
    }

    /// Issues from here on are about this table.
    pub(crate) fn set_table(&mut self, table: Option<&str>) {
        self.table = table.map(str::to_owned);
    }

    pub(crate) fn missing(&mut self, page: Option<PageNumber>, what: impl fmt::Display) {
        self.push(true, page, what);
    }

    pub(crate) fn note(&mut self, page: Option<PageNumber>, what: impl fmt::Display) {
        self.push(false, page, what);
    }

    fn push(&mut self, missing: bool, page: Option<PageNumber>, what: impl fmt::Display) {
        self.missing |= missing;
        if self.kept.len() < KEPT {
            self.kept.push(Issue { missing, table: self.table.clone(), page, what: what.to_string() });
        } else {
            self.dropped += 1;
        }
    }
}
