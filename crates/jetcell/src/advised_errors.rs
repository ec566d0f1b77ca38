//! Advice and ESE codes for library errors.

use std::borrow::Cow;

use crate::outcome::Advise;

/// Implements [`Advise`] for errors that have a method `advice`, for errors that also have a method `jet_error`, and
/// for errors that contain an engine error.
macro_rules! advised {
    (coded: $($error:ty),* $(,)?) => {
        $(impl Advise for $error {
            fn advice(&self) -> Option<Cow<'static, str>> {
                self.advice()
            }

            fn jet_code(&self) -> Option<(i32, &'static str)> {
                self.jet_error()
            }
        })*
    };
    (engine: $error:ty) => {
        impl Advise for $error {
            fn advice(&self) -> Option<Cow<'static, str>> {
                self.engine_error().and_then(Advise::advice)
            }

            fn jet_code(&self) -> Option<(i32, &'static str)> {
                self.engine_error().and_then(Advise::jet_code)
            }
        }
    };
    ($($error:ty),* $(,)?) => {
        $(impl Advise for $error {
            fn advice(&self) -> Option<Cow<'static, str>> {
                // The advice of some errors is borrowed.
                self.advice().map(Into::into)
            }
        })*
    };
}

advised!(
    coded: ese_engine::Error,
    jetcell_backup::BackupError,
    jetcell_backup::RecoveryError,
    jetcell_copies::CopyError,
    jetcell_workload::maintenance::DatabaseFailure,
    jetcell_workload::maintenance::MaintenanceError,
);
advised!(
    jetcell_dump::DumpError,
    jetcell_export::ExportError,
    jetcell_host::readiness::ReadinessError,
    jetcell_input::OptionValueError,
    jetcell_input::quantity::QuantityError,
    jetcell_input::toml::TomlError,
    jetcell_power::MeterKindError,
    jetcell_power::PowerError,
    jetcell_power::UnknownScope,
    jetcell_remote::RemoteError,
    jetcell_remote::ServeError,
    jetcell_remote::TokenError,
    jetcell_report::RunReadError,
    jetcell_report::esrp::SourceError,
    jetcell_workload::ConfigurationError,
    jetcell_workload::RunError,
    jetcell_workload::StartError,
);

#[cfg(feature = "arrays")]
advised!(jetcell_array::ArrayError, jetcell_array_service::Error, jetcell_disk_simulation::InvalidConfig);
#[cfg(any(feature = "arrays", feature = "sizing"))]
advised!(jetcell_raid_models::Error);
#[cfg(feature = "sizing")]
advised!(jetcell_sizing::SizingError);

#[cfg(feature = "fleet")]
advised!(
    jetcell_fleet::FleetStateError,
    jetcell_fleet::RankError,
    jetcell_fleet::ResumeError,
    jetcell_fleet::bus::BusError,
    jetcell_fleet::nats_server::NatsServerError,
);

#[cfg(feature = "lab")]
mod lab {
    use super::{Advise, Cow};

    advised!(
        jetcell_durability::JournalError,
        jetcell_lab::EraseError,
        jetcell_lab::drive::DriveTestError,
        jetcell_lab::drive::TargetError,
        jetcell_lab::drives::DriveListError,
        jetcell_lab::filesystems::SpecificationError,
        jetcell_lab::filesystems::UnknownFilesystemKind,
        jetcell_lab::fragmentation::FileMapError,
    );

    advised!(engine: jetcell_durability::WriteError);
    impl Advise for jetcell_lab::SystemError {}
    impl Advise for jetcell_lab::filesystems::MakeError {}
}

// The texts of these errors contain an example or the valid values, or there is nothing to advise.
impl Advise for jetcell_export::UnknownFormat {}
impl Advise for jetcell_workload::result::NoMeasuredWindow {}
#[cfg(feature = "arrays")]
impl Advise for jetcell_array::UnknownLevel {}

impl Advise for jetcell_workload::ParseError {
    fn advice(&self) -> Option<Cow<'static, str>> {
        use jetcell_workload::ParseError::{Expected, NotUtf8};
        match self {
            NotUtf8 | Expected(_) => Some(Cow::Borrowed("see --help")),
            _ => self.advice(),
        }
    }
}
