//! Design shared by all pages: style sheet, script, tables, charts. A page is one self-contained file. Its script is
//! only needed to show chart values.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::bars::BarChart;
use crate::chart::Chart;
use crate::table::{CellValue, ReportCell, ReportColumn, ReportTable, Tone};
use jetcell_input::{columns, printable_lines};

/// Style sheet: colours for light and dark pages, and the layout.
pub(crate) const STYLE_SHEET: &str = concat!(include_str!("colours.css"), include_str!("report.css"));
/// Script that shows chart values. A page is complete without it, because the tables contain the figures.
pub(crate) const SCRIPT: &str = include_str!("report.js");

/// A table of numbers with more columns than this is shown in a smaller font.
const MANY_COLUMNS: usize = 8;

/// Width of a printed A4 or US Letter page in characters of the normal font, including gaps.
/// [`PRINT_WIDTH_SMALL_FONT`] is the width in the small font. Wider tables are folded in print.
const PRINT_WIDTH: usize = 80;
const PRINT_WIDTH_SMALL_FONT: usize = 105;

/// Gap between two columns, in characters.
const COLUMN_GAP: usize = 2;

/// Words longer than this number of characters may be broken across lines.
const BREAKABLE_WORD_LENGTH: usize = 16;

/// Maximum length, in characters, of an unbreakable part of a word. Longer parts are broken. A part of this length
/// fits into the narrowest cell on a page.
const MAX_UNBREAKABLE_LENGTH: usize = 24;

/// Tables with more rows than this may continue on the next printed page.
pub(crate) const MIN_BREAKABLE_ROWS: usize = 20;

/// An HTML report with a title and tables, for results other than test runs.
#[derive(Debug)]
pub struct ReportPage {
    title: String,
    body: Vec<Markup>,
}

impl ReportPage {
    /// Creates a page with this heading.
    pub fn new(title: impl Into<String>) -> ReportPage {
        let title = title.into();
        ReportPage { body: vec![html! { h1 { (title) } }], title }
    }

    fn with_part(mut self, part: Markup) -> ReportPage {
        self.body.push(part);
        self
    }

    /// Adds a heading.
    #[must_use]
    pub fn heading(self, text: &str) -> ReportPage {
        self.with_part(html! { h2 { (text) } })
    }

    /// Adds a paragraph.
    #[must_use]
    pub fn text(self, text: &str) -> ReportPage {
        self.with_part(html! { p { (text) } })
    }

    /// Adds a table.
    #[must_use]
    pub fn table(self, one: &ReportTable) -> ReportPage {
        self.with_part(table(one))
    }

    /// Adds charts side by side.
    #[must_use]
    pub fn charts(self, charts: &[Chart]) -> ReportPage {
        self.with_part(html! { div class="charts" { @for chart in charts { (chart.figure()) } } })
    }

    /// Adds bars side by side.
    #[must_use]
    pub fn bars(self, bars: &[BarChart]) -> ReportPage {
        self.with_part(html! { div class="charts" { @for one in bars { (one.figure()) } } })
    }

    /// Returns the page as HTML text.
    pub fn finish(self) -> String {
        page(&format!("Jetcell: {}", self.title), &html! { @for part in &self.body { (part) } })
    }
}

/// Renders a page that contains tables, with remarks above them.
pub fn tables_html(title: &str, tables: &[ReportTable], remarks: &[String]) -> String {
    let page = remarks.iter().fold(ReportPage::new(title), |page, line| page.text(line));
    tables.iter().fold(page, ReportPage::table).finish()
}

/// Renders a complete page with its style sheet. Every page is created here, so this is where text from files is
/// sanitized for all pages.
pub(crate) fn page(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE_SHEET)) }
            }
            body {
                (body)
                @if body.0.contains("class=\"plot\"") { script { (PreEscaped(SCRIPT)) } }
            }
        }
    };
    printable_lines(&page.into_string()).into_owned()
}

pub(crate) const fn class_of(tone: Tone) -> Option<&'static str> {
    match tone {
        Tone::Neutral => None,
        Tone::Good => Some("success"),
        Tone::Warning => Some("warning"),
        Tone::Bad => Some("failure"),
    }
}

