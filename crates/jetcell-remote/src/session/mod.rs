//! A server's session with one client. Requests are processed in order, and the client's locks are released when the
//! session ends.
//!
//! Invariants:
//! - No request is served before the client has sent the token.
//! - Every path refers to a regular file of a kind listed in `permissions`, in an exported directory or its
//!   `incoming` subdirectory. The file system confines the path, so no link is followed.
//! - Files that an activation changes can be changed only while this client holds the corresponding log lock. A
//!   client that has lost its lock therefore cannot continue, even if it has not yet detected the loss.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use jetcell_sync::Arc;
use jetcell_vfs::{DirectoryLock, File, IoBuffer, IoReason, OpenMode};

use crate::content::is_registration;
use crate::exports::ExportedDirectories;
use crate::frame::{MAX_CHUNK, MAX_FRAME, MAX_GREETING};
use crate::permissions::{
    ChangePermission, INCOMING, RemoteFileKind, RequestedChange, is_name, registered_id, stream_name,
};
use crate::reply::RemoteReply;
use crate::request::{RemotePath, RemoteRequest, VERSION};

/// Maximum number of page messages in a directory. The limit prevents a client from filling the directory with files.
const MAX_PAGE_MESSAGES: usize = 4096;
/// Maximum number of registrations in a directory. Page messages are counted separately.
const MAX_REGISTRATIONS: usize = 1024;
/// Maximum number of copies that one connection can register for the first time.
const MAX_NEW_COPIES: usize = 64;
/// Maximum total length of the names in one reply, in bytes.
const MAX_NAMES_LEN: usize = 256 << 10;

/// A reply, with an optional reason to close the connection after the reply has been sent.
pub(crate) struct SessionReply {
    pub reply: RemoteReply,
    pub disconnect_reason: Option<DisconnectReason>,
}

/// Reason why the server closes a connection after a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DisconnectReason {
    /// The client does not use the protocol.
    Malformed,
    /// The client sent a wrong token.
    WrongToken,
    /// The client has a different protocol version.
    WrongVersion,
    /// The server has reached its maximum number of clients.
    TooManyClients,
}

struct ClientFile {
    file: Arc<dyn File>,
    place: RemotePath,
    mode: OpenMode,
    /// Number of the writer, if the client has created the file.
    writer: Option<u64>,
}

struct ClientLock {
    place: RemotePath,
    _lock: Box<dyn DirectoryLock>,
}

/// Server-side state of one client connection.
pub(crate) struct ServerSession {
    exports: Arc<ExportedDirectories>,
    is_authenticated: bool,
    files: BTreeMap<u32, ClientFile>,
    locks: BTreeMap<u32, ClientLock>,
    /// Registrations that were created on this connection.
    new_copies: BTreeSet<RemotePath>,
    next: u32,
}

impl Drop for ServerSession {
    fn drop(&mut self) {
        for open in self.files.values() {
            close(&self.exports, open);
        }
    }
}

fn close(exports: &ExportedDirectories, open: &ClientFile) {
    if let Some(writer) = open.writer {
        exports.writes.remove_writer(&open.place, writer);
    }
}

impl ServerSession {
    pub fn new(exports: &Arc<ExportedDirectories>) -> ServerSession {
        ServerSession {
            exports: exports.clone(),
            is_authenticated: false,
            files: BTreeMap::new(),
            locks: BTreeMap::new(),
            new_copies: BTreeSet::new(),
            next: 1,
        }
    }

    /// Returns the maximum length of the next frame from the client.
    pub fn max_frame_len(&self) -> usize {
        if self.is_authenticated { MAX_FRAME } else { MAX_GREETING }
    }

