//! Operations on arrays. They run in this process or, if the array is in use, in the process that uses it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::content::{Content, Running, start_with_luns};
use super::grow::AddMembers;
use super::lun::{self, NewLun};
use super::maintenance::ContinueRebuild;
use super::members::{NewMember, ReplaceMember, TakeOut};
use super::operated::{Answer, Operated};
use super::running_array::{RunningArray, Start};
use super::scrub::ScrubPass;
use super::snapshot::{self, SnapshotChange, SnapshotName};
use crate::outcome::Failure;

/// An operation on an array.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    Fail(TakeOut),
    Replace(ReplaceMember),
    AddSpare(NewMember),
    Rebuild(ContinueRebuild),
    Scrub(ScrubPass),
    Grow(AddMembers),
    CreateLun(NewLun),
    ListLuns,
    CleanLuns,
    DeleteLun(String),
    Snapshot(SnapshotName, SnapshotChange),
    ListSnapshots,
}

/// An operation, the array that it applies to, and the directory that its relative paths refer to.
#[derive(Serialize, Deserialize)]
pub struct Request {
    /// Array name as given by the user.
    pub array: String,
    /// The user's working directory.
    pub directory: PathBuf,
    pub operation: Operation,
}

impl Operation {
    /// Returns the title of the progress display, or `None` if the operation does not show progress.
    pub fn title(&self) -> Option<&'static str> {
        match self {
            Operation::Replace(_) | Operation::Rebuild(_) => Some("Rebuild"),
            Operation::Scrub(_) => Some("Scrub"),
            _ => None,
        }
    }

    /// Starts an array that no other process uses, with the content that the operation needs.
    pub fn start(&self, start: &Start) -> Result<Running, Failure> {
        match self {
            Operation::CreateLun(new) => new.start(start),
            Operation::ListLuns
            | Operation::CleanLuns
            | Operation::DeleteLun(_)
            | Operation::Snapshot(..)
            | Operation::ListSnapshots => start_with_luns(start),
            _ => {
                let RunningArray { array, vfs, files } = start.start()?;
                Ok(Running { content: Content::Array(Box::new(array)), vfs, files })
            }
        }
    }

    /// Runs the operation.
    pub fn perform(&self, on: &Operated<'_>) -> Result<Answer, Failure> {
        match self {
            Operation::Fail(take_out) => take_out.perform(on),
            Operation::Replace(replace) => replace.perform(on),
            Operation::AddSpare(new) => new.add_spare(on),
            Operation::Rebuild(rebuild) => rebuild.perform(on),
            Operation::Scrub(scrub) => scrub.perform(on),
            Operation::Grow(grow) => grow.perform(on),
            Operation::CreateLun(new) => new.perform(on),
            Operation::ListLuns => lun::list(on),
            Operation::CleanLuns => lun::clean(on),
            Operation::DeleteLun(name) => lun::delete(on, name),
            Operation::Snapshot(name, change) => name.perform(on, change),
            Operation::ListSnapshots => snapshot::list(on),
        }
    }
}
