//! Environment of the array service: this process's file system and standard error.

use std::sync::Arc;

use jetcell_array_service::ServiceEnvironment;

use super::files::vfs;
use crate::console::print_note;
use crate::outcome::CommandResult;

/// Opens the machine's file system for the array service. Notes from the service are printed to standard error.
pub fn array_environment() -> CommandResult<ServiceEnvironment> {
    Ok(ServiceEnvironment { vfs: vfs()?, show_note: Arc::new(print_note) })
}