    /// Returns true if the client has sent the token.
    pub fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    /// Processes one message and returns the reply.
    pub fn process(&mut self, message: &[u8]) -> SessionReply {
        let ending = |kind, what: String, end| SessionReply {
            reply: RemoteReply::Failed { kind, what },
            disconnect_reason: Some(end),
        };
        let request = match RemoteRequest::decode(message) {
            Ok(request) => request,
            Err(error) => return ending(error.kind(), error.to_string(), DisconnectReason::Malformed),
        };
        match request {
            RemoteRequest::Hello { version, .. } if version != VERSION => {
                ending(ErrorKind::Unsupported, VERSION.to_string(), DisconnectReason::WrongVersion)
            }
            RemoteRequest::Hello { token, .. } if self.exports.token.matches(&token) => {
                self.is_authenticated = true;
                let (allows_handover, host) = (self.exports.allow_handover, self.exports.host.clone());
                SessionReply {
                    reply: RemoteReply::Welcome { allows_handover, host },
                    disconnect_reason: None,
                }
            }
            RemoteRequest::Hello { .. } => {
                ending(ErrorKind::PermissionDenied, "the token is wrong".into(), DisconnectReason::WrongToken)
            }
            _ if !self.is_authenticated => ending(
                ErrorKind::PermissionDenied,
                "the client did not send a greeting".into(),
                DisconnectReason::Malformed,
            ),
            request => {
                let reply = self.serve(request).unwrap_or_else(|error| RemoteReply::failed(&error));
                SessionReply { reply, disconnect_reason: None }
            }
        }
    }

    fn serve(&mut self, request: RemoteRequest) -> io::Result<RemoteReply> {
        Ok(match request {
            RemoteRequest::Hello { .. } | RemoteRequest::Ping => RemoteReply::Done,
            RemoteRequest::Open { place, mode } => RemoteReply::Handle(self.open(place, mode)?),
            RemoteRequest::Close { file } => {
                if let Some(open) = self.files.remove(&file) {
                    close(&self.exports, &open);
                }
                RemoteReply::Done
            }
            RemoteRequest::Length { file } => RemoteReply::Number(self.file(file)?.file.len()?),
            RemoteRequest::Read { file, offset, len } => RemoteReply::Bytes(self.read(file, offset, len)?),
            RemoteRequest::Write { file, offset, data } => {
                self.write(file, offset, &data)?;
                RemoteReply::Done
            }
            RemoteRequest::Sync { file } => {
                let open = self.file(file)?;
                open.file.sync(reason(&open.place.file))?;
                RemoteReply::Done
            }
            RemoteRequest::Exists { place } if place.file.is_empty() => {
                self.directory(&place.directory)?;
                RemoteReply::Flag(true)
            }
            RemoteRequest::Exists { place } => {
                let path = self.path(&place)?;
                RemoteReply::Flag(self.exports.vfs.is_regular_file(&path)? && self.is_served(&place, &path))
            }
            RemoteRequest::Remove { place } => {
                self.check(&place, RequestedChange::Remove(&place.file))?;
                let path = self.existing_file(&place)?;
                self.exports.writes.end_write(&place, || self.exports.vfs.remove(&path))?;
                RemoteReply::Done
            }
            RemoteRequest::Rename { from, to } => {
                self.rename(&from, &to)?;
                RemoteReply::Done
            }
            RemoteRequest::SyncDirectory { directory } => {
                self.exports.vfs.sync_directory(self.directory(&directory)?)?;
                RemoteReply::Done
            }
            RemoteRequest::List { directory, after } => self.list(&directory, &after)?,
            RemoteRequest::Lock { place } => RemoteReply::Handle(self.lock(place)?),
            RemoteRequest::Unlock { lock } => {
                self.locks.remove(&lock);
                RemoteReply::Done
            }
        })
    }

    fn directory(&self, name: &str) -> io::Result<&Path> {
        self.exports.directory(name).ok_or_else(|| {
            let known: Vec<&str> = self.exports.directories().keys().map(String::as_str).collect();
            let what = format!("the server does not have a directory `{name}`; it has {}", known.join(", "));
            // An error of kind `NotFound` would wrongly tell the client that a file does not exist.
            io::Error::other(what)
        })
    }

    /// Returns the path of an existing or new file. Fails if clients cannot access files of this kind.
    fn path(&self, place: &RemotePath) -> io::Result<PathBuf> {
        let directory = self.directory(&place.directory)?;
        let name = place.file.rsplit_once('/').map_or(&*place.file, |(_, name)| name);
        if RemoteFileKind::from_path(&place.file).is_none() || !is_name(name) {
            return Err(refused_error("the server serves only files at the top level of its directories"));
        }
        Ok(directory.join(&place.file))
    }

    /// Returns true if copies need the file. Its name shows this, or its content is a database.
    fn is_served(&self, place: &RemotePath, path: &Path) -> bool {
        RemoteFileKind::from_path(&place.file) != Some(RemoteFileKind::Other)
            || self.exports.is_database(path)
    }

