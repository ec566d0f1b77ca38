//! One finding of a check: its severity, its place, and its text.

use std::path::{Path, PathBuf};

use ese_format::PageNumber;
use serde::{Serialize, Serializer};

pub use crate::finding_kind::FindingKind;
use crate::tree_label::table_of;

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A state, not damage.
    Info,
    /// Unusual, or explained by a database that was not shut down cleanly.
    Warning,
    /// Damage.
    Error,
}

/// One observation, with its place as exactly as it is known.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// The file.
    #[serde(rename = "path")]
    pub file: PathBuf,
    /// The kind of the finding.
    pub kind: FindingKind,
    /// How bad it is.
    pub severity: Severity,
    /// Which page of a database. ESE: `pgno`.
    #[serde(serialize_with = "page_number")]
    pub page: Option<PageNumber>,
    /// Where in the file, in bytes.
    pub offset: Option<u64>,
    /// Which tree, such as `Messages`, `Messages / index ByDate` or `Messages / long values / available extents`.
    pub tree: Option<String>,
    /// The table that tree belongs to.
    pub table: Option<String>,
    /// What is wrong, with the values seen and the values expected.
    #[serde(rename = "message")]
    pub what: String,
    /// What it means for the data.
    pub meaning: String,
}

impl std::fmt::Display for Severity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.severity, self.file.display())?;
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

impl Finding {
    /// A finding about a file as a whole.
    pub fn of_file(file: &Path, kind: FindingKind, severity: Severity, what: String) -> Finding {
        let meaning = kind.meaning(None);
        Finding {
            file: file.to_owned(),
            kind,
            severity,
            page: None,
            offset: None,
            tree: None,
            table: None,
            what,
            meaning,
        }
    }

    /// The finding with its tree.
    pub(crate) fn about(mut self, tree: &str) -> Finding {
        self.table = table_of(tree).map(str::to_owned);
        self.meaning = self.kind.meaning(Some(tree));
        self.tree = Some(tree.to_owned());
        self
    }
}

/// Receives each finding as soon as it is complete.
pub type FindingFn = dyn Fn(&Finding) + Send + Sync;

/// How many findings there were of each severity.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct FindingCounts {
    /// Damage.
    pub errors: u64,
    /// Unusual, or repaired by recovery.
    pub warnings: u64,
    /// States.
    pub infos: u64,
}

/// Serializes a page number as a plain number, or as null.
pub(crate) fn page_number<S: Serializer>(
    page: &Option<PageNumber>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    page.map(PageNumber::get).serialize(serializer)
}

/// Bytes for the text of a finding, shortened after 40 bytes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().take(40).map(|byte| format!("{byte:02x}")).collect();
    if bytes.len() > 40 { format!("{digits}... {} bytes", bytes.len()) } else { digits }
}
