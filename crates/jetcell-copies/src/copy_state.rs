//! The state of a copy, stored in a single file in the copy's directory.
//!
//! The file is written under another name, synced and renamed, so it is always complete. The state never claims more
//! than the directory contains. A log is durable under its final name before `end` names it, and `end` names it
//! before it is replayed.

use std::path::{Path, PathBuf};

use ese_engine::{CopyRegistration, LogNameFormat};
use ese_format::header::{DatabaseHeader, DatabaseState};
use ese_format::log::header::SEGMENT_BYTES;
use ese_format::{Generation, Signature};
use jetcell_backup::text_file;
use jetcell_host::host_name;
use jetcell_sync::Arc;
use jetcell_vfs::{FileName, FileStem, IoBuffer, IoReason, OpenMode, Vfs};
use serde::{Deserialize, Serialize};

use crate::error::{CopyError, Refusal, Result};
use crate::incoming::{is_not_found, part_path};
use crate::log_end::{ClosedLogId, MAX_LOG_BYTES, read_log_header};
use crate::stream_directory::StreamDirectory;
use crate::unfit_reason::UnfitReason;

/// Name of the file whose presence makes a directory a copy.
pub const COPY_FILE: &str = "copy.json";
const FORMAT: u32 = 1;
/// Maximum file length in bytes, enough for thousands of databases with long paths. Clients may store a file of this
/// size during a handover.
const MAX_BYTES: u64 = 1 << 20;
/// Maximum length of a copy's identifier. Generated identifiers have eight characters.
const MAX_ID_LEN: usize = 64;
/// Maximum length of a path or an address, equal to `PATH_MAX` on Linux.
const MAX_PATH_LEN: usize = 4096;
/// Maximum length of the text that explains why a copy cannot follow.
const MAX_REASON_LEN: usize = 64 << 10;
/// Maximum log generation.
const LAST_GENERATION: u32 = 0x7FFF_FFFF;

/// State of a copy, as stored on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyState {
    /// Version of the file format: 1.
    pub format: u32,
    /// Identifier of the copy.
    pub id: String,
    /// Address of the active side.
    pub source: String,
    /// Address of the active side for which the histories were found to match.
    pub confirmed_with: Option<String>,
    /// Base name of the logs.
    pub base_name: FileStem,
    /// True if generation numbers in log names have five digits.
    pub short_names: bool,
    /// True if log names have the extension `.jtx`.
    pub newer_extensions: bool,
    /// Signature of the log stream, in hexadecimal digits.
    pub log_signature: String,
    /// Size of a log in bytes.
    pub log_bytes: u64,
    /// The copy's databases.
    pub databases: Vec<CopiedDatabase>,
    /// Current phase, or the reason why the copy is inactive.
    pub phase: CopyPhase,
    /// First generation that the copy does not yet have.
    pub next: u32,
    /// End of the log before `next`, if it is known.
    pub end: Option<ClosedLogId>,
    /// Newest generation that has been replayed.
    pub replayed: u32,
    /// Time up to which all changes have been replayed, in milliseconds since 1970 UTC; `None` before the first
    /// replay.
    pub replayed_unix_ms: Option<i64>,
    /// State of the active side as of its last response.
    pub active: Option<ActiveSideStatus>,
    /// Number of failed attempts to fetch the next log.
    pub tries: u32,
    /// Minimum age of a completed generation before it is replayed, in seconds.
    pub delay_seconds: u64,
}

/// A database in a copy, and the original from which it was copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopiedDatabase {
    /// Name of the file in the directory of the copy.
    pub file: String,
    /// Signature of the database, in hexadecimal digits.
    pub signature: String,
    /// Path of the database on the active side.
    pub source: PathBuf,
}

/// Status of a copy's active side, as of its last response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActiveSideStatus {
    /// Oldest generation whose log it still had.
    pub oldest: u32,
    /// Newest closed generation.
    pub closed: u32,
    /// Time of the response, in milliseconds since 1970 UTC.
    pub at_unix_ms: i64,
}

/// The current phase of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CopyPhase {
    /// The copy is being seeded and has no complete databases yet.
    Seeding,
    /// The copy follows the active side.
    Following,
    /// The copy can no longer follow the active side.
    Unfit {
        /// Kind of the reason.
        reason: UnfitReason,
        /// Description of the reason.
        what: String,
    },
    /// The copy is becoming the active side. Once its last log has been given the name of the current log, only the
    /// undo remains.
    Activating {
        /// The lost part of the history, if any.
        lost: Option<LostHistory>,
        /// True if the old active side was reachable, so it must step down.
        steps_down: bool,
    },
}

