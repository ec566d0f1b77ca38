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

use jetcell_backup::{Cancel, Pace, Progress};

use super::lines::{Found, Lines};
use super::{MAX_REQUEST, Reply, SOCKET, SocketPath};
use crate::commands::raid::caretaker::UsedArray;
use crate::commands::raid::operated::{Answer, Operated};
use crate::commands::raid::operation::Request;
use crate::console;
use crate::outcome::Failure;

/// Maximum number of open connections. Further connections are closed.
const MAX_CONNECTIONS: usize = 16;
/// Timeout for a client to send its request and to receive a reply.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two checks for new connections.
const ACCEPT_INTERVAL: Duration = Duration::from_millis(50);
/// Minimum interval between two progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Control socket of an array in use. Dropping it interrupts operations and removes the socket.
pub struct ControlSocket {
    is_stopped: Arc<AtomicBool>,
    listening: Option<JoinHandle<()>>,
}

impl ControlSocket {
    /// Starts listening. If the socket cannot be created, for example in a read-only directory, the array can still
    /// be used. In that case, a note reports that other commands cannot change the array.
    pub fn open(directory: &Path, used: Arc<UsedArray>) -> ControlSocket {
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
            console::note(&format!(
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
fn accept(listener: &UnixListener, used: &UsedArray, is_stopped: &AtomicBool) {
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
fn serve(stream: UnixStream, used: &UsedArray, is_stopped: &AtomicBool) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let client = Client { stream: Arc::new(Mutex::new(stream.try_clone()?)), cancel: Cancel::default() };
    let mut lines = Lines::new(stream, MAX_REQUEST)?;
    let began = Instant::now();
    let line = loop {
        match lines.next()? {
            Found::Line(line) => break line,
            Found::Nothing if began.elapsed() < CLIENT_TIMEOUT && !is_stopped.load(Ordering::SeqCst) => {}
            Found::Nothing | Found::End => return Ok(()),
        }
    };
    let request: Request = match serde_json::from_slice(&line) {
        Ok(request) => request,
        Err(error) => {
            client.send(&Reply::Error(format!(
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
        answer.map_or_else(|failure| Reply::Error(failure.to_string()), Reply::Answer)
    });
    client.send(&reply);
    Ok(())
}

/// Interrupts the operation when the client disconnects, when it closes its direction of the connection, or when this
/// process ends.
fn watch(lines: &mut Lines, cancel: &Cancel, is_done: &AtomicBool, is_stopped: &AtomicBool) {
    while !is_done.load(Ordering::SeqCst) {
        let has_gone = matches!(lines.next(), Ok(Found::End) | Err(_));
        if has_gone || is_stopped.load(Ordering::SeqCst) {
            return cancel.cancel();
        }
    }
}

fn perform(request: &Request, used: &UsedArray, client: &Client) -> Result<Answer, Failure> {
    let progress = client.clone();
    let sent: Mutex<Option<Instant>> = Mutex::new(None);
    let show = move |Progress { done, total, moved }: Progress| {
        let mut sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
        if sent.is_none_or(|sent| sent.elapsed() >= PROGRESS_INTERVAL) {
            *sent = Some(Instant::now());
            progress.send(&Reply::Progress { done, total, moved });
        }
    };
    let pace = Pace { rate: None, cancel: client.cancel.clone(), progress: Some(Arc::new(show)) };
    let on = Operated {
        name: &request.array,
        directory: &request.directory,
        holder: &*used.holder,
        files: &used.files,
        vfs: used.vfs.clone(),
        beside: Some(&used.beside),
        pace,
        note: &|text| client.send(&Reply::Note(text.into())),
    };
    request.operation.perform(&on)
}

/// Connection to which replies are sent.
#[derive(Clone)]
struct Client {
    stream: Arc<Mutex<UnixStream>>,
    cancel: Cancel,
}

impl Client {
    /// Sends a line. Interrupts the operation if the client has disconnected.
    fn send(&self, reply: &Reply) {
        let Ok(line) = serde_json::to_string(reply) else { return };
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if stream.write_all(format!("{line}\n").as_bytes()).is_err() {
            self.cancel.cancel();
        }
    }
}
