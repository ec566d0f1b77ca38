//! Wraps text between words.

use jetcell_input::{columns, cut};

/// Additional indentation of continuation lines.
pub(crate) const CONTINUATION_INDENT: usize = 4;
/// Minimum width of a column in characters.
pub(crate) const MIN_COLUMN_WIDTH: usize = 12;

/// Wraps a string's long lines between words, indenting continuation lines. Lines that fit are unchanged, which
/// preserves their columns.
pub fn fold(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for whole in text.split_inclusive('\n') {
        let line = whole.trim_end_matches('\n');
        if columns(line) <= width {
            out += whole;
            continue;
        }
        let content = line.trim_start_matches(' ');
        let indent = (line.len() - content.len()).min(width / 2);
        let room = width.saturating_sub(indent + CONTINUATION_INDENT).max(MIN_COLUMN_WIDTH);
        for (number, part) in lines(content, room).iter().enumerate() {
            let before = if number == 0 { indent } else { indent + CONTINUATION_INDENT };
            out += &format!("{:before$}{}\n", "", part.trim_end());
        }
        if !whole.ends_with('\n') {
            out.pop();
        }
    }
    out
}

/// Splits a string into lines between words. A word that is longer than a line is split as well.
pub(crate) fn lines(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for mut word in text.split(' ') {
        let length = columns(word);
        if used > 0 && used + 1 + length <= width {
            lines.iter_mut().last().into_iter().for_each(|line| line.push(' '));
            used += 1;
        } else if used > 0 {
            lines.push(String::new());
            used = 0;
        }
        while length > width
            && let (part, rest) = cut(word, width)
            && !rest.is_empty()
        {
            lines.iter_mut().last().into_iter().for_each(|line| line.push_str(part));
            lines.push(String::new());
            word = rest;
        }
        lines.iter_mut().last().into_iter().for_each(|line| line.push_str(word));
        used += if length > width { columns(word) } else { length };
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_do_not_fit_are_folded() {
        let text = "a  b   c\n\n  error: one two three four five\nend";
        assert_eq!(fold(text, usize::MAX), text);
        assert_eq!(fold(text, 20), "a  b   c\n\n  error: one two\n      three four\n      five\nend");
        assert_eq!(fold("/a/very/long/path/in/a/directory", 20), "/a/very/long/pat\n    h/in/a/directory");
        let deep = format!("{}word word word", " ".repeat(60));
        assert!(fold(&deep, 40).lines().all(|line| columns(line) <= 40));
        assert_eq!((fold("", 5), fold("\n", 5)), (String::new(), "\n".into()));
    }
}
