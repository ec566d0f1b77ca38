//! What a check reports: findings, collected and never thrown.

use std::path::{Path, PathBuf};

use ese_format::PageNumber;
use serde::{Serialize, Serializer};

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A state worth knowing; not damage.
    Info,
    /// Unusual, or explained by a database that was not shut down cleanly.
    Warning,
    /// Damage.
    Error,
}

/// One observation, with its place as exactly as it is known.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The file.
    pub file: PathBuf,
    /// Where in the file, in bytes.
    pub offset: Option<u64>,
    /// Which page of a database. ESE: `pgno`.
    #[serde(serialize_with = "page_as_number")]
    pub page: Option<PageNumber>,
    /// Which tree, such as `Messages`, `Messages / index ByDate` or `Messages / long values / available extents`.
    pub tree: Option<String>,
    /// What is wrong, with the values seen and the values expected.
    pub what: String,
}

fn page_as_number<S: Serializer>(page: &Option<PageNumber>, serializer: S) -> Result<S::Ok, S::Error> {
    page.map(PageNumber::get).serialize(serializer)
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let severity = match self.severity {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{severity}: {}", self.file.display())?;
        if let Some(page) = self.page {
            write!(f, ", page {page}")?;
        }
        if let Some(offset) = self.offset {
            write!(f, ", offset {offset:#x}")?;
        }
        if let Some(tree) = &self.tree {
            write!(f, ", {tree}")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// Findings kept in full; a wrecked file may have millions, and more than this tell nothing new.
const KEPT: usize = 10_000;

/// Collects findings about one file, or several in turn.
#[derive(Debug)]
pub(crate) struct Findings {
    file: PathBuf,
    /// Damage in a database that was not shut down cleanly may be what recovery repairs: report it as warnings.
    pub(crate) lenient: bool,
    kept: Vec<Finding>,
    /// Findings beyond [`KEPT`], by severity.
    dropped: [u64; 3],
}

impl Findings {
    pub(crate) fn new(file: &Path) -> Findings {
        Findings { file: file.to_owned(), lenient: false, kept: Vec::new(), dropped: [0; 3] }
    }

    /// Findings from here on are about this file.
    pub(crate) fn set_file(&mut self, file: &Path) {
        self.file = file.to_owned();
    }

    pub(crate) fn push(
        &mut self,
        severity: Severity,
        offset: Option<u64>,
        page: Option<PageNumber>,
        tree: Option<&str>,
        what: String,
    ) {
        if self.kept.len() >= KEPT {
            self.dropped[severity as usize] += 1;
            return;
        }
        let tree = tree.map(str::to_owned);
        self.kept.push(Finding { severity, file: self.file.clone(), offset, page, tree, what });
    }

    /// Damage to structure: an error, or a warning while the database awaits recovery.
    pub(crate) fn structure(&mut self, page: impl Into<Option<PageNumber>>, tree: &str, what: String) {
        let severity = if self.lenient { Severity::Warning } else { Severity::Error };
        self.push(severity, None, page.into(), Some(tree), what);
    }

    pub(crate) fn info(&mut self, page: impl Into<Option<PageNumber>>, tree: &str, what: String) {
        self.push(Severity::Info, None, page.into(), Some(tree), what);
    }

    /// All findings, those about the file as a whole first, then by page.
    pub(crate) fn finish(mut self) -> Vec<Finding> {
        self.kept.sort_by_key(|finding| (finding.page, finding.offset));
        for severity in [Severity::Error, Severity::Warning, Severity::Info] {
            let count = self.dropped[severity as usize];
            if count > 0 {
                let what = format!("{count} further findings of this severity are not listed");
                self.kept.push(Finding {
                    severity,
                    file: self.file.clone(),
                    offset: None,
                    page: None,
                    tree: None,
                    what,
                });
            }
        }
        self.kept
    }
}