    /// Returns the path of an existing file that copies need.
    fn existing_file(&self, place: &RemotePath) -> io::Result<PathBuf> {
        let path = self.path(place)?;
        if self.exports.vfs.is_regular_file(&path)? {
            return if self.is_served(place, &path) {
                Ok(path)
            } else {
                Err(refused_error(
                    "the server serves only databases, logs and the files of copies, but the requested file \
                     has a different type",
                ))
            };
        }
        if self.exports.vfs.exists(&path)? {
            Err(refused_error("the server does not serve this file, because it is not a regular file"))
        } else {
            Err(ErrorKind::NotFound.into())
        }
    }

    /// Returns true if the client holds the lock of a log stream in a directory.
    fn holds_lock(&self, directory: &str, stream: &str) -> bool {
        self.locks.values().any(|held| {
            let place = &held.place;
            let is_lock = RemoteFileKind::from_name(&place.file) == RemoteFileKind::LogLock;
            place.directory == directory && is_lock && stream_name(&place.file) == Some(stream)
        })
    }

    /// Returns the log streams that have logs in a directory.
    fn streams(&self, directory: &str) -> io::Result<BTreeSet<String>> {
        let files = self.exports.vfs.list(self.directory(directory)?)?;
        let logs = files.iter().filter_map(|path| path.file_name()?.to_str());
        let logs = logs.filter(|name| {
            matches!(RemoteFileKind::from_name(name), RemoteFileKind::OpenLog | RemoteFileKind::ClosedLog)
        });
        Ok(logs.filter_map(stream_name).map(str::to_string).collect())
    }

    /// Returns true if the client holds the locks of all log streams that a change affects.
    fn holds_locks(&self, directory: &str, change: RequestedChange<'_>) -> io::Result<bool> {
        Ok(match change.stream() {
            Some(stream) => self.holds_lock(directory, stream),
            None => {
                let streams = self.streams(directory)?;
                !streams.is_empty() && streams.iter().all(|stream| self.holds_lock(directory, stream))
            }
        })
    }

    /// Fails unless the client may currently make this change in the directory.
    fn check(&self, place: &RemotePath, change: RequestedChange<'_>) -> io::Result<()> {
        self.directory(&place.directory)?;
        match change.permission() {
            ChangePermission::Allowed => Ok(()),
            ChangePermission::WithLock if !self.exports.allow_handover => Err(refused_error(
                "the server does not allow a client to take over the active role; start it with --allow-handover",
            )),
            ChangePermission::WithLock if matches!(change, RequestedChange::CreateLock(_)) => {
                let streams = self.streams(&place.directory)?;
                if change.stream().is_some_and(|stream| streams.contains(stream)) {
                    Ok(())
                } else {
                    Err(refused_error(
                        "the lock cannot be created, because the directory does not contain logs with this name",
                    ))
                }
            }
            ChangePermission::WithLock if self.holds_locks(&place.directory, change)? => Ok(()),
            ChangePermission::WithLock => Err(refused_error("the client does not hold the log lock")),
            ChangePermission::Denied => {
                Err(refused_error("the server does not allow clients to change this file"))
            }
        }
    }

    fn open(&mut self, place: RemotePath, mode: OpenMode) -> io::Result<u32> {
        let max_files = self.exports.max_files;
        if self.files.len() >= max_files {
            return Err(refused_error(&format!(
                "the client has reached the maximum of {max_files} open files"
            )));
        }
        let vfs = self.exports.vfs.clone();
        let (file, writer) = match mode {
            OpenMode::Read => (vfs.open(&self.existing_file(&place)?, mode)?, None),
            OpenMode::Write | OpenMode::WriteOwn => {
                self.check(&place, RequestedChange::Write(&place.file))?;
                (vfs.open(&self.existing_file(&place)?, mode)?, None)
            }
            OpenMode::CreateNew => {
                self.check(&place, RequestedChange::Create(&place.file))?;
                self.check_file_count(&place)?;
                let path = self.path(&place)?;
                let (file, writer) = self.exports.writes.create(&place, || vfs.open(&path, mode))?;
                (file, Some(writer))
            }
        };
        let handle = self.allocate_handle();
        self.files.insert(handle, ClientFile { file, place, mode, writer });
        Ok(handle)
    }

