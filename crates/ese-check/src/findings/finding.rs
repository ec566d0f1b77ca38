//! A single finding: its severity, location, and text.

use std::path::{Path, PathBuf};

use ese_format::PageNumber;
use serde::{Serialize, Serializer};

pub use crate::findings::finding_kind::FindingKind;
use crate::findings::tree_label::table_name;

/// Severity of a finding: information, warning, or error.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The finding describes a state, not damage.
    Info,
    /// The finding reports something unusual, or something that may only be due to an unclean shutdown.
    Warning,
    /// The finding reports actual damage.
    Error,
}

/// A problem or other observation about a checked file, located as precisely as possible.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// Path of the file.
    #[serde(rename = "path")]
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub file: PathBuf,
    /// Kind of the finding.
    pub kind: FindingKind,
    /// Severity of the finding.
    pub severity: Severity,
    /// Page number in a database. ESE: `pgno`.
    #[serde(serialize_with = "page_number")]
    pub page: Option<PageNumber>,
    /// Offset in the file in bytes.
    pub offset: Option<u64>,
    /// Name of the tree.
    ///
    /// Examples: `Messages`, `Messages / index ByDate`, `Messages / long values / available extents`.
    pub tree: Option<String>,
    /// Table to which the tree belongs.
    pub table: Option<String>,
    /// Description of the problem, with the actual and the expected values.
    #[serde(rename = "message")]
    pub message: String,
    /// Consequence of the problem for the data.
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
        write!(f, ": {}", self.message)
    }
}

impl Finding {
    /// Creates a finding about a whole file.
    pub fn for_file(file: &Path, kind: FindingKind, severity: Severity, what: String) -> Finding {
        let meaning = kind.meaning(None);
        Finding {
            file: file.to_owned(),
            kind,
            severity,
            page: None,
            offset: None,
            tree: None,
            table: None,
            message: what,
            meaning,
        }
    }

    /// Sets the tree to which the finding applies.
    pub(crate) fn with_tree(mut self, tree: &str) -> Finding {
        self.table = table_name(tree).map(str::to_owned);
        self.meaning = self.kind.meaning(Some(tree));
        self.tree = Some(tree.to_owned());
        self
    }
}

/// Callback that receives each finding as soon as it is complete.
pub type FindingFn = dyn Fn(&Finding) + Send + Sync;

/// Counts of findings by severity.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct FindingCounts {
    /// Number of findings that report damage.
    pub errors: u64,
    /// Number of findings that report something unusual or something that recovery would repair.
    pub warnings: u64,
    /// Number of findings that describe a state.
    pub infos: u64,
}

/// Serializes a page number as a plain number, or as null if there is none.
pub(crate) fn page_number<S: Serializer>(
    page: &Option<PageNumber>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    page.map(PageNumber::get).serialize(serializer)
}

/// Formats bytes for the text of a finding. Shortens anything longer than 40 bytes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().take(40).map(|byte| format!("{byte:02x}")).collect();
    if bytes.len() > 40 { format!("{digits}... {} bytes", bytes.len()) } else { digits }
}
