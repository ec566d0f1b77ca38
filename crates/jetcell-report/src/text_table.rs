//! Renders tables and paragraphs for a terminal.

use jetcell_input::{Align, printable};

use crate::line_wrapping::MIN_COLUMN_WIDTH;
use crate::styled_text::StyledText;
use crate::table::{CellValue, ReportCell, ReportTable, Tone};

/// Number of spaces before the first column and between columns.
const GAP: usize = 2;

/// Renders a table in aligned columns, with at most `width` characters per line. Columns that do not fit are printed
/// below the others, with the row names repeated. Notes are shown only if there are no rows.
pub fn table_text(table: &ReportTable, width: usize) -> StyledText {
    layout(table, GAP, width)
}

/// Renders a table in aligned columns without indentation. The caller wraps long lines.
pub fn flush_table_text(table: &ReportTable) -> StyledText {
    layout(table, 0, usize::MAX)
}

fn layout(table: &ReportTable, indent: usize, width: usize) -> StyledText {
    if table.rows.is_empty() {
        let indent = " ".repeat(indent);
        let mut out = StyledText::new();
        table.notes.iter().for_each(|note| out.append(wrap(&indent, note, width)));
        return out;
    }
    let mut rows: Vec<Vec<StyledText>> = Vec::new();
    if !table.facts {
        rows.push(table.columns.iter().map(|column| printable(&column.name).as_ref().into()).collect());
    }
    rows.extend(table.rows.iter().map(|row| row.iter().map(cell_text).collect()));
    let widths = widths(&rows, table.columns.len(), width);
    let mut out = StyledText::new();
    let mut from = 1;
    loop {
        let first = GAP + widths.first().copied().unwrap_or(0);
        let mut used = first;
        let fits = |column: &usize| {
            used = used.saturating_add(GAP + widths.get(*column).copied().unwrap_or(0));
            *column == from || used <= width
        };
        let until = (from..widths.len()).take_while(fits).last().map_or(widths.len(), |last| last + 1);
        let columns = std::iter::once(0).chain(from..until).filter(|at| *at < widths.len());
        let columns: Vec<(usize, usize, Align)> =
            columns.filter_map(|at| Some((at, *widths.get(at)?, table.columns.get(at)?.align))).collect();
        rows.iter().for_each(|row| add_row(&mut out, row, indent, &columns));
        if until >= widths.len() {
            return out;
        }
        out += "\n";
        from = until;
    }
}

/// Computes the column widths. Each column is as wide as its widest text, but narrow enough for the first column and
/// one other to fit.
fn widths(rows: &[Vec<StyledText>], columns: usize, width: usize) -> Vec<usize> {
    let natural = |at| rows.iter().filter_map(|row| row.get(at)).map(StyledText::columns).max().unwrap_or(0);
    let mut widths: Vec<usize> = (0..columns).map(natural).collect();
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

/// Adds the cells of a row. `columns` contains the index, width and alignment of each column.
fn add_row(out: &mut StyledText, row: &[StyledText], indent: usize, columns: &[(usize, usize, Align)]) {
    let cell =
        |(at, width, _): &(usize, usize, Align)| row.get(*at).cloned().unwrap_or_default().lines(*width);
    let cells: Vec<Vec<StyledText>> = columns.iter().map(cell).collect();
    for line in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
        let mut gap = indent;
        for (cell, (_, width, align)) in cells.iter().zip(columns) {
            let part = cell.get(line).cloned().unwrap_or_default();
            let rest = width.saturating_sub(part.columns());
            let (before, after) = if *align == Align::Right { (rest, 0) } else { (0, rest) };
            gap += before;
            if part.columns() > 0 {
                *out += &" ".repeat(std::mem::take(&mut gap));
                out.append(part);
            }
            gap += after + GAP;
        }
        *out += "\n";
    }
}

/// Formats a cell with its confidence interval. There is no room for other remarks.
fn cell_text(cell: &ReportCell) -> StyledText {
    let interval = cell.interval().map(|interval| format!(" {interval}")).unwrap_or_default();
    let (judged, rest) = match &cell.value {
        CellValue::Verdict(word, rest) => (word.clone(), rest.clone()),
        _ if cell.tone == Tone::Bad => (cell.text().to_uppercase(), interval),
        _ => (cell.text(), interval),
    };
    StyledText::new().with(&printable(&judged), cell.tone).with(&printable(&rest), Tone::Neutral)
}

/// Wraps a paragraph into lines of at most `width` columns. The first line begins with `mark`; the others are indented
/// to match.
pub fn wrap(mark: &str, text: &str, width: usize) -> StyledText {
    wrap_styled(mark, &*printable(text), width)
}

/// Wraps a paragraph with tones like [`wrap`]. The text must not contain line ends.
pub fn wrap_styled(mark: impl Into<StyledText>, text: impl Into<StyledText>, width: usize) -> StyledText {
    let mut out = mark.into();
    let indent = out.columns();
    let lines = text.into().lines(width.saturating_sub(indent).max(MIN_COLUMN_WIDTH));
    for (number, line) in lines.into_iter().enumerate() {
        if number > 0 {
            out += &" ".repeat(indent);
        }
        out.append(line);
        out += "\n";
    }
    out
}

/// Renders tables, each below its title, and remarks.
#[cfg(feature = "lab")]
pub(crate) fn tables_text(tables: &[ReportTable], remarks: &[String], width: usize) -> StyledText {
    let mut out = StyledText::new();
    for table in tables {
        out += &format!("{}\n", table.title);
        out.append(table_text(table, width));
        out += "\n";
    }
    remarks.iter().for_each(|line| out.append(wrap("  ", line, width)));
    out
}

#[cfg(test)]
mod tests {
    use jetcell_input::columns;

    use crate::line_wrapping::fold;

    use super::*;

    #[test]
    fn columns_that_do_not_fit_form_a_second_table() {
        let table = ReportTable::numbers("t", "Name", ["first", "second", "third"]);
        let table = table.row(vec!["a".into(), "1".into(), "22".into(), "333".into()]);
        assert_eq!(
            table_text(&table, 80).as_str(),
            "  Name  first  second  third\n  a         1      22    333\n"
        );
        assert_eq!(
            table_text(&table, 22).as_str(),
            "  Name  first  second\n  a         1      22\n\n  Name  third\n  a       333\n"
        );
    }

    #[test]
    fn long_texts_are_wrapped_between_words_and_longer_words_are_split() {
        let table = ReportTable::text_columns("t", &["Name", "Text"]);
        let table = table.row(vec!["n".into(), "some words and /a/very/long/path/to/a/file".into()]);
        let text = table_text(&table, 30).to_string();
        assert!(text.lines().all(|line| columns(line) <= 30), "{text}");
        assert!(text.contains("some words and"), "{text}");
        assert_eq!(wrap("! ", "one two three four", 12).as_str(), "! one two\n  three four\n");
        assert_eq!(wrap("", "", 10).as_str(), "\n");
    }

    #[test]
    fn east_asian_names_are_aligned_and_wrapped() {
        let table = ReportTable::numbers("t", "Name", ["Size"]);
        let table = table.rows([vec!["郵便箱".into(), "1".into()], vec!["a".into(), "22".into()]]);
        assert_eq!(table_text(&table, 80).as_str(), "  Name    Size\n  郵便箱     1\n  a         22\n");
        assert_eq!(wrap("", "郵便箱の一覧を表示", 12).as_str(), "郵便箱の一覧\nを表示\n");
        assert_eq!(fold("郵便箱 の一覧", 12), "郵便箱\n    の一覧");
    }
}
