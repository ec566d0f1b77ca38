//! Accept loops that another thread can stop.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::Shutdown;

use crate::Cancellation;

/// Interval at which a listener checks whether its caller has requested cancellation.
const CANCELLATION_POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Pause after a connection could not be accepted, for example because there are no free file descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// A listener that another thread can stop, even while it waits for a connection.
pub struct StoppableListener<L> {
    socket: L,
    cancellation: Cancellation,
    /// Whether the caller can cancel without [`StoppableListener::stop`].
    is_polling: bool,
}

impl<L: AsFd> StoppableListener<L> {
    /// Creates a listener that [`StoppableListener::stop`] stops.
    ///
    /// # Errors
    /// Returns an error if the socket cannot be configured.
    pub fn new(socket: L) -> io::Result<StoppableListener<L>> {
        let listener = StoppableListener::with_cancellation(socket, &Cancellation::default())?;
        Ok(StoppableListener { is_polling: false, ..listener })
    }

    /// Creates a listener that also stops when work is cancelled.
    ///
    /// # Errors
    /// Returns an error if the socket cannot be configured.
    pub fn with_cancellation(socket: L, cancellation: &Cancellation) -> io::Result<StoppableListener<L>> {
        // A connection may end between the poll and the call that accepts it. That call must not wait.
        rustix::io::ioctl_fionbio(&socket, true)?;
        let cancellation = cancellation.child();
        Ok(StoppableListener { socket, cancellation, is_polling: true })
    }

    /// Returns the listening socket.
    pub fn socket(&self) -> &L {
        &self.socket
    }

    /// Returns the cancellation token that [`StoppableListener::stop`] triggers. Connections can use it for their work.
    pub fn cancellation(&self) -> &Cancellation {
        &self.cancellation
    }

    /// Stops the listener, and wakes the thread that waits for a connection.
    pub fn stop(&self) {
        self.cancellation.cancel();
        // If this fails, the thread waits for one more connection.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    /// Returns true if the listener was stopped.
    pub fn is_stopped(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    fn wait_for<C>(&self, accept: impl Fn(&L) -> io::Result<C>, note: impl Fn(io::Error)) -> Option<C> {
        let timeout = self.is_polling.then_some(&CANCELLATION_POLL_INTERVAL);
        while !self.is_stopped() {
            let is_ready = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], timeout);
            if self.is_stopped() {
                break;
            }
            let accepted = match is_ready {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => accept(&self.socket),
                Err(error) => Err(error.into()),
            };
            match accepted {
                Ok(connection) => return Some(connection),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    note(error);
                    self.cancellation.sleep(ACCEPT_BACKOFF);
                }
            }
        }
        None
    }
}

impl StoppableListener<TcpListener> {
    /// Waits for the next connection. Returns `None` when the listener is stopped. `note` is called for each
    /// connection that could not be accepted; the listener then pauses and continues.
    pub fn next(&self, note: impl Fn(io::Error)) -> Option<(TcpStream, SocketAddr)> {
        self.wait_for(TcpListener::accept, note)
    }
}

impl StoppableListener<UnixListener> {
    /// Waits for the next connection in the same way as the listener for TCP.
    pub fn next(&self, note: impl Fn(io::Error)) -> Option<UnixStream> {
        self.wait_for(|listener| listener.accept().map(|(stream, _)| stream), note)
    }
}

#[cfg(test)]
#[path = "listener_tests.rs"]
mod tests;
