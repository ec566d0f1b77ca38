//! Handover: a stopped active side transfers its role to a copy.
//!
//! While a [`Handover`] exists, the active side cannot be started. [`Handover::step_down`] permanently ends its role:
//! it renames the current log to the name of a closed log, so no instance can be opened on the directory any more. It
//! also writes a `copy.json` that makes the old active side a copy of the new one. ESE has no such fence and relies
//! on the cluster instead.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ese_engine::{CopyRegistration, Error, RecoverySet, VerifiedLog};
use ese_format::Generation;
use jetcell_sync::Arc;
use jetcell_vfs::{DirectoryLock, IoBuffer, IoReason, OpenMode};

use crate::copy_state::{CopiedDatabase, CopyPhase, CopyState};
use crate::error::{ContactError, CopyError, Refusal, Result};
use crate::log_end::{ClosedLogId, records_end_offset, remove_empty_tail};
use crate::stream_directory::StreamDirectory;

/// A stopped active side that is about to transfer its role to a copy. It cannot be started while this value exists.
pub trait Handover {
    /// Returns all logs of the active side, including the newest one, which may still be open. If the newest log has
    /// no records, it is not included.
    fn logs(&self) -> &BTreeMap<Generation, PathBuf>;

    /// Returns the content of a log file.
    fn log(&self, generation: Generation) -> Result<IoBuffer>;

    /// Returns the registrations of the active side's copies. After a step-down the list includes the old active side
    /// itself.
    fn copies(&self) -> Result<Vec<CopyRegistration>>;

    /// Durably makes the active side a copy of the side at `successor`.
    ///
    /// As a copy, the old side continues after `end`, or is unfit if its history has diverged. A repeated call
    /// completes the remaining steps.
    fn step_down(&self, successor: &str, end: Option<ClosedLogId>, phase: CopyPhase) -> Result<()>;
}

/// Handover from an active side whose logs are in a directory.
pub(crate) struct DirectoryHandover {
    logs: StreamDirectory,
    set: RecoverySet,
    /// The newest log, if it has no records.
    empty: Option<(Generation, PathBuf)>,
    _lock: Box<dyn DirectoryLock>,
}

impl DirectoryHandover {
    /// Locks the active side to prevent it from being started.
    ///
    /// # Errors
    ///
    /// Returns an error if the active side is running ([`Error::InUse`]) or cannot be read.
    pub fn begin(logs: &StreamDirectory, successor: &str) -> Result<DirectoryHandover> {
        let vfs = &logs.vfs;
        if let Some(state) = CopyState::read(&**vfs, logs.path())?
            && state.source != successor
        {
            return Err(Refusal::NowCopyOf(state.source).at(logs.path()));
        }
        let unreachable = |error: std::io::Error| logs.unreachable(ContactError::Io(Arc::new(error)));
        let files = vfs.list(logs.path()).map_err(unreachable)?;
        if !files.iter().any(|path| logs.names.generation_of(path).is_some() || *path == logs.names.current())
        {
            return Err(logs.unreachable(ContactError::NoLogs));
        }
        let path = logs.path().join(format!("{}.lock", logs.names.base()));
        let lock = vfs.lock(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => {
                CopyError::Engine(Error::InUse { path: logs.path().to_path_buf() })
            }
            _ => unreachable(error),
        })?;
        // The instance may have closed logs before the lock was acquired, so list the files again.
        let files = vfs.list(logs.path()).map_err(unreachable)?;
        let mut set = RecoverySet::find(vfs, &files)?;
        rename_closed_log(logs, &mut set)?;
        let empty = remove_empty_tail(vfs, &mut set.logs);
        Ok(DirectoryHandover { logs: logs.clone(), set, empty, _lock: lock })
    }

    fn databases(&self) -> Vec<CopiedDatabase> {
        let inside = |path: &Path| {
            if path.parent() == Some(self.logs.path()) {
                path.file_name().map_or(path.into(), PathBuf::from)
            } else {
                path.to_path_buf()
            }
        };
        let copied = |database: &ese_engine::DiscoveredDatabase| CopiedDatabase {
            file: inside(&database.path).to_string_lossy().into_owned(),
            signature: database.header.signature.to_hex(),
            source: database.path.clone(),
        };
        self.set.databases.iter().map(copied).collect()
    }

    /// Renames the current log, and a prepared log that was already started, to closed log names.
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
    /// Zeros the bytes that a crash left after the last record in a log, which makes it a valid closed log.
    ///
    /// A damaged log is left unchanged. It did not arrive on the other side, so this side has diverged.
    fn clear_tail(&self, path: &Path) -> Result<()> {
        let vfs = &self.logs.vfs;
        if VerifiedLog::read(vfs, path, true).is_ok() {
            return Ok(());
        }
        let is_own = vfs.is_regular_file(path).map_err(|error| CopyError::io(path, &error))?;
        if !is_own {
            return Err(Refusal::LogIsALink.at(path));
        }
        let mut log = match VerifiedLog::read(vfs, path, false) {
            Err(Error::Log { .. } | Error::Corrupt { .. }) => return Ok(()),
            read => read?,
        };
        let end = records_end_offset(&log).min(log.bytes.len());
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
        Ok(VerifiedLog::read(&self.logs.vfs, &path, !newest)?.bytes)
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
        // After a step-down this side is itself a copy.
        let vfs = &*self.logs.vfs;
        let own = CopyState::read(vfs, self.logs.path())?.filter(|state| state.phase == CopyPhase::Following);
        // This side may be on a different host from the caller.
        copies.extend(own.map(|state| CopyRegistration {
            host: None,
            ..state.registration(self.logs.path(), vfs.clock().unix_ms())
        }));
        Ok(copies)
    }

    fn step_down(&self, successor: &str, end: Option<ClosedLogId>, phase: CopyPhase) -> Result<()> {
        let (vfs, directory) = (&self.logs.vfs, self.logs.path());
        let newest = self.set.logs.last_key_value().map_or(0, |(newest, _)| newest.0);
        let id = format!("{:08x}", self.set.signature.random ^ newest);
        let mut state = CopyState::new_seeding(id, successor.to_string(), &self.logs, self.set.signature);
        state.databases = self.databases();
        state.log_bytes = self.set.logs.values().next().map_or(0, |path| vfs.file_len(path).unwrap_or(0));
        (state.next, state.end) = (end.map_or(newest.saturating_add(1), |end| end.next().0), end);
        state.replayed = state.next.saturating_sub(1);
        let oldest = self.set.logs.first_key_value().map_or(0, |(oldest, _)| oldest.0);
        state.record_contact(oldest, vfs.clock().unix_ms());
        state.phase = phase;
        // The logs are renamed first. After the renames no instance can be opened.
        self.archive()?;
        state.store(&**vfs, directory)
    }
}

/// Renames a closed log that still has the name of the current log. This happens if a crash interrupts the start of
/// the next generation. Recovery of the active side would do the same. After the rename the copy can fetch the log.
fn rename_closed_log(logs: &StreamDirectory, set: &mut RecoverySet) -> Result<()> {
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
