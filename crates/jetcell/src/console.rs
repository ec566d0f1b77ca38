//! Writes to standard output and standard error that end the command quietly if their reader has gone.

use std::io::{self, Write};

use jetcell_report::folded;

use crate::colour::painted;
use crate::outcome::{Outcome, print_error};
pub use crate::terminal::{note, terminal_width, width};

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

/// Prints text for people: lines that the terminal has no room for are folded between words, and verdicts have colours.
pub fn show(text: &str) {
    print(&painted(&folded(text, width())));
}

/// Prints JSON as it is, and text for people with [`show`].
pub fn answer(is_json: bool, text: &str) {
    if is_json { print(text) } else { show(text) }
}

/// The exit status after an error of standard output, which is reported unless the pipe was closed.
pub fn failed(error: &io::Error) -> i32 {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return PIPE_CLOSED;
    }
    print_error(format!("standard output cannot be written: {error}; free space, or write to another place"));
    Outcome::CouldNotRun as i32
}

/// Folds the lines that are written, as [`show`] does. A line is passed on when it is complete.
pub struct Folding<W: Write> {
    inner: W,
    width: usize,
    line: Vec<u8>,
}

impl<W: Write> Folding<W> {
    /// Lines for standard output, which `inner` writes. Those for programs are not folded.
    pub fn new(inner: W, for_people: bool) -> Folding<W> {
        let width = if for_people { width() } else { usize::MAX };
        Folding { inner, width, line: Vec::new() }
    }
}

impl<W: Write> Write for Folding<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.width == usize::MAX {
            return self.inner.write(bytes);
        }
        self.line.extend_from_slice(bytes);
        if let Some(end) = self.line.iter().rposition(|byte| *byte == b'\n') {
            let rest = self.line.split_off(end + 1);
            let lines = std::mem::replace(&mut self.line, rest);
            self.inner.write_all(folded(&String::from_utf8_lossy(&lines), self.width).as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.line);
        self.inner.write_all(folded(&String::from_utf8_lossy(&rest), self.width).as_bytes())?;
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_folded_when_they_are_complete() {
        let mut out = Vec::new();
        let mut folding = Folding { inner: &mut out, width: 12, line: Vec::new() };
        for part in ["one two ", "three four five\nsix", " se", "ven\nend"] {
            folding.write_all(part.as_bytes()).unwrap();
        }
        folding.flush().unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, folded("one two three four five\nsix seven\nend", 12));
        assert!(text.starts_with("one two") && text.ends_with("\nsix seven\nend"), "{text}");
        let mut out = Vec::new();
        let mut whole = Folding { inner: &mut out, width: usize::MAX, line: Vec::new() };
        whole.write_all(b"\xff one two three four five").unwrap();
        assert_eq!(out, b"\xff one two three four five");
    }
}
