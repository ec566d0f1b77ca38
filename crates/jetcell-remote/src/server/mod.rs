//! A server's listener, connection threads and shutdown.

mod connections;

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use jetcell_host::{Pacer, Rate, StoppableListener};
use jetcell_sync::Mutex;
use jetcell_vfs::RealClock;

use self::connections::{ConnectionLimits, OpenConnections};
use crate::channel::{Channel, TimedStream, TransferDeadline};
use crate::error::ServeError;
use crate::exports::ExportedDirectories;
use crate::frame::{read_frame, write_frame};
use crate::reply::RemoteReply;
use crate::session::{DisconnectReason, ServerSession};
use crate::tls::{ServerTls, ServerTlsFiles};

/// Interval between `Working` replies to a client whose reply is delayed by the rate limit.
const WORKING_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum time for connection threads to exit after the server is stopped.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Limits on the resources that clients can use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerLimits {
    /// Maximum number of connections from clients with a valid token. Further connections are closed.
    pub connections: usize,
    /// Maximum number of connections whose clients have not yet sent the token. If it is exceeded, an older
    /// connection is closed.
    pub unauthenticated: usize,
    /// Maximum number of connections without the token from one network. A network is an IPv4 address or the first 64
    /// bits of an IPv6 address.
    pub unauthenticated_per_network: usize,
    /// Timeout for the handshake and the greeting.
    pub handshake_timeout: Duration,
    /// Timeout for the next request. Idle clients send keepalive requests more often than this.
    pub idle_timeout: Duration,
    /// Maximum number of file bytes per second, for all clients together.
    pub rate: Option<u64>,
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        let (handshake, idle) = (Duration::from_secs(5), Duration::from_secs(30));
        ServerLimits {
            connections: 64,
            unauthenticated: 64,
            unauthenticated_per_network: 8,
            handshake_timeout: handshake,
            idle_timeout: idle,
            rate: None,
        }
    }
}

/// Event counters for a remote file server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServerCounters {
    /// Number of clients with a valid token.
    pub clients: u64,
    /// Number of connections closed because there were too many.
    pub rejected: u64,
    /// Number of handshakes that failed or timed out.
    pub failed_handshakes: u64,
    /// Number of connections that sent invalid requests.
    pub malformed: u64,
    /// Number of clients with a wrong token.
    pub wrong_token: u64,
    /// Number of clients with a different protocol version.
    pub wrong_version: u64,
}

struct RemoteServerState {
    listener: StoppableListener<TcpListener>,
    address: SocketAddr,
    exports: Arc<ExportedDirectories>,
    tls: Option<ServerTls>,
    limits: ServerLimits,
    pacer: Pacer,
    log_message: Box<dyn Fn(&str) + Send + Sync>,
    connections: Mutex<OpenConnections<TcpStream>>,
    counts: Mutex<ServerCounters>,
}

/// A server that is listening for remote clients.
pub struct RemoteServer(Arc<RemoteServerState>);

/// A handle for stopping a server from another thread.
#[derive(Clone)]
pub struct RemoteServerStopper(Arc<RemoteServerState>);

