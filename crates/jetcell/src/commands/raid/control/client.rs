//! Client side of the control socket, used by commands.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;

use jetcell_backup::{BackupProgress, TransferControl};

use super::bounded_lines::{BoundedLineReader, LineRead};
use super::{ControlReply, MAX_REPLY, SOCKET, SocketPath};
use crate::commands::raid::operation::ControlRequest;
use crate::commands::raid::operation_context::OperationResult;
use crate::outcome::{CommandContext, CommandError, CommandResult};

/// Connects to the process that uses an array. Returns `None` if there is no such process or it does not listen.
pub fn connect(array: &Path) -> Option<UnixStream> {
    let socket = SocketPath::new(array, SOCKET).ok()?;
    UnixStream::connect(&socket.path).ok()
}

/// Sends an operation to the process, shows its progress and notes, and returns the answer. Cancelling `pace` also
/// cancels the operation in the other process.
pub fn send_operation(
    mut stream: UnixStream,
    request: &ControlRequest,
    pace: &TransferControl,
    note: &dyn Fn(&str),
) -> CommandResult<OperationResult> {
    let array = &request.array;
    let lost = |what: &str| {
        CommandError::new(format_args!("{array}: the process that is using the array {what}"))
            .advise("try again")
    };
    let line = serde_json::to_string(request)
        .context(format_args!("{array}: could not send a path to the process that is using the array"))?;
    let read = |error: io::Error| lost(&format!("does not respond ({error})"));
    stream.write_all(format!("{line}\n").as_bytes()).map_err(read)?;
    let mut lines = BoundedLineReader::new(stream, MAX_REPLY).map_err(read)?;
    let mut has_cancelled = false;
    loop {
        if pace.cancel.is_cancelled() && !has_cancelled {
            has_cancelled = true;
            // This fails only if the connection is closed, which the next read reports.
            let _ = lines.stream().shutdown(Shutdown::Write);
        }
        let line = match lines.read_line().map_err(read)? {
            LineRead::Line(line) => line,
            LineRead::Incomplete => continue,
            LineRead::Closed => return Err(lost("exited before it responded")),
        };
        match serde_json::from_slice(&line) {
            Ok(ControlReply::Progress { done, total, moved }) => {
                if let Some(show) = &pace.progress {
                    show(BackupProgress { done: done.min(total), total, transferred: moved });
                }
            }
            Ok(ControlReply::Note(text)) => note(&text),
            Ok(ControlReply::Answer(answer)) => return Ok(answer),
            Ok(ControlReply::Error(what)) => return Err(CommandError::new(what)),
            Err(_) => {
                return Err(lost("is a different version of jetcell and sent an unrecognized response"));
            }
        }
    }
}
