//! Copies that are registered with an instance.

use std::path::Path;
use std::time::Duration;

use ese_engine::internals::log::LogNames;
use ese_engine::{CopyOptions, CopyRegistration, LogNameFormat};
use ese_format::Signature;
use ese_format::log::has_log_extension;
use jetcell_host::host_name;
use jetcell_sync::Arc;
use jetcell_vfs::{FileStem, Vfs};

use crate::copy_state::CopyState;
use crate::error::{CopyError, Refusal, Result};
use crate::status::CopyStatus;
use crate::stream_directory::StreamDirectory;

/// A copy that is registered with an instance.
#[derive(Debug)]
pub struct RegisteredCopy {
    /// Registration of the copy.
    pub registration: CopyRegistration,
    /// True if the instance no longer retains the logs that the copy needs.
    pub is_cut_off: bool,
    /// State of the copy, if the copy is on this host and can be read.
    pub state: Option<CopyState>,
    /// Queues, lag and contact of the copy. They are taken from the registration if the copy's state is unknown.
    pub status: CopyStatus,
}

impl RegisteredCopy {
    /// Lists the copies of the instance whose logs are in a directory.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read, or contains no logs.
    pub fn list(vfs: &Arc<dyn Vfs>, directory: &Path) -> Result<Vec<RegisteredCopy>> {
        let files = vfs.list(directory).map_err(|error| CopyError::io(directory, &error))?;
        if !files.iter().any(|path| has_log_extension(path)) {
            return Err(Refusal::NeitherCopyNorInstance.at(directory));
        }
        let mut bases: Vec<FileStem> = files
            .iter()
            .filter(|path| path.extension().is_some_and(|extension| extension == "copy"))
            .filter_map(|path| FileStem::new(path.file_stem()?.to_str()?.rsplit_once('-')?.0).ok())
            .collect();
        bases.dedup();
        let now = vfs.clock().unix_ms();
        let mut copies = Vec::new();
        for base in bases {
            let names = LogNames::new(directory, base).with_format_of(&files, LogNameFormat::default());
            let newest = files.iter().filter_map(|path| names.generation_of(path)).max().unwrap_or_default();
            for (path, registration) in CopyRegistration::list(&**vfs, directory, base)? {
                // An unreadable registration must not prevent the others from being shown.
                let id = path.file_name().and_then(|name| CopyRegistration::id_of(name.to_str()?, base));
                let stand_in = |id| CopyRegistration::unreadable(id, Signature::default(), newest);
                let Some(registration) = registration.or_else(|| id.map(stand_in)) else { continue };
                let is_cut_off = registration.is_cut_off(newest, CopyOptions::LAG_LIMIT);
                // The same path on another host refers to a different directory.
                let is_here = registration.host.as_ref().is_none_or(|host| *host == host_name());
                let read = || CopyState::read(&**vfs, Path::new(&registration.copy)).ok().flatten();
                let state = is_here.then(read).flatten().filter(|state| state.id == registration.id);
                let status = match &state {
                    Some(state) => {
                        let registered = Some((directory, registration.contact_unix_ms));
                        CopyStatus::examine(vfs, state, registered, now)
                    }
                    None => {
                        let logs = StreamDirectory { vfs: vfs.clone(), names: names.clone() };
                        CopyStatus::from_registration(&registration, &logs, now)
                    }
                };
                copies.push(RegisteredCopy { registration, is_cut_off, state, status });
            }
        }
        Ok(copies)
    }

    /// Returns true if the copy can continue to follow the instance, and its lag is within the limit. Without a limit,
    /// its last contact must be recent.
    pub fn is_fit(&self, max_lag: Option<Duration>) -> bool {
        !self.is_cut_off
            && self.registration.unreadable_since.is_none()
            && match &self.state {
                Some(state) => self.status.is_fit(state, max_lag),
                None => self.status.is_recent(max_lag),
            }
    }
}