impl RemoteServer {
    /// Listens on an address. [`RemoteServer::run`] then serves the clients.
    ///
    /// Without TLS, only a loopback address is allowed. `log_message` receives one line for each event that the
    /// server operator should see.
    ///
    /// # Errors
    ///
    /// Returns an error if the address cannot be used or requires TLS, or if one of the server's files is missing or
    /// invalid.
    pub fn bind(
        address: SocketAddr,
        exports: ExportedDirectories,
        tls: Option<&ServerTlsFiles>,
        limits: ServerLimits,
        log_message: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<RemoteServer, ServeError> {
        if tls.is_none() && !address.ip().is_loopback() {
            return Err(ServeError::Unsecured(address));
        }
        let tls = tls.map(ServerTls::new).transpose()?;
        let address_error = |error| ServeError::Address { address, error };
        let listener = TcpListener::bind(address).map_err(address_error)?;
        let address = listener.local_addr().map_err(address_error)?;
        let listener = StoppableListener::new(listener).map_err(address_error)?;
        let room = ConnectionLimits {
            authenticated: limits.connections,
            unauthenticated: limits.unauthenticated,
            unauthenticated_per_network: limits.unauthenticated_per_network,
        };
        let (clock, rate) = (jetcell_sync::Arc::new(RealClock::new()), limits.rate.map(Rate::BytesPerSecond));
        let pacer = Pacer::new(clock, rate, listener.cancellation().clone());
        Ok(RemoteServer(Arc::new(RemoteServerState {
            listener,
            address,
            exports: Arc::new(exports),
            tls,
            limits,
            pacer,
            log_message: Box::new(log_message),
            connections: Mutex::new(OpenConnections::new(room)),
            counts: Mutex::default(),
        })))
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Returns a handle that stops the server.
    pub fn stopper(&self) -> RemoteServerStopper {
        RemoteServerStopper(self.0.clone())
    }

    /// Serves clients until the server is stopped.
    pub fn run(&self) {
        let shared = &self.0;
        while let Some((stream, peer)) = shared.listener.next(|_| ()) {
            shared.start_connection(stream, peer);
        }
        let began = Instant::now();
        while !shared.connections.lock().is_empty() && began.elapsed() < SHUTDOWN_TIMEOUT {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl RemoteServerStopper {
    /// Closes all connections and makes [`RemoteServer::run`] return.
    pub fn stop(&self) {
        let shared = &self.0;
        shared.listener.stop();
        shared.connections.lock().close_all();
    }

    /// Returns the current event counters.
    pub fn counts(&self) -> ServerCounters {
        *self.0.counts.lock()
    }
}

impl RemoteServerState {
    fn start_connection(self: &Arc<RemoteServerState>, stream: TcpStream, peer: SocketAddr) {
        if self.listener.is_stopped() {
            return;
        }
        let Ok(handle) = stream.try_clone() else { return };
        let (id, ended) = self.connections.lock().add(handle, peer.ip());
        if ended {
            let what = "an older connection without a token was closed to accept this connection";
            self.count(peer, what, |counts| &mut counts.rejected);
        }
        let shared = self.clone();
        let started = thread::Builder::new().name(format!("client {peer}")).spawn(move || {
            // Drop the session, which releases its locks, before removing the connection.
            shared.serve_connection(id, stream, peer);
            shared.connections.lock().remove(id);
        });
        if started.is_err() {
            self.connections.lock().remove(id);
        }
    }

    /// Counts a rejected connection. A message is logged only each time the count has doubled, so a flood of
    /// connections cannot fill the log.
    fn count(&self, peer: SocketAddr, what: &str, of: impl Fn(&mut ServerCounters) -> &mut u64) {
        let number = {
            let mut counts = self.counts.lock();
            let count = of(&mut counts);
            *count += 1;
            *count
        };
        if number.is_power_of_two() {
            (self.log_message)(&format!("{peer}: {what} ({number} so far)"));
        }
    }

    fn serve_connection(&self, id: u64, stream: TcpStream, peer: SocketAddr) {
        let deadline = TransferDeadline::within(self.limits.handshake_timeout);
        let Ok(stream) = TimedStream::new(stream, deadline.clone()) else { return };
        let mut channel: Box<dyn Channel> = match &self.tls {
            None => Box::new(stream),
            Some(tls) => match tls.accept(stream) {
                Ok(channel) => channel,
                Err(error) => {
                    let what = format!("closed: the handshake failed: {error}");
                    return self.count(peer, &what, |counts| &mut counts.failed_handshakes);
                }
            },
        };
        let mut session = ServerSession::new(&self.exports);
        let ended = self.serve_requests(id, &mut *channel, &deadline, &mut session);
        let (what, of): (&str, fn(&mut ServerCounters) -> &mut u64) = match ended {
            Ok(None) => return,
            Ok(Some(DisconnectReason::Malformed)) => {
                ("closed: the peer is not a copy client", |counts| &mut counts.malformed)
            }
            Ok(Some(DisconnectReason::WrongToken)) => {
                ("closed: the token is wrong", |counts| &mut counts.wrong_token)
            }
            Ok(Some(DisconnectReason::WrongVersion)) => {
                ("closed: the client has a different version", |counts| &mut counts.wrong_version)
            }
            Ok(Some(DisconnectReason::TooManyClients)) => {
                ("closed: the limit of --max-clients has been reached", |counts| &mut counts.rejected)
            }
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                ("closed: the peer is not a copy client", |counts| &mut counts.malformed)
            }
            Err(_) if !session.is_authenticated() => {
                ("closed: the client did not send a greeting", |counts| &mut counts.failed_handshakes)
            }
            // A client with a valid token may disconnect at any time.
            Err(_) => return,
        };
        self.count(peer, what, of);
    }

    /// Processes requests until the connection ends.
    fn serve_requests(
        &self,
        id: u64,
        channel: &mut dyn Channel,
        deadline: &TransferDeadline,
        session: &mut ServerSession,
    ) -> io::Result<Option<DisconnectReason>> {
        loop {
            let frame = read_frame(channel, session.max_frame_len())?;
            let Some((number, message)) = frame else { return Ok(None) };
            if self.listener.is_stopped() {
                return Ok(None);
            }
            let was_known = session.is_authenticated();
            let answer = session.process(&message);
            if session.is_authenticated() && !was_known {
                if !self.connections.lock().admit(id) {
                    return Ok(Some(DisconnectReason::TooManyClients));
                }
                self.counts.lock().clients += 1;
            }
            deadline.set(self.limits.idle_timeout);
            if let RemoteReply::Bytes(bytes) = &answer.reply {
                self.wait_for_rate(channel, deadline, number, bytes.len())?;
            }
            write_frame(channel, number, &answer.reply.encode())?;
            if answer.disconnect_reason.is_some() {
                return Ok(answer.disconnect_reason);
            }
            deadline.set(self.limits.idle_timeout);
        }
    }

    /// Waits until the rate limit allows `bytes`. Sends `Working` replies to the client while it waits.
    fn wait_for_rate(
        &self,
        channel: &mut dyn Channel,
        deadline: &TransferDeadline,
        number: u32,
        bytes: usize,
    ) -> io::Result<()> {
        let mut left = self.pacer.reserve(bytes as u64);
        while !left.is_zero() {
            let piece = left.min(WORKING_INTERVAL);
            if !self.pacer.cancellation().sleep(piece) {
                break;
            }
            left -= piece;
            deadline.set(self.limits.idle_timeout);
            if !left.is_zero() {
                write_frame(channel, number, &RemoteReply::Working.encode())?;
            }
        }
        deadline.set(self.limits.idle_timeout);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
