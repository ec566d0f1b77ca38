//! A writer that prepares text for display.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::printable::{printable_json, printable_lines};

/// Number of bytes in an incomplete line that are buffered before a part of the line is written.
const MAX_PENDING: usize = 64 << 10;

/// The format of text to be made printable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// Lines for display.
    Lines,
    /// One or more JSON values.
    Json,
}

/// A writer that passes all text through [`printable_lines`] or [`printable_json`]. Bytes that are not UTF-8 become
/// U+FFFD.
///
/// A line is written when it is complete, or by [`flush`](Write::flush). The owner must flush after the last write.
pub struct PrintableWriter<W: Write> {
    inner: W,
    form: TextFormat,
    pending: Vec<u8>,
}

impl<W: Write> PrintableWriter<W> {
    /// Creates a writer that passes prepared text to `inner`.
    pub fn new(inner: W, form: TextFormat) -> PrintableWriter<W> {
        PrintableWriter { inner, form, pending: Vec::new() }
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        let text: Cow<'_, str> = String::from_utf8_lossy(bytes);
        let prepared = match self.form {
            TextFormat::Lines => printable_lines(&text),
            TextFormat::Json => printable_json(&text),
        };
        self.inner.write_all(prepared.as_bytes())
    }

    /// Writes the pending bytes up to `end`.
    fn put_pending(&mut self, end: usize) -> io::Result<()> {
        let rest = self.pending.split_off(end);
        let complete = std::mem::replace(&mut self.pending, rest);
        self.put(&complete)
    }
}

impl<W: Write> Write for PrintableWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        if let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') {
            self.put_pending(self.pending.len() - bytes.len() + end + 1)?;
        } else if self.pending.len() > MAX_PENDING {
            self.put_pending(last_boundary(&self.pending))?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.put_pending(self.pending.len())?;
        self.inner.flush()
    }
}

/// Returns the end of the last complete character. A UTF-8 character has at most four bytes.
fn last_boundary(bytes: &[u8]) -> usize {
    let first = bytes.len().saturating_sub(3);
    let starts = (first..bytes.len()).rev().find(|at| bytes[*at] >= 0xc0);
    match starts {
        Some(at) if std::str::from_utf8(&bytes[at..]).is_err() => at,
        _ => bytes.len(),
    }
}

#[cfg(test)]
#[path = "printable_writer_tests.rs"]
mod tests;
