//! Text from files and users, made safe for a terminal.

use std::borrow::Cow;
use std::fmt::{self, Display, Write};

use serde::Serialize;

/// Shows control characters as escapes such as `\u{1b}`. Stored text therefore cannot send sequences to a terminal.
///
/// Characters that reverse the direction of text are shown as escapes as well, because they can make a line look like another one.
/// Line ends are shown, too: one value stays on one line.
pub fn printable(text: &str) -> Cow<'_, str> {
    replaced(text, is_hidden, |out, c| write!(out, "{}", c.escape_default()))
}

/// Prepares text of several lines like [`printable`], but line ends and tabs stay.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    let is_hidden = |c| is_hidden(c) && c != '\n' && c != '\t';
    replaced(text, is_hidden, |out, c| write!(out, "{}", c.escape_default()))
}

/// Prepares complete JSON text: hidden characters in its strings become JSON escapes such as `\u009b`, and its values stay the same.
///
/// Writers of JSON escape the characters below U+0020 themselves. The others that [`printable`] hides are legal in strings.
pub fn printable_json(text: &str) -> Cow<'_, str> {
    let is_hidden = |c| is_hidden(c) && !matches!(c, '\n' | '\r' | '\t');
    replaced(text, is_hidden, |out, c| write!(out, "\\u{:04x}", u32::from(c)))
}

/// JSON of a value on one line, prepared with [`printable_json`]. All JSON that other programs or people may show is made here or with
/// [`json_pretty`].
///
/// # Errors
/// Those of the value, such as a key that is not a string.
pub fn json_line(value: &(impl Serialize + ?Sized)) -> serde_json::Result<String> {
    serde_json::to_string(value).map(|text| printable_json(&text).into_owned())
}

/// JSON of a value on several lines, prepared with [`printable_json`].
///
/// # Errors
/// Those of the value, such as a key that is not a string.
pub fn json_pretty(value: &(impl Serialize + ?Sized)) -> serde_json::Result<String> {
    serde_json::to_string_pretty(value).map(|text| printable_json(&text).into_owned())
}

/// A value whose text is prepared with [`printable`] when it is formatted: a name cannot forge a line of output.
#[derive(Clone, Copy, Debug)]
pub struct Printable<T>(pub T);

impl<T: Display> Display for Printable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&printable(&self.0.to_string()))
    }
}

/// Lines for people, each prepared with [`printable`]: every item is exactly one line. The last line has no line end.
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

/// Returns true for control characters, line separators, and controls of the direction of text. All are below U+10000.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
#[path = "printable_tests.rs"]
mod tests;
