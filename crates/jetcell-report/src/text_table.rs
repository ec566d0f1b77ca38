//! Renders tables and paragraphs for a terminal.

use crate::table::{CellTone, ReportCell, ReportTable};
use jetcell_input::printable;

/// Number of spaces before the first column and between columns.
const GAP: usize = 2;
/// Minimum width of a column in characters.
const MIN_COLUMN_WIDTH: usize = 12;
/// Additional indentation of continuation lines.
const CONTINUATION_INDENT: usize = 4;

/// Renders a table in aligned columns, with at most `width` characters per line. Columns that do not fit are printed
/// below the others, with the row names repeated. Notes are shown only if there are no rows.
pub fn table_text(table: &ReportTable, width: usize) -> String {
    if table.rows.is_empty() {
        return table.notes.iter().map(|note| wrap("  ", note, width)).collect();
    }
    let widths = widths(table, width);
    let mut out = String::new();
    let mut from = 1;
    loop {
        let first = GAP + widths.first().copied().unwrap_or(0);
        let mut used = first;
        let fits = |column: &usize| {
            used = used.saturating_add(GAP + widths.get(*column).copied().unwrap_or(0));
            *column == from || used <= width
        };
        let until = (from..widths.len()).take_while(fits).last().map_or(widths.len(), |last| last + 1);
        let columns: Vec<usize> =
            std::iter::once(0).chain(from..until).filter(|at| *at < widths.len()).collect();
        out += &block(table, &columns, &widths);
        if until >= widths.len() {
            return out;
        }
        out.push('\n');
        from = until;
    }
}

/// Computes the column widths: that of the widest text, but limited so that the first column and at least one other
/// fit.
fn widths(table: &ReportTable, width: usize) -> Vec<usize> {
    let natural = |(at, name): (usize, &str)| {
        let cells = table.rows.iter().filter_map(|row| row.get(at));
        let cells = cells.map(|cell| cell_text(cell).chars().count());
        cells.chain(std::iter::once(printable(name).chars().count())).max().unwrap_or(0)
    };
    let names = table.columns.iter().map(|column| if table.facts { "" } else { column.name.as_str() });
    let mut widths: Vec<usize> = names.enumerate().map(natural).collect();
    let widest = widths.iter().skip(1).copied().max().unwrap_or(0);
    let room = width.saturating_sub(2 * GAP);
    if let Some(first) = widths.first_mut()
        && first.saturating_add(widest) > room
    {
        *first = (*first).min((room / 2).max(MIN_COLUMN_WIDTH));
    }
    let first = widths.first().copied().unwrap_or(0);
    let most = room.saturating_sub(first).max(MIN_COLUMN_WIDTH);
    widths.iter_mut().skip(1).for_each(|other| *other = (*other).min(most));
    widths
}

fn block(table: &ReportTable, columns: &[usize], widths: &[usize]) -> String {
    let mut out = String::new();
    let mut row = |cells: &dyn Fn(usize) -> String| {
        let cells: Vec<Vec<String>> = columns
            .iter()
            .map(|at| lines(&cells(*at), widths.get(*at).copied().unwrap_or(usize::MAX)))
            .collect();
        for line in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
            let mut text = String::new();
            for (cell, at) in cells.iter().zip(columns) {
                let (part, width) =
                    (cell.get(line).map_or("", String::as_str), widths.get(*at).copied().unwrap_or(0));
                let right = table.columns.get(*at).is_some_and(|column| column.number);
                text += &if right { format!("  {part:>width$}") } else { format!("  {part:<width$}") };
            }
            out += text.trim_end();
            out.push('\n');
        }
    };
    if !table.facts {
        row(&|at| {
            table.columns.get(at).map(|column| printable(&column.name).into_owned()).unwrap_or_default()
        });
    }
    table.rows.iter().for_each(|cells| row(&|at| cells.get(at).map(cell_text).unwrap_or_default()));
    out
}

/// Formats a cell with its confidence interval. There is no room for other remarks.
fn cell_text(cell: &ReportCell) -> String {
    let text = if cell.remark.starts_with('±') {
        format!("{} {}", cell.text, cell.remark)
    } else {
        cell.text.clone()
    };
    let text = printable(&text);
    if cell.tone == CellTone::Bad { text.to_uppercase() } else { text.into_owned() }
}

/// Wraps a paragraph into lines of at most `width` characters. The first line begins with `mark`; the others are
/// indented to match.
pub fn wrap(mark: &str, text: &str, width: usize) -> String {
    let indent = mark.chars().count();
    let mut out = String::new();
    for (number, line) in
        lines(&printable(text), width.saturating_sub(indent).max(MIN_COLUMN_WIDTH)).iter().enumerate()
    {
        let before = if number == 0 { mark.to_string() } else { " ".repeat(indent) };
        out += &format!("{before}{line}\n");
    }
    out
}

/// Wraps a string's long lines between words, indenting continuation lines. Lines that fit are unchanged, which
/// preserves their columns.
pub fn fold(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for whole in text.split_inclusive('\n') {
        let line = whole.trim_end_matches('\n');
        if line.chars().count() <= width {
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
fn lines(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let mut word = word.to_string();
        let mut length = word.chars().count();
        if used > 0 && used + 1 + length <= width {
            lines.iter_mut().last().into_iter().for_each(|line| line.push(' '));
            used += 1;
        } else if used > 0 {
            lines.push(String::new());
            used = 0;
        }
        while length > width {
            let rest: String = word.chars().skip(width).collect();
            let part: String = word.chars().take(width).collect();
            lines.iter_mut().last().into_iter().for_each(|line| line.push_str(&part));
            lines.push(String::new());
            (word, length) = (rest, length - width);
        }
        lines.iter_mut().last().into_iter().for_each(|line| line.push_str(&word));
        used += length;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_do_not_fit_form_a_second_table() {
        let table = ReportTable::numbers("t", "Name", ["first", "second", "third"]);
        let table = table.row(vec!["a".into(), "1".into(), "22".into(), "333".into()]);
        assert_eq!(table_text(&table, 80), "  Name  first  second  third\n  a         1      22    333\n");
        assert_eq!(
            table_text(&table, 22),
            "  Name  first  second\n  a         1      22\n\n  Name  third\n  a       333\n"
        );
    }

    #[test]
    fn long_texts_are_wrapped_between_words_and_longer_words_are_split() {
        let table = ReportTable::text_columns("t", &["Name", "Text"]);
        let table = table.row(vec!["n".into(), "some words and /a/very/long/path/to/a/file".into()]);
        let text = table_text(&table, 30);
        assert!(text.lines().all(|line| line.chars().count() <= 30), "{text}");
        assert!(text.contains("some words and"), "{text}");
        assert_eq!(wrap("! ", "one two three four", 12), "! one two\n  three four\n");
        assert_eq!(wrap("", "", 10), "\n");
    }

    #[test]
    fn only_lines_that_do_not_fit_are_folded() {
        let text = "a  b   c\n\n  error: one two three four five\nend";
        assert_eq!(fold(text, usize::MAX), text);
        assert_eq!(fold(text, 20), "a  b   c\n\n  error: one two\n      three four\n      five\nend");
        assert_eq!(fold("/a/very/long/path/in/a/directory", 20), "/a/very/long/pat\n    h/in/a/directory");
        let deep = format!("{}word word word", " ".repeat(60));
        assert!(fold(&deep, 40).lines().all(|line| line.chars().count() <= 40));
        assert_eq!((fold("", 5), fold("\n", 5)), (String::new(), "\n".into()));
    }
}
