//! The server: accepts clients, runs the threads of the connections, and shuts down.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use crate::connection::{NbdConnection, SocketStream};
use crate::memory::{ConnectionMemory, ServerMemory};
use crate::session::{NbdExports, NbdSessionEnd, serve};

/// Time that clients have to receive the last replies after the server was stopped.
const LAST_REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of connections that wait to be accepted. The standard library uses the same number.
const BACKLOG: i32 = 128;
/// Pause after a connection could not be accepted, for example because there are no free file descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Maximum time that a starting server waits for other servers that start in the same directory.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Address at which an NBD server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListenAddress {
    /// IP address and port. Port 0 stands for any free port.
    Tcp(SocketAddr),
    /// Path of a Unix socket, which only its owner can use.
    Unix(PathBuf),
}

impl ListenAddress {
    /// Returns the URI of an export, in the form that clients accept. Reserved bytes are escaped.
    pub fn uri(&self, export: &str) -> String {
        let export = escaped(export.as_bytes());
        match self {
            ListenAddress::Tcp(address) => format!("nbd://{address}/{export}"),
            ListenAddress::Unix(path) => {
                format!("nbd+unix:///{export}?socket={}", escaped(path.as_os_str().as_bytes()))
            }
        }
    }
}

fn escaped(bytes: &[u8]) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let escape =
        |byte: &u8| if is_plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    bytes.iter().map(escape).collect()
}

/// Limits that an NBD server sets for its clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NbdServerLimits {
    /// Maximum number of simultaneous connections. Further connections are closed.
    pub connections: usize,
    /// Maximum pause in a handshake.
    pub handshake: Duration,
    /// Maximum number of bytes in memory for the requests and replies of all connections together. At least one
    /// request of the maximum length is always possible. In addition, each connection has an input buffer of 256 KiB.
    pub request_bytes: usize,
    /// Maximum time that a connection may wait for its client while it holds memory for which other connections are
    /// waiting. After that, the connection is closed.
    pub stall: Duration,
}

impl Default for NbdServerLimits {
    fn default() -> NbdServerLimits {
        let ten_seconds = Duration::from_secs(10);
        NbdServerLimits {
            connections: 64,
            handshake: ten_seconds,
            request_bytes: 256 << 20,
            stall: ten_seconds,
        }
    }
}

enum Listener {
    Tcp(TcpListener),
    /// A Unix socket, with its path and the identity of its file.
    Unix(UnixListener, PathBuf, SocketFileId),
}

/// An open connection.
struct ClientConnection {
    stream: SocketStream,
    state: ClientState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ClientState {
    Handshake,
    /// The client has chosen an export.
    Transmission,
    /// The connection was closed in favour of another one, but its thread has not ended yet.
    Evicted,
}

/// Device and inode of a file.
type SocketFileId = (u64, u64);

struct SharedServerState {
    listener: Listener,
    exports: NbdExports,
    limits: NbdServerLimits,
    memory: ServerMemory,
    log: Box<dyn Fn(&str) + Send + Sync>,
    is_stopped: AtomicBool,
    connections: Mutex<BTreeMap<u64, ClientConnection>>,
    connection_ended: Condvar,
}

/// An NBD server that listens for clients.
pub struct NbdServer(Arc<SharedServerState>);

/// Handle that stops an NBD server from another thread.
#[derive(Clone)]
pub struct NbdServerStopper(Arc<SharedServerState>);

impl NbdServer {
    /// Starts to listen. [`NbdServer::run`] then serves the clients. The first export also has the empty name. `log`
    /// is called with one line of text for each event that the server's owner should know about, for example when a
    /// client sends invalid data.
    ///
    /// # Errors
    /// The address is in use or cannot be used.
    ///
    /// # Panics
    /// There is no export.
    pub fn bind(
        address: &ListenAddress,
        exports: NbdExports,
        limits: NbdServerLimits,
        note: impl Fn(&str) + Send + Sync + 'static,
    ) -> io::Result<NbdServer> {
        assert!(!exports.is_empty(), "a server without exports");
        let listener = match address {
            ListenAddress::Tcp(address) => Listener::Tcp(TcpListener::bind(address)?),
            ListenAddress::Unix(path) => {
                let (listener, file) = listen_on(path)?;
                Listener::Unix(listener, path.clone(), file)
            }
        };
        Ok(NbdServer(Arc::new(SharedServerState {
            listener,
            exports,
            limits,
            memory: ServerMemory::new(limits.request_bytes, limits.connections),
            log: Box::new(note),
            is_stopped: AtomicBool::new(false),
            connections: Mutex::new(BTreeMap::new()),
            connection_ended: Condvar::new(),
        })))
    }

