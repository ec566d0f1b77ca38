//! Text from files and users, made safe for a terminal.

use std::borrow::Cow;
use std::fmt::Write;

/// Shows control characters as escapes such as `\u{1b}`, so that stored text cannot send sequences to a terminal, and
/// characters that reverse the direction of text, which could make a line look like another one. Line ends are shown,
/// too: one value stays on one line.
pub fn printable(text: &str) -> Cow<'_, str> {
    shown(text, |_| false)
}

/// As [`printable`], for text of several lines: line ends and tabs stay.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    shown(text, |c| c == '\n' || c == '\t')
}

fn shown(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let hidden = |c: char| (c.is_control() || reverses(c)) && !stays(c);
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if hidden(c) {
            // A write to a String cannot fail.
            let _ = write!(out, "{}", c.escape_default());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Unicode's controls of the direction of text.
fn reverses(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_other_text_stays() {
        assert!(matches!(printable("Größe ± 3 %, 日本"), Cow::Borrowed(_)));
        assert_eq!(
            printable("a\x1b[31mred\x07\r\nPASS\u{9b}2J\u{7f}"),
            "a\\u{1b}[31mred\\u{7}\\r\\nPASS\\u{9b}2J\\u{7f}"
        );
        assert_eq!(printable("exe\u{202e}txt"), "exe\\u{202e}txt");
        assert_eq!(printable_lines("one\n\ttwo\x1b]0;x\x07"), "one\n\ttwo\\u{1b}]0;x\\u{7}");
    }
}