/// The part of the active side's history that an activation loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LostHistory {
    /// First lost generation.
    pub first: u32,
    /// True if the beginning of the first lost generation is kept.
    #[serde(default)]
    pub first_in_part: bool,
    /// Newest generation that the active side is known to have had.
    pub last_known: u32,
    /// Number of transactions committed in the lost logs; `None` if these logs cannot be read.
    pub commits: Option<u64>,
    /// Time at which the last kept log segment was started, in milliseconds since 1970 UTC. Later commits in this
    /// segment are also kept.
    pub kept_until_unix_ms: Option<i64>,
}

impl CopyState {
    /// Returns true unless the copy is unfit to follow its active side.
    pub fn is_fit(&self) -> bool {
        !matches!(self.phase, CopyPhase::Unfit { .. })
    }

    /// Reads the state file of a copy. Returns `None` if the directory is not a copy.
    pub fn read(vfs: &dyn Vfs, directory: &Path) -> Result<Option<CopyState>> {
        let path = directory.join(COPY_FILE);
        let Some(text) = text_file::read_at_most(vfs, &path, MAX_BYTES)? else {
            return Ok(None);
        };
        let state: CopyState =
            serde_json::from_str(&text).map_err(|error| Refusal::DamagedState(Arc::new(error)).at(&path))?;
        if state.format != FORMAT {
            return Err(Refusal::NewerState(state.format).at(&path));
        }
        if let Some(field) = state.invalid_field() {
            return Err(Refusal::InvalidField(field).at(&path));
        }
        Ok(Some(state))
    }

