//! Server side of the control socket, run by the process that uses the array.

use std::borrow::Cow;
use std::io::{self, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use jetcell_host::{Cancellation, PrivateSocket, StoppableListener};
use jetcell_sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use jetcell_sync::thread::{self, JoinHandle};
use jetcell_sync::{Arc, Mutex};

use super::bounded_lines::{BoundedLineReader, LineRead};
use super::protocol::{ControlReply, MAX_REQUEST, SOCKET, SocketPath};
use crate::error::Result;
use crate::operations::{
    ControlRequest, OperationContext, OperationControl, OperationProgress, OperationResult,
};
use crate::running::ArrayInUse;

/// Maximum number of open connections. Further connections are closed.
const MAX_CONNECTIONS: usize = 16;
/// Maximum time that a client may take to send its request, or to receive a reply.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of bytes in a write to a client.
const WRITE_CHUNK: usize = 16384;
/// Minimum interval between two progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// The control socket of an array in use. Other processes use it to request operations. Dropping it interrupts
/// operations and removes the socket.
pub(crate) struct ControlSocket(Option<(Arc<BoundSocket>, JoinHandle<()>)>);

/// The listening socket. It is removed before the directory of a long path is closed.
struct BoundSocket {
    socket: PrivateSocket,
    _path: SocketPath,
}

impl ControlSocket {
    /// Starts listening. If the socket cannot be created, for example in a read-only directory, the array can still
    /// be used. In that case, a note reports that other commands cannot change the array.
    pub fn open(directory: &Path, used: Arc<ArrayInUse>) -> ControlSocket {
        let listen = || -> io::Result<_> {
            // No other process can be listening, because only the process that uses the array does so.
            let path = SocketPath::new(directory, SOCKET)?;
            let bound = Arc::new(BoundSocket { socket: PrivateSocket::bind(&path.path)?, _path: path });
            let (served, used) = (bound.clone(), used.clone());
            let serve = move || accept(served.socket.listener(), &used);
            Ok((bound, thread::Builder::new().name("control".into()).spawn(serve)?))
        };
        let note = |error| {
            let socket = directory.join(SOCKET);
            used.environment.note(format_args!(
                "{}: other commands cannot change the array while it is in use: {error}",
                socket.display()
            ));
        };
        ControlSocket(listen().map_err(note).ok())
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if let Some((bound, listening)) = self.0.take() {
            bound.socket.listener().stop();
            // If the thread panicked, it has already reported the panic.
            let _ = listening.join();
        }
    }
}

/// Serves clients until the listener is stopped and all clients have finished.
fn accept(listener: &StoppableListener<UnixListener>, used: &ArrayInUse) {
    let open = AtomicUsize::new(0);
    let stop = listener.cancellation();
    thread::scope(|scope| {
        while let Some(stream) = listener.next(|_| ()) {
            if open.fetch_add(1, Ordering::SeqCst) >= MAX_CONNECTIONS {
                open.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            let serve = || {
                // A disconnected client is not an error.
                let _ = serve(stream, used, stop);
                open.fetch_sub(1, Ordering::SeqCst);
            };
            if thread::Builder::new().name("control".into()).spawn_scoped(scope, serve).is_err() {
                open.fetch_sub(1, Ordering::SeqCst);
            }
        }
    });
}

/// Reads one request, runs it, and replies.
fn serve(stream: UnixStream, used: &ArrayInUse, stop: &Cancellation) -> io::Result<()> {
    let client = ControlClient { stream: Arc::new(Mutex::new(stream.try_clone()?)), cancel: stop.child() };
    let mut lines = BoundedLineReader::new(stream, MAX_REQUEST)?;
    let Some(line) = read_request(&mut lines, stop, CLIENT_TIMEOUT)? else { return Ok(()) };
    let request: ControlRequest = match serde_json::from_slice(&line) {
        Ok(request) => request,
        Err(error) => {
            let advice = Some("use the same version of jetcell".into());
            let problem = format!("the request is not valid ({error})");
            client.send(&ControlReply::Error { problem, advice });
            return Ok(());
        }
    };
    let is_done = AtomicBool::new(false);
    let reply = thread::scope(|scope| {
        scope.spawn(|| watch(&mut lines, &client.cancel, &is_done));
        let answer = perform(&request, used, &client);
        is_done.store(true, Ordering::SeqCst);
        match answer {
            Ok(answer) => ControlReply::Answer(answer),
            Err(error) => ControlReply::Error {
                problem: error.to_string(),
                advice: error.advice_or_os_advice().map(Cow::into_owned),
            },
        }
    });
    client.send(&reply);
    Ok(())
}

/// Returns the request, or `None` if the client does not send it in time or disconnects.
fn read_request(
    lines: &mut BoundedLineReader,
    stop: &Cancellation,
    timeout: Duration,
) -> io::Result<Option<Vec<u8>>> {
    let began = Instant::now();
    while began.elapsed() < timeout && !stop.is_cancelled() {
        match lines.read_line()? {
            LineRead::Line(line) => return Ok(Some(line)),
            LineRead::Incomplete => {}
            LineRead::Closed => break,
        }
    }
    Ok(None)
}

/// Sends all bytes. Fails if the client does not receive them in time.
fn send_within(mut stream: &UnixStream, mut bytes: &[u8], timeout: Duration) -> io::Result<()> {
    let end = Instant::now() + timeout;
    while !bytes.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        // The timeout of a long write applies to each of its parts.
        match stream.write(&bytes[..bytes.len().min(WRITE_CHUNK)]) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Interrupts the operation when the client disconnects, or closes its sending side of the connection.
fn watch(lines: &mut BoundedLineReader, cancel: &Cancellation, is_done: &AtomicBool) {
    while !is_done.load(Ordering::SeqCst) {
        if matches!(lines.read_line(), Ok(LineRead::Closed) | Err(_)) {
            return cancel.cancel();
        }
    }
}

fn perform(request: &ControlRequest, used: &ArrayInUse, client: &ControlClient) -> Result<OperationResult> {
    let progress = client.clone();
    let sent: Mutex<Option<Instant>> = Mutex::new(None);
    let show = move |now: OperationProgress| {
        let mut sent = sent.lock();
        if sent.is_none_or(|sent| sent.elapsed() >= PROGRESS_INTERVAL) {
            *sent = Some(Instant::now());
            progress.send(&ControlReply::Progress(now));
        }
    };
    let control = OperationControl { cancel: client.cancel.clone(), progress: Some(Arc::new(show)) };
    let on = OperationContext {
        name: &request.array,
        directory: &request.directory,
        owner: &*used.owner,
        files: &used.files,
        vfs: used.environment.vfs.clone(),
        concurrent_activity: Some(&used.concurrent_activity),
        control,
        report_shared_device: &|shared| client.send(&ControlReply::SharedDevice(shared)),
    };
    request.operation.perform(&on)
}

/// Connection to which replies are sent.
#[derive(Clone)]
struct ControlClient {
    stream: Arc<Mutex<UnixStream>>,
    cancel: Cancellation,
}

impl ControlClient {
    /// Sends a line. Interrupts the operation if the client has disconnected or does not receive the line in time.
    fn send(&self, reply: &ControlReply) {
        let Ok(line) = serde_json::to_string(reply) else { return };
        let stream = self.stream.lock();
        if send_within(&stream, format!("{line}\n").as_bytes(), CLIENT_TIMEOUT).is_err() {
            self.cancel.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(300);
    /// Time limit: much longer than the timeout, to allow for a busy machine, and much shorter than the client's
    /// transfers.
    const LIMIT: Duration = Duration::from_secs(4);

    /// Sends bytes of an endless line, one by one, until the peer disconnects or the limit has long passed.
    fn send_slowly(mut client: UnixStream) {
        let began = Instant::now();
        while began.elapsed() < 3 * LIMIT && client.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_client_that_sends_slowly_is_given_up_after_the_timeout() {
        let (client, server) = UnixStream::pair().unwrap();
        let sending = thread::spawn(move || send_slowly(client));
        let began = Instant::now();
        let mut lines = BoundedLineReader::new(server, MAX_REQUEST).unwrap();
        assert_eq!(read_request(&mut lines, &Cancellation::default(), TIMEOUT).unwrap(), None);
        assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
        // Such a client does not delay the server's shutdown either.
        let stop = Cancellation::default();
        stop.cancel();
        assert_eq!(read_request(&mut lines, &stop, 3 * LIMIT).unwrap(), None);
        assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
        drop(lines);
        sending.join().unwrap();
    }

    #[test]
    fn an_operation_ends_although_its_client_keeps_sending() {
        let (client, server) = UnixStream::pair().unwrap();
        let sending = thread::spawn(move || send_slowly(client));
        let mut lines = BoundedLineReader::new(server, MAX_REQUEST).unwrap();
        let (is_done, began) = (AtomicBool::new(false), Instant::now());
        thread::scope(|scope| {
            scope.spawn(|| watch(&mut lines, &Cancellation::default(), &is_done));
            thread::sleep(TIMEOUT);
            is_done.store(true, Ordering::SeqCst);
        });
        assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
        drop(lines);
        sending.join().unwrap();
    }

    #[test]
    fn a_client_that_receives_slowly_is_given_up_after_the_timeout() {
        let (mut client, server) = UnixStream::pair().unwrap();
        let receiving = thread::spawn(move || {
            let mut chunk = [0; 4096];
            while client.read(&mut chunk).is_ok_and(|read| read > 0) {
                thread::sleep(Duration::from_millis(50));
            }
        });
        let began = Instant::now();
        let error = send_within(&server, &vec![b'x'; 64 << 20], TIMEOUT).unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{error}");
        assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
        drop(server);
        receiving.join().unwrap();
    }
}
