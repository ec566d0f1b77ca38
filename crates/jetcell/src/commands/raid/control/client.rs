//! Client side of the control socket, used by commands.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;

use jetcell_backup::{Pace, Progress};

use super::lines::{Found, Lines};
use super::{MAX_REPLY, Reply, SOCKET, SocketPath};
use crate::commands::raid::operated::Answer;
use crate::commands::raid::operation::Request;
use crate::outcome::Failure;

/// Connects to the process that uses an array. Returns `None` if there is no such process or it does not listen.
pub fn connect(array: &Path) -> Option<UnixStream> {
    let socket = SocketPath::new(array, SOCKET).ok()?;
    UnixStream::connect(&socket.path).ok()
}

/// Sends an operation to the process, shows its progress and notes, and returns the answer. Cancelling `pace` also
/// cancels the operation in the other process.
pub fn ask(
    mut stream: UnixStream,
    request: &Request,
    pace: &Pace,
    note: &dyn Fn(&str),
) -> Result<Answer, Failure> {
    let array = &request.array;
    let lost =
        |what: &str| Failure::from(format!("{array}: the process that uses the array {what}; try again"));
    let line = serde_json::to_string(request).map_err(|error| {
        format!("{array}: a path cannot be sent to the process that uses the array: {error}")
    })?;
    let read = |error: io::Error| lost(&format!("does not answer ({error})"));
    stream.write_all(format!("{line}\n").as_bytes()).map_err(read)?;
    let mut lines = Lines::new(stream, MAX_REPLY).map_err(read)?;
    let mut has_cancelled = false;
    loop {
        if pace.cancel.is_cancelled() && !has_cancelled {
            has_cancelled = true;
            // This fails only if the connection is closed, which the next read reports.
            let _ = lines.stream().shutdown(Shutdown::Write);
        }
        let line = match lines.next().map_err(read)? {
            Found::Line(line) => line,
            Found::Nothing => continue,
            Found::End => return Err(lost("ended before it answered")),
        };
        match serde_json::from_slice(&line) {
            Ok(Reply::Progress { done, total, moved }) => {
                if let Some(show) = &pace.progress {
                    show(Progress { done: done.min(total), total, moved });
                }
            }
            Ok(Reply::Note(text)) => note(&text),
            Ok(Reply::Answer(answer)) => return Ok(answer),
            Ok(Reply::Error(what)) => return Err(what.into()),
            Err(_) => return Err(lost("is another version of jetcell and sent an unknown answer")),
        }
    }
}
