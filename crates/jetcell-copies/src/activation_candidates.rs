//! Chooses which of several copies to activate.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use ese_engine::EventSink;
use jetcell_backup::OpenEventsFn;
use jetcell_host::EVENT_FILE;
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use crate::activation::{ActivationResult, LossLimit, activate_as};
use crate::copy_state::{CopyPhase, CopyState};
use crate::directory_source::DirectorySource;
use crate::error::{CopyError, Refusal, Result};
use crate::log_replayer::ReplayOptions;
use crate::stream_directory::StreamDirectory;

/// Candidate copies for an activation, in the order in which they are tried.
pub struct ActivationCandidates {
    copies: Vec<(PathBuf, CopyState)>,
    limit: LossLimit,
}

/// Callbacks for the activation of a candidate.
pub struct ActivationRequest<'a, E> {
    /// Asks the host of an active side for a handover. An error prevents the activation.
    pub ask_host: &'a dyn Fn(&Path) -> std::result::Result<(), E>,
    /// Returns the address at which an active side reaches a copy.
    pub successor: &'a dyn Fn(&Path, &str) -> String,
    /// Opens the event sink in the directory of a copy.
    pub open_events: &'a OpenEventsFn,
    /// Receives the error of a copy before the next copy is tried.
    pub skipped: &'a dyn Fn(E),
}

/// A candidate that was activated.
pub struct ActivatedCopy {
    /// Directory of the copy.
    pub directory: PathBuf,
    /// Address of the old active side.
    pub source: String,
    /// Result of the activation.
    pub result: ActivationResult,
}

impl ActivationCandidates {
    /// Reads the states of the copies and sorts them. An interrupted activation is tried first, followed by copies that
    /// follow their active side. Among these, copies that lack fewer generations come first. Copies that cannot follow
    /// come last. Errors of unreadable copies are passed to `skipped`, unless no copy can be read.
    ///
    /// # Errors
    /// Returns an error if a directory is not a copy, or if its state cannot be read and no other copy may be tried.
    pub fn read(
        vfs: &dyn Vfs,
        directories: &[PathBuf],
        limit: LossLimit,
        skipped: impl FnMut(CopyError),
    ) -> Result<ActivationCandidates> {
        let (mut copies, mut unreadable) = (Vec::new(), Vec::new());
        for directory in directories {
            match CopyState::read(vfs, directory) {
                Ok(Some(state)) => copies.push((directory.clone(), state)),
                Ok(None) => return Err(Refusal::NotACopy.at(directory)),
                Err(error) if error.may_try_another_copy(limit != LossLimit::Nothing) => {
                    unreadable.push(error);
                }
                Err(error) => return Err(error),
            }
        }
        let refused = if copies.is_empty() { unreadable.pop() } else { None };
        unreadable.into_iter().for_each(skipped);
        copies.sort_by_key(|(_, state)| {
            let rank = match state.phase {
                CopyPhase::Activating { .. } => 0,
                CopyPhase::Following => 1,
                CopyPhase::Unfit { .. } => 2,
                CopyPhase::Seeding => 3,
            };
            (rank, Reverse(state.next), state.replay_queue())
        });
        refused.map_or(Ok(ActivationCandidates { copies, limit }), Err)
    }

    /// Returns the addresses of the active sides.
    pub fn sources(&self) -> impl Iterator<Item = &Path> {
        self.copies.iter().map(|(_, state)| Path::new(&state.source))
    }

    /// Activates the first copy that can be activated. If a copy lacks logs, another one may still have them.
    ///
    /// # Errors
    /// Returns the error of the last copy that was tried.
    pub fn activate<E: From<CopyError>>(
        &self,
        vfs: &Arc<dyn Vfs>,
        request: &ActivationRequest<'_, E>,
    ) -> std::result::Result<ActivatedCopy, E> {
        let may_lose_logs = self.limit != LossLimit::Nothing;
        let mut copies = self.copies.iter().peekable();
        while let Some((directory, state)) = copies.next() {
            (request.ask_host)(Path::new(&state.source))?;
            let error = match (request.open_events)(directory) {
                Ok(events) => match self.activate_one(vfs, directory, state, events, request.successor) {
                    Err(error) if error.may_try_another_copy(may_lose_logs) => error,
                    activated => return activated.map_err(E::from),
                },
                Err(error) => {
                    let error = CopyError::io(directory.join(EVENT_FILE), &error);
                    // Nothing has been changed yet. If logs may be lost, do not try another copy, because it could lack
                    // more logs.
                    if may_lose_logs {
                        return Err(error.into());
                    }
                    error
                }
            };
            if copies.peek().is_none() {
                return Err(error.into());
            }
            (request.skipped)(error.into());
        }
        Err(CopyError::NoCopies.into())
    }

    fn activate_one(
        &self,
        vfs: &Arc<dyn Vfs>,
        directory: &Path,
        state: &CopyState,
        events: Arc<dyn EventSink>,
        successor: &dyn Fn(&Path, &str) -> String,
    ) -> Result<ActivatedCopy> {
        let source = state.source.clone();
        let logs = StreamDirectory::new(vfs, source.as_ref(), state.base_name, state.log_name_form());
        let options = ReplayOptions { events: Some(events), ..ReplayOptions::default() };
        let successor = successor(directory, &source);
        let logs = Box::new(DirectorySource::new(logs));
        let result = activate_as(vfs, directory, &successor, logs, self.limit, &options)?;
        Ok(ActivatedCopy { directory: directory.to_path_buf(), source, result })
    }
}