    /// Fails if the directory contains too many files of the kind that a client wants to create. A copy that is
    /// already registered is always allowed.
    fn check_file_count(&mut self, place: &RemotePath) -> io::Result<()> {
        let directory = self.directory(&place.directory)?;
        let Some(aside) = temporary_registration(&place.file) else {
            return match self.count(directory, is_page_message)? {
                0..MAX_PAGE_MESSAGES => Ok(()),
                _ => Err(refused_error(&format!(
                    "the directory has reached the maximum of {MAX_PAGE_MESSAGES} messages about pages"
                ))),
            };
        };
        if self.exports.vfs.is_regular_file(&directory.join(format!("{aside}.copy")))? {
            return Ok(());
        }
        if self.count(directory, is_registration_name)? >= MAX_REGISTRATIONS {
            return Err(refused_error(&format!(
                "the directory has reached the maximum of {MAX_REGISTRATIONS} registrations of copies; \
                 remove the *.copy and *.copy-new files of copies that no longer exist"
            )));
        }
        if self.new_copies.len() >= MAX_NEW_COPIES && !self.new_copies.contains(place) {
            return Err(refused_error(&format!(
                "this connection has reached the maximum of {MAX_NEW_COPIES} registered copies"
            )));
        }
        self.new_copies.insert(place.clone());
        Ok(())
    }

    /// Returns the number of files in a directory whose names match `is_kind`.
    fn count(&self, directory: &Path, is_kind: fn(&str) -> bool) -> io::Result<usize> {
        let files = self.exports.vfs.list(directory)?;
        let names = files.iter().filter_map(|path| path.file_name()?.to_str());
        Ok(names.filter(|name| is_kind(name)).count())
    }

    fn allocate_handle(&mut self) -> u32 {
        while self.files.contains_key(&self.next) || self.locks.contains_key(&self.next) || self.next == 0 {
            self.next = self.next.wrapping_add(1);
        }
        let handle = self.next;
        self.next = self.next.wrapping_add(1);
        handle
    }

