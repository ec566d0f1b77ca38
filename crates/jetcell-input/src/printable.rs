//! Text from files and users, made safe for a terminal.

use std::borrow::Cow;
use std::fmt::Write;

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
