//! Operations on an array that is used by a process: other commands send them to that process through a socket in the
//! array's directory.
//!
//! A client sends one line, the [request](super::operation::ControlRequest). The server sends lines back: progress
//! and notes, and finally the answer or an error. The client keeps its direction of the connection open. Closing it
//! interrupts the operation, as Ctrl-C would.

mod bounded_lines;
mod client;
mod server;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::operation_context::OperationResult;

pub use self::client::{connect, send_operation};
pub use self::server::ControlSocket;

/// Name of the socket in an array's directory.
const SOCKET: &str = "control.sock";
/// Maximum length of a socket path in bytes, without the terminating NUL.
const MAX_PATH: usize = 107;
/// Maximum length of a request in bytes.
const MAX_REQUEST: usize = 1 << 20;
/// Maximum length of a reply in bytes. The reply to a scrub lists rows.
const MAX_REPLY: usize = 256 << 20;

/// A line that is sent to a client.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ControlReply {
    Progress { done: u64, total: u64, moved: u64 },
    Note(String),
    Answer(OperationResult),
    Error(String),
}

/// A path that is short enough for a socket. If the original path is too long, it is replaced by a path through the
/// open directory's descriptor.
struct SocketPath {
    path: PathBuf,
    _directory: Option<File>,
}

impl SocketPath {
    fn new(directory: &Path, name: &str) -> std::io::Result<SocketPath> {
        let path = directory.join(name);
        if path.as_os_str().as_bytes().len() <= MAX_PATH {
            return Ok(SocketPath { path, _directory: None });
        }
        let open = File::open(directory)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{name}", open.as_raw_fd()));
        Ok(SocketPath { path, _directory: Some(open) })
    }
}
