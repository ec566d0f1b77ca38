//! The width of the terminal, and lines on standard error that fit it.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use jetcell_input::printable;
use jetcell_report::wrapped;
use rustix::termios::tcgetwinsize;

/// Characters in a line of standard output: as the terminal has, or without a limit if it is no terminal.
pub fn width() -> usize {
    match io::stdout().is_terminal() {
        true => columns(io::stdout()).unwrap_or(80).max(40),
        false => usize::MAX,
    }
}

/// Characters in a line of the terminal that standard error is.
pub fn terminal_width() -> usize {
    columns(io::stderr()).unwrap_or(80).max(20)
}

/// Columns of a terminal; `None` if it does not know them.
fn columns(terminal: impl AsFd) -> Option<usize> {
    let size = tcgetwinsize(terminal).ok()?;
    Some(size.ws_col.into()).filter(|columns| *columns > 0)
}

/// Prints a line to standard error, as far as that is possible. On a terminal it is folded between words.
pub fn note(line: &str) {
    let text = match io::stderr().is_terminal() {
        true => wrapped("", line, terminal_width()),
        false => format!("{}\n", printable(line)),
    };
    let _ = io::stderr().write_all(text.as_bytes());
}
