//! Maintenance of the databases of a stopped instance, and of passive copies.

mod error;
mod request;
mod run;
mod tasks;

pub use self::error::{DatabaseFailure, MaintenanceError};
pub use self::request::{
    DatabaseMaintenanceResult, MaintenanceProgress, MaintenanceReport, MaintenanceRequest,
};
