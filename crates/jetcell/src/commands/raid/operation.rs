//! Operations on arrays. They run in this process or, if the array is in use, in the process that uses it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::content::{ArrayContent, RunningContent, start_with_luns};
use super::grow::MemberAddition;
use super::lun::{self, NewLun};
use super::maintenance::RebuildOptions;
use super::members::{MemberRemoval, MemberReplacement, NewMemberArgs};
use super::operation_context::{OperationContext, OperationResult};
use super::running_array::{ArrayStartOptions, RunningArray};
use super::scrub::ScrubPassOptions;
use super::snapshot::{self, SnapshotChange, SnapshotName};
use crate::outcome::CommandResult;

/// An operation that can be performed on an array.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrayOperation {
    Fail(MemberRemoval),
    Replace(MemberReplacement),
    AddSpare(NewMemberArgs),
    Rebuild(RebuildOptions),
    Scrub(ScrubPassOptions),
    Grow(MemberAddition),
    CreateLun(NewLun),
    ListLuns,
    CleanLuns,
    DeleteLun(String),
    Snapshot(SnapshotName, SnapshotChange),
    ListSnapshots,
}

/// Request for an array operation: the operation, its array, and the directory for relative paths.
#[derive(Serialize, Deserialize)]
pub struct ControlRequest {
    /// Array name as given by the user.
    pub array: String,
    /// The user's working directory.
    pub directory: PathBuf,
    pub operation: ArrayOperation,
}

impl ArrayOperation {
    /// Returns the title of the progress display, or `None` if the operation does not show progress.
    pub fn title(&self) -> Option<&'static str> {
        match self {
            ArrayOperation::Replace(_) | ArrayOperation::Rebuild(_) => Some("Rebuild"),
            ArrayOperation::Scrub(_) => Some("Scrub"),
            _ => None,
        }
    }

    /// Starts an array that no other process uses, with the content that the operation needs.
    pub fn start(&self, start: &ArrayStartOptions) -> CommandResult<RunningContent> {
        match self {
            ArrayOperation::CreateLun(new) => new.start(start),
            ArrayOperation::ListLuns
            | ArrayOperation::CleanLuns
            | ArrayOperation::DeleteLun(_)
            | ArrayOperation::Snapshot(..)
            | ArrayOperation::ListSnapshots => start_with_luns(start),
            _ => {
                let RunningArray { array, vfs, files } = start.start()?;
                Ok(RunningContent { content: ArrayContent::Array(Box::new(array)), vfs, files })
            }
        }
    }

    /// Runs the operation.
    pub fn perform(&self, on: &OperationContext<'_>) -> CommandResult<OperationResult> {
        match self {
            ArrayOperation::Fail(take_out) => take_out.perform(on),
            ArrayOperation::Replace(replace) => replace.perform(on),
            ArrayOperation::AddSpare(new) => new.add_spare(on),
            ArrayOperation::Rebuild(rebuild) => rebuild.perform(on),
            ArrayOperation::Scrub(scrub) => scrub.perform(on),
            ArrayOperation::Grow(grow) => grow.perform(on),
            ArrayOperation::CreateLun(new) => new.perform(on),
            ArrayOperation::ListLuns => lun::list(on),
            ArrayOperation::CleanLuns => lun::clean(on),
            ArrayOperation::DeleteLun(name) => lun::delete(on, name),
            ArrayOperation::Snapshot(name, change) => name.perform(on, change),
            ArrayOperation::ListSnapshots => snapshot::list(on),
        }
    }
}
