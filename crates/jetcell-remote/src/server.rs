//! A server's listener, connection threads and shutdown.

mod connections;

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use jetcell_sync::Mutex;
use jetcell_vfs::{Clock, Pacer, RealClock};

use self::connections::{Connections, Room};
use crate::channel::{Channel, Deadline, TimedStream};
use crate::error::ServeError;
use crate::exports::Exports;
use crate::frame::{read_frame, write_frame};
use crate::reply::Reply;
use crate::session::{End, Session};
use crate::tls::{ServerFiles, ServerTls};

/// Pause after a connection could not be accepted, for example because no file descriptors are available.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Interval between `Working` replies to a client whose reply is delayed by the rate limit.
const WORKING: Duration = Duration::from_secs(5);
/// Maximum time for connection threads to exit after the server is stopped.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Limits on the resources that clients can use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerLimits {
    /// Maximum number of connections from clients with a valid token. Further connections are closed.
    pub connections: usize,
    /// Maximum number of connections whose clients have not yet sent the token. If it is exceeded, an older
    /// connection is closed.
    pub unknown: usize,
    /// Maximum number of connections without the token from one network. A network is an IPv4 address or the first 64
    /// bits of an IPv6 address.
    pub unknown_per_network: usize,
    /// Time-out for the handshake and the greeting.
    pub handshake: Duration,
    /// Time-out for the next request. Idle clients send keepalive requests more often than this.
    pub idle: Duration,
    /// Maximum number of file bytes per second, for all clients together.
    pub rate: Option<u64>,
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        let (handshake, idle) = (Duration::from_secs(5), Duration::from_secs(30));
        ServerLimits { connections: 64, unknown: 64, unknown_per_network: 8, handshake, idle, rate: None }
    }
}

/// Event counters of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Number of clients with a valid token.
    pub clients: u64,
    /// Number of connections closed because there were too many.
    pub too_many: u64,
    /// Number of handshakes that failed or timed out.
    pub handshakes: u64,
    /// Number of connections that sent invalid requests.
    pub garbage: u64,
    /// Number of clients with a wrong token.
    pub wrong_token: u64,
    /// Number of clients with a different protocol version.
    pub wrong_version: u64,
}

struct Shared {
    listener: TcpListener,
    address: SocketAddr,
    exports: Arc<Exports>,
    tls: Option<ServerTls>,
    limits: ServerLimits,
    pacer: Pacer,
    note: Box<dyn Fn(&str) + Send + Sync>,
    is_stopped: AtomicBool,
    connections: Mutex<Connections<TcpStream>>,
    counts: Mutex<Counts>,
}

/// A listening server.
pub struct Server(Arc<Shared>);

/// Stops a server from another thread.
#[derive(Clone)]
pub struct Stopper(Arc<Shared>);

impl Server {
    /// Listens on an address. [`Server::run`] then serves the clients.
    ///
    /// Without TLS, only a loopback address is allowed. `note` receives one line for each event that the server
    /// operator should see.
    ///
    /// # Errors
    ///
    /// Returns an error if the address cannot be used or requires TLS, or if one of the server's files is missing or
    /// invalid.
    pub fn bind(
        address: SocketAddr,
        exports: Exports,
        tls: Option<&ServerFiles>,
        limits: ServerLimits,
        note: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Server, ServeError> {
        if tls.is_none() && !address.ip().is_loopback() {
            return Err(ServeError::Unsecured(address));
        }
        let tls = tls.map(ServerTls::new).transpose()?;
        let failed = |error| ServeError::Address { address, error };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let clock: jetcell_sync::Arc<dyn Clock> = jetcell_sync::Arc::new(RealClock::new());
        let room = Room {
            known: limits.connections,
            unknown: limits.unknown,
            unknown_per_network: limits.unknown_per_network,
        };
        Ok(Server(Arc::new(Shared {
            listener,
            address,
            exports: Arc::new(exports),
            tls,
            limits,
            pacer: Pacer::new(clock),
            note: Box::new(note),
            is_stopped: AtomicBool::new(false),
            connections: Mutex::new(Connections::new(room)),
            counts: Mutex::default(),
        })))
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Returns a handle that stops the server.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.0.clone())
    }

