//! Server side of the control socket, run by the process that uses the array.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jetcell_backup::{BackupProgress, CancelToken, TransferControl};

use super::bounded_lines::{BoundedLineReader, LineRead};
use super::{ControlReply, MAX_REQUEST, SOCKET, SocketPath};
use crate::commands::raid::maintainer::ArrayInUse;
use crate::commands::raid::operation::ControlRequest;
use crate::commands::raid::operation_context::{OperationContext, OperationResult};
use crate::console;
use crate::outcome::CommandError;

/// Maximum number of open connections. Further connections are closed.
const MAX_CONNECTIONS: usize = 16;
/// Timeout for a client to send its request and to receive a reply.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two checks for new connections.
const ACCEPT_INTERVAL: Duration = Duration::from_millis(50);
/// Minimum interval between two progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Control socket of an array in use, through which other processes request operations. Dropping it
/// interrupts operations and removes the socket.
pub struct ControlSocket {
    is_stopped: Arc<AtomicBool>,
    listening: Option<JoinHandle<()>>,
}

impl ControlSocket {
    /// Starts listening. If the socket cannot be created, for example in a read-only directory, the array can still
    /// be used. In that case, a note reports that other commands cannot change the array.
    pub fn open(directory: &Path, used: Arc<ArrayInUse>) -> ControlSocket {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let listening = listen(directory).and_then(|(listener, path)| {
            let is_stopped = is_stopped.clone();
            thread::Builder::new().name("control".into()).spawn(move || {
                accept(&listener, &used, &is_stopped);
                // If the socket cannot be removed here, the next process replaces it.
                let _ = fs::remove_file(&path.path);
            })
        });
        let note = |error| {
            console::print_note(&format!(
                "{}: other commands cannot change the array while it is in use: {error}",
                directory.join(SOCKET).display()
            ));
        };
        ControlSocket { is_stopped, listening: listening.map_err(note).ok() }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        if let Some(listening) = self.listening.take() {
            // If the thread panicked, it has already reported the panic.
            let _ = listening.join();
        }
    }
}

/// Creates a socket that is accessible only to its owner at all times. It replaces any socket left over from another
/// process. No other process can be listening, because only the process that uses the array listens.
fn listen(directory: &Path) -> io::Result<(UnixListener, SocketPath)> {
    let path = SocketPath::new(directory, SOCKET)?;
    match fs::symlink_metadata(&path.path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "a file with this name is not a socket; remove it",
            ));
        }
        Ok(found) if found.uid() != rustix::process::geteuid().as_raw() => {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "a socket with this name belongs to another user; remove it",
            ));
        }
        _ => {}
    }
    // Other users have no access to this directory.
    let private = tempfile::Builder::new().prefix(".control").tempdir_in(directory)?;
    let made = SocketPath::new(private.path(), SOCKET)?;
    let listener = UnixListener::bind(&made.path)?;
    listener.set_nonblocking(true)?;
    fs::set_permissions(&made.path, fs::Permissions::from_mode(0o600))?;
    fs::rename(&made.path, &path.path)?;
    Ok((listener, path))
}

/// Serves clients until `is_stopped` is set and all clients have finished.
fn accept(listener: &UnixListener, used: &ArrayInUse, is_stopped: &AtomicBool) {
    let open = AtomicUsize::new(0);
    thread::scope(|scope| {
        while !is_stopped.load(Ordering::SeqCst) {
            let Ok((stream, _)) = listener.accept() else {
                thread::sleep(ACCEPT_INTERVAL);
                continue;
            };
            if open.fetch_add(1, Ordering::SeqCst) >= MAX_CONNECTIONS {
                open.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            let serve = || {
                // A disconnected client is not an error.
                let _ = serve(stream, used, is_stopped);
                open.fetch_sub(1, Ordering::SeqCst);
            };
            if thread::Builder::new().name("control".into()).spawn_scoped(scope, serve).is_err() {
                open.fetch_sub(1, Ordering::SeqCst);
            }
        }
    });
}

/// Reads one request, runs it, and replies.
fn serve(stream: UnixStream, used: &ArrayInUse, is_stopped: &AtomicBool) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let client =
        ControlClient { stream: Arc::new(Mutex::new(stream.try_clone()?)), cancel: CancelToken::default() };
    let mut lines = BoundedLineReader::new(stream, MAX_REQUEST)?;
    let began = Instant::now();
    let line = loop {
        match lines.read_line()? {
            LineRead::Line(line) => break line,
            LineRead::Incomplete
                if began.elapsed() < CLIENT_TIMEOUT && !is_stopped.load(Ordering::SeqCst) => {}
            LineRead::Incomplete | LineRead::Closed => return Ok(()),
        }
    };
    let request: ControlRequest = match serde_json::from_slice(&line) {
        Ok(request) => request,
        Err(error) => {
            client.send(&ControlReply::Error(format!(
                "the request is not valid ({error}); use the same version of jetcell"
            )));
            return Ok(());
        }
    };
    let is_done = AtomicBool::new(false);
    let reply = thread::scope(|scope| {
        scope.spawn(|| watch(&mut lines, &client.cancel, &is_done, is_stopped));
        let answer = perform(&request, used, &client);
        is_done.store(true, Ordering::SeqCst);
        answer.map_or_else(|failure| ControlReply::Error(failure.to_string()), ControlReply::Answer)
    });
    client.send(&reply);
    Ok(())
}

/// Interrupts the operation when the client disconnects, when it closes its direction of the connection, or when this
/// process ends.
fn watch(lines: &mut BoundedLineReader, cancel: &CancelToken, is_done: &AtomicBool, is_stopped: &AtomicBool) {
    while !is_done.load(Ordering::SeqCst) {
        let has_gone = matches!(lines.read_line(), Ok(LineRead::Closed) | Err(_));
        if has_gone || is_stopped.load(Ordering::SeqCst) {
            return cancel.cancel();
        }
    }
}

fn perform(
    request: &ControlRequest,
    used: &ArrayInUse,
    client: &ControlClient,
) -> Result<OperationResult, CommandError> {
    let progress = client.clone();
    let sent: Mutex<Option<Instant>> = Mutex::new(None);
    let show = move |BackupProgress { done, total, transferred: moved }: BackupProgress| {
        let mut sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
        if sent.is_none_or(|sent| sent.elapsed() >= PROGRESS_INTERVAL) {
            *sent = Some(Instant::now());
            progress.send(&ControlReply::Progress { done, total, moved });
        }
    };
    let pace = TransferControl { rate: None, cancel: client.cancel.clone(), progress: Some(Arc::new(show)) };
    let on = OperationContext {
        name: &request.array,
        directory: &request.directory,
        owner: &*used.owner,
        files: &used.files,
        vfs: used.vfs.clone(),
        concurrent_activity: Some(&used.concurrent_activity),
        pace,
        show_note: &|text| client.send(&ControlReply::Note(text.into())),
    };
    request.operation.perform(&on)
}

/// Connection to which replies are sent.
#[derive(Clone)]
struct ControlClient {
    stream: Arc<Mutex<UnixStream>>,
    cancel: CancelToken,
}

impl ControlClient {
    /// Sends a line. Interrupts the operation if the client has disconnected.
    fn send(&self, reply: &ControlReply) {
        let Ok(line) = serde_json::to_string(reply) else { return };
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if stream.write_all(format!("{line}\n").as_bytes()).is_err() {
            self.cancel.cancel();
        }
    }
}
