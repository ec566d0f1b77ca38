//! Definitions shared by client and server of the control socket: the socket's path, limits and replies.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::members::SharedDevice;
use crate::operations::{OperationProgress, OperationResult};

/// Name of the socket in an array's directory.
pub(super) const SOCKET: &str = "control.sock";
/// Maximum length of a socket path in bytes, without the terminating NUL.
const MAX_PATH: usize = 107;
/// Maximum length of a request in bytes.
pub(super) const MAX_REQUEST: usize = 1 << 20;
/// Maximum length of a reply in bytes. It is high because the reply to a scrub lists rows.
pub(super) const MAX_REPLY: usize = 256 << 20;

/// A line that is sent to a client.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ControlReply {
    Progress(OperationProgress),
    SharedDevice(SharedDevice),
    Answer(OperationResult),
    Error { problem: String, advice: Option<String> },
}

/// A path that is short enough for a socket. If the original path is too long, it is replaced by a path through the
/// open directory's descriptor.
pub(super) struct SocketPath {
    pub path: PathBuf,
    _directory: Option<File>,
}

impl SocketPath {
    pub fn new(directory: &Path, name: &str) -> std::io::Result<SocketPath> {
        let path = directory.join(name);
        if path.as_os_str().as_bytes().len() <= MAX_PATH {
            return Ok(SocketPath { path, _directory: None });
        }
        let open = File::open(directory)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{name}", open.as_raw_fd()));
        Ok(SocketPath { path, _directory: Some(open) })
    }
}