    /// Serves clients until the server is stopped.
    pub fn run(&self) {
        let shared = &self.0;
        while !shared.is_stopped.load(Ordering::SeqCst) {
            match shared.listener.accept() {
                Ok((stream, peer)) => shared.accepted(stream, peer),
                Err(_) => thread::sleep(ACCEPT_PAUSE),
            }
        }
        let began = Instant::now();
        while !shared.connections.lock().is_empty() && began.elapsed() < SHUTDOWN_TIMEOUT {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Stopper {
    /// Closes all connections and makes [`Server::run`] return.
    pub fn stop(&self) {
        let shared = &self.0;
        shared.is_stopped.store(true, Ordering::SeqCst);
        shared.connections.lock().end_all();
        // The accepting thread checks the flag only after the next connection, so open one here.
        let ip = match shared.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let _ = TcpStream::connect_timeout(&(ip, shared.address.port()).into(), Duration::from_secs(1));
    }

    /// Returns the current event counters.
    pub fn counts(&self) -> Counts {
        *self.0.counts.lock()
    }
}

impl Shared {
    fn accepted(self: &Arc<Shared>, stream: TcpStream, peer: SocketAddr) {
        if self.is_stopped.load(Ordering::SeqCst) {
            return;
        }
        let Ok(handle) = stream.try_clone() else { return };
        let (id, ended) = self.connections.lock().add(handle, peer.ip());
        if ended {
            let what = "an older connection without a token was closed to accept this connection";
            self.count(peer, what, |counts| &mut counts.too_many);
        }
        let shared = self.clone();
        let started = thread::Builder::new().name(format!("client {peer}")).spawn(move || {
            // Drop the session, which releases its locks, before removing the connection.
            shared.talk(id, stream, peer);
            shared.connections.lock().remove(id);
        });
        if started.is_err() {
            self.connections.lock().remove(id);
        }
    }

    /// Counts a rejected connection. A message is logged only each time the count has doubled, so a flood of
    /// connections cannot fill the log.
    fn count(&self, peer: SocketAddr, what: &str, of: impl Fn(&mut Counts) -> &mut u64) {
        let number = {
            let mut counts = self.counts.lock();
            let count = of(&mut counts);
            *count += 1;
            *count
        };
        if number.is_power_of_two() {
            (self.note)(&format!("{peer}: {what} ({number} so far)"));
        }
    }

    fn talk(&self, id: u64, stream: TcpStream, peer: SocketAddr) {
        let deadline = Deadline::within(self.limits.handshake);
        let Ok(stream) = TimedStream::new(stream, deadline.clone()) else { return };
        let mut channel: Box<dyn Channel> = match &self.tls {
            None => Box::new(stream),
            Some(tls) => match tls.accept(stream) {
                Ok(channel) => channel,
                Err(error) => {
                    let what = format!("closed: the handshake failed: {error}");
                    return self.count(peer, &what, |counts| &mut counts.handshakes);
                }
            },
        };
        let mut session = Session::new(&self.exports);
        let ended = self.converse(id, &mut *channel, &deadline, &mut session);
        let (what, of): (&str, fn(&mut Counts) -> &mut u64) = match ended {
            Ok(None) => return,
            Ok(Some(End::Garbage)) => {
                ("closed: the peer is not a copy client", |counts| &mut counts.garbage)
            }
            Ok(Some(End::Token)) => ("closed: the token is wrong", |counts| &mut counts.wrong_token),
            Ok(Some(End::Version)) => ("closed: the client version differs", |counts| &mut counts.wrong_version),
            Ok(Some(End::Full)) => {
                ("closed: too many clients are connected; see --max-clients", |counts| &mut counts.too_many)
            }
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                ("closed: the peer is not a copy client", |counts| &mut counts.garbage)
            }
            Err(_) if !session.is_known() => {
                ("closed: the client did not send a greeting", |counts| &mut counts.handshakes)
            }
            // A client with a valid token may disconnect at any time.
            Err(_) => return,
        };
        self.count(peer, what, of);
    }

    /// Processes requests until the connection ends.
    fn converse(
        &self,
        id: u64,
        channel: &mut dyn Channel,
        deadline: &Deadline,
        session: &mut Session,
    ) -> io::Result<Option<End>> {
        loop {
            let frame = read_frame(channel, session.longest_frame())?;
            let Some((number, message)) = frame else { return Ok(None) };
            if self.is_stopped.load(Ordering::SeqCst) {
                return Ok(None);
            }
            let was_known = session.is_known();
            let answer = session.answer(&message);
            if session.is_known() && !was_known {
                if !self.connections.lock().admit(id) {
                    return Ok(Some(End::Full));
                }
                self.counts.lock().clients += 1;
            }
            deadline.set(self.limits.idle);
            if let Reply::Bytes(bytes) = &answer.reply {
                self.pace(channel, deadline, number, bytes.len())?;
            }
            write_frame(channel, number, &answer.reply.encode())?;
            if answer.ends.is_some() {
                return Ok(answer.ends);
            }
            deadline.set(self.limits.idle);
        }
    }

    /// Waits until the rate limit allows `bytes`. Sends `Working` replies to the client while it waits.
    fn pace(
        &self,
        channel: &mut dyn Channel,
        deadline: &Deadline,
        number: u32,
        bytes: usize,
    ) -> io::Result<()> {
        let Some(rate) = self.limits.rate else { return Ok(()) };
        let said = RefCell::new((Instant::now(), channel, Ok(())));
        self.pacer.wait(Pacer::time_of(bytes as u64, rate), || {
            let mut said = said.borrow_mut();
            let (at, channel, result) = &mut *said;
            if at.elapsed() >= WORKING {
                *at = Instant::now();
                deadline.set(self.limits.idle);
                *result = write_frame(*channel, number, &Reply::Working.encode());
            }
            result.is_err() || self.is_stopped.load(Ordering::SeqCst)
        });
        let (_, _, result) = said.into_inner();
        deadline.set(self.limits.idle);
        result
    }
}

#[cfg(test)]
mod tests;
