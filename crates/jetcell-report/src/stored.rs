//! Reads a stored run (`result.json` and `samples.csv`) from a directory. The directory is not modified.

use std::io;
use std::path::{Path, PathBuf};

use jetcell_input::error_line;
use jetcell_vfs::read_input;
use jetcell_workload::measurement::{Sample, read_samples};
use jetcell_workload::result::{RunResult, SCHEMA_VERSION};
use serde::Deserialize;

/// Maximum size of a stored result in bytes. A result for a thousand databases has a few megabytes.
pub const MAX_RESULT_BYTES: u64 = 32 << 20;

/// Error returned when a stored run cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RunReadError {
    /// The directory does not contain a run.
    #[error("{}: failed to read the stored run: {error}", path.display())]
    Missing {
        /// The missing file.
        path: PathBuf,
        /// Error that the system returned.
        #[source]
        error: io::Error,
    },
    /// The result has an unsupported version.
    #[error("{}: schema version {found}, but this program reads only version \
     {SCHEMA_VERSION}", path.display())]
    Version {
        /// File that contains the result.
        path: PathBuf,
        /// Version in the file.
        found: u64,
    },
    /// The result is from a command that does not run the load.
    #[error("{} is the result of another command, not a run of jetcell test", path.display())]
    OtherCommand {
        /// File that contains the result.
        path: PathBuf,
    },
    /// The result is corrupt.
    #[error("{}: truncated or damaged: {what}", path.display())]
    Damaged {
        /// File that contains the result.
        path: PathBuf,
        /// Description of the damage.
        what: String,
    },
    /// The samples cannot be read.
    #[error("{}: {error}", path.display())]
    Samples {
        /// The file.
        path: PathBuf,
        /// Error that occurred while reading.
        #[source]
        error: io::Error,
    },
}

impl RunReadError {
    /// Returns what the user can do about the error. Advice on other system errors is derived from their error numbers.
    pub fn advice(&self) -> Option<&'static str> {
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        Some(match self {
            RunReadError::Missing { error, .. } if is_missing(error) => {
                "specify the directory that contains result.json"
            }
            RunReadError::Missing { .. } => return None,
            RunReadError::Version { .. } => "use the jetcell that wrote it",
            RunReadError::OtherCommand { .. } => "see its report.html and report.md",
            RunReadError::Damaged { .. } => "restore it from a copy",
            RunReadError::Samples { error, .. }
                if is_missing(error) || error.kind() == io::ErrorKind::InvalidData =>
            {
                "the samples are part of the run; restore them from a copy"
            }
            RunReadError::Samples { .. } => return None,
        })
    }
}

#[derive(Deserialize)]
struct ResultVersion {
    schema_version: Option<u64>,
    /// Version of a result that is not a run. Only results of disk, file system, and durability tests have this field.
    schema: Option<u64>,
}

/// A stored run with its samples.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    /// Content of `result.json`. If the run was killed, its figures are computed from the samples.
    pub result: RunResult,
    /// Content of `samples.csv`.
    pub samples: Vec<Sample>,
}

impl StoredRun {
    /// Reads the run in `directory`.
    pub fn read(directory: &Path) -> Result<StoredRun, RunReadError> {
        let path = directory.join("result.json");
        let damaged = |what: String| RunReadError::Damaged { path: path.clone(), what };
        let text = result_text(&path)?;
        // The version is checked first, because an error about a field from another version would be misleading.
        let version: ResultVersion =
            serde_json::from_str(&text).map_err(|error| damaged(error_line(&error)))?;
        match (version.schema_version, version.schema) {
            (Some(found), _) if found != u64::from(SCHEMA_VERSION) => {
                return Err(RunReadError::Version { path, found });
            }
            (None, Some(_)) => return Err(RunReadError::OtherCommand { path }),
            _ => {}
        }
        let mut result: RunResult =
            serde_json::from_str(&text).map_err(|error| damaged(error_line(&error)))?;
        let path = directory.join("samples.csv");
        let samples = read_samples(&path).map_err(|error| RunReadError::Samples { path, error })?;
        if result.measured_seconds == 0.0 {
            result.fill_from_samples(&samples);
        }
        Ok(StoredRun { result, samples })
    }
}

/// Reads a stored result's text.
pub(crate) fn result_text(path: &Path) -> Result<String, RunReadError> {
    read_input(path, MAX_RESULT_BYTES).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => {
            RunReadError::Damaged { path: path.to_path_buf(), what: error.to_string() }
        }
        _ => RunReadError::Missing { path: path.to_path_buf(), error },
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::example::{result, samples};
    use jetcell_workload::measurement::SampleFile;

    fn stored(result: &RunResult, count: usize) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        result.write(&dir.path().join("result.json")).unwrap();
        let mut file = SampleFile::create(&dir.path().join("samples.csv")).unwrap();
        samples(count).iter().for_each(|sample| file.add(sample).unwrap());
        dir
    }

    #[test]
    fn a_stored_run_round_trips() {
        let dir = stored(&result(), 3);
        assert_eq!(StoredRun::read(dir.path()).unwrap(), StoredRun { result: result(), samples: samples(3) });
    }

    #[test]
    fn figures_for_a_killed_run_come_from_samples() {
        let mut killed = result();
        killed.measured_seconds = 0.0;
        killed.achieved_transactional_iops = 0.0;
        let read = StoredRun::read(stored(&killed, 4).path()).unwrap().result;
        assert_eq!((read.measured_seconds, read.achieved_transactional_iops), (4.0, 100.0));
        assert_eq!(read.instances[0].database_reads_average_latency_ms, 2.0);
        assert_eq!(read.instances[0].maximum_log_write_ms, 2.0);
    }

    #[test]
    fn an_unreadable_run_gives_one_clear_line() {
        let dir = stored(&result(), 1);
        let path = dir.path().join("result.json");
        let whole = fs::read_to_string(&path).unwrap();
        let complaint = |content: &str| {
            fs::write(&path, content).unwrap();
            let line = StoredRun::read(dir.path()).unwrap_err().to_string();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
            assert!(!line.contains('\n') && line.contains("result.json"), "{line}");
            line
        };
        assert!(complaint(&whole[..whole.len() / 2]).contains("truncated"));
        assert!(complaint("").contains("truncated"));
        assert!(complaint("{}").contains("damaged: missing field"));
        assert!(complaint("{\"schema\": 1, \"steps\": []}").contains("the result of another command"));
        assert!(complaint("{\"schema_version\": 99}").contains("schema version 99"));
        assert!(
            complaint(&format!("{{\"schema_version\": {SCHEMA_VERSION}}}"))
                .contains("damaged: missing field")
        );
        fs::write(&path, &whole).unwrap();
        fs::remove_file(dir.path().join("samples.csv")).unwrap();
        let line = StoredRun::read(dir.path()).unwrap_err().to_string();
        assert!(line.contains("samples.csv") && !line.contains('\n'), "{line}");
        let line = StoredRun::read(&dir.path().join("nowhere")).unwrap_err().to_string();
        assert!(line.contains("failed to read the stored run"), "{line}");
    }

    #[test]
    fn only_a_missing_run_has_advice_of_its_own() {
        let error = |number| {
            let error = io::Error::from_raw_os_error(number);
            RunReadError::Missing { path: "a/result.json".into(), error }
        };
        assert!(error(2).advice().is_some(), "no such file");
        // The caller derives the advice about missing permissions from the error's source.
        let denied = error(13);
        assert_eq!(denied.advice(), None);
        let source = std::error::Error::source(&denied).and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.and_then(io::Error::raw_os_error), Some(13));
    }
}
