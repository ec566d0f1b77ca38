//! Streams with a time limit. The limit prevents either side from waiting forever for a peer that has disappeared.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jetcell_sync::Mutex;

/// A bidirectional byte stream.
pub trait Channel: Read + Write + Send {}

impl<T: Read + Write + Send> Channel for T {}

/// Time at which a pending transfer times out.
#[derive(Clone)]
pub(crate) struct Deadline(Arc<Mutex<Instant>>);

impl Deadline {
    /// Creates a deadline that expires after `time`.
    pub fn within(time: Duration) -> Deadline {
        Deadline(Arc::new(Mutex::new(Instant::now() + time)))
    }

    /// Sets the deadline to `time` from now, for all streams that share it.
    pub fn set(&self, time: Duration) {
        *self.0.lock() = Instant::now() + time;
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.0.lock().saturating_duration_since(Instant::now());
        if left.is_zero() { Err(late()) } else { Ok(left) }
    }
}

fn late() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "the operation timed out")
}

/// A TCP connection whose transfers time out at a deadline, even if bytes arrive slowly.
pub(crate) struct TimedStream {
    stream: TcpStream,
    deadline: Deadline,
}

impl TimedStream {
    pub fn new(stream: TcpStream, deadline: Deadline) -> io::Result<TimedStream> {
        stream.set_nodelay(true)?;
        Ok(TimedStream { stream, deadline })
    }
}

/// Replaces the kernel's time-out error with a clearer one.
fn named(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => late(),
        _ => error,
    }
}

impl Read for TimedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.deadline.left()?))?;
        self.stream.read(buffer).map_err(named)
    }
}

impl Write for TimedStream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.deadline.left()?))?;
        self.stream.write(data).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
