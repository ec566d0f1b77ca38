//! Coverage and age of page comparisons between a copy and the active side.

use std::path::Path;

use jetcell_copies::{CopyState, DatabasePageChecks, PageChecks};
use jetcell_vfs::Vfs;
use serde_json::{Value, json};

use super::seconds_since;

/// Page comparison state for one database.
pub struct PageComparisonState {
    file: String,
    /// Number of pages in the file.
    pages: u32,
    /// Number of pages that were found to be identical to those of the active side.
    compared: u32,
    /// Time of the least recent comparison of these pages.
    oldest_unix_ms: Option<i64>,
    known: DatabasePageChecks,
}

/// Returns the state of the page comparison for each database of a copy.
pub fn page_checks(vfs: &dyn Vfs, directory: &Path, state: &CopyState) -> Vec<PageComparisonState> {
    let checks = PageChecks::read(vfs, directory).unwrap_or_default();
    let pages = |file: &str| jetcell_copies::database_pages(vfs, &directory.join(file)).unwrap_or(0);
    let databases = state.databases.iter().map(|database| {
        let known = checks.find_database(&database.signature).cloned().unwrap_or_default();
        let pages = pages(&database.file);
        let (compared, oldest_unix_ms) = known.equal.compared_among(pages);
        PageComparisonState { file: database.file.clone(), pages, compared, oldest_unix_ms, known }
    });
    databases.collect()
}

impl PageComparisonState {
    /// Returns the number of seconds since the least recent page comparison, or `None` if some page has never been
    /// compared.
    fn age_seconds(&self) -> Option<u64> {
        self.oldest_unix_ms.filter(|_| self.compared == self.pages).map(seconds_since)
    }

    /// Returns the state as JSON.
    pub fn json(&self) -> Value {
        let divergences: Vec<_> = self.known.divergences.iter().collect();
        json!({
            "file": self.file, "pages": self.pages, "compared": self.compared,
            "oldest_unix_ms": self.oldest_unix_ms, "age_seconds": self.age_seconds(),
            "divergences": divergences, "repaired": self.known.repaired.len(),
        })
    }

    /// Returns the state as lines of text.
    pub fn lines(&self) -> Vec<String> {
        let proof = match (self.oldest_unix_ms, self.pages - self.compared) {
            (None, _) => "no pages were compared with the active side".to_string(),
            (Some(oldest), 0) => {
                format!(
                    "all pages match the active side, the oldest comparison {} s ago",
                    seconds_since(oldest)
                )
            }
            (Some(oldest), missing) => format!(
                "{} pages match the active side, the oldest comparison {} s ago; {missing} were not compared",
                self.compared,
                seconds_since(oldest)
            ),
        };
        let mut lines = vec![format!("  database: {}; {proof}", self.file)];
        let repaired = self.known.repaired.len();
        if repaired > 0 {
            lines.push(format!("    {repaired} pages were repaired"));
        }
        lines.extend(self.known.divergences.iter().map(|divergence| {
            let (page, generation) = (divergence.page, divergence.generation);
            format!("    page {page} differs (generation {generation:X}): {}", divergence.what)
        }));
        lines
    }
}