/// Renders a table with its heading and notes.
pub(crate) fn table(table: &ReportTable) -> Markup {
    section(table, &html! { h2 { (table.title) } })
}

/// Renders a table with a lower-level heading, for use in a document.
pub(crate) fn captioned_table(table: &ReportTable) -> Markup {
    section(table, &html! { h4 { (table.title) } })
}

fn section(table: &ReportTable, heading: &Markup) -> Markup {
    // This is computed once per table because it depends on all rows and each row needs it.
    let has_labels = folds_on_narrow_screen(table) || folds_in_print(table);
    html! {
        section class=[(table.rows.len() > MIN_BREAKABLE_ROWS).then_some("long")] {
            (heading)
            @if !table.rows.is_empty() {
                div class="scroll" tabindex="0" { table class=[table_class(table)] {
                    @if !table.facts {
                        thead { tr { @for column in &table.columns { th class=[number(column)] scope="col" { (column.name) } } } }
                    }
                    tbody { @for row in &table.rows { (self::row(row, table, has_labels)) } }
                } }
            }
            @for note in &table.notes { p class="note" { (breakable(note)) } }
        }
    }
}

/// Returns true if a table is folded on narrow screens, with each cell on a line of its own, labelled with its column
/// name. This applies to tables of text.
fn folds_on_narrow_screen(table: &ReportTable) -> bool {
    !table.facts && table.columns.iter().skip(1).any(|column| !column.is_number())
}

/// Returns true if a table is shown in a smaller font. This applies to tables with many columns of numbers.
fn is_wide(table: &ReportTable) -> bool {
    table.columns.len() > MANY_COLUMNS && !folds_on_narrow_screen(table)
}

/// Returns true if a table is wider than a printed page and therefore folded in print, with a row's cells below its
/// name, each labelled with its column name.
fn folds_in_print(table: &ReportTable) -> bool {
    let room = if is_wide(table) { PRINT_WIDTH_SMALL_FONT } else { PRINT_WIDTH };
    !table.facts && min_width(table) > room
}

/// Returns a table's minimum width in characters, if lines are broken wherever permitted.
fn min_width(table: &ReportTable) -> usize {
    let longest = |text: &str| words(text).flatten().map(columns).max().unwrap_or(0);
    let column = |(at, column): (usize, &ReportColumn)| {
        let cells = table.rows.iter().filter_map(|row| row.get(at));
        let cells = cells.map(|cell| {
            if column.is_number() {
                columns(&cell.line())
            } else {
                longest(&cell.text()).max(longest(&cell.remark()))
            }
        });
        COLUMN_GAP + cells.chain([longest(&column.name)]).max().unwrap_or(0)
    };
    table.columns.iter().enumerate().map(column).sum()
}

fn table_class(table: &ReportTable) -> Option<String> {
    let classes = [
        (folds_on_narrow_screen(table), "fold"),
        (is_wide(table), "wide"),
        (folds_in_print(table), "fold-printed"),
    ];
    let classes: Vec<&str> = classes.into_iter().filter_map(|(has, class)| has.then_some(class)).collect();
    (!classes.is_empty()).then(|| classes.join(" "))
}

fn row(row: &[ReportCell], table: &ReportTable, has_labels: bool) -> Markup {
    html! {
        tr { @for (at, (cell, column)) in row.iter().zip(&table.columns).enumerate() {
            @if at == 0 {
                @let class = if column.is_number() { "grid_row_header number" } else { "grid_row_header" };
                th class=(class) scope="row" { (breakable(&cell.text())) }
            } @else {
                td class=[class(cell, column)] data-column=[has_labels.then_some(&column.name)] {
                    @match &cell.value {
                        CellValue::Verdict(word, rest) => {
                            span class=[class_of(cell.tone)] { (word) } (breakable(rest))
                        },
                        _ => (breakable(&cell.text())),
                    }
                    @let remark = cell.remark();
                    @if !remark.is_empty() { " " span class="note" { "(" (remark) ")" } }
                }
            }
        } }
    }
}

