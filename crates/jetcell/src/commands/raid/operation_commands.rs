//! Commands that each perform one operation on an array. The operation runs in this process or, if the array is in
//! use, in the process that uses it.

use std::sync::Mutex;

use jetcell_backup::{Cancellation, TransferControl};
use jetcell_host::cancel_on_signals;

use super::array_directory::{ArrayDirectory, find_locked_member};
use super::content::{RunningContent, SharedContent};
use super::control;
use super::grow::RaidGrowArgs;
use super::lun::LunCommand;
use super::maintenance::RaidRebuildArgs;
use super::members::{RaidFailArgs, RaidReplaceArgs, RaidSpareArgs};
use super::operation::{ArrayOperation, ControlRequest};
use super::operation_context::{OperationContext, OperationResult};
use super::running_array::ArrayStartOptions;
use super::scrub::RaidScrubArgs;
use super::snapshot::{CloneSnapshotArgs, ListSnapshotsArgs, SnapshotChange, SnapshotCommand};
use crate::console;
use crate::outcome::{CommandContext, CommandOutcome, CommandResult};
use crate::shared::transfer_progress::TransferProgress;

impl ArrayStartOptions {
    /// Runs an operation on the array, in this process or in the process that uses the array, and prints the result.
    fn perform(&self, operation: ArrayOperation, json: bool) -> CommandResult {
        let cancel = Cancellation::default();
        let (shown, pace) = match operation.title() {
            Some(title) => {
                cancel_on_signals(&cancel)?;
                let (shown, pace) = TransferProgress::with_cancel(title, None, cancel);
                (Some(shown), pace)
            }
            None => (None, TransferControl { cancel, ..TransferControl::default() }),
        };
        let directory = std::env::current_dir().context("the working directory is unknown")?;
        let request = ControlRequest { array: self.array.display().to_string(), directory, operation };
        let used = ArrayDirectory::open(&self.array)?;
        let connection = find_locked_member(&used.members).and_then(|_| control::connect(&used.path));
        let answer = match connection {
            Some(connection) => control::send_operation(connection, &request, &pace, &console::print_note)?,
            None => self.perform_in_process(&request, pace)?,
        };
        drop(shown);
        console::print_result(json, || &answer.json, || answer.text);
        Ok(if answer.is_good { CommandOutcome::Good } else { CommandOutcome::Findings })
    }

    /// Starts the array, runs an operation on it, and shuts it down, even if the operation fails.
    fn perform_in_process(
        &self,
        request: &ControlRequest,
        pace: TransferControl,
    ) -> CommandResult<OperationResult> {
        let RunningContent { content, vfs, files } = request.operation.start(self)?;
        let shared = SharedContent::new(content);
        let files = Mutex::new(files);
        let on = OperationContext {
            name: &request.array,
            directory: &request.directory,
            owner: &*shared,
            files: &files,
            vfs,
            concurrent_activity: None,
            pace,
            show_note: &console::print_note,
        };
        let result = request.operation.perform(&on);
        let closed = shared.close(&mut on.files());
        let answer = result?;
        closed.map(|()| answer)
    }
}

impl RaidFailArgs {
    pub fn run(self) -> CommandResult {
        self.start.perform(ArrayOperation::Fail(self.take_out), self.shown.json)
    }
}

impl RaidReplaceArgs {
    pub fn run(self) -> CommandResult {
        self.start.perform(ArrayOperation::Replace(self.replace), self.shown.json)
    }
}

impl RaidSpareArgs {
    pub fn run(self) -> CommandResult {
        self.start.perform(ArrayOperation::AddSpare(self.new), self.shown.json)
    }
}

impl RaidRebuildArgs {
    pub fn run(self) -> CommandResult {
        self.start.perform(ArrayOperation::Rebuild(self.rebuild), self.shown.json)
    }
}

impl RaidScrubArgs {
    pub fn run(self) -> CommandResult {
        self.start.perform(ArrayOperation::Scrub(self.pass), self.shown.json)
    }
}

impl RaidGrowArgs {
    pub fn run(self) -> CommandResult {
        self.start.perform(ArrayOperation::Grow(self.add), self.shown.json)
    }
}

impl LunCommand {
    pub fn run(self) -> CommandResult {
        match self {
            LunCommand::Create(command) => {
                command.check()?;
                command.start.perform(ArrayOperation::CreateLun(command.new), command.shown.json)
            }
            LunCommand::List(command) => command.start.perform(ArrayOperation::ListLuns, command.shown.json),
            LunCommand::Clean(command) => {
                command.start.perform(ArrayOperation::CleanLuns, command.shown.json)
            }
            LunCommand::Delete(command) => {
                command.check()?;
                command.start.perform(ArrayOperation::DeleteLun(command.name), command.shown.json)
            }
        }
    }
}

impl SnapshotCommand {
    pub fn run(self) -> CommandResult {
        let (named, change) = match self {
            SnapshotCommand::List(ListSnapshotsArgs { start, shown }) => {
                return start.perform(ArrayOperation::ListSnapshots, shown.json);
            }
            SnapshotCommand::Create(named) => (named, SnapshotChange::Create),
            SnapshotCommand::Delete(named) => (named, SnapshotChange::Delete),
            SnapshotCommand::Rollback(command) => {
                command.check()?;
                (command.named, SnapshotChange::RollBack)
            }
            SnapshotCommand::Clone(CloneSnapshotArgs { named, new }) => (named, SnapshotChange::Clone(new)),
        };
        named.start.perform(ArrayOperation::Snapshot(named.name, change), named.shown.json)
    }
}
