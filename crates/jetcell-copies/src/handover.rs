//! An active side that is stopped, and gives its role to a copy.
//!
//! While a [`Handover`] exists, the active side cannot start. [`Handover::step_down`] ends its role for good: its current log
//! gets the name of a closed one, so that no instance can be opened on it, and `copy.json` makes it a copy of the new active
//! side. ESE has no such fence; it relies on the cluster.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ese_engine::{CopyRegistration, Error, LogCopy, RecoverySet};
use ese_format::Generation;
use jetcell_vfs::{DirectoryLock, IoBuffer, IoReason, OpenMode};

use crate::copy_state::{CopiedDatabase, CopyState, Phase};
use crate::error::{CopyError, Result};
use crate::log_end::{LogEnd, records_end, take_empty_tail};
use crate::stream_directory::StreamDirectory;

/// An active side that is stopped, and stays so while this exists.
pub trait Handover {
    /// All its logs, the newest one, which may not be closed, included. One without records is not.
    fn logs(&self) -> &BTreeMap<Generation, PathBuf>;

    /// The file of a log.
    fn log(&self, generation: Generation) -> Result<IoBuffer>;

    /// What its copies need, and it itself when it has stepped down.
    fn copies(&self) -> Result<Vec<CopyRegistration>>;

    /// Makes the active side a copy of the side at `successor`, durably. It continues behind `end`, or is unfit if its history has
    /// diverged. Repeated, it does what is left to be done.
    fn step_down(&self, successor: &str, end: Option<LogEnd>, phase: Phase) -> Result<()>;
}

/// The handover of an active side in a directory.
pub(crate) struct DirectoryHandover {
    logs: StreamDirectory,
    set: RecoverySet,
    /// The newest log, if it has no records.
    empty: Option<(Generation, PathBuf)>,
    _lock: Box<dyn DirectoryLock>,
}

impl DirectoryHandover {
    /// Stops the active side from being started.
    ///
    /// Errors: it is running ([`Error::InUse`]), or cannot be read.
    pub fn begin(logs: &StreamDirectory, successor: &str) -> Result<DirectoryHandover> {
        let vfs = &logs.vfs;
        if let Some(state) = CopyState::read(&**vfs, logs.path())?
            && state.source != successor
        {
            let what = format!(
                "{}: it is a copy of {} now, so it has no role to give; follow that side with jetcell replicate",
                logs.path().display(),
                state.source
            );
            return Err(CopyError::Refused(what));
        }
        let unreachable = |error: &std::io::Error| CopyError::Unreachable {
            active: logs.path().display().to_string(),
            what: error.to_string(),
        };
        let files = vfs.list(logs.path()).map_err(|error| unreachable(&error))?;
        if !files.iter().any(|path| logs.names.generation_of(path).is_some() || *path == logs.names.current())
        {
            return Err(unreachable(&std::io::Error::other("there are no logs")));
        }
        let path = logs.path().join(format!("{}.lock", logs.names.base()));
        let lock = vfs.lock(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => {
                CopyError::Engine(Error::InUse { path: logs.path().to_path_buf() })
            }
            _ => unreachable(&error),
        })?;
        // The instance may have closed logs before it was locked out.
        let files = vfs.list(logs.path()).map_err(|error| unreachable(&error))?;
        let mut set = RecoverySet::find(vfs, &files)?;
        name_closed(logs, &mut set)?;
        let empty = take_empty_tail(vfs, &mut set.logs);
        Ok(DirectoryHandover { logs: logs.clone(), set, empty, _lock: lock })
    }

    fn databases(&self) -> Vec<CopiedDatabase> {
        let inside = |path: &Path| match path.parent() == Some(self.logs.path()) {
            true => path.file_name().map_or(path.into(), PathBuf::from),
            false => path.to_path_buf(),
        };
        let copied = |database: &ese_engine::FoundDatabase| CopiedDatabase {
            file: inside(&database.path).to_string_lossy().into_owned(),
            signature: database.header.signature.to_hex(),
            source: database.path.clone(),
        };
        self.set.databases.iter().map(copied).collect()
    }

    /// Gives the current log, and an entered prepared one, the names of closed ones.
    fn archive(&self) -> Result<()> {
        let vfs = &self.logs.vfs;
        for (generation, path) in &self.set.logs {
            let archived = self.logs.archived(*generation);
            if *path != archived && vfs.exists(path).unwrap_or(false) {
                self.clear_tail(path)?;
                vfs.rename(path, &archived).map_err(|error| CopyError::io(path, &error))?;
            }
        }
        if let Some((_, path)) = &self.empty
            && vfs.exists(path).unwrap_or(false)
        {
            vfs.remove(path).map_err(|error| CopyError::io(path, &error))?;
        }
        self.logs.sync()
    }
}

