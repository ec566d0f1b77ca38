//! What errors of libraries tell the user in addition to the problem.

use std::borrow::Cow;

use ese_engine::AttachmentErrorKind;
use jetcell_backup::BackupError;
use jetcell_copies::CopyError;

use crate::outcome::Advise;
use crate::remedy::remedy;

impl Advise for ese_engine::Error {
    fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            ese_engine::Error::LogsMissing { .. } => "restore them, or use an older copy of the database",
            ese_engine::Error::LogMissing { .. } | ese_engine::Error::CommittedLogsMissing { .. } => {
                "restore it, or, if the databases do not need it, use --allow-loss to accept the loss"
            }
            ese_engine::Error::Attachment { fault: AttachmentErrorKind::Missing, .. } => {
                "use --map OLD=NEW to specify the location of a database"
            }
            error => return error.advice(),
        }))
    }

    fn jet_code(&self) -> Option<(i32, &'static str)> {
        Some((self.jet_code(), self.jet_name()))
    }
}

impl Advise for BackupError {
    fn advice(&self) -> Option<Cow<'static, str>> {
        match self {
            BackupError::Engine(error) => Advise::advice(error),
            error => error.advice(),
        }
    }

    fn jet_code(&self) -> Option<(i32, &'static str)> {
        self.jet_error()
    }
}

impl Advise for CopyError {
    fn advice(&self) -> Option<Cow<'static, str>> {
        match self {
            CopyError::Engine(error) => Advise::advice(error),
            CopyError::Backup(error) => Advise::advice(error),
            error => error.advice(),
        }
    }

    fn jet_code(&self) -> Option<(i32, &'static str)> {
        match self {
            CopyError::Engine(error) => Advise::jet_code(error),
            CopyError::Backup(error) => Advise::jet_code(error),
            _ => None,
        }
    }
}

#[cfg(feature = "arrays")]
impl Advise for jetcell_array::ArrayError {
    fn advice(&self) -> Option<Cow<'static, str>> {
        self.advice()
    }
}

/// Implements [`Advise`] for errors whose text contains the advice.
macro_rules! advised_by_text {
    ($($error:ty),*) => {
        $(impl Advise for $error {
            fn advice(&self) -> Option<Cow<'static, str>> {
                remedy(&self.to_string()).map(Cow::Borrowed)
            }
        })*
    };
}

advised_by_text!(
    jetcell_dump::DumpError,
    jetcell_export::ExportError,
    jetcell_report::RunReadError,
    jetcell_workload::RunError,
    jetcell_workload::ConfigurationError
);