    /// Returns the name of the first field with an invalid value. The checks confine file names to their directories
    /// and prevent overflow in arithmetic with generations.
    fn invalid_field(&self) -> Option<&'static str> {
        let is_path = |text: &str| text.len() <= MAX_PATH_LEN && !text.chars().any(char::is_control);
        let is_reason = match &self.phase {
            CopyPhase::Unfit { what, .. } => what.len() <= MAX_REASON_LEN,
            _ => true,
        };
        let databases = &self.databases;
        let seen = self.active.iter().flat_map(|active| [active.oldest, active.closed]);
        let lost = match &self.phase {
            CopyPhase::Activating { lost: Some(lost), .. } => [lost.first, lost.last_known],
            _ => [0, 0],
        };
        let mut generations = [self.next, self.replayed]
            .into_iter()
            .chain(seen)
            .chain(lost)
            .chain(self.end.map(|end| end.generation));
        let rules = [
            ("id", is_id(&self.id)),
            ("source", is_path(&self.source)),
            ("confirmed_with", self.confirmed_with.as_deref().is_none_or(is_path)),
            ("what", is_reason),
            ("source", databases.iter().all(|database| database.source.as_os_str().len() <= MAX_PATH_LEN)),
            ("log_signature", Signature::from_hex(&self.log_signature).is_some()),
            ("file", databases.iter().all(|database| FileName::new(database.file.as_str()).is_ok())),
            (
                "signature",
                databases.iter().all(|database| Signature::from_hex(&database.signature).is_some()),
            ),
            (
                "log_bytes",
                self.log_bytes <= MAX_LOG_BYTES && self.log_bytes.is_multiple_of(SEGMENT_BYTES as u64),
            ),
            ("generation", generations.all(|generation| generation <= LAST_GENERATION)),
        ];
        rules.into_iter().find(|(_, holds)| !holds).map(|(name, _)| name)
    }

    /// Writes the state file and makes it durable.
    pub fn store(&self, vfs: &dyn Vfs, directory: &Path) -> Result<()> {
        Ok(text_file::write_json(vfs, &directory.join(COPY_FILE), self)?)
    }

    /// Creates the state of a new copy of a log stream. The copy does not have any databases yet.
    pub fn new_seeding(id: String, source: String, active: &StreamDirectory, stream: Signature) -> CopyState {
        let form = active.names.format();
        CopyState {
            format: FORMAT,
            id,
            confirmed_with: Some(source.clone()),
            source,
            base_name: active.names.base(),
            short_names: form.short,
            newer_extensions: form.newer_extensions,
            log_signature: stream.to_hex(),
            log_bytes: 0,
            databases: Vec::new(),
            phase: CopyPhase::Seeding,
            next: 0,
            end: None,
            replayed: 0,
            replayed_unix_ms: None,
            active: None,
            tries: 0,
            delay_seconds: 0,
        }
    }

    /// Records a contact with an active side whose newest closed log is also the newest one of this copy. `oldest` is
    /// the oldest generation that the active side had.
    pub(crate) fn record_contact(&mut self, oldest: u32, now_unix_ms: i64) {
        let closed = self.next.saturating_sub(1);
        self.active = Some(ActiveSideStatus { oldest: oldest.min(closed), closed, at_unix_ms: now_unix_ms });
    }

    /// Returns the format of the log names.
    pub fn log_name_form(&self) -> LogNameFormat {
        LogNameFormat { short: self.short_names, newer_extensions: self.newer_extensions }
    }

    /// Returns the signature of the log stream.
    pub fn stream(&self) -> Signature {
        Signature::from_hex(&self.log_signature).unwrap_or_default()
    }

    /// Returns the logs of the copy in its directory.
    pub fn logs(&self, vfs: &Arc<dyn Vfs>, directory: &Path) -> StreamDirectory {
        StreamDirectory::new(vfs, directory, self.base_name, self.log_name_form())
    }

    /// Returns the partial log that came with the seed, if the copy does not have the complete log yet.
    ///
    /// The databases may contain changes from this log, so a backup of the copy includes it. Its file name is not
    /// that of a log in the stream.
    ///
    /// # Errors
    ///
    /// Returns an error if the copy has no log at all.
    pub fn first_log(&self, vfs: &Arc<dyn Vfs>, directory: &Path) -> Result<Option<PathBuf>> {
        let path = part_path(directory);
        match read_log_header(&**vfs, &path) {
            Ok(header) => Ok((header.generation.0 >= self.next).then_some(path)),
            Err(error) if !is_not_found(&error) => Err(error.into()),
            Err(_) if self.logs(vfs, directory).closed()?.is_empty() => Err(Refusal::NoLog.at(directory)),
            Err(_) => Ok(None),
        }
    }

    /// Returns the registration with which a copy on this host requests logs from the active side.
    pub fn registration(&self, directory: &Path, now_unix_ms: i64) -> CopyRegistration {
        CopyRegistration {
            id: self.id.clone(),
            stream: self.stream(),
            needs: Generation(self.next),
            contact_unix_ms: now_unix_ms,
            copy: directory.display().to_string(),
            waiting: None,
            host: Some(host_name()),
            unreadable_since: None,
        }
    }

    /// Returns the number of closed generations that the active side had as of its last response and the copy does
    /// not have.
    pub fn copy_queue(&self) -> u32 {
        self.active.map_or(0, |active| active.closed.saturating_add(1).saturating_sub(self.next))
    }

    /// Returns the number of generations that the copy has but has not yet replayed.
    pub fn replay_queue(&self) -> u32 {
        self.next.saturating_sub(1).saturating_sub(self.replayed)
    }
}

