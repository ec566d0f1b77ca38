//! Another host, as a client sees it: one connection, which is made again when it was lost, and what depends on it.
//!
//! Locks belong to a connection. When it is lost, the server releases them, and another process may take them. So from then on every
//! request of this client fails until it has dropped its locks: it does not go on with work that a lock was to protect.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Weak;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use jetcell_sync::{Arc, Mutex, MutexGuard};
use jetcell_vfs::{Pacer, RealClock};

use crate::connection::{Connection, Welcome};
use crate::connector::{ClientLimits, Connector};
use crate::error::RemoteError;
use crate::exports::Token;
use crate::frame::CHUNK;
use crate::reply::Reply;
use crate::request::Request;

/// Reads that are under way over one connection. More would only wait in buffers.
const WINDOW: usize = 4;
/// Longest pause before a lost connection is made again.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Work for the thread that transfers in the background.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The settings of a client.
pub struct RemoteOptions {
    /// The secret of the server.
    pub token: Token,
    /// How long the client waits.
    pub limits: ClientLimits,
    /// The pause after a failed try to connect. It doubles up to five seconds.
    pub retry: Duration,
    /// Bytes of files that may come per second.
    pub rate: Option<u64>,
    /// Keep the connection alive, and transfer in the background. Without that, two runs are equal.
    pub threads: bool,
}

impl RemoteOptions {
    /// The usual settings.
    pub fn new(token: Token) -> RemoteOptions {
        let (limits, retry) = (ClientLimits::default(), Duration::from_millis(100));
        RemoteOptions { token, limits, retry, rate: None, threads: true }
    }
}

pub(crate) struct Host {
    /// What the paths of the host begin with.
    pub root: PathBuf,
    connector: Box<dyn Connector>,
    options: RemoteOptions,
    pacer: Pacer,
    pub clock: Arc<RealClock>,
    state: Mutex<State>,
    /// The thread that transfers in the background.
    jobs: Mutex<Option<Sender<Job>>>,
}

#[derive(Default)]
struct State {
    connection: Option<Connection>,
    /// The number of the connection: files and locks of an earlier one are gone.
    epoch: u64,
    /// When it was used last.
    used: Option<Instant>,
    /// Locks that exist here, whether the server has them or not.
    locks: usize,
    /// Why the connection was lost over which they were taken.
    lost: Option<String>,
    /// Why there is no connection, when the next try may be made, and the pause after that.
    failed: Option<(RemoteError, Instant, Duration)>,
    welcome: Option<Welcome>,
}

impl Host {
    pub fn new(root: PathBuf, connector: Box<dyn Connector>, options: RemoteOptions) -> Host {
        let clock = Arc::new(RealClock::new());
        let pacer = Pacer::new(clock.clone());
        Host { root, connector, options, pacer, clock, state: Mutex::default(), jobs: Mutex::default() }
    }

