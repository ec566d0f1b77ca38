//! Operations on arrays. They run in this process or, if the array is in use, in the process that uses it.

mod context;
#[cfg(test)]
mod lost_rows_tests;
mod luns;
mod member_changes;
mod rebuild;
mod request;
mod result;
mod scrub;
mod snapshots;
mod zone_pace;

pub(crate) use self::context::OperationContext;
pub use self::context::{OperationControl, OperationProgress};
pub(crate) use self::request::ControlRequest;
pub use self::request::{ArrayOperation, NewLun, NewMembers, SnapshotChange, SnapshotName};
pub use self::result::{
    DamagedSlot, LunSummary, OperationResult, ParityDisagreement, RebuildResult, ScrubResult, SnapshotSummary,
};
use crate::environment::ServiceEnvironment;
use crate::error::Result;
use crate::running::{ArrayContent, ArrayStartOptions, RunningArray, RunningContent, start_with_luns};

impl ArrayOperation {
    /// Fails if the request is invalid regardless of the array.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            ArrayOperation::CreateLun(new) => new.check(),
            _ => Ok(()),
        }
    }

    /// Starts an array that no other process uses, with the content that the operation needs.
    pub(crate) fn start(
        &self,
        start: &ArrayStartOptions,
        environment: &ServiceEnvironment,
    ) -> Result<RunningContent> {
        match self {
            ArrayOperation::CreateLun(new) => new.start(start, environment),
            ArrayOperation::ListLuns
            | ArrayOperation::CleanLuns
            | ArrayOperation::DeleteLun(_)
            | ArrayOperation::Snapshot(..)
            | ArrayOperation::ListSnapshots => start_with_luns(start, environment),
            _ => {
                let RunningArray { array, files, .. } = start.start(environment)?;
                Ok(RunningContent { content: ArrayContent::Array(Box::new(array)), files })
            }
        }
    }

    /// Runs the operation.
    pub(crate) fn perform(&self, on: &OperationContext<'_>) -> Result<OperationResult> {
        match self {
            ArrayOperation::Fail { member } => member_changes::fail(on, member),
            ArrayOperation::Replace { member, new, rate } => new.replace(on, member, *rate),
            ArrayOperation::AddSpare(new) => new.add_spares(on),
            ArrayOperation::Rebuild { rate } => rebuild::rebuild(on, *rate),
            ArrayOperation::Scrub { rate } => scrub::scrub(on, *rate),
            ArrayOperation::Grow(new) => new.grow(on),
            ArrayOperation::CreateLun(new) => new.perform(on),
            ArrayOperation::ListLuns => luns::list(on),
            ArrayOperation::CleanLuns => luns::clean(on),
            ArrayOperation::DeleteLun(name) => luns::delete(on, name),
            ArrayOperation::Snapshot(name, change) => name.perform(on, change),
            ArrayOperation::ListSnapshots => snapshots::list(on),
        }
    }
}