impl DirectoryHandover {
    /// Overwrites what a crash has left behind the last record of a log with zeros, so that it reads as a closed one. A damaged log
    /// stays as it is: it did not arrive on the other side, so this one has diverged.
    fn clear_tail(&self, path: &Path) -> Result<()> {
        let vfs = &self.logs.vfs;
        if LogCopy::read(vfs, path, true).is_ok() {
            return Ok(());
        }
        let is_own = vfs.is_own_file(path).map_err(|error| CopyError::io(path, &error))?;
        if !is_own {
            let what = "it is a link, and a handover does not write through links; put the log itself there";
            return Err(CopyError::Refused(format!("{}: {what}", path.display())));
        }
        let mut log = match LogCopy::read(vfs, path, false) {
            Err(Error::Log { .. } | Error::Corrupt { .. }) => return Ok(()),
            read => read?,
        };
        let end = records_end(&log).min(log.bytes.len());
        log.bytes[end..].fill(0);
        let write = || {
            let file = vfs.open(path, OpenMode::Write)?;
            file.write_at(0, &log.bytes, IoReason::LogWrite)?;
            file.sync(IoReason::LogWrite)
        };
        write().map_err(|error| CopyError::io(path, &error))
    }
}

impl Handover for DirectoryHandover {
    fn logs(&self) -> &BTreeMap<Generation, PathBuf> {
        &self.set.logs
    }

    fn log(&self, generation: Generation) -> Result<IoBuffer> {
        let known = self.set.logs.get(&generation).cloned();
        let path = known.unwrap_or_else(|| self.logs.archived(generation));
        let newest = self.set.logs.last_key_value().is_some_and(|(newest, _)| *newest == generation);
        Ok(LogCopy::read(&self.logs.vfs, &path, !newest)?.bytes)
    }

    fn copies(&self) -> Result<Vec<CopyRegistration>> {
        let found = CopyRegistration::list(&*self.logs.vfs, self.logs.path(), self.logs.names.base())?;
        let newest = self.set.logs.last_key_value().map_or(Generation(0), |(newest, _)| *newest);
        let mut copies = Vec::new();
        for (path, registration) in found {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let id = CopyRegistration::id_of(name, self.logs.names.base());
            let stand_in = |id| CopyRegistration::unreadable(id, self.set.signature, newest);
            copies.extend(registration.or_else(|| id.map(stand_in)));
        }
        // This side is a copy, too, when it has stepped down.
        let vfs = &*self.logs.vfs;
        let own = CopyState::read(vfs, self.logs.path())?.filter(|state| state.phase == Phase::Following);
        // It may be on another host than the one that asks.
        copies.extend(own.map(|state| CopyRegistration {
            host: None,
            ..state.registration(self.logs.path(), vfs.clock().unix_ms())
        }));
        Ok(copies)
    }

    fn step_down(&self, successor: &str, end: Option<LogEnd>, phase: Phase) -> Result<()> {
        let (vfs, directory) = (&self.logs.vfs, self.logs.path());
        let newest = self.set.logs.last_key_value().map_or(0, |(newest, _)| newest.0);
        let id = format!("{:08x}", self.set.signature.random ^ newest);
        let mut state = CopyState::seeding(id, successor.to_string(), &self.logs, self.set.signature);
        state.databases = self.databases();
        state.log_bytes = self.set.logs.values().next().map_or(0, |path| vfs.file_len(path).unwrap_or(0));
        (state.next, state.end) = (end.map_or(newest + 1, |end| end.next().0), end);
        state.replayed = state.next.saturating_sub(1);
        state.phase = phase;
        // The names come first: from then on no instance can be opened.
        self.archive()?;
        state.store(&**vfs, directory)
    }
}

/// A crash may have come when the next log was entered and the closed one still had the name of a current log. It gets its name, as
/// recovery of the active side would give it, so that the copy can fetch it.
fn name_closed(logs: &StreamDirectory, set: &mut RecoverySet) -> Result<()> {
    let current = logs.names.current();
    let newest = set.logs.last_key_value().map(|(newest, _)| *newest);
    let closed =
        set.logs.iter_mut().find(|(generation, path)| **path == current && Some(**generation) != newest);
    let Some((generation, path)) = closed else { return Ok(()) };
    let archived = logs.archived(*generation);
    logs.vfs.rename(path, &archived).map_err(|error| CopyError::io(&*path, &error))?;
    *path = archived;
    logs.sync()
}