    /// The state, with a connection.
    fn connected(self: &Arc<Host>) -> Result<MutexGuard<'_, State>, RemoteError> {
        let mut state = self.state.lock();
        if let Some(why) = &state.lost {
            return Err(RemoteError::LockLost(why.clone()));
        }
        if state.connection.is_some() {
            return Ok(state);
        }
        let now = Instant::now();
        if let Some((error, next, _)) = &state.failed
            && now < *next
        {
            return Err(error.clone());
        }
        match Connection::open(&*self.connector, &self.options.token, self.options.limits) {
            Ok((connection, welcome)) => {
                if state.epoch == 0 && self.options.threads {
                    self.keep_alive();
                }
                state.epoch += 1;
                (state.connection, state.welcome, state.failed) = (Some(connection), Some(welcome), None);
                state.used = Some(now);
                Ok(state)
            }
            Err(error) => {
                let before = state.failed.as_ref().map(|(_, _, pause)| *pause * 2);
                let pause = before.unwrap_or(self.options.retry).min(LONGEST_PAUSE);
                state.failed = Some((error.clone(), Instant::now() + pause, pause));
                Err(error)
            }
        }
    }

    /// What the server says about itself.
    pub fn welcome(self: &Arc<Host>) -> Result<Welcome, RemoteError> {
        let state = self.connected()?;
        Ok(state.welcome.clone().unwrap_or_else(|| Welcome { allows_handover: false, host: String::new() }))
    }

    /// Asks the server. `epoch`: the connection that the request needs. Returns the connection that was used, too.
    pub fn ask(self: &Arc<Host>, request: &Request, epoch: Option<u64>) -> io::Result<(Reply, u64)> {
        let mut state = self.connected().map_err(RemoteError::into_io)?;
        state.require(epoch)?;
        let reply = state.transfer(|connection| {
            let number = connection.send(request)?;
            connection.receive(number)
        })?;
        let used = state.epoch;
        drop(state);
        Ok((done(reply)?, used))
    }

    /// Takes a lock. Returns its number, and that of the connection.
    pub fn lock(self: &Arc<Host>, request: &Request) -> io::Result<(u32, u64)> {
        let mut state = self.connected().map_err(RemoteError::into_io)?;
        let reply = state.transfer(|connection| {
            let number = connection.send(request)?;
            connection.receive(number)
        })?;
        match done(reply)? {
            Reply::Handle(lock) => {
                state.locks += 1;
                Ok((lock, state.epoch))
            }
            _ => Err(unexpected()),
        }
    }

    /// Releases a lock, also one that the server does not have any more.
    pub fn unlock(&self, lock: u32, epoch: u64) {
        let mut state = self.state.lock();
        state.locks -= 1;
        if state.epoch == epoch && state.connection.is_some() {
            // If that fails, the connection is lost, and the lock with it.
            let _ = state.transfer(|connection| {
                let number = connection.send(&Request::Unlock { lock })?;
                connection.receive(number)
            });
        }
        if state.locks == 0 {
            state.lost = None;
        }
    }

    /// Tells the server that a file is not used any more.
    pub fn close(&self, file: u32, epoch: u64) {
        let mut state = self.state.lock();
        if state.epoch == epoch && state.connection.is_some() {
            let _ = state.transfer(|connection| {
                let number = connection.send(&Request::Close { file })?;
                connection.receive(number)
            });
        }
    }

    /// Reads a part of a file, with several requests under way.
    pub fn read(self: &Arc<Host>, file: u32, epoch: u64, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let piece = self.piece();
        let mut state = self.connected().map_err(RemoteError::into_io)?;
        state.require(Some(epoch))?;
        let mut failed = None;
        state.transfer(|connection| {
            let mut pieces = buffer.chunks_mut(piece);
            let (mut at, mut asked) = (offset, VecDeque::new());
            loop {
                while asked.len() < WINDOW && failed.is_none() {
                    let Some(place) = pieces.next() else { break };
                    self.pace(place.len());
                    let len = place.len() as u32;
                    let number = connection.send(&Request::Read { file, offset: at, len })?;
                    at += u64::from(len);
                    asked.push_back((number, place));
                }
                // Also after an error, so that no reply is left for the next request.
                let Some((number, place)) = asked.pop_front() else { return Ok(()) };
                match connection.receive(number)? {
                    Reply::Bytes(bytes) if bytes.len() == place.len() => place.copy_from_slice(&bytes),
                    Reply::Failed { kind, what } => failed = failed.take().or(Some((kind, what))),
                    _ => return Err(unexpected()),
                }
            }
        })?;
        failed.map_or(Ok(()), |(kind, what)| Err(io::Error::new(kind, what)))
    }

    /// Bytes of one request: at a low rate so few that the server sees the client often.
    fn piece(&self) -> usize {
        let rate = self.options.rate.map_or(CHUNK, |rate| usize::try_from(rate / 4).unwrap_or(CHUNK));
        (rate / 4096 * 4096).clamp(4096, CHUNK)
    }

    fn pace(&self, bytes: usize) {
        if let Some(rate) = self.options.rate {
            self.pacer.wait(Pacer::time_of(bytes as u64, rate), || false);
        }
    }

    /// Does a transfer in the background, or at once.
    pub fn transfer(&self, job: Job) {
        if !self.options.threads {
            return job();
        }
        let mut jobs = self.jobs.lock();
        let sender = jobs.get_or_insert_with(|| {
            let (sender, jobs) = channel::<Job>();
            std::thread::spawn(move || jobs.into_iter().for_each(|job| job()));
            sender
        });
        let sent = sender.send(job);
        drop(jobs);
        // The thread has ended with a panic of a job, which ends the process where that matters.
        if let Err(job) = sent {
            job.0();
        }
    }

    /// Says now and then that this client is there, as long as it exists.
    fn keep_alive(self: &Arc<Host>) {
        let Some(every) = self.options.limits.keep_alive else { return };
        let host: Weak<Host> = Arc::downgrade(self);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(every / 4);
                let Some(host) = host.upgrade() else { return };
                // A connection whose state is locked is in use.
                let Some(mut state) = host.state.try_lock() else { continue };
                let is_idle = state.used.is_some_and(|used| used.elapsed() >= every);
                if is_idle && state.connection.is_some() {
                    let _ = state.transfer(|connection| {
                        let number = connection.send(&Request::Ping)?;
                        connection.receive(number)
                    });
                }
            }
        });
    }
}

impl State {
    /// Fails unless the connection is the one that a request needs.
    fn require(&self, epoch: Option<u64>) -> io::Result<()> {
        match epoch {
            Some(epoch) if epoch != self.epoch => {
                let what = "the connection over which the file was opened was lost".to_string();
                Err(RemoteError::Unreachable(what).into_io())
            }
            _ => Ok(()),
        }
    }

    /// Uses the connection. If that fails, it is gone, and what belongs to it.
    fn transfer<T>(&mut self, work: impl FnOnce(&mut Connection) -> io::Result<T>) -> io::Result<T> {
        let Some(connection) = &mut self.connection else {
            return Err(RemoteError::Unreachable("there is no connection".into()).into_io());
        };
        let worked = work(connection);
        self.used = Some(Instant::now());
        worked.map_err(|error| {
            let why = match error.kind() {
                ErrorKind::UnexpectedEof => "the server ended the connection".to_string(),
                _ => error.to_string(),
            };
            self.connection = None;
            if self.locks > 0 {
                self.lost = Some(why.clone());
                return RemoteError::LockLost(why).into_io();
            }
            RemoteError::Unreachable(why).into_io()
        })
    }
}

/// The reply, unless the request has failed.
fn done(reply: Reply) -> io::Result<Reply> {
    match reply {
        Reply::Failed { kind, what } => Err(io::Error::new(kind, what)),
        reply => Ok(reply),
    }
}

/// A reply that does not fit the request.
pub(crate) fn unexpected() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "a reply that does not fit the request")
}
