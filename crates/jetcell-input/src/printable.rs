//! Escapes text from files and users for output on a terminal.

use std::borrow::Cow;
use std::fmt::{self, Display, Write};

use serde::Serialize;

/// Replaces control characters with escapes such as `\u{1b}`. This prevents stored text from sending control sequences
/// to a terminal.
///
/// Characters that reverse the text direction are escaped as well, because they can make one line look like another.
/// Line ends are also escaped, so each value stays on one line.
pub fn printable(text: &str) -> Cow<'_, str> {
    replaced(text, is_hidden, |out, c| write!(out, "{}", c.escape_default()))
}

/// Prepares multi-line text like [`printable`], but does not escape line ends and tabs.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    let is_hidden = |c| is_hidden(c) && c != '\n' && c != '\t';
    replaced(text, is_hidden, |out, c| write!(out, "{}", c.escape_default()))
}

/// Prepares complete JSON text for display: hidden characters in its strings become JSON escapes such as `\u009b`.
/// The values do not change.
///
/// JSON writers already escape characters below U+0020. The other characters that [`printable`] escapes are legal in
/// JSON strings.
pub fn printable_json(text: &str) -> Cow<'_, str> {
    let is_hidden = |c| is_hidden(c) && !matches!(c, '\n' | '\r' | '\t');
    replaced(text, is_hidden, |out, c| write!(out, "\\u{:04x}", u32::from(c)))
}

/// Returns a value as JSON on one line, prepared with [`printable_json`]. All JSON that may be displayed is produced
/// by this function or by [`json_pretty`].
///
/// # Errors
/// Returns an error if the value cannot be serialized, for example because a key is not a string.
pub fn json_line(value: &(impl Serialize + ?Sized)) -> serde_json::Result<String> {
    serde_json::to_string(value).map(|text| printable_json(&text).into_owned())
}

/// Returns a value as JSON on multiple lines with a line end, prepared with [`printable_json`].
///
/// # Errors
/// Returns an error if the value cannot be serialized, for example because a key is not a string.
pub fn json_pretty(value: &(impl Serialize + ?Sized)) -> serde_json::Result<String> {
    serde_json::to_string_pretty(value).map(|text| printable_json(&text).into_owned() + "\n")
}

/// A value whose text is passed through [`printable`] when formatted, which prevents names from forging output lines.
#[derive(Clone, Copy, Debug)]
pub struct Printable<T>(pub T);

impl<T: Display> Display for Printable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&printable(&self.0.to_string()))
    }
}

/// Joins lines for display, each prepared with [`printable`]. Every item becomes exactly one line. There is no line
/// end after the last line.
pub fn printable_rows<T: AsRef<str>>(lines: impl IntoIterator<Item = T>) -> String {
    let lines: Vec<String> = lines.into_iter().map(|line| printable(line.as_ref()).into_owned()).collect();
    lines.join("\n")
}

fn replaced(
    text: &str,
    is_hidden: impl Fn(char) -> bool,
    escape: impl Fn(&mut String, char) -> std::fmt::Result,
) -> Cow<'_, str> {
    if !text.contains(&is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hidden(c) {
            // A write to a String cannot fail.
            let _ = escape(&mut out, c);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Returns true for control characters, line separators, and characters that control the text direction. All are
/// below U+10000.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
#[path = "printable_tests.rs"]
mod tests;
