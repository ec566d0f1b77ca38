//! The file `checks.json`: the results of comparing a copy's pages with those of its active side.
//!
//! The active side's scan logs the state of each page, and the replay compares it with the copy's page. A divergence
//! stays in the file until the page is found to be equal or has been repaired.

use std::path::Path;

use ese_engine::{ComparisonResult, DivergenceKind, PageComparison};
use ese_format::{PageNumber, Signature};
use jetcell_backup::text_file;
use jetcell_vfs::Vfs;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::compared_page_runs::ComparedPageRuns;
use crate::error::Result;

/// Name of the file with the results.
pub const CHECKS_FILE: &str = "checks.json";
/// Maximum number of pages that the file lists per database.
const MAX_LISTED_PAGES: usize = 1000;
/// Maximum file length in bytes. It is sufficient for the ranges of compared pages in large databases.
const MAX_BYTES: u64 = 64 << 20;

/// Page comparison results for all databases in a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageChecks {
    /// Results for each database that was compared.
    pub databases: Vec<DatabasePageChecks>,
}

/// Page comparison results for one database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabasePageChecks {
    /// Signature of the database, in hexadecimal digits.
    pub signature: String,
    /// Pages that were found equal.
    pub equal: ComparedPageRuns,
    /// Pages that differ.
    pub divergences: Vec<Divergence>,
    /// Pages that were repaired, and the times of the repairs in milliseconds since 1970 UTC.
    pub repaired: Vec<(u32, i64)>,
}

/// A page of a copy that differs from the active side's page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Divergence {
    /// Page number.
    pub page: u32,
    /// Kind of difference.
    pub kind: ListedDifference,
    /// Description of the difference.
    pub what: String,
    /// Generation that contains the comparison record.
    pub generation: u32,
    /// True if the active side has lost a write to the page.
    pub active_is_behind: bool,
    /// True if the page can be repaired because one side is known to be correct.
    pub repairable: bool,
}

/// Kind of a listed difference. Serialized as [`DivergenceKind::name`], or as `copy_unreadable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedDifference {
    /// The two sides' versions of the page differ.
    Differs(DivergenceKind),
    /// The copy's page could not be read, so it was not compared.
    CopyUnreadable,
}

impl ListedDifference {
    /// Returns the name in `checks.json` and in JSON output.
    pub fn name(self) -> &'static str {
        match self {
            ListedDifference::Differs(kind) => kind.name(),
            ListedDifference::CopyUnreadable => "copy_unreadable",
        }
    }
}

impl Serialize for ListedDifference {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for ListedDifference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<ListedDifference, D::Error> {
        let name = String::deserialize(deserializer)?;
        let differs = DivergenceKind::ALL.into_iter().map(ListedDifference::Differs);
        differs
            .chain([ListedDifference::CopyUnreadable])
            .find(|known| known.name() == name)
            .ok_or_else(|| D::Error::custom("unknown kind of difference"))
    }
}

impl PageChecks {
    /// Reads a copy's results. Returns empty results if the file does not exist or is damaged; the next scan of the
    /// active side then starts from the beginning.
    pub fn read(vfs: &dyn Vfs, directory: &Path) -> Result<PageChecks> {
        let text = text_file::read_at_most(vfs, &directory.join(CHECKS_FILE), MAX_BYTES)?.unwrap_or_default();
        let mut checks: PageChecks = serde_json::from_str(&text).unwrap_or_default();
        checks.databases.retain(|database| {
            let named = database.divergences.len().max(database.repaired.len());
            database.equal.is_valid() && named <= MAX_LISTED_PAGES
        });
        Ok(checks)
    }

    pub(crate) fn store(&self, vfs: &dyn Vfs, directory: &Path) -> Result<()> {
        Ok(text_file::write_json_line(vfs, &directory.join(CHECKS_FILE), self)?)
    }

    /// Returns the results for a database, if it was compared.
    pub fn find_database(&self, signature: &str) -> Option<&DatabasePageChecks> {
        self.databases.iter().find(|database| database.signature == signature)
    }

    fn database(&mut self, signature: Signature) -> &mut DatabasePageChecks {
        let signature = signature.to_hex();
        let at = self.databases.iter().position(|database| database.signature == signature);
        let at = at.unwrap_or_else(|| {
            self.databases.push(DatabasePageChecks { signature, ..DatabasePageChecks::default() });
            self.databases.len() - 1
        });
        &mut self.databases[at]
    }

    /// Records the result of comparing a page with the active side's page, as of the given time.
    pub(crate) fn record(&mut self, one: &PageComparison, at_unix_ms: i64) {
        let (page, generation) = (one.page.get(), one.position.generation.0);
        let database = self.database(one.database);
        let divergence = match &one.comparison {
            ComparisonResult::Newer => return,
            ComparisonResult::Equal => {
                database.equal.record(page, at_unix_ms);
                database.divergences.retain(|known| known.page != page);
                return;
            }
            ComparisonResult::Differs(kind) => Divergence {
                page,
                kind: ListedDifference::Differs(*kind),
                what: kind.meaning().to_string(),
                generation,
                active_is_behind: kind.active_is_behind(),
                repairable: *kind != DivergenceKind::Content,
            },
            ComparisonResult::Unreadable(what) => Divergence {
                page,
                kind: ListedDifference::CopyUnreadable,
                what: what.clone(),
                generation,
                active_is_behind: false,
                repairable: true,
            },
        };
        database.divergences.retain(|known| known.page != page);
        if database.divergences.len() < MAX_LISTED_PAGES {
            database.divergences.push(divergence);
        }
    }

    /// Records that a page of the copy was repaired.
    pub(crate) fn record_repair(&mut self, signature: Signature, page: PageNumber, now_unix_ms: i64) {
        let repaired = &mut self.database(signature).repaired;
        repaired.retain(|(known, _)| *known != page.get());
        repaired.push((page.get(), now_unix_ms));
        let surplus = repaired.len().saturating_sub(MAX_LISTED_PAGES);
        repaired.drain(..surplus);
    }

    /// Returns true if the page was repaired since the given time.
    pub(crate) fn was_repaired(&self, signature: &str, page: u32, since_unix_ms: i64) -> bool {
        let repaired = self.find_database(signature).into_iter().flat_map(|database| &database.repaired);
        repaired.clone().any(|(known, at)| *known == page && *at >= since_unix_ms)
    }
}

#[cfg(test)]
#[path = "page_checks_tests.rs"]
mod tests;
