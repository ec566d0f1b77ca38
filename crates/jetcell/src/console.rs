//! Writes to standard output and standard error that end the command quietly if their reader has gone.

use std::io::{self, Write};

use jetcell_input::{PrintableWriter, TextForm, printable_json, printable_lines};
use jetcell_report::folded;

use crate::colour::painted;
use crate::outcome::{Outcome, print_error};
pub use crate::terminal::{note, terminal_width, width};

/// Status of a process that a closed pipe has ended, as shells show it: 128 and SIGPIPE.
pub const PIPE_CLOSED: i32 = 141;

/// Prints text to standard output. Control characters in it are shown as escapes.
pub fn print(text: &str) {
    print_exact(&printable_lines(text));
}

/// Prints text for people: lines that the terminal has no room for are folded between words, and verdicts have colours.
pub fn show(text: &str) {
    print_exact(&painted(&folded(&printable_lines(text), width())));
}

/// Prints text for people whose lines fit already. Verdicts have colours.
pub fn print_painted(text: &str) {
    print_exact(&painted(&printable_lines(text)));
}

/// Prints JSON, whose strings may contain text from files.
pub fn print_json(text: &str) {
    print_exact(&printable_json(text));
}

/// Prints JSON with [`print_json`], and text that has its line ends already with [`print()`].
pub fn print_as(is_json: bool, text: &str) {
    if is_json { print_json(text) } else { print(text) }
}

/// Prints JSON with [`print_json`], and text for people with [`show`].
pub fn answer(is_json: bool, text: &str) {
    if is_json { print_json(text) } else { show(text) }
}

/// Prints text of this program alone, which may contain escape sequences.
///
/// If the reader of standard output, such as `head`, has closed the pipe, the process ends without a message, as `cat` does. If the
/// text cannot be written, the process ends with one line.
pub fn print_exact(text: &str) {
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

/// A writer of text for people: control characters become escapes, and lines are folded like those of [`show`].
pub fn lines_writer(inner: impl Write) -> impl Write {
    PrintableWriter::new(Folding { inner, width: width() }, TextForm::Lines)
}

/// A writer of JSON like [`print_json`].
pub fn json_writer(inner: impl Write) -> impl Write {
    PrintableWriter::new(inner, TextForm::Json)
}

/// Folds lines. Each write has whole lines.
struct Folding<W: Write> {
    inner: W,
    width: usize,
}

impl<W: Write> Write for Folding<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write_all(folded(&String::from_utf8_lossy(bytes), self.width).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_folded_when_they_are_complete() {
        let mut out = Vec::new();
        let mut folding = PrintableWriter::new(Folding { inner: &mut out, width: 12 }, TextForm::Lines);
        for part in ["one two ", "three four five\nsix", " se", "ven\nend"] {
            folding.write_all(part.as_bytes()).unwrap();
        }
        folding.flush().unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, folded("one two three four five\nsix seven\nend", 12));
        assert!(text.starts_with("one two") && text.ends_with("\nsix seven\nend"), "{text}");
    }
}
