//! Brings closed logs from the active side, in their order, and inspects each before the copy uses it.
//!
//! ```text
//!  active side ──> incoming/E0000000012.log ──> inspected ──> E0000000012.log ──> durable ──> copy.json names it
//! ```

use std::path::{Path, PathBuf};

use ese_engine::{Error, LogCopy};
use ese_format::Generation;
use jetcell_sync::Arc;
use jetcell_vfs::{IoReason, OpenMode, Vfs};

use crate::copy_state::{CopyState, Phase, UnfitReason};
use crate::error::{CopyError, Result};
use crate::log_end::{LogEnd, LogFlaw, inspect};
use crate::source::{Offer, Source};

/// Where logs and seeds are until they were inspected.
pub(crate) const INCOMING: &str = "incoming";
/// In [`INCOMING`]: a part of the log that was being written when the databases were seeded. They have changes of it, so the whole
/// log has to begin with it.
const PART: &str = "part.log";
/// How often a log is fetched before the copy gives up.
const TRIES: u32 = 3;

/// Brings logs into the directory of a copy.
pub(crate) struct LogCopier<'c> {
    pub vfs: &'c Arc<dyn Vfs>,
    pub directory: &'c Path,
    pub source: &'c dyn Source,
}

impl LogCopier<'_> {
    /// Brings the next logs, at most `most`, and names them in the state. Returns how many came. A log that is bad or gone
    /// leaves the copy unfit after three tries.
    pub fn copy(&self, state: &mut CopyState, closed: Generation, most: u32) -> Result<u32> {
        let before = state.clone();
        let mut copied = 0;
        let result = loop {
            if copied == most || state.next > closed.0 || state.phase != Phase::Following {
                break Ok(());
            }
            match self.fetch(state, Generation(state.next), state.end) {
                Ok(Some(end)) => {
                    (state.next, state.end, state.tries) = (end.next().0, Some(end), 0);
                    copied += 1;
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        if copied > 0 {
            // The logs have their names durably before the state names them.
            self.sync()?;
        }
        if *state != before {
            state.store(&**self.vfs, self.directory)?;
        }
        result.map(|()| copied)
    }

    /// Compares the last log of the copy with that of an active side that it did not follow before. `false`: that is not possible
    /// yet. If it is another one, the copy is unfit.
    pub fn confirm(&self, state: &mut CopyState, offer: Offer) -> Result<bool> {
        let Some(end) = state.end else { return Ok(true) };
        let generation = Generation(end.generation);
        if generation < offer.oldest {
            // The next log says what it continues.
            return Ok(true);
        }
        let is_open = generation == offer.closed.next();
        let other_log = offer.open_created.is_some_and(|created| created != end.created);
        if generation > offer.closed && (!is_open || other_log) {
            // The active side will never have this log, unless the answer is an old one.
            let what = format!(
                "the copy has logs up to generation {:X} (hexadecimal), which {} does not have: it is of a history that was left; \
                 reseed it",
                end.generation,
                self.source.place()
            );
            self.failed(state, UnfitReason::Diverged, what);
            state.store(&**self.vfs, self.directory)?;
            return Ok(false);
        }
        if generation > offer.closed {
            return Ok(false);
        }
        let Some(bytes) = self.source.log(generation)? else { return Ok(false) };
        let incoming = self.incoming(&state.logs(self.vfs, self.directory).archived(generation));
        self.write(&incoming, &bytes)?;
        let theirs = inspect(self.vfs, &incoming, generation, state.stream(), None, None)?;
        self.vfs.remove(&incoming).map_err(|error| CopyError::io(&incoming, &error))?;
        match theirs {
            Err(LogFlaw::Damaged(_)) => Ok(false),
            Ok(theirs) if theirs == end => Ok(true),
            _ => {
                let number =
                    format!("log generation {:X} (hexadecimal) of {}", end.generation, self.source.place());
                let what = format!(
                    "{number} is another one than in the copy: the two have different histories (-590); compare them with \
                     jetcell copies --with, then reseed the one whose history is not wanted"
                );
                state.phase = Phase::Unfit { reason: UnfitReason::Diverged, what };
                state.store(&**self.vfs, self.directory)?;
                Ok(false)
            }
        }
    }

    /// Brings a log again that the copy had, and that is damaged now.
    pub fn replace(&self, state: &mut CopyState, generation: Generation) -> Result<bool> {
        let fetched = self.fetch(state, generation, None)?;
        self.sync()?;
        if fetched.is_some() {
            state.tries = 0;
        }
        state.store(&**self.vfs, self.directory)?;
        Ok(fetched.is_some())
    }

    /// Fetches one log and inspects it. `None`: this try has failed.
    fn fetch(
        &self,
        state: &mut CopyState,
        generation: Generation,
        after: Option<LogEnd>,
    ) -> Result<Option<LogEnd>> {
        let Some(bytes) = self.source.log(generation)? else {
            let what = format!(
                "log generation {:X} (hexadecimal), which the copy needs next, is gone on the active side ({}); reseed the copy",
                generation.0,
                self.source.place()
            );
            return Ok(self.failed(state, UnfitReason::LogsGone, what));
        };
        let logs = state.logs(self.vfs, self.directory);
        let place = logs.archived(generation);
        let incoming = self.incoming(&place);
        self.write(&incoming, &bytes)?;
        let part = part_of_log(self.vfs, self.directory)?;
        let inspected =
            inspect(self.vfs, &incoming, generation, state.stream(), after.as_ref(), part.as_ref())?;
        let what = match inspected {
            Ok(end) => {
                let moved = self.vfs.rename(&incoming, &place);
                moved.map_err(|error| CopyError::io(&place, &error))?;
                return Ok(Some(end));
            }
            Err(flaw) => flaw,
        };
        let number = format!("log generation {:X} (hexadecimal) of {}", generation.0, self.source.place());
        let (reason, what) = match what {
            LogFlaw::Damaged(what) => (UnfitReason::BadLog, format!("{number}: {what}; reseed the copy")),
            LogFlaw::OtherStream => {
                (UnfitReason::Diverged, format!("{number} is of another log stream; reseed the copy (-530)"))
            }
            LogFlaw::OtherHistory => {
                (UnfitReason::Diverged, diverged(&number, "was created at another time", -515))
            }
            LogFlaw::OtherContent => (UnfitReason::Diverged, diverged(&number, "has other content", -590)),
        };
        Ok(self.failed(state, reason, what))
    }

    fn failed(&self, state: &mut CopyState, reason: UnfitReason, what: String) -> Option<LogEnd> {
        state.tries += 1;
        if state.tries >= TRIES {
            state.phase = Phase::Unfit { reason, what };
        }
        None
    }

    fn incoming(&self, place: &Path) -> PathBuf {
        self.directory.join(INCOMING).join(place.file_name().unwrap_or_default())
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let put = || {
            self.vfs.create_directory(&self.directory.join(INCOMING))?;
            if self.vfs.exists(path)? {
                self.vfs.remove(path)?;
            }
            let file = self.vfs.open(path, OpenMode::CreateNew)?;
            file.write_at(0, bytes, IoReason::LogFormat)?;
            file.sync(IoReason::LogFormat)
        };
        put().map_err(|error| {
            let _ = self.vfs.remove(path);
            CopyError::Engine(Error::io(path, &error))
        })
    }

    fn sync(&self) -> Result<()> {
        for directory in [self.directory, &self.directory.join(INCOMING)] {
            self.vfs.sync_directory(directory).map_err(|error| CopyError::io(directory, &error))?;
        }
        Ok(())
    }
}

/// The part of a log that the databases have changes of, if the copy does not have the whole one.
pub(crate) fn part_of_log(vfs: &Arc<dyn Vfs>, directory: &Path) -> Result<Option<LogCopy>> {
    let path = part_path(directory);
    match vfs.exists(&path) {
        Ok(false) => Ok(None),
        Ok(true) => Ok(Some(LogCopy::read(vfs, &path, false)?)),
        Err(error) => Err(CopyError::io(&path, &error)),
    }
}

/// Where [`part_of_log`] is stored.
pub(crate) fn part_path(directory: &Path) -> PathBuf {
    directory.join(INCOMING).join(PART)
}

fn diverged(number: &str, how: &str, code: i32) -> String {
    format!(
        "{number} does not continue the copy, whose last log {how}: the two have different histories ({code}); compare them \
         with jetcell copies --with, then reseed the one whose history is not wanted"
    )
}
