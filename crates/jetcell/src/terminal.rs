//! Terminal width, and output to standard error that fits it.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use jetcell_host::terminal_width;
use jetcell_input::printable;
use jetcell_report::wrap;
use rustix::termios::tcgetwinsize;

/// Returns the maximum line length on standard output: the width of the terminal, or no limit if it is not a
/// terminal.
pub fn width() -> usize {
    if io::stdout().is_terminal() { columns(io::stdout()).unwrap_or(80).max(40) } else { usize::MAX }
}

/// Returns the number of columns of a terminal, or `None` if it is unknown.
fn columns(terminal: impl AsFd) -> Option<usize> {
    let size = tcgetwinsize(terminal).ok()?;
    Some(size.ws_col.into()).filter(|columns| *columns > 0)
}

/// Prints a line to standard error, ignoring errors. On a terminal, the line is wrapped between words.
pub fn print_note(line: &str) {
    let text = if io::stderr().is_terminal() {
        wrap("", line, terminal_width()).to_string()
    } else {
        format!("{}\n", printable(line))
    };
    let _ = io::stderr().write_all(text.as_bytes());
}
