//! Sources of published results: a run's directory, or a file with published reports.

use std::path::{Path, PathBuf};

use jetcell_input::error_line;
use serde::Deserialize;

use crate::esrp::configuration::PublishedClaims;
use crate::esrp::jetcell_run;
use crate::esrp::published_report::{PublishedReport, SCHEMA};
use crate::esrp::tested_server::ServerTest;
use crate::stored::{RunReadError, StoredRun, result_text};
use jetcell_workload::TestKind;

/// Error returned when results cannot be included in an ESRP document.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The run cannot be read.
    #[error(transparent)]
    Unreadable(#[from] RunReadError),
    /// The file is neither a run nor a published report.
    #[error("{} is neither the result.json file of a run nor a set of published reports in layout \
     {SCHEMA}", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// The run is of a test kind that ESRP does not include.
    #[error("{} is a run of the test {found:?}, which an ESRP document does not include", path.display())]
    UnsupportedTest {
        /// The file.
        path: PathBuf,
        /// The run's test kind.
        found: String,
    },
}

impl SourceError {
    /// Returns what the user can do about the error.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            SourceError::Unreadable(error) => return error.advice(),
            SourceError::UnknownFormat { .. } => "specify the directory of a run",
            SourceError::UnsupportedTest { .. } => "use runs of performance, stress, backup and recovery",
        })
    }
}

/// Results that one command-line argument contributes to an ESRP document.
#[derive(Debug)]
pub struct ResultSource {
    pub(super) path: PathBuf,
    pub(super) tests: Vec<ServerTest>,
    pub(super) claims: PublishedClaims,
}

/// Fields that identify a file's format.
#[derive(Deserialize)]
struct FileFormat {
    #[serde(default)]
    schema: Option<String>,
    #[serde(default)]
    schema_version: Option<u64>,
    /// Test kind. Results without this field are performance tests.
    #[serde(default)]
    test: Option<String>,
}

impl ResultSource {
    /// Reads the run in a directory, or the published reports in a file.
    pub fn read(path: &Path) -> Result<ResultSource, SourceError> {
        let file = if path.is_dir() { path.join("result.json") } else { path.to_path_buf() };
        let text = result_text(&file)?;
        let damaged =
            |error: serde_json::Error| RunReadError::Damaged { path: file.clone(), what: error_line(&error) };
        let kind: FileFormat = serde_json::from_str(&text).map_err(damaged)?;
        let source = path.display().to_string();
        if kind.schema.as_deref() == Some(SCHEMA) {
            let report: PublishedReport = serde_json::from_str(&text).map_err(damaged)?;
            let (tests, claims) = report.into_parts(&source);
            return Ok(ResultSource { path: file, tests, claims });
        }
        if kind.schema_version.is_none() {
            return Err(SourceError::UnknownFormat { path: file });
        }
        let name = kind.test.as_deref().unwrap_or(TestKind::Performance.name());
        let Some(test) = TestKind::ALL.into_iter().find(|kind| kind.name() == name) else {
            return Err(SourceError::UnsupportedTest { path: file, found: name.into() });
        };
        let directory =
            file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let stored = StoredRun::read(directory)?;
        let tests = vec![jetcell_run::publish_run(&stored, test, source)];
        Ok(ResultSource { path: file, tests, claims: PublishedClaims::default() })
    }
}
