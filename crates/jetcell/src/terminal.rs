//! The width of the terminal, and lines on standard error that fit it.

use std::io::{self, IsTerminal, Write};

use jetcell_input::printable;
use jetcell_report::wrapped;

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
