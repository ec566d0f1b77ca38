//! Writes to standard output and standard error that end the command quietly if their reader has gone.

use std::io::{self, IsTerminal, Write};

use jetcell_report::{printable, wrapped};

use crate::outcome::{Outcome, print_error};

/// Status of a process that a closed pipe has ended, as shells show it: 128 and SIGPIPE.
pub const PIPE_CLOSED: i32 = 141;

/// Prints text to standard output. If its reader, such as `head`, has closed the pipe, the process ends without a word, as
/// `cat` does. If it cannot be written, the process ends with one line.
pub fn print(text: &str) {
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        drop(out);
        std::process::exit(failed(&error));
    }
}

/// The exit status after an error of standard output, which is reported unless the pipe was closed.
pub fn failed(error: &io::Error) -> i32 {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return PIPE_CLOSED;
    }
    print_error(format!("standard output cannot be written: {error}; free space, or write to another place"));
    Outcome::CouldNotRun as i32
}

/// Characters in a line of standard output: as the terminal has, or without a limit if it is no terminal.
pub fn width() -> usize {
    match io::stdout().is_terminal() {
        true => ratatui::crossterm::terminal::size().map_or(80, |(columns, _)| columns.max(40).into()),
        false => usize::MAX,
    }
}

/// Characters in a line of the terminal that standard error is.
pub fn terminal_width() -> usize {
    ratatui::crossterm::terminal::size().map_or(80, |(columns, _)| columns.max(20).into())
}

/// Prints a line to standard error, as far as that is possible. On a terminal it is folded between words.
pub fn note(line: &str) {
    let text = match io::stderr().is_terminal() {
        true => wrapped("", line, terminal_width()),
        false => format!("{}\n", printable(line)),
    };
    let _ = io::stderr().write_all(text.as_bytes());
}
