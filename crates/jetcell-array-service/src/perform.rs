//! Decides where an operation runs: in this process, or in the process that uses the array.

use jetcell_sync::Mutex;

use crate::control;
use crate::directory::{ArrayDirectory, find_locked_member};
use crate::environment::ServiceEnvironment;
use crate::error::{Error, Result};
use crate::members::SharedDevice;
use crate::operations::{
    ArrayOperation, ControlRequest, OperationContext, OperationControl, OperationResult,
};
use crate::running::{ArrayStartOptions, RunningContent, SharedContent};

/// An operation that was performed.
#[derive(Clone, PartialEq, Debug)]
pub struct PerformedOperation {
    /// Result of the operation.
    pub result: OperationResult,
    /// Whether the operation ran in another process, which uses the array.
    pub is_in_use: bool,
}

/// Runs an operation on an array, in this process or in the process that uses the array.
///
/// # Errors
/// Returns an error if the operation was refused, or if the array failed.
pub fn perform(
    start: &ArrayStartOptions,
    operation: ArrayOperation,
    environment: &ServiceEnvironment,
    control: OperationControl,
) -> Result<PerformedOperation> {
    operation.check()?;
    let directory = std::env::current_dir().map_err(Error::WorkingDirectory)?;
    let request = ControlRequest { array: start.array.display().to_string(), directory, operation };
    let used = ArrayDirectory::open(&start.array)?;
    let connection = find_locked_member(&used.members).and_then(|_| control::connect(&used.path));
    let is_in_use = connection.is_some();
    let report = |shared: SharedDevice| environment.note(shared);
    let result = match connection {
        Some(connection) => control::send_operation(connection, &request, &control, &report)?,
        None => perform_in_process(start, &request, environment, control, &report)?,
    };
    Ok(PerformedOperation { result, is_in_use })
}

/// Starts the array, runs an operation on it, and shuts it down, even if the operation fails.
fn perform_in_process(
    start: &ArrayStartOptions,
    request: &ControlRequest,
    environment: &ServiceEnvironment,
    control: OperationControl,
    report_shared_device: &dyn Fn(SharedDevice),
) -> Result<OperationResult> {
    let RunningContent { content, files } = request.operation.start(start, environment)?;
    let shared = SharedContent::new(content);
    let files = Mutex::new(files);
    let on = OperationContext {
        name: &request.array,
        directory: &request.directory,
        owner: &*shared,
        files: &files,
        vfs: environment.vfs.clone(),
        concurrent_activity: None,
        control,
        report_shared_device,
    };
    let result = request.operation.perform(&on);
    let closed = shared.close(&mut on.files());
    let answer = result?;
    closed.map(|()| answer)
}
