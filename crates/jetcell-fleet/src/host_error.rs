//! Reasons why a fleet host has no result.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use jetcell_host::os_advice;
use jetcell_input::with_advice;
use jetcell_workload::RunError;
use jetcell_workload::profile::ConfigurationError;
use jetcell_workload::units::ByteSize;
use thiserror::Error;

use crate::message::display_text;

/// Reason why a host refuses its assignment.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum HostRefusal {
    #[error("{}", .0.iter().map(|error| with_advice(error, error.advice())).collect::<Vec<_>>().join("; "))]
    Options(Vec<ConfigurationError>),
    #[error("the options contain force, which this host does not allow")]
    Force,
    #[error("{}: fleet directories must be absolute paths", .0.display())]
    RelativePath(PathBuf),
    #[error("{}: {error}", .path.display())]
    Io {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    #[error("{} is not inside a directory that this host allows", .0.display())]
    Directory(PathBuf),
    #[error("the size is a percentage of the volume, but this host has --max-size")]
    PercentageSize,
    #[error("the databases need {needed} including growth, but this host allows only {max}")]
    Size { needed: ByteSize, max: ByteSize },
    #[error("{} was also used by another host", .0.display())]
    SharedDirectory(PathBuf),
    #[error("{} is also used by the host with rank {rank} ({})", .path.display(), display_text(.host))]
    SharedWith { path: PathBuf, rank: u32, host: String },
}

/// Reason why an accepted test has no result.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum HostTestError {
    #[error("the host has not accepted a test")]
    NotAccepted,
    #[error("the fleet was stopped before the test started")]
    StoppedBeforeStart,
    #[error("failed to start the I/O backend: {0}")]
    Backend(#[source] io::Error),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Result(#[from] serde_json::Error),
    #[error("the result is {bytes} bytes long, which exceeds the maximum")]
    LargeResult { bytes: usize },
}

impl HostRefusal {
    /// Returns what the user can do about the error, for example `use the full path`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            HostRefusal::Options(_) | HostRefusal::Io { .. } => return None,
            HostRefusal::Force => "start it with --allow-replace",
            HostRefusal::RelativePath(_) => "use the full path",
            HostRefusal::Directory(_) => "start it with --allow-dir",
            HostRefusal::PercentageSize => "specify a size in bytes",
            HostRefusal::Size { .. } => "raise its --max-size",
            HostRefusal::SharedDirectory(_) | HostRefusal::SharedWith { .. } => {
                "give each host its own directory"
            }
        }))
    }

    /// Returns the reason and the advice, for the coordinator.
    pub(crate) fn reason(&self) -> String {
        full_text(self, self.advice())
    }
}

impl HostTestError {
    /// Returns the reason and the advice, for the coordinator.
    pub(crate) fn reason(&self) -> String {
        let advice = match self {
            HostTestError::LargeResult { .. } => Some("it is stored on the host".into()),
            HostTestError::Run(error) => error.advice(),
            _ => None,
        };
        full_text(self, advice)
    }
}

/// Returns the problem with advice. Without `advice`, the advice on the underlying system error is used.
fn full_text(error: &(dyn std::error::Error + 'static), advice: Option<Cow<'static, str>>) -> String {
    with_advice(error, advice.or_else(|| os_advice(error).map(Cow::Borrowed)))
}
