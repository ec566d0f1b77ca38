//! A connection whose thread polls briefly for the next request before it sleeps, provided that requests follow each
//! other quickly. Waking a thread takes longer than answering a short request.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::memory::ConnectionMemory;

/// Maximum time for which a thread polls for a request. If the client takes longer, the thread sleeps.
const POLL_TIMEOUT: Duration = Duration::from_micros(100);
/// If a polling thread yields the processor and does not get it back within this time, others need the processor. The
/// thread then sleeps before each of the next requests, because a thread that wakes up gets the processor sooner than
/// one that has yielded it.
const BUSY_THRESHOLD: Duration = Duration::from_micros(20);
/// If others used the processor for no longer than this and a request arrived in the meantime, it was the client that
/// needed the processor.
const CLIENT_THRESHOLD: Duration = Duration::from_micros(200);
/// Minimum and maximum number of requests for which polling is suspended.
const BACKOFF_RANGE: (u32, u32) = (16, 1024);

/// Number of requests for which polling is suspended, because other threads need the processor. The number doubles each
/// time this is detected, and each poll that finds a request reduces it by one. This way, a single interruption, for
/// example by the host of a virtual machine, costs little, and so does polling on a busy machine.
struct PollBackoff {
    remaining: Cell<u32>,
    next: Cell<u32>,
}

impl PollBackoff {
    fn new() -> PollBackoff {
        PollBackoff { remaining: Cell::new(0), next: Cell::new(BACKOFF_RANGE.0) }
    }

    fn is_over(&self) -> bool {
        self.remaining.get() == 0
    }

    /// Counts a request for which the thread slept instead of polling.
    fn count_request(&self) {
        self.remaining.set(self.remaining.get().saturating_sub(1));
    }

    /// Records a poll during which other threads had the processor for the time `given`. Returns true if a period
    /// without polling begins.
    fn record_poll(&self, given: Duration, is_found: bool) -> bool {
        let next = self.next.get();
        let begins = given > CLIENT_THRESHOLD || given > BUSY_THRESHOLD && !is_found;
        if begins {
            self.remaining.set(next);
            self.next.set((2 * next).min(BACKOFF_RANGE.1));
        } else if is_found {
            self.next.set((next - 1).max(BACKOFF_RANGE.0));
        }
        begins
    }
}

/// Returns true if reading or writing a socket failed because of its timeout.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// A TCP or Unix socket connected to an NBD client.
#[derive(Clone)]
pub enum SocketStream {
    Tcp(Arc<TcpStream>),
    Unix(Arc<UnixStream>),
}

impl SocketStream {
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            SocketStream::Tcp(stream) => stream.shutdown(how),
            SocketStream::Unix(stream) => stream.shutdown(how),
        }
    }

    fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            SocketStream::Tcp(stream) => {
                stream.set_read_timeout(timeout)?;
                stream.set_write_timeout(timeout)
            }
            SocketStream::Unix(stream) => {
                stream.set_read_timeout(timeout)?;
                stream.set_write_timeout(timeout)
            }
        }
    }

    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match self {
            SocketStream::Tcp(stream) => stream.set_nonblocking(nonblocking),
            SocketStream::Unix(stream) => stream.set_nonblocking(nonblocking),
        }
    }

    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            SocketStream::Tcp(stream) => (&**stream).read(buffer),
            SocketStream::Unix(stream) => (&**stream).read(buffer),
        }
    }

    fn write(&self, data: &[u8]) -> io::Result<usize> {
        match self {
            SocketStream::Tcp(stream) => (&**stream).write(data),
            SocketStream::Unix(stream) => (&**stream).write(data),
        }
    }
}

/// Interval at which a wait for the client is interrupted while the connection holds memory that other connections
/// may need.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// A connection from an NBD client, served by its own thread.
pub struct NbdConnection<'stream> {
    stream: &'stream SocketStream,
    memory: &'stream ConnectionMemory<'stream>,
    /// Whether waits are interrupted after [`WATCH_INTERVAL`].
    is_watched: Cell<bool>,
    /// Whether the handshake is complete. During the handshake, reads have a timeout.
    is_handshake_complete: Cell<bool>,
    /// Whether the thread polls for the next request, because the last one arrived quickly.
    polls: Cell<bool>,
    backoff: PollBackoff,
    is_blocking: Cell<bool>,
}

