//! A remote host as seen by a client: one connection that is reopened after it is lost, and the state that depends on
//! it.
//!
//! Locks belong to a connection. When the connection is lost, the server releases its locks, and another process may
//! acquire them. All of this client's requests then fail until it has dropped its locks, so it cannot continue work
//! that a lost lock was protecting.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Weak;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use jetcell_host::{Cancellation, Pacer, Rate};
use jetcell_sync::{Arc, Mutex, MutexGuard};
use jetcell_vfs::RealClock;

use crate::connection::{HostConnection, ServerWelcome};
use crate::connector::{ClientLimits, Connector};
use crate::error::{RemoteError, UnreachableReason};
use crate::exports::AccessToken;
use crate::frame::MAX_CHUNK;
use crate::reply::RemoteReply;
use crate::request::RemoteRequest;

/// Maximum number of reads in flight on one connection. Additional reads would only wait in buffers.
const MAX_READS_IN_FLIGHT: usize = 4;
/// Maximum delay before reconnecting after a connection is lost.
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(5);

/// A job for the background transfer thread.
pub(crate) type TransferJob = Box<dyn FnOnce() + Send>;

/// Options for a client of a remote host.
pub struct RemoteOptions {
    /// The server's token.
    pub token: AccessToken,
    /// Client timeouts.
    pub limits: ClientLimits,
    /// Delay after a failed connection attempt. It doubles after each further failure, up to five seconds.
    pub retry: Duration,
    /// Maximum number of file bytes received per second.
    pub rate: Option<u64>,
    /// Cuts short the pauses that enforce the rate limit.
    pub cancellation: Cancellation,
    /// Whether threads keep the connection alive and run transfers in the background. Without threads, runs are
    /// deterministic.
    pub threads: bool,
}

impl RemoteOptions {
    /// Returns the default options.
    pub fn new(token: AccessToken) -> RemoteOptions {
        let (limits, retry) = (ClientLimits::default(), Duration::from_millis(100));
        RemoteOptions {
            token,
            limits,
            retry,
            rate: None,
            cancellation: Cancellation::default(),
            threads: true,
        }
    }
}

pub(crate) struct RemoteHost {
    /// Common prefix of all paths on the host.
    pub root: PathBuf,
    connector: Box<dyn Connector>,
    options: RemoteOptions,
    pacer: Pacer,
    pub clock: Arc<RealClock>,
    state: Mutex<ConnectionState>,
    /// Queue of the background transfer thread.
    jobs: Mutex<Option<Sender<TransferJob>>>,
}

#[derive(Default)]
struct ConnectionState {
    connection: Option<HostConnection>,
    /// Connection number. Files and locks from earlier connections are no longer valid.
    epoch: u64,
    /// Time when the connection was last used.
    last_used: Option<Instant>,
    /// Number of locks that the client holds, including locks that the server has already released.
    locks: usize,
    /// Reason why the connection to which these locks belonged was lost.
    disconnect_reason: Option<UnreachableReason>,
    /// Error of the last connection attempt, the earliest time of the next attempt, and the current delay.
    last_failure: Option<(RemoteError, Instant, Duration)>,
    welcome: Option<ServerWelcome>,
}

impl RemoteHost {
    pub fn new(root: PathBuf, connector: Box<dyn Connector>, options: RemoteOptions) -> RemoteHost {
        let clock = Arc::new(RealClock::new());
        let rate = options.rate.map(Rate::BytesPerSecond);
        let pacer = Pacer::new(clock.clone(), rate, options.cancellation.clone());
        RemoteHost { root, connector, options, pacer, clock, state: Mutex::default(), jobs: Mutex::default() }
    }

