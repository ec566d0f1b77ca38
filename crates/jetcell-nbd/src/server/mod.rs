//! The server: accepts clients, runs the threads of the connections, and shuts down.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use jetcell_host::{PrivateSocket, StoppableListener};
use rustix::net::sockopt::set_socket_keepalive;

use crate::connection::{NbdConnection, SocketStream};
use crate::memory::{ConnectionMemory, ServerMemory};
use crate::session::{NbdExports, NbdSessionEnd, serve};

/// Time allowed for clients to receive the last replies after the server is stopped.
const LAST_REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// An address on which an NBD server listens.
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

/// Limits that an NBD server imposes on its clients.
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
    Tcp(StoppableListener<TcpListener>),
    Unix(PrivateSocket),
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

struct SharedServerState {
    listener: Listener,
    exports: NbdExports,
    limits: NbdServerLimits,
    memory: ServerMemory,
    log: Box<dyn Fn(&str) + Send + Sync>,
    connections: Mutex<BTreeMap<u64, ClientConnection>>,
    connection_ended: Condvar,
}

/// An NBD server that listens for clients.
pub struct NbdServer(Arc<SharedServerState>);

/// A handle for stopping an NBD server from another thread.
#[derive(Clone)]
pub struct NbdServerStopper(Arc<SharedServerState>);

impl NbdServer {
    /// Starts listening. [`NbdServer::run`] then serves the clients. The first export is also available under the empty
    /// name. `log` is called with one line of text for each event that the server's owner should know about, for
    /// example when a client sends invalid data.
    ///
    /// # Errors
    /// Returns an error if the address is in use or cannot be used.
    ///
    /// # Panics
    /// Panics if there is no export.
    pub fn bind(
        address: &ListenAddress,
        exports: NbdExports,
        limits: NbdServerLimits,
        note: impl Fn(&str) + Send + Sync + 'static,
    ) -> io::Result<NbdServer> {
        assert!(!exports.is_empty(), "a server without exports");
        let listener = match address {
            ListenAddress::Tcp(address) => {
                Listener::Tcp(StoppableListener::new(TcpListener::bind(address)?)?)
            }
            ListenAddress::Unix(path) => Listener::Unix(PrivateSocket::bind(path)?),
        };
        Ok(NbdServer(Arc::new(SharedServerState {
            listener,
            exports,
            limits,
            memory: ServerMemory::new(limits.request_bytes, limits.connections),
            log: Box::new(note),
            connections: Mutex::new(BTreeMap::new()),
            connection_ended: Condvar::new(),
        })))
    }

    /// Returns the address at which the server listens, with the actual port.
    ///
    /// # Errors
    /// Returns an error if the system does not return the address.
    pub fn address(&self) -> io::Result<ListenAddress> {
        match &self.0.listener {
            Listener::Tcp(listener) => listener.socket().local_addr().map(ListenAddress::Tcp),
            Listener::Unix(socket) => Ok(ListenAddress::Unix(socket.path().to_path_buf())),
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
            let Some((stream, peer)) = shared.next() else { break };
            shared.clone().begin(number, stream, peer);
        }
        shared.finish();
    }
}

impl NbdServerStopper {
    /// Stops accepting clients and reading requests. Requests that have already been read are answered.
    pub fn stop(&self) {
        match &self.0.listener {
            Listener::Tcp(listener) => listener.stop(),
            Listener::Unix(socket) => socket.listener().stop(),
        }
    }
}

impl SharedServerState {
    /// Waits for the next connection. Returns `None` when the server is stopped.
    fn next(&self) -> Option<(SocketStream, String)> {
        let note = |error: io::Error| (self.log)(&format!("failed to accept a connection: {error}"));
        match &self.listener {
            Listener::Tcp(listener) => loop {
                let (stream, peer) = listener.next(note)?;
                // A client whose machine failed must not occupy a connection forever.
                let configured =
                    stream.set_nodelay(true).and_then(|()| Ok(set_socket_keepalive(&stream, true)?));
                match configured {
                    Ok(()) => return Some((SocketStream::Tcp(Arc::new(stream)), peer.to_string())),
                    Err(error) => note(error),
                }
            },
            Listener::Unix(socket) => {
                Some((SocketStream::Unix(Arc::new(socket.listener().next(note)?)), "a client".into()))
            }
        }
    }

    fn is_stopped(&self) -> bool {
        match &self.listener {
            Listener::Tcp(listener) => listener.is_stopped(),
            Listener::Unix(socket) => socket.listener().is_stopped(),
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
            NbdSessionEnd::Lost(_) if self.is_stopped() => {}
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
        if let Listener::Unix(socket) = &self.listener {
            socket.remove_file();
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
        // Threads that are still running may use the exports, so they must end first.
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