    fn file(&self, handle: u32) -> io::Result<&ClientFile> {
        self.files
            .get(&handle)
            .ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "this file is not open"))
    }

    fn read(&self, handle: u32, offset: u64, len: u32) -> io::Result<Vec<u8>> {
        let open = self.file(handle)?;
        let len = len as usize;
        if len > MAX_CHUNK || offset.checked_add(len as u64).is_none_or(|end| end > i64::MAX as u64) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let mut bytes = IoBuffer::zeroed(len);
        open.file.read_at(offset, &mut bytes, reason(&open.place.file))?;
        Ok(bytes.to_vec())
    }

    fn write(&self, handle: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        let open = self.file(handle)?;
        let (place, name) = (&open.place, &open.place.file);
        let max = match open.mode {
            OpenMode::Read => return Err(refused_error("the file was opened for reading only")),
            OpenMode::Write | OpenMode::WriteOwn => {
                self.check(place, RequestedChange::Write(name))?;
                open.file.len()?
            }
            OpenMode::CreateNew => {
                self.check(place, RequestedChange::Create(name))?;
                RemoteFileKind::from_name(name).max_created().unwrap_or(0)
            }
        };
        if offset.checked_add(data.len() as u64).is_none_or(|end| end > max) {
            return Err(refused_error("the write would exceed the maximum file length of the server"));
        }
        let mut aligned = IoBuffer::zeroed(data.len());
        aligned.copy_from_slice(data);
        let write_chunk = || open.file.write_at(offset, &aligned, reason(name));
        match open.writer {
            None => write_chunk(),
            Some(writer) => self.exports.writes.write(place, writer, write_chunk).unwrap_or_else(|| {
                Err(refused_error(
                    "the file was removed or has received its final name, so it can no longer be written",
                ))
            }),
        }
    }

    fn rename(&mut self, from: &RemotePath, to: &str) -> io::Result<()> {
        self.check(from, RequestedChange::Rename(&from.file, to))?;
        let target = RemotePath { directory: from.directory.clone(), file: to.to_string() };
        let (source, target_path) = (self.existing_file(from)?, self.path(&target)?);
        let vfs = &*self.exports.vfs;
        // Messages and states replace earlier ones, but a log never replaces another log.
        if vfs.exists(&target_path)? && RemoteFileKind::from_name(to) == RemoteFileKind::ClosedLog {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.exports.writes.end_write(from, || {
            // A registration makes the instance keep logs, so an invalid file must not be renamed to a registration.
            if let Some(id) = registered_id(to)
                && !is_registration(vfs, &source, id)?
            {
                return Err(refused_error(
                    "the data is not the registration of a copy; use the same version of jetcell on both hosts",
                ));
            }
            vfs.rename(&source, &target_path)
        })?;
        // Prevent writes to the log, which is now closed, through a file that was opened earlier.
        for open in self.files.values_mut().filter(|open| open.place == *from) {
            open.mode = OpenMode::Read;
        }
        Ok(())
    }

    fn list(&self, directory: &RemotePath, after: &str) -> io::Result<RemoteReply> {
        let mut path = self.directory(&directory.directory)?.to_path_buf();
        match &*directory.file {
            "" => {}
            INCOMING => path.push(INCOMING),
            _ => return Err(refused_error("the server lists only its own directories")),
        }
        let files = self.exports.vfs.list(&path)?;
        let mut names: Vec<String> =
            files.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_string())).collect();
        names.sort_unstable();
        names.retain(|name| is_name(name) && &**name > after && self.is_listed(&directory.file, name, &path));
        let mut bytes = 0;
        let fits = names.iter().take_while(|name| {
            bytes += name.len() + 2;
            bytes <= MAX_NAMES_LEN
        });
        let fits = fits.count();
        let more = fits < names.len();
        names.truncate(fits);
        Ok(RemoteReply::Names { names, more })
    }

    /// Returns true if clients can see a file. `below` is the subdirectory of the export, or empty for the export
    /// itself.
    fn is_listed(&self, below: &str, name: &str, directory: &Path) -> bool {
        match below {
            "" => {
                RemoteFileKind::from_name(name) != RemoteFileKind::Other
                    || self.exports.is_known_database(&directory.join(name))
            }
            below => RemoteFileKind::from_path(&format!("{below}/{name}")).is_some(),
        }
    }

    fn lock(&mut self, place: RemotePath) -> io::Result<u32> {
        if self.locks.len() >= self.exports.max_files {
            return Err(refused_error("the client has too many locks"));
        }
        let mut path = self.path(&place)?;
        // Locks on other files would block the processes that follow, scan or back up a copy on this host.
        if !matches!(
            RemoteFileKind::from_path(&place.file),
            Some(RemoteFileKind::LogLock | RemoteFileKind::Other)
        ) {
            return Err(refused_error(
                "clients can lock only databases and the lock file in the log directory",
            ));
        }
        // Acquiring a lock creates the file, and must not follow a link.
        if self.exports.vfs.exists(&path)? {
            path = self.existing_file(&place)?;
        } else {
            self.check(&place, RequestedChange::CreateLock(&place.file))?;
        }
        let lock = self.exports.vfs.lock(&path)?;
        let handle = self.allocate_handle();
        self.locks.insert(handle, ClientLock { place, _lock: lock });
        Ok(handle)
    }
}

/// Returns the stem of a registration that has not yet been renamed to its final name.
fn temporary_registration(name: &str) -> Option<&str> {
    name.strip_suffix(".copy-new")
        .filter(|_| RemoteFileKind::from_name(name) == RemoteFileKind::TemporaryMessage)
}

fn is_registration_name(name: &str) -> bool {
    registered_id(name).is_some() || temporary_registration(name).is_some()
}

fn is_page_message(name: &str) -> bool {
    matches!(RemoteFileKind::from_name(name), RemoteFileKind::Message | RemoteFileKind::TemporaryMessage)
        && !is_registration_name(name)
}

fn refused_error(what: &str) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, what)
}

/// Returns the I/O reason for a transfer, derived from the file name.
fn reason(name: &str) -> IoReason {
    match RemoteFileKind::from_name(name) {
        RemoteFileKind::OpenLog | RemoteFileKind::ClosedLog => IoReason::LogRead,
        RemoteFileKind::Other => IoReason::Backup,
        _ => IoReason::Other,
    }
}

#[cfg(test)]
mod tests;