    /// Locks the state and returns it, with an open connection.
    fn ensure_connected(self: &Arc<RemoteHost>) -> Result<MutexGuard<'_, ConnectionState>, RemoteError> {
        let mut state = self.state.lock();
        if let Some(why) = &state.disconnect_reason {
            return Err(RemoteError::LockLost(why.clone()));
        }
        if state.connection.is_some() {
            return Ok(state);
        }
        let now = Instant::now();
        if let Some((error, next, _)) = &state.last_failure
            && now < *next
        {
            return Err(error.clone());
        }
        match HostConnection::open(&*self.connector, &self.options.token, self.options.limits) {
            Ok((connection, welcome)) => {
                if state.epoch == 0 && self.options.threads {
                    self.keep_alive();
                }
                state.epoch += 1;
                (state.connection, state.welcome, state.last_failure) =
                    (Some(connection), Some(welcome), None);
                state.last_used = Some(now);
                Ok(state)
            }
            Err(error) => {
                let before = state.last_failure.as_ref().map(|(_, _, pause)| *pause * 2);
                let pause = before.unwrap_or(self.options.retry).min(MAX_RECONNECT_DELAY);
                state.last_failure = Some((error.clone(), Instant::now() + pause, pause));
                Err(error)
            }
        }
    }

    /// Returns the information that the server sent in response to the greeting.
    pub fn welcome(self: &Arc<RemoteHost>) -> Result<ServerWelcome, RemoteError> {
        let state = self.ensure_connected()?;
        Ok(state
            .welcome
            .clone()
            .unwrap_or_else(|| ServerWelcome { allows_handover: false, host: String::new() }))
    }

    /// Sends a request and receives its reply. `epoch` is the number of the connection that the request requires, if
    /// any. Also returns the number of the connection that was used.
    pub fn call(
        self: &Arc<RemoteHost>,
        request: &RemoteRequest,
        epoch: Option<u64>,
    ) -> io::Result<(RemoteReply, u64)> {
        let mut state = self.ensure_connected().map_err(RemoteError::into_io)?;
        state.require_epoch(epoch)?;
        let reply = state.transfer(|connection| {
            let number = connection.send(request)?;
            connection.receive(number)
        })?;
        let used = state.epoch;
        drop(state);
        Ok((into_result(reply)?, used))
    }

    /// Acquires a lock. Returns the lock's number and the connection's number.
    pub fn lock(self: &Arc<RemoteHost>, request: &RemoteRequest) -> io::Result<(u32, u64)> {
        let mut state = self.ensure_connected().map_err(RemoteError::into_io)?;
        let reply = state.transfer(|connection| {
            let number = connection.send(request)?;
            connection.receive(number)
        })?;
        match into_result(reply)? {
            RemoteReply::Handle(lock) => {
                state.locks += 1;
                Ok((lock, state.epoch))
            }
            _ => Err(unexpected_reply()),
        }
    }

    /// Releases a lock, even if the server has already released it.
    pub fn unlock(&self, lock: u32, epoch: u64) {
        let mut state = self.state.lock();
        state.locks -= 1;
        if state.epoch == epoch && state.connection.is_some() {
            // If the request fails, the connection is lost, so the server releases the lock anyway.
            let _ = state.transfer(|connection| {
                let number = connection.send(&RemoteRequest::Unlock { lock })?;
                connection.receive(number)
            });
        }
        if state.locks == 0 {
            state.disconnect_reason = None;
        }
    }

    /// Closes a file on the server.
    pub fn close(&self, file: u32, epoch: u64) {
        let mut state = self.state.lock();
        if state.epoch == epoch && state.connection.is_some() {
            let _ = state.transfer(|connection| {
                let number = connection.send(&RemoteRequest::Close { file })?;
                connection.receive(number)
            });
        }
    }

    /// Reads part of a file with several requests in flight.
    pub fn read(
        self: &Arc<RemoteHost>,
        file: u32,
        epoch: u64,
        offset: u64,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let piece = self.request_len();
        let mut state = self.ensure_connected().map_err(RemoteError::into_io)?;
        state.require_epoch(Some(epoch))?;
        let mut failed = None;
        state.transfer(|connection| {
            let mut pieces = buffer.chunks_mut(piece);
            let (mut at, mut asked) = (offset, VecDeque::new());
            loop {
                while asked.len() < MAX_READS_IN_FLIGHT && failed.is_none() {
                    let Some(place) = pieces.next() else { break };
                    self.pacer.wait(place.len() as u64);
                    let len = place.len() as u32;
                    let number = connection.send(&RemoteRequest::Read { file, offset: at, len })?;
                    at += u64::from(len);
                    asked.push_back((number, place));
                }
                // Receive the remaining replies even after an error. Otherwise the next request would receive one of
                // them.
                let Some((number, place)) = asked.pop_front() else { return Ok(()) };
                match connection.receive(number)? {
                    RemoteReply::Bytes(bytes) if bytes.len() == place.len() => place.copy_from_slice(&bytes),
                    RemoteReply::Failed { kind, what } => failed = failed.take().or(Some((kind, what))),
                    _ => return Err(unexpected_reply()),
                }
            }
        })?;
        failed.map_or(Ok(()), |(kind, what)| Err(io::Error::new(kind, what)))
    }

    /// Returns the number of bytes per request. At a low rate limit, requests are small and therefore frequent.
    fn request_len(&self) -> usize {
        let rate = self.options.rate.map_or(MAX_CHUNK, |rate| usize::try_from(rate / 4).unwrap_or(MAX_CHUNK));
        (rate / 4096 * 4096).clamp(4096, MAX_CHUNK)
    }

    /// Runs a transfer in the background, or immediately if there are no threads.
    pub fn transfer(&self, job: TransferJob) {
        if !self.options.threads {
            return job();
        }
        let mut jobs = self.jobs.lock();
        let sender = jobs.get_or_insert_with(|| {
            let (sender, jobs) = channel::<TransferJob>();
            std::thread::spawn(move || jobs.into_iter().for_each(|job| job()));
            sender
        });
        let sent = sender.send(job);
        drop(jobs);
        // An earlier job panicked and ended the thread. If panics abort the process, this point is never reached.
        if let Err(job) = sent {
            job.0();
        }
    }

    /// Starts a thread that sends keepalive requests for as long as the client exists.
    fn keep_alive(self: &Arc<RemoteHost>) {
        let Some(every) = self.options.limits.keepalive_interval else { return };
        let host: Weak<RemoteHost> = Arc::downgrade(self);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(every / 4);
                let Some(host) = host.upgrade() else { return };
                // If the state is locked, the connection is in use.
                let Some(mut state) = host.state.try_lock() else { continue };
                let is_idle = state.last_used.is_some_and(|used| used.elapsed() >= every);
                if is_idle && state.connection.is_some() {
                    let _ = state.transfer(|connection| {
                        let number = connection.send(&RemoteRequest::Ping)?;
                        connection.receive(number)
                    });
                }
            }
        });
    }
}

