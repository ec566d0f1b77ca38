//! Commands that each perform one operation on an array. The operation runs in this process or, if the array is in
//! use, in the process that uses it.

use std::sync::Mutex;

use jetcell_backup::{Cancel, Pace};

use super::array_directory::{ArrayDirectory, used_member};
use super::content::{Running, Shared};
use super::control;
use super::grow::Grow;
use super::lun::LunCommand;
use super::maintenance::Rebuild;
use super::members::{Fail, Replace, Spare};
use super::operated::{Answer, Operated};
use super::operation::{Operation, Request};
use super::running_array::Start;
use super::scrub::Scrub;
use super::snapshot::{CloneSnapshot, List, SnapshotChange, SnapshotCommand};
use crate::commands::transfer_progress::{TransferProgress, stop_on_signals};
use crate::console;
use crate::outcome::{Failure, Outcome};

impl Start {
    /// Runs an operation on the array, in this process or in the process that uses the array, and prints the result.
    fn perform(&self, operation: Operation, json: bool) -> Result<Outcome, Failure> {
        let cancel = Cancel::default();
        let (shown, pace) = match operation.title() {
            Some(title) => {
                stop_on_signals(cancel.clone())?;
                let (shown, pace) = TransferProgress::with_cancel(title, None, cancel);
                (Some(shown), pace)
            }
            None => (None, Pace { cancel, ..Pace::default() }),
        };
        let directory =
            std::env::current_dir().map_err(|error| format!("the working directory is unknown: {error}"))?;
        let request = Request { array: self.array.display().to_string(), directory, operation };
        let used = ArrayDirectory::open(&self.array)?;
        let connection = used_member(&used.members).and_then(|_| control::connect(&used.path));
        let answer = match connection {
            Some(connection) => control::ask(connection, &request, &pace, &console::note)?,
            None => self.perform_here(&request, pace)?,
        };
        drop(shown);
        console::answer(json, if json { &answer.json } else { &answer.text });
        Ok(if answer.is_good { Outcome::Good } else { Outcome::Findings })
    }

    /// Starts the array, runs an operation on it, and shuts it down, even if the operation fails.
    fn perform_here(&self, request: &Request, pace: Pace) -> Result<Answer, Failure> {
        let Running { content, vfs, files } = request.operation.start(self)?;
        let shared = Shared::new(content);
        let files = Mutex::new(files);
        let on = Operated {
            name: &request.array,
            directory: &request.directory,
            holder: &*shared,
            files: &files,
            vfs,
            beside: None,
            pace,
            note: &console::note,
        };
        let result = request.operation.perform(&on);
        let closed = shared.close(&mut on.files());
        let answer = result?;
        closed.map(|()| answer)
    }
}

impl Fail {
    pub fn run(self) -> Result<Outcome, Failure> {
        self.start.perform(Operation::Fail(self.take_out), self.shown.json)
    }
}

impl Replace {
    pub fn run(self) -> Result<Outcome, Failure> {
        self.start.perform(Operation::Replace(self.replace), self.shown.json)
    }
}

impl Spare {
    pub fn run(self) -> Result<Outcome, Failure> {
        self.start.perform(Operation::AddSpare(self.new), self.shown.json)
    }
}

impl Rebuild {
    pub fn run(self) -> Result<Outcome, Failure> {
        self.start.perform(Operation::Rebuild(self.rebuild), self.shown.json)
    }
}

impl Scrub {
    pub fn run(self) -> Result<Outcome, Failure> {
        self.start.perform(Operation::Scrub(self.pass), self.shown.json)
    }
}

impl Grow {
    pub fn run(self) -> Result<Outcome, Failure> {
        self.start.perform(Operation::Grow(self.add), self.shown.json)
    }
}

impl LunCommand {
    pub fn run(self) -> Result<Outcome, Failure> {
        match self {
            LunCommand::Create(command) => {
                command.check()?;
                command.start.perform(Operation::CreateLun(command.new), command.shown.json)
            }
            LunCommand::List(command) => command.start.perform(Operation::ListLuns, command.shown.json),
            LunCommand::Clean(command) => command.start.perform(Operation::CleanLuns, command.shown.json),
            LunCommand::Delete(command) => {
                command.check()?;
                command.start.perform(Operation::DeleteLun(command.name), command.shown.json)
            }
        }
    }
}

impl SnapshotCommand {
    pub fn run(self) -> Result<Outcome, Failure> {
        let (named, change) = match self {
            SnapshotCommand::List(List { start, shown }) => {
                return start.perform(Operation::ListSnapshots, shown.json);
            }
            SnapshotCommand::Create(named) => (named, SnapshotChange::Create),
            SnapshotCommand::Delete(named) => (named, SnapshotChange::Delete),
            SnapshotCommand::Rollback(command) => {
                command.check()?;
                (command.named, SnapshotChange::RollBack)
            }
            SnapshotCommand::Clone(CloneSnapshot { named, new }) => (named, SnapshotChange::Clone(new)),
        };
        named.start.perform(Operation::Snapshot(named.name, change), named.shown.json)
    }
}
