//! What a copy knows about the equality of its pages with those of the active side: `checks.json`.
//!
//! The scan of the active side logs the state of each page, and the replay compares. A divergence stays in the file until the page is
//! found equal, or was repaired.

use std::path::Path;

use ese_engine::{Comparison, DivergenceKind, PageComparison};
use ese_format::{PageNumber, Signature};
use jetcell_backup::text_file;
use jetcell_vfs::Vfs;
use serde::{Deserialize, Serialize};

use crate::checked_pages::CheckedPages;
use crate::error::Result;

/// The file.
pub const CHECKS_FILE: &str = "checks.json";
/// Maximum number of pages that are named in the file, for each database.
const NAMED: usize = 1000;
/// Maximum length of the file: the runs of compared pages of large databases.
const MAX_BYTES: u64 = 64 << 20;

/// The checks of all databases of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageChecks {
    /// One for each database that was compared.
    pub databases: Vec<CheckedDatabase>,
}

/// The checks of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckedDatabase {
    /// Identity of the database, in hexadecimal digits.
    pub signature: String,
    /// Pages that were found equal.
    pub equal: CheckedPages,
    /// Pages that differ.
    pub divergences: Vec<Divergence>,
    /// Pages that were repaired, and when, in milliseconds since 1970 UTC.
    pub repaired: Vec<(u32, i64)>,
}

/// A page that differs from that of the active side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Divergence {
    /// The page.
    pub page: u32,
    /// How it differs, in a word.
    pub kind: String,
    /// What that means.
    pub what: String,
    /// The generation with the record.
    pub generation: u32,
    /// The active side has lost a write of the page.
    pub active_is_behind: bool,
    /// It can be repaired: one side is known to be right.
    pub repairable: bool,
}

impl PageChecks {
    /// Reads the checks of a copy; none if there were none, or the file is damaged: the next scan of the active side begins again.
    pub fn read(vfs: &dyn Vfs, directory: &Path) -> Result<PageChecks> {
        let text = text_file::read_at_most(vfs, &directory.join(CHECKS_FILE), MAX_BYTES)?.unwrap_or_default();
        let mut checks: PageChecks = serde_json::from_str(&text).unwrap_or_default();
        checks.databases.retain(|database| {
            let named = database.divergences.len().max(database.repaired.len());
            database.equal.is_possible() && named <= NAMED
        });
        Ok(checks)
    }

    pub(crate) fn store(&self, vfs: &dyn Vfs, directory: &Path) -> Result<()> {
        let text = jetcell_input::json_line(self).unwrap_or_default();
        Ok(text_file::write(vfs, &directory.join(CHECKS_FILE), &format!("{text}\n"))?)
    }

    /// The checks of a database, if there were any.
    pub fn of(&self, signature: &str) -> Option<&CheckedDatabase> {
        self.databases.iter().find(|database| database.signature == signature)
    }

    fn database(&mut self, signature: Signature) -> &mut CheckedDatabase {
        let signature = signature.to_hex();
        let at = self.databases.iter().position(|database| database.signature == signature);
        let at = at.unwrap_or_else(|| {
            self.databases.push(CheckedDatabase { signature, ..CheckedDatabase::default() });
            self.databases.len() - 1
        });
        &mut self.databases[at]
    }

    /// Notes a comparison with the state of the active side at a time.
    pub(crate) fn note(&mut self, one: &PageComparison, at_unix_ms: i64) {
        let (page, generation) = (one.page.get(), one.position.generation.0);
        let database = self.database(one.database);
        let divergence = match &one.comparison {
            Comparison::Newer => return,
            Comparison::Equal => {
                database.equal.note(page, at_unix_ms);
                database.divergences.retain(|known| known.page != page);
                return;
            }
            Comparison::Differs(kind) => Divergence {
                page,
                kind: kind.name().to_string(),
                what: kind.meaning().to_string(),
                generation,
                active_is_behind: kind.active_is_behind(),
                repairable: *kind != DivergenceKind::Content,
            },
            Comparison::Unreadable(what) => Divergence {
                page,
                kind: "copy_unreadable".to_string(),
                what: what.clone(),
                generation,
                active_is_behind: false,
                repairable: true,
            },
        };
        database.divergences.retain(|known| known.page != page);
        if database.divergences.len() < NAMED {
            database.divergences.push(divergence);
        }
    }

    /// A page of the copy was repaired.
    pub(crate) fn repaired(&mut self, signature: Signature, page: PageNumber, now_unix_ms: i64) {
        let repaired = &mut self.database(signature).repaired;
        repaired.retain(|(known, _)| *known != page.get());
        repaired.push((page.get(), now_unix_ms));
        let surplus = repaired.len().saturating_sub(NAMED);
        repaired.drain(..surplus);
    }

    /// Whether a page was repaired since a time.
    pub(crate) fn was_repaired(&self, signature: &str, page: u32, since_unix_ms: i64) -> bool {
        let repaired = self.of(signature).into_iter().flat_map(|database| &database.repaired);
        repaired.clone().any(|(known, at)| *known == page && *at >= since_unix_ms)
    }
}
