//! Streams with a time limit. The limit prevents either side from waiting forever for a peer that has disappeared.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jetcell_sync::Mutex;

/// Interface to a bidirectional byte stream.
pub trait Channel: Read + Write + Send {}

impl<T: Read + Write + Send> Channel for T {}

/// Time at which a pending transfer times out.
#[derive(Clone)]
pub(crate) struct TransferDeadline(Arc<Mutex<Instant>>);

impl TransferDeadline {
    /// Creates a deadline that expires after `time`.
    pub fn within(time: Duration) -> TransferDeadline {
        TransferDeadline(Arc::new(Mutex::new(Instant::now() + time)))
    }

    /// Sets the deadline to `time` from now, for all streams that share it.
    pub fn set(&self, time: Duration) {
        *self.0.lock() = Instant::now() + time;
    }

    fn remaining(&self) -> io::Result<Duration> {
        let left = self.0.lock().saturating_duration_since(Instant::now());
        if left.is_zero() { Err(timeout_error()) } else { Ok(left) }
    }
}

fn timeout_error() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "the operation timed out")
}

/// A TCP connection whose transfers time out at a deadline, even if bytes arrive slowly.
pub(crate) struct TimedStream {
    stream: TcpStream,
    deadline: TransferDeadline,
}

impl TimedStream {
    pub fn new(stream: TcpStream, deadline: TransferDeadline) -> io::Result<TimedStream> {
        stream.set_nodelay(true)?;
        Ok(TimedStream { stream, deadline })
    }
}

/// Replaces the kernel's timeout error with a clearer one.
fn clarify_timeout(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => timeout_error(),
        _ => error,
    }
}

impl Read for TimedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.deadline.remaining()?))?;
        self.stream.read(buffer).map_err(clarify_timeout)
    }
}

impl Write for TimedStream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.deadline.remaining()?))?;
        self.stream.write(data).map_err(clarify_timeout)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