impl<'stream> NbdConnection<'stream> {
    /// Creates a connection. Each read during the handshake waits for at most `timeout`.
    pub fn new(
        stream: &'stream SocketStream,
        timeout: Duration,
        memory: &'stream ConnectionMemory<'stream>,
    ) -> io::Result<NbdConnection<'stream>> {
        stream.set_timeout(Some(timeout))?;
        Ok(NbdConnection {
            stream,
            memory,
            is_watched: Cell::new(false),
            is_handshake_complete: Cell::new(false),
            polls: Cell::new(false),
            backoff: PollBackoff::new(),
            is_blocking: Cell::new(true),
        })
    }

    /// Marks the handshake as complete, and removes the timeout.
    pub fn complete_handshake(&self) -> io::Result<()> {
        self.is_handshake_complete.set(true);
        self.stream.set_timeout(None)
    }

    fn set_blocking(&self, blocking: bool) -> io::Result<()> {
        if self.is_blocking.replace(blocking) == blocking {
            return Ok(());
        }
        self.stream.set_nonblocking(!blocking)
    }

    /// Enables the interruption of waits if the connection holds memory that others may need, and disables it
    /// otherwise. Returns whether it is enabled.
    fn watch(&self) -> io::Result<bool> {
        let is_watched = self.is_handshake_complete.get() && self.memory.is_watched();
        if self.is_watched.replace(is_watched) != is_watched {
            self.stream.set_timeout(is_watched.then_some(WATCH_INTERVAL))?;
        }
        Ok(is_watched)
    }

    /// Repeats a transfer that waits for the client until it succeeds or fails. Fails if others have needed the
    /// connection's memory for too long.
    fn transfer(&self, mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
        if !self.watch()? {
            return call();
        }
        loop {
            let began = Instant::now();
            let result = call();
            self.memory.add_wait(began.elapsed())?;
            match result {
                Err(error) if is_timeout(&error) => {}
                result => return result,
            }
        }
    }

    /// Polls for data for at most [`POLL_TIMEOUT`].
    fn poll(&self, buffer: &mut [u8]) -> Option<io::Result<usize>> {
        let mut began = None;
        let mut given = Duration::ZERO;
        loop {
            let found = match self.stream.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
                result => Some(result),
            };
            if self.backoff.record_poll(given, found.is_some()) || found.is_some() {
                return found;
            }
            let now = Instant::now();
            if now - *began.get_or_insert(now) >= POLL_TIMEOUT {
                return None;
            }
            thread::yield_now();
            given = now.elapsed();
        }
    }
}

impl Read for &NbdConnection<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.polls.get() && self.backoff.is_over() {
            self.set_blocking(false)?;
            if let Some(result) = self.poll(buffer) {
                return result;
            }
        }
        self.set_blocking(true)?;
        let began = Instant::now();
        let result = self.transfer(|| self.stream.read(buffer));
        let comes_soon = self.is_handshake_complete.get() && began.elapsed() < POLL_TIMEOUT;
        self.polls.set(comes_soon && self.backoff.is_over());
        self.backoff.count_request();
        result
    }
}

impl Write for &NbdConnection<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if !self.is_blocking.get() {
            match self.stream.write(data) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.set_blocking(true)?,
                result => return result,
            }
        }
        self.transfer(|| self.stream.write(data))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::ServerMemory;

    #[test]
    fn the_poll_backoff_follows_processor_contention() {
        let rest = PollBackoff::new();
        // The client was the one that used the processor.
        assert!(!rest.record_poll(CLIENT_THRESHOLD, true) && rest.is_over());
        let length = |_| {
            assert!(rest.record_poll(2 * BUSY_THRESHOLD, false));
            let length = rest.remaining.get();
            (0..length).for_each(|_| rest.count_request());
            assert!(rest.is_over());
            length
        };
        let lengths: Vec<u32> = (0..8).map(length).collect();
        assert_eq!(lengths, [16, 32, 64, 128, 256, 512, 1024, 1024]);
        (0..2000).for_each(|_| assert!(!rest.record_poll(Duration::ZERO, true)));
        // This was too long for the client alone.
        assert!(rest.record_poll(2 * CLIENT_THRESHOLD, true));
        assert_eq!(rest.remaining.get(), BACKOFF_RANGE.0);
    }

    #[test]
    fn a_polling_thread_waits_for_slow_reads_and_writes() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let stream = SocketStream::Unix(Arc::new(ours));
        let all = ServerMemory::new(0, 1);
        let memory = ConnectionMemory::new(&all, Duration::from_secs(60));
        let connection = NbdConnection::new(&stream, Duration::from_secs(60), &memory).unwrap();
        connection.complete_handshake().unwrap();
        connection.polls.set(true);
        (&theirs).write_all(b"at once").unwrap();
        let mut buffer = [0; 16];
        assert_eq!((&connection).read(&mut buffer).unwrap(), 7);
        assert!(!connection.is_blocking.get() && connection.polls.get());
        let sent = vec![7; 8 << 20];
        thread::scope(|scope| {
            scope.spawn(|| {
                // The data exceeds the socket's buffer, and the peer is not reading yet.
                let memory = ConnectionMemory::new(&all, Duration::from_secs(60));
                let connection = NbdConnection::new(&stream, Duration::from_secs(60), &memory).unwrap();
                // Polling leaves a connection in nonblocking mode.
                connection.is_blocking.set(false);
                (&connection).write_all(&sent).unwrap();
            });
            thread::sleep(Duration::from_millis(20));
            let mut received = vec![0; sent.len()];
            (&theirs).read_exact(&mut received).unwrap();
            assert!(received == sent);
        });
        // The peer sends nothing. After polling, the thread sleeps, in this case until the handshake timeout.
        let silent = NbdConnection::new(&stream, Duration::from_millis(1), &memory).unwrap();
        silent.set_blocking(false).unwrap();
        silent.polls.set(true);
        assert!((&silent).read(&mut buffer).is_err());
        assert!(silent.is_blocking.get() && !silent.polls.get());
        drop(theirs);
        assert_eq!((&silent).read(&mut buffer).unwrap(), 0);
    }
}