/// Returns true if the text is a valid copy identifier. Identifiers are used in file names.
pub(crate) fn is_id(text: &str) -> bool {
    matches!(text.len(), 1..=MAX_ID_LEN) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

impl CopiedDatabase {
    /// Returns the signature of the database.
    pub fn signature(&self) -> Signature {
        Signature::from_hex(&self.signature).unwrap_or_default()
    }
}

/// Reads the header of a database file.
pub fn database_header(vfs: &dyn Vfs, path: &Path) -> Result<DatabaseHeader> {
    let io_error = |error: std::io::Error| CopyError::io(path, &error);
    let file = vfs.open(path, OpenMode::Read).map_err(io_error)?;
    let len = file.len().map_err(io_error)?.min(64 << 10) as usize;
    let mut start = IoBuffer::zeroed(len);
    file.read_at(0, &mut start, IoReason::DatabaseHeader).map_err(io_error)?;
    let header = DatabaseHeader::read_from_start(&start);
    header.map(|(header, _)| header).map_err(|error| ese_engine::Error::corrupt(path, error).into())
}

/// Returns the number of pages in a database file.
pub fn database_pages(vfs: &dyn Vfs, path: &Path) -> Result<u32> {
    let size = database_header(vfs, path)?.page_size;
    let file = vfs.open(path, OpenMode::Read).map_err(|error| CopyError::io(path, &error))?;
    let len = file.len().map_err(|error| CopyError::io(path, &error))?;
    // The header and its copy precede the first page.
    Ok(u32::try_from(len / size.bytes() as u64).unwrap_or(u32::MAX).saturating_sub(2))
}

/// Returns the generation from which a database needs redo.
pub fn first_required(header: &DatabaseHeader) -> Generation {
    match header.state {
        DatabaseState::CleanShutdown => header.consistent_position.generation,
        _ => header.gen_min_required,
    }
}

#[cfg(test)]
mod tests {
    use ese_format::LogTime;
    use jetcell_vfs::SimVfs;

    use super::*;

    #[test]
    fn an_impossible_state_file_is_rejected_naming_the_field() {
        let disk = SimVfs::new();
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let directory = Path::new("/copy");
        disk.create_directory(directory).unwrap();
        let logs = StreamDirectory::new(&vfs, directory, FileStem::E00, LogNameFormat::default());
        let mut sound =
            CopyState::new_seeding("a1".into(), "/a".into(), &logs, Signature::new(7, LogTime::NONE));
        let database = CopiedDatabase {
            file: "data.edb".into(),
            signature: sound.stream().to_hex(),
            source: "/a/data.edb".into(),
        };
        sound.databases.push(database);
        let refusal = |state: &CopyState| {
            state.store(&disk, directory).unwrap();
            match CopyState::read(&disk, directory) {
                Ok(read) => {
                    assert_eq!(read.as_ref(), Some(state));
                    None
                }
                Err(error) => Some(error.full_text()),
            }
        };
        assert_eq!(refusal(&sound), None);
        type InvalidChange = fn(&mut CopyState);
        let lies: [(&str, InvalidChange); 17] = [
            ("id", |state| state.id = "../x".into()),
            ("id", |state| state.id.clear()),
            ("id", |state| state.id = "a".repeat(MAX_ID_LEN + 1)),
            ("source", |state| state.source = "a".repeat(MAX_PATH_LEN + 1)),
            ("source", |state| state.source = "/a\u{1b}[2J".into()),
            ("source", |state| state.databases[0].source = "a".repeat(MAX_PATH_LEN + 1).into()),
            ("confirmed_with", |state| state.confirmed_with = Some("a".repeat(MAX_PATH_LEN + 1))),
            ("what", |state| {
                let what = "a".repeat(MAX_REASON_LEN + 1);
                state.phase = CopyPhase::Unfit { reason: UnfitReason::BadLog, what };
            }),
            ("file", |state| state.databases[0].file = "a\\b".into()),
            ("log_signature", |state| state.log_signature = "é7".into()),
            ("file", |state| state.databases[0].file = "../data.edb".into()),
            ("file", |state| state.databases[0].file = "..".into()),
            ("signature", |state| state.databases[0].signature.clear()),
            ("log_bytes", |state| state.log_bytes = u64::MAX / 4096 * 4096),
            ("log_bytes", |state| state.log_bytes = 4097),
            ("generation", |state| state.next = u32::MAX),
            ("generation", |state| {
                state.active = Some(ActiveSideStatus { oldest: 1, closed: u32::MAX, at_unix_ms: 0 });
            }),
        ];
        for (field, lie) in lies {
            let mut state = sound.clone();
            lie(&mut state);
            let text = refusal(&state).unwrap_or_default();
            let expected =
                format!("the {field} is not valid for a copy; reseed the copy with jetcell reseed");
            assert!(text.ends_with(&expected), "{field}: {text}");
        }
        let text = serde_json::to_string(&sound).unwrap().replace("\"E00\"", "\"/E00\"");
        text_file::write(&disk, &directory.join(COPY_FILE), &text).unwrap();
        let error = CopyState::read(&disk, directory).unwrap_err();
        assert!(error.to_string().contains("not a base name of logs"), "{error}");
        assert_eq!(error.advice().as_deref(), Some("reseed the copy with jetcell reseed"));
    }

    #[test]
    fn an_oversized_state_file_is_not_read() {
        let disk = SimVfs::new();
        let directory = Path::new("/copy");
        disk.create_directory(directory).unwrap();
        disk.put(&directory.join(COPY_FILE), &vec![b' '; MAX_BYTES as usize + 1]);
        let text = CopyState::read(&disk, directory).unwrap_err().to_string();
        assert!(text.contains("the maximum is 1048576 bytes"), "{text}");
    }
}
