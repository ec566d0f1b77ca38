//! The directories on another host as a file system.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use jetcell_sync::Arc;
use jetcell_vfs::{Clock, DirectoryLock, File, IoReason, OpenMode, Transfer, TransferKind, Vfs};

use crate::address::{HostAddress, relative_components};
use crate::connection::ServerWelcome;
use crate::connector::{Connector, NetworkConnector};
use crate::error::RemoteError;
use crate::frame::MAX_CHUNK;
use crate::host::{RemoteHost, RemoteOptions, unexpected_reply};
use crate::reply::RemoteReply;
use crate::request::{RemotePath, RemoteRequest};
use crate::tls::ClientTlsFiles;

/// A file system that exposes a server's exported directories under paths that begin with the host's address.
/// Only the operations that copies need are supported; others return `Unsupported`.
///
/// An error of kind `NotConnected` says nothing about the state of the files: see [`jetcell_vfs::is_disconnected`].
#[derive(Clone)]
pub struct RemoteVfs(Arc<RemoteHost>);

impl RemoteVfs {
    /// Creates a client for a host. The client connects when it is first used.
    ///
    /// # Errors
    ///
    /// Returns an error if one of the client's files is missing or invalid.
    pub fn new(
        address: &HostAddress,
        files: &ClientTlsFiles,
        options: RemoteOptions,
    ) -> Result<RemoteVfs, RemoteError> {
        let connector = NetworkConnector::new(address, files)?;
        Ok(RemoteVfs::with_connector(address.root(), Box::new(connector), options))
    }

    /// Creates a client that uses another transport.
    pub fn with_connector(root: PathBuf, connector: Box<dyn Connector>, options: RemoteOptions) -> RemoteVfs {
        RemoteVfs(Arc::new(RemoteHost::new(root, connector, options)))
    }

    /// Connects if there is no connection. Returns the information that the server sent in response to the greeting.
    ///
    /// # Errors
    ///
    /// Returns an error with the reason if the connection cannot be opened.
    pub fn connect(&self) -> Result<ServerWelcome, RemoteError> {
        self.0.welcome()
    }

    fn remote_path(&self, path: &Path) -> io::Result<RemotePath> {
        let wrong = || io::Error::new(ErrorKind::InvalidInput, "the path is not on the remote host");
        let parts = relative_components(&self.0.root, path).ok_or_else(wrong)?;
        let (directory, file) = parts.split_first().ok_or_else(wrong)?;
        Ok(RemotePath { directory: (*directory).to_string(), file: file.join("/") })
    }

    fn call(&self, request: &RemoteRequest) -> io::Result<RemoteReply> {
        self.0.call(request, None).map(|(reply, _)| reply)
    }

    fn execute(&self, request: &RemoteRequest) -> io::Result<()> {
        match self.call(request)? {
            RemoteReply::Done => Ok(()),
            _ => Err(unexpected_reply()),
        }
    }
}

impl Vfs for RemoteVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let (reply, epoch) =
            self.0.call(&RemoteRequest::Open { place: self.remote_path(path)?, mode }, None)?;
        let RemoteReply::Handle(handle) = reply else { return Err(unexpected_reply()) };
        Ok(Arc::new(RemoteFile(Arc::new(OpenRemoteFile {
            host: self.0.clone(),
            path: path.into(),
            handle,
            epoch,
        }))))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match self.call(&RemoteRequest::Exists { place: self.remote_path(path)? })? {
            RemoteReply::Flag(exists) => Ok(exists),
            _ => Err(unexpected_reply()),
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.execute(&RemoteRequest::Remove { place: self.remote_path(path)? })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.remote_path(from)?, self.remote_path(to)?);
        if from.directory != to.directory {
            return Err(ErrorKind::CrossesDevices.into());
        }
        self.execute(&RemoteRequest::Rename { from, to: to.file })
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.execute(&RemoteRequest::SyncDirectory { directory: self.remote_path(directory)?.directory })
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        if self.exists(directory)? { Ok(()) } else { Err(ErrorKind::Unsupported.into()) }
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let place = self.remote_path(directory)?;
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let request = RemoteRequest::List { directory: place.clone(), after: after.clone() };
            let RemoteReply::Names { names, more } = self.call(&request)? else {
                return Err(unexpected_reply());
            };
            let last = names.last().cloned().unwrap_or_default();
            // The server must send the names in ascending order. This check guarantees that the listing ends.
            if names.iter().any(|name| !crate::permissions::is_name(name) || **name <= *after) {
                return Err(unexpected_reply());
            }
            found.extend(names.iter().map(|name| directory.join(name)));
            if !more {
                return Ok(found);
            }
            if last <= after {
                return Err(unexpected_reply());
            }
            after = last;
        }
    }

    fn free_space(&self, _path: &Path) -> io::Result<u64> {
        Err(ErrorKind::Unsupported.into())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        let (lock, epoch) = self.0.lock(&RemoteRequest::Lock { place: self.remote_path(path)? })?;
        Ok(Box::new(RemoteLock { host: self.0.clone(), lock, epoch }))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.0.clock.clone()
    }
}

struct RemoteLock {
    host: Arc<RemoteHost>,
    lock: u32,
    epoch: u64,
}

impl DirectoryLock for RemoteLock {}

impl Drop for RemoteLock {
    fn drop(&mut self) {
        self.host.unlock(self.lock, self.epoch);
    }
}

/// An open file on the other host. It becomes unusable when the connection that opened it is lost.
struct OpenRemoteFile {
    host: Arc<RemoteHost>,
    path: PathBuf,
    handle: u32,
    epoch: u64,
}

impl Drop for OpenRemoteFile {
    fn drop(&mut self) {
        self.host.close(self.handle, self.epoch);
    }
}

struct RemoteFile(Arc<OpenRemoteFile>);

impl OpenRemoteFile {
    fn call(&self, request: &RemoteRequest) -> io::Result<RemoteReply> {
        self.host.call(request, Some(self.epoch)).map(|(reply, _)| reply)
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.host.read(self.handle, self.epoch, offset, buffer)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        for (at, data) in (offset..).step_by(MAX_CHUNK).zip(data.chunks(MAX_CHUNK)) {
            match self.call(&RemoteRequest::Write { file: self.handle, offset: at, data: data.to_vec() })? {
                RemoteReply::Done => {}
                _ => return Err(unexpected_reply()),
            }
        }
        Ok(())
    }
}

impl File for RemoteFile {
    fn path(&self) -> &Path {
        &self.0.path
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], _reason: IoReason) -> io::Result<()> {
        self.0.read(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8], _reason: IoReason) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn submit(&self, batch: Vec<Transfer>) {
        for transfer in batch {
            let file = self.0.clone();
            self.0.host.transfer(Box::new(move || {
                let Transfer { kind, offset, mut buffer, done, .. } = transfer;
                let result = match kind {
                    TransferKind::Read => file.read(offset, &mut buffer),
                    TransferKind::Write => file.write(offset, &buffer),
                };
                done(result, buffer);
            }));
        }
    }

    fn sync(&self, _reason: IoReason) -> io::Result<()> {
        match self.0.call(&RemoteRequest::Sync { file: self.0.handle })? {
            RemoteReply::Done => Ok(()),
            _ => Err(unexpected_reply()),
        }
    }

    fn len(&self) -> io::Result<u64> {
        match self.0.call(&RemoteRequest::Length { file: self.0.handle })? {
            RemoteReply::Number(len) => Ok(len),
            _ => Err(unexpected_reply()),
        }
    }

    fn grow(&self, _len: u64) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn truncate(&self, _len: u64) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }
}
