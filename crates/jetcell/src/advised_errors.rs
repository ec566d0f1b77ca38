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

/// Implements [`Advise`] for errors that have a method `advice`.
macro_rules! advised {
    ($($(#[$attribute:meta])* $error:ty),* $(,)?) => {
        $($(#[$attribute])* impl Advise for $error {
            fn advice(&self) -> Option<Cow<'static, str>> {
                self.advice()
            }
        })*
    };
}

advised!(
    jetcell_dump::DumpError,
    jetcell_input::OptionValueError,
    jetcell_input::toml::TomlError,
    jetcell_power::PowerError,
    jetcell_workload::RunError,
    #[cfg(feature = "fleet")]
    jetcell_fleet::RankError,
    #[cfg(feature = "fleet")]
    jetcell_fleet::ResumeError,
    #[cfg(feature = "fleet")]
    jetcell_fleet::bus::BusError,
    #[cfg(feature = "fleet")]
    jetcell_fleet::nats_server::NatsServerError,
    #[cfg(feature = "lab")]
    jetcell_lab::EraseError,
    #[cfg(feature = "lab")]
    jetcell_lab::drive::DriveTestError,
    #[cfg(feature = "lab")]
    jetcell_lab::drive::TargetError,
    #[cfg(feature = "lab")]
    jetcell_lab::drives::DriveListError,
    #[cfg(feature = "lab")]
    jetcell_durability::JournalError,
    #[cfg(feature = "lab")]
    jetcell_lab::filesystems::SpecificationError,
    #[cfg(feature = "arrays")]
    jetcell_array::ArrayError,
    #[cfg(feature = "arrays")]
    jetcell_disk_simulation::InvalidConfig,
    #[cfg(any(feature = "arrays", feature = "sizing"))]
    jetcell_raid_models::Error,
    #[cfg(feature = "sizing")]
    jetcell_sizing::SizingError,
);

#[cfg(feature = "lab")]
mod lab {
    use crate::outcome::Advise;

    impl Advise for jetcell_lab::SystemError {}
    impl Advise for jetcell_durability::WriteError {}
    impl Advise for jetcell_lab::filesystems::MakeError {}
}

/// Implements [`Advise`] for errors whose text contains the advice.
macro_rules! advised_by_text {
    ($($error:ty),* $(,)?) => {
        $(impl Advise for $error {
            fn advice(&self) -> Option<Cow<'static, str>> {
                remedy(&self.to_string()).map(Cow::Borrowed)
            }
        })*
    };
}

advised_by_text!(
    jetcell_export::ExportError,
    jetcell_export::UnknownFormat,
    jetcell_input::quantity::QuantityError,
    jetcell_remote::RemoteError,
    jetcell_remote::ServeError,
    jetcell_report::RunReadError,
    jetcell_report::esrp::SourceError,
    jetcell_workload::ConfigurationError,
    jetcell_workload::result::NoMeasuredWindow,
);

/// The text of most errors contains an example.
impl Advise for jetcell_workload::ParseError {
    fn advice(&self) -> Option<Cow<'static, str>> {
        (!self.to_string().contains("; ")).then_some(Cow::Borrowed("see --help"))
    }
}

#[cfg(feature = "lab")]
advised_by_text!(jetcell_lab::fragmentation::FileMapError,);