impl ConnectionState {
    /// Fails unless the current connection is the one that the request requires.
    fn require_epoch(&self, epoch: Option<u64>) -> io::Result<()> {
        match epoch {
            Some(epoch) if epoch != self.epoch => {
                Err(RemoteError::Unreachable(UnreachableReason::EarlierConnection).into_io())
            }
            _ => Ok(()),
        }
    }

    /// Runs `work` on the connection. After an error, drops the connection and its state.
    fn transfer<T>(&mut self, work: impl FnOnce(&mut HostConnection) -> io::Result<T>) -> io::Result<T> {
        let Some(connection) = &mut self.connection else {
            return Err(RemoteError::Unreachable(UnreachableReason::NotConnected).into_io());
        };
        let worked = work(connection);
        self.last_used = Some(Instant::now());
        worked.map_err(|error| {
            let why = match error.kind() {
                ErrorKind::UnexpectedEof => UnreachableReason::Closed,
                _ => error.into(),
            };
            self.connection = None;
            if self.locks > 0 {
                self.disconnect_reason = Some(why.clone());
                return RemoteError::LockLost(why).into_io();
            }
            RemoteError::Unreachable(why).into_io()
        })
    }
}

/// Returns the reply, or the error if the request failed.
fn into_result(reply: RemoteReply) -> io::Result<RemoteReply> {
    match reply {
        RemoteReply::Failed { kind, what } => Err(io::Error::new(kind, what)),
        reply => Ok(reply),
    }
}

/// Returns the error for a reply that does not match the request.
pub(crate) fn unexpected_reply() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the reply does not match the request")
}