    /// Returns the address at which the server listens, with the actual port.
    ///
    /// # Errors
    /// The system does not return the address.
    pub fn address(&self) -> io::Result<ListenAddress> {
        match &self.0.listener {
            Listener::Tcp(listener) => listener.local_addr().map(ListenAddress::Tcp),
            Listener::Unix(_, path, _) => Ok(ListenAddress::Unix(path.clone())),
        }
    }

    /// Returns a handle that stops this server.
    pub fn stopper(&self) -> NbdServerStopper {
        NbdServerStopper(self.0.clone())
    }

    /// Serves clients until the server is stopped and all connections have ended.
    pub fn run(&self) {
        let shared = &self.0;
        for number in 0.. {
            let accepted = shared.accept();
            if shared.is_stopped.load(Ordering::SeqCst) {
                break;
            }
            match accepted {
                Ok((stream, peer)) => shared.clone().begin(number, stream, peer),
                Err(error) => {
                    (shared.log)(&format!("failed to accept a connection: {error}"));
                    thread::sleep(ACCEPT_BACKOFF);
                }
            }
        }
        shared.finish();
    }
}

impl NbdServerStopper {
    /// Stops accepting clients and reading requests. Requests that have already been read are answered.
    pub fn stop(&self) {
        if self.0.is_stopped.swap(true, Ordering::SeqCst) {
            return;
        }
        // Wakes the thread that accepts connections.
        let _ = match &self.0.listener {
            Listener::Tcp(listener) => SockRef::from(listener).shutdown(Shutdown::Both),
            Listener::Unix(listener, ..) => SockRef::from(listener).shutdown(Shutdown::Both),
        };
    }
}

/// Listens on a socket that only its owner can use. Replaces the socket of a server that no longer exists.
fn listen_on(path: &Path) -> io::Result<(UnixListener, SocketFileId)> {
    let address = SockAddr::unix(path)?;
    // Servers that start at the same time must not mistake each other's socket for an abandoned one. The directory
    // must exist, because otherwise the socket could not be created.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = File::open(parent.unwrap_or(Path::new(".")))?;
    lock(&directory)?;
    remove_abandoned(path)?;
    // The socket's file gets the mode that the socket has when it is bound. Changing the mode by path could affect
    // another file.
    let socket = File::from(OwnedFd::from(Socket::new(Domain::UNIX, Type::STREAM, None)?));
    socket.set_permissions(fs::Permissions::from_mode(0o600))?;
    let socket = Socket::from(OwnedFd::from(socket));
    socket.bind(&address)?;
    let file = file_id(path)?;
    socket.listen(BACKLOG)?;
    Ok((OwnedFd::from(socket).into(), file))
}

/// Locks a directory until its handle is closed. Other servers hold this lock only while they start.
fn lock(directory: &File) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match flock(directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if begun.elapsed() < LOCK_TIMEOUT => thread::sleep(LOCK_POLL_INTERVAL),
            Err(Errno::WOULDBLOCK) => {
                let text = "another process has locked the directory";
                return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn file_id(path: &Path) -> io::Result<SocketFileId> {
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

impl SharedServerState {
    fn accept(&self) -> io::Result<(SocketStream, String)> {
        match &self.listener {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                stream.set_nodelay(true)?;
                // A client whose machine failed must not occupy a connection forever.
                SockRef::from(&stream).set_keepalive(true)?;
                Ok((SocketStream::Tcp(Arc::new(stream)), peer.to_string()))
            }
            Listener::Unix(listener, ..) => {
                let (stream, _) = listener.accept()?;
                Ok((SocketStream::Unix(Arc::new(stream)), "a client".into()))
            }
        }
    }

    fn connections(&self) -> MutexGuard<'_, BTreeMap<u64, ClientConnection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a connection in its own thread.
    fn begin(self: Arc<SharedServerState>, number: u64, stream: SocketStream, peer: String) {
        let mut connections = self.connections();
        let most = self.limits.connections;
        let is_full =
            connections.values().filter(|client| client.state != ClientState::Evicted).count() >= most;
        if is_full && !evict_handshake(&mut connections) {
            (self.log)(&format!("{peer}: refused because the limit of {most} connections has been reached"));
            return;
        }
        connections
            .insert(number, ClientConnection { stream: stream.clone(), state: ClientState::Handshake });
        drop(connections);
        let shared = self.clone();
        let spawned = thread::Builder::new().name("nbd".into()).spawn(move || {
            // The connection is removed from the table even after a panic.
            let _place = ConnectionGuard(&shared, number);
            shared.serve(number, &stream, &peer);
        });
        if let Err(error) = spawned {
            (self.log)(&format!("failed to start a thread for a connection: {error}"));
            self.connections().remove(&number);
        }
    }

    fn serve(&self, number: u64, stream: &SocketStream, peer: &str) {
        let note = |text: &str| (self.log)(&format!("{peer}: {text}"));
        let memory = ConnectionMemory::new(&self.memory, self.limits.stall);
        let Ok(connection) = NbdConnection::new(stream, self.limits.handshake, &memory) else { return };
        let begin = || {
            if !self.enter_transmission(number) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            connection.complete_handshake()
        };
        let end = serve(&connection, &connection, &self.exports, &memory, begin, &note);
        let is_evicted =
            self.connections().get(&number).is_some_and(|client| client.state == ClientState::Evicted);
        match end {
            _ if is_evicted => {
                note("closed during its handshake because another client needed the connection");
            }
            NbdSessionEnd::Closed => {}
            NbdSessionEnd::Lost(_) if self.is_stopped.load(Ordering::SeqCst) => {}
            NbdSessionEnd::Lost(error) => note(&format!("the connection was lost: {error}")),
            NbdSessionEnd::InvalidMessage(what) => note(&format!("closed because the client sent {what}")),
            NbdSessionEnd::HandshakeTimeout => {
                note("closed because the client did not finish its handshake");
            }
        }
        // Otherwise, the handle in the connection table would keep the socket open.
        let _ = stream.shutdown(Shutdown::Both);
    }

    /// Marks a connection whose client has chosen an export. Returns false if the connection was closed in favour of
    /// another one.
    fn enter_transmission(&self, number: u64) -> bool {
        let mut connections = self.connections();
        let client = connections.get_mut(&number).filter(|client| client.state != ClientState::Evicted);
        client.is_some_and(|client| {
            client.state = ClientState::Transmission;
            true
        })
    }

    /// Closes all connections.
    fn finish(&self) {
        if let Listener::Unix(_, path, file) = &self.listener {
            // If another server has replaced the socket, the new socket is not removed.
            if file_id(path).ok() == Some(*file) {
                let _ = fs::remove_file(path);
            }
        }
        let mut connections = self.connections();
        for how in [Shutdown::Read, Shutdown::Both] {
            for client in connections.values() {
                let _ = client.stream.shutdown(how);
            }
            let waited = self
                .connection_ended
                .wait_timeout_while(connections, LAST_REPLY_TIMEOUT, |open| !open.is_empty());
            connections = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        // Threads that are still running use the export.
        while !connections.is_empty() {
            connections = self.connection_ended.wait(connections).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Closes the oldest connection that is still in its handshake. Returns false if no connection is in its handshake.
fn evict_handshake(connections: &mut BTreeMap<u64, ClientConnection>) -> bool {
    let Some(client) = connections.values_mut().find(|client| client.state == ClientState::Handshake) else {
        return false;
    };
    client.state = ClientState::Evicted;
    let _ = client.stream.shutdown(Shutdown::Both);
    true
}

/// Entry of a connection in the table, which is removed when this value is dropped.
struct ConnectionGuard<'shared>(&'shared SharedServerState, u64);

impl Drop for ConnectionGuard<'_> {
    fn drop(&mut self) {
        self.0.connections().remove(&self.1);
        self.0.connection_ended.notify_all();
    }
}

#[cfg(test)]
mod tests;
