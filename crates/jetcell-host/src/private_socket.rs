//! Unix sockets that only their owner can use.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jetcell_vfs::{parent_directory, try_lock_open};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::StoppableListener;

/// Maximum number of connections that wait to be accepted. The standard library uses the same number.
const BACKLOG: i32 = 128;
/// Maximum time that a starting server waits for other servers that start in the same directory.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A listening Unix socket that is accessible only to its owner at all times. Dropping it removes its file.
pub struct PrivateSocket {
    listener: StoppableListener<UnixListener>,
    path: PathBuf,
    /// Device and inode of the socket's file.
    file: (u64, u64),
}

impl PrivateSocket {
    /// Listens on a socket. Replaces the socket of a server that no longer exists.
    ///
    /// # Errors
    /// Returns an error if another server listens on the socket, or if its file belongs to another user or is not a
    /// socket.
    pub fn bind(path: &Path) -> io::Result<PrivateSocket> {
        let too_long = |_| io::Error::new(io::ErrorKind::InvalidInput, "the path is too long for a socket");
        let address = SocketAddrUnix::new(path).map_err(too_long)?;
        // Servers that start at the same time must not mistake each other's socket for an abandoned one. The directory
        // must exist, because otherwise the socket could not be created.
        let directory = File::open(parent_directory(path))?;
        lock(&directory)?;
        remove_abandoned(path)?;
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // The socket's file gets the mode that the socket has when it is bound. Changing the mode by path could affect
        // another file.
        let socket = File::from(socket);
        socket.set_permissions(fs::Permissions::from_mode(0o600))?;
        rustix::net::bind(&socket, &address).map_err(|error| match error {
            Errno::ADDRINUSE => {
                let text = "this name is already used by a file or another server";
                io::Error::new(io::ErrorKind::AddrInUse, text)
            }
            error => error.into(),
        })?;
        let file = file_id(path)?;
        rustix::net::listen(&socket, BACKLOG)?;
        let listener = StoppableListener::new(UnixListener::from(OwnedFd::from(socket)))?;
        Ok(PrivateSocket { listener, path: path.to_path_buf(), file })
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the listener.
    pub fn listener(&self) -> &StoppableListener<UnixListener> {
        &self.listener
    }

    /// Removes the socket's file, unless another server has replaced it.
    pub fn remove_file(&self) {
        if file_id(&self.path).ok() == Some(self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for PrivateSocket {
    fn drop(&mut self) {
        self.remove_file();
    }
}

/// Locks a directory until its handle is closed. Other servers hold this lock only while they start.
fn lock(directory: &File) -> io::Result<()> {
    let begun = Instant::now();
    while !try_lock_open(directory)? {
        if begun.elapsed() >= LOCK_TIMEOUT {
            let text = "another process has locked the directory";
            return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
        }
        jetcell_sync::thread::sleep(LOCK_POLL_INTERVAL);
    }
    Ok(())
}

fn file_id(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

/// Removes the socket of a server that no longer exists. Fails if it belongs to another user.
fn remove_abandoned(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => found,
        _ => return Ok(()),
    };
    refuse_other_owner(found.uid(), rustix::process::geteuid().as_raw())?;
    let is_refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if UnixStream::connect(path).is_err_and(is_refused) { fs::remove_file(path) } else { Ok(()) }
}

/// Fails if a socket belongs to another user. That user may have created it in a directory such as `/tmp`. Even root
/// does not replace such a socket.
fn refuse_other_owner(owner: u32, user: u32) -> io::Result<()> {
    if owner == user {
        return Ok(());
    }
    let text = "the path belongs to a socket of another user; remove the socket, or use a different path";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

#[cfg(test)]
#[path = "private_socket_tests.rs"]
mod tests;