/// Renders text with controlled line breaks. A line is never broken within `--option` or between a number and its
/// percent sign. A long list or path may be broken after a comma, slash, equals sign, or underscore.
pub(crate) fn breakable(text: &str) -> Markup {
    let text = text.replace(" %", "\u{a0}%");
    html! {
        @for (at, word) in words(&text).enumerate() {
            @if at > 0 { " " }
            @match &word[..] {
                [option] if option.starts_with("--") => span class="option" { (option) },
                [whole] => (whole),
                parts => @for part in parts { (part) wbr; },
            }
        }
    }
}

/// Returns a string's words, each split at the positions where a line may be broken.
fn words(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.split(' ').map(|word| {
        if columns(word) > BREAKABLE_WORD_LENGTH && !word.starts_with("--") {
            word.split_inclusive([',', '/', ';', '=', '_']).flat_map(pieces).collect()
        } else {
            vec![word]
        }
    })
}

/// Splits part of a word into pieces of at most [`MAX_UNBREAKABLE_LENGTH`] characters.
fn pieces(part: &str) -> Vec<&str> {
    let mut ends: Vec<usize> =
        part.char_indices().step_by(MAX_UNBREAKABLE_LENGTH).map(|(at, _)| at).collect();
    ends.push(part.len());
    ends.windows(2).filter_map(|ends| part.get(ends[0]..ends[1])).collect()
}

fn number(column: &ReportColumn) -> Option<&'static str> {
    column.is_number().then_some("number")
}

fn class(cell: &ReportCell, column: &ReportColumn) -> Option<String> {
    // In a verdict, only the word has the tone.
    let tone = class_of(cell.tone).filter(|_| !matches!(cell.value, CellValue::Verdict(..)));
    let classes: Vec<&str> = [number(column), tone].into_iter().flatten().collect();
    (!classes.is_empty()).then(|| classes.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetcell_input::Align;

    #[test]
    fn lines_break_only_between_words_and_in_long_lists() {
        assert_eq!(
            breakable("raise --repeat by +10 %").into_string(),
            "raise <span class=\"option\">--repeat</span> by +10\u{a0}%"
        );
        assert_eq!(
            breakable("rw,relatime,discard /a").into_string(),
            "rw,<wbr>relatime,<wbr>discard<wbr> /a"
        );
        assert_eq!(
            breakable("resv_strict,resuid=65534").into_string(),
            "resv_<wbr>strict,<wbr>resuid=<wbr>65534<wbr>"
        );
        assert_eq!(breakable("<b> a/b").into_string(), "&lt;b&gt; a/b");
        let hash = "0123456789abcdef".repeat(2);
        let (first, rest) = hash.split_at(MAX_UNBREAKABLE_LENGTH);
        assert_eq!(breakable(&hash).into_string(), format!("{first}<wbr>{rest}<wbr>"));
        assert_eq!(breakable("Jetstress001001.edb").into_string(), "Jetstress001001.edb");
    }

    #[test]
    fn numeric_names_are_aligned() {
        let mut numbers = ReportTable::numbers("t", "Hours", ["Loss"]).row(vec!["8,760".into(), "1".into()]);
        assert!(table(&numbers).into_string().contains("<th class=\"grid_row_header\" scope=\"row\">8,760"));
        numbers.columns[0].align = Align::Right;
        let page = table(&numbers).into_string();
        assert!(page.contains("<th class=\"grid_row_header number\" scope=\"row\">8,760"), "{page}");
    }

    #[test]
    fn tables_wider_than_a_printed_page_fold_in_print() {
        let test_table = |columns: usize, cell: &str| {
            let table = ReportTable::numbers("t", "Name", vec!["a"; columns - 1]);
            table.row(vec![cell.into(); columns])
        };
        let form = |columns, cell: &str| table_class(&test_table(columns, cell)).unwrap_or_default();
        assert_eq!([form(8, "12,345.6"), form(9, "12,345.6")], ["", "wide"]);
        assert_eq!([form(8, "1,234,567.890"), form(12, "12,345.6")], ["fold-printed", "wide fold-printed"]);
        let page = table(&test_table(12, "12,345.6")).into_string();
        assert!(page.contains("<td class=\"number\" data-column=\"a\">12,345.6"), "{page}");
        let facts = ReportTable::facts("t").fact("n", "a".repeat(200));
        assert!(!folds_in_print(&facts));
    }
}
