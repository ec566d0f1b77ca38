//! Client side of the control socket, used by commands.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::bounded_lines::{BoundedLineReader, LineRead};
use super::protocol::{ControlReply, MAX_REPLY, SOCKET, SocketPath};
use crate::error::{ConnectionFault, Error, Result};
use crate::members::SharedDevice;
use crate::operations::{ControlRequest, OperationControl, OperationResult};

/// Connects to the process that uses an array. Returns `None` if there is no such process, or if it is not listening.
pub(crate) fn connect(array: &Path) -> Option<UnixStream> {
    let socket = SocketPath::new(array, SOCKET).ok()?;
    UnixStream::connect(&socket.path).ok()
}

/// Sends an operation to the process that uses the array, reports progress and warnings, and returns the answer.
/// Cancelling `control` also cancels the operation in the other process.
pub(crate) fn send_operation(
    mut stream: UnixStream,
    request: &ControlRequest,
    control: &OperationControl,
    report_shared_device: &dyn Fn(SharedDevice),
) -> Result<OperationResult> {
    let array = &request.array;
    let failed = |fault| Error::Connection { array: array.clone(), fault };
    let line =
        serde_json::to_string(request).map_err(|source| Error::Request { array: array.clone(), source })?;
    let no_response = |error: io::Error| failed(ConnectionFault::NoResponse(error));
    stream.write_all(format!("{line}\n").as_bytes()).map_err(no_response)?;
    let mut lines = BoundedLineReader::new(stream, MAX_REPLY).map_err(no_response)?;
    let mut has_cancelled = false;
    loop {
        if control.cancel.is_cancelled() && !has_cancelled {
            has_cancelled = true;
            // This fails only if the connection is closed, which the next read reports.
            let _ = lines.stream().shutdown(Shutdown::Write);
        }
        let line = match lines.read_line().map_err(no_response)? {
            LineRead::Line(line) => line,
            LineRead::Incomplete => continue,
            LineRead::Closed => return Err(failed(ConnectionFault::Exited)),
        };
        match serde_json::from_slice(&line) {
            Ok(ControlReply::Progress(mut progress)) => {
                if let Some(show) = &control.progress {
                    progress.done = progress.done.min(progress.total);
                    show(progress);
                }
            }
            Ok(ControlReply::SharedDevice(shared)) => report_shared_device(shared),
            Ok(ControlReply::Answer(answer)) => return Ok(answer),
            Ok(ControlReply::Error { problem, advice }) => return Err(Error::Remote { problem, advice }),
            Err(_) => return Err(failed(ConnectionFault::OtherVersion)),
        }
    }
}
