//! Writes to standard output and standard error. The command exits quietly if the reader has closed the pipe.

use std::fmt::Display;
use std::io::{self, Write};

use jetcell_input::{PrintableWriter, TextFormat, printable_json, printable_lines};
use jetcell_report::{StyledText, fold};

use crate::colour::with_escape_sequences;
use crate::outcome::{CommandError, CommandResult};
pub use crate::terminal::{print_note, width};

/// Prints text to standard output. Control characters in the text are escaped.
pub fn print(text: &str) {
    print_unescaped(&printable_lines(text));
}

/// Prints human-readable text. Lines that are wider than the terminal are wrapped between words.
pub fn print_wrapped(text: impl Into<StyledText>) {
    print_styled(&text.into().fold(width()));
}

/// Prints human-readable text whose lines already fit the terminal.
pub fn print_styled(text: &StyledText) {
    print_coloured(&with_escape_sequences(text));
}

/// Prints text that contains escape sequences for colours, which are removed unless standard output has colours.
pub fn print_coloured(text: &str) {
    write_or_exit(&mut anstream::stdout().lock(), text);
}

/// Prints JSON whose strings may contain text from files.
pub fn print_json(text: &str) {
    print_unescaped(&printable_json(text));
}

/// Prints JSON with [`print_json`], or text that already contains its line ends with [`print()`].
pub fn print_json_or_lines(is_json: bool, text: &str) {
    if is_json { print_json(text) } else { print(text) }
}

/// Prints a result as JSON with [`print_json`], or as human-readable text with [`print_wrapped`]. A line end is added
/// if there is none.
pub fn print_result<J: Display, T: Into<StyledText>>(
    is_json: bool,
    json: impl FnOnce() -> J,
    text: impl FnOnce() -> T,
) {
    let line_end = |text: &str| if text.ends_with('\n') { "" } else { "\n" };
    if is_json {
        let mut json = json().to_string();
        json += line_end(&json);
        print_json(&json);
    } else {
        let mut text = text().into();
        text += line_end(text.as_str());
        print_wrapped(text);
    }
}

/// Prints a result like [`print_result`]. Fails if the result cannot be serialized as JSON.
pub fn print_serialized<T: Into<StyledText>>(
    is_json: bool,
    json: impl FnOnce() -> serde_json::Result<String>,
    text: impl FnOnce() -> T,
) -> CommandResult<()> {
    let json = is_json.then(json).transpose()?.unwrap_or_default();
    print_result(is_json, || json, text);
    Ok(())
}

/// Prints text that was generated entirely by this program, and may therefore include escape sequences.
///
/// If the reader of standard output, such as `head`, has closed the pipe, the process exits without a message, as
/// `cat` does. If the text cannot be written for another reason, the process exits with a one-line error. The exit is
/// immediate, because threads of a load or a check may be printing.
pub fn print_unescaped(text: &str) {
    write_or_exit(&mut io::stdout().lock(), text);
}

fn write_or_exit(out: &mut impl Write, text: &str) {
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        std::process::exit(CommandError::from_output(&error).print() as i32);
    }
}

/// Creates a writer for human-readable text: control characters are escaped, and lines are wrapped like those of
/// [`print_wrapped`].
pub fn lines_writer(inner: impl Write) -> impl Write {
    PrintableWriter::new(LineWrappingWriter { inner, width: width() }, TextFormat::Lines)
}

/// Creates a writer that escapes JSON like [`print_json`].
pub fn json_writer(inner: impl Write) -> impl Write {
    PrintableWriter::new(inner, TextFormat::Json)
}

/// Writer that wraps lines. Each write must contain whole lines.
struct LineWrappingWriter<W: Write> {
    inner: W,
    width: usize,
}

impl<W: Write> Write for LineWrappingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write_all(fold(&String::from_utf8_lossy(bytes), self.width).as_bytes())?;
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
    fn only_complete_lines_are_folded() {
        let mut out = Vec::new();
        let mut folding =
            PrintableWriter::new(LineWrappingWriter { inner: &mut out, width: 12 }, TextFormat::Lines);
        for part in ["one two ", "three four five\nsix", " se", "ven\nend"] {
            folding.write_all(part.as_bytes()).unwrap();
        }
        folding.flush().unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, fold("one two three four five\nsix seven\nend", 12));
        assert!(text.starts_with("one two") && text.ends_with("\nsix seven\nend"), "{text}");
    }
}
