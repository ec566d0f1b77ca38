//! The design of all pages: style sheet, script, tables, charts. One file without external resources; its script shows values of
//! charts and nothing else.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::bars::Bars;
use crate::chart::Chart;
use crate::printable::printable_lines;
use crate::table::{Cell, Column, Table, Tone};

/// Colours for light and dark pages, and everything else.
pub(crate) const STYLE: &str = concat!(include_str!("colours.css"), include_str!("report.css"));
/// Shows values of charts. A page without scripts is complete, because the tables have the figures.
pub(crate) const SCRIPT: &str = include_str!("report.js");

/// Tables with more columns than this have a smaller font.
const MANY_COLUMNS: usize = 8;

/// In print, tables with more columns than this have the smallest font.
const MOST_COLUMNS: usize = 11;

/// Words with more characters may continue on the next line.
const LONG_WORD: usize = 16;

/// In print, tables with more rows than this may continue on the next page.
pub(crate) const MANY_ROWS: usize = 20;

/// A page of a command that renders no run.
#[derive(Debug)]
pub struct Page {
    title: String,
    body: Vec<Markup>,
}

impl Page {
    /// A page with this heading.
    pub fn new(title: impl Into<String>) -> Page {
        let title = title.into();
        Page { body: vec![html! { h1 { (title) } }], title }
    }

    fn with(mut self, part: Markup) -> Page {
        self.body.push(part);
        self
    }

    /// Adds a heading.
    #[must_use]
    pub fn heading(self, text: &str) -> Page {
        self.with(html! { h2 { (text) } })
    }

    /// Adds a paragraph.
    #[must_use]
    pub fn text(self, text: &str) -> Page {
        self.with(html! { p { (text) } })
    }

    /// Adds a table.
    #[must_use]
    pub fn table(self, one: &Table) -> Page {
        self.with(table(one))
    }

    /// Adds charts beside each other.
    #[must_use]
    pub fn charts(self, charts: &[Chart]) -> Page {
        self.with(html! { div class="charts" { @for chart in charts { (chart.figure()) } } })
    }

    /// Adds bars beside each other.
    #[must_use]
    pub fn bars(self, bars: &[Bars]) -> Page {
        self.with(html! { div class="charts" { @for one in bars { (one.figure()) } } })
    }

    /// The page as text.
    pub fn finish(self) -> String {
        page(&format!("Jetcell: {}", self.title), &html! { @for part in &self.body { (part) } })
    }
}

/// A page of tables, with the remarks above them.
pub fn tables_html(title: &str, tables: &[Table], remarks: &[String]) -> String {
    let page = remarks.iter().fold(Page::new(title), |page, line| page.text(line));
    printable_lines(&tables.iter().fold(page, Page::table).finish()).into_owned()
}

/// A complete page with its style sheet.
pub(crate) fn page(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (body)
                @if body.0.contains("class=\"plot\"") { script { (PreEscaped(SCRIPT)) } }
            }
        }
    };
    page.into_string()
}

pub(crate) const fn class_of(tone: Tone) -> Option<&'static str> {
    match tone {
        Tone::Neutral => None,
        Tone::Good => Some("success"),
        Tone::Bad => Some("failure"),
    }
}

/// A table with its heading and its notes.
pub(crate) fn table(table: &Table) -> Markup {
    section(table, &html! { h2 { (table.title) } })
}

/// A table below the headings of a document.
pub(crate) fn captioned(table: &Table) -> Markup {
    section(table, &html! { h4 { (table.title) } })
}

fn section(table: &Table, heading: &Markup) -> Markup {
    html! {
        section class=[(table.rows.len() > MANY_ROWS).then_some("long")] {
            (heading)
            @if !table.rows.is_empty() {
                div class="scroll" tabindex="0" { table class=[form(table)] {
                    @if !table.facts {
                        thead { tr { @for column in &table.columns { th class=[number(column)] scope="col" { (column.name) } } } }
                    }
                    tbody { @for row in &table.rows { (self::row(row, table)) } }
                } }
            }
            @for note in &table.notes { p class="note" { (breakable(note)) } }
        }
    }
}

/// Tables of text fold on narrow screens: each cell stands on a line of its own, with the name of its column.
fn folds(table: &Table) -> bool {
    !table.facts && table.columns.iter().skip(1).any(|column| !column.number)
}

fn form(table: &Table) -> Option<&'static str> {
    match table.columns.len() {
        _ if folds(table) => Some("fold"),
        columns if columns > MOST_COLUMNS => Some("wide widest"),
        columns => (columns > MANY_COLUMNS).then_some("wide"),
    }
}

fn row(row: &[Cell], table: &Table) -> Markup {
    let folds = folds(table);
    html! {
        tr { @for (at, (cell, column)) in row.iter().zip(&table.columns).enumerate() {
            @if at == 0 {
                @let class = if column.number { "grid_row_header number" } else { "grid_row_header" };
                th class=(class) scope="row" { (cell.text) }
            } @else {
                td class=[class(cell, column)] data-column=[folds.then_some(&column.name)] {
                    (breakable(&cell.text))
                    @if !cell.remark.is_empty() { " " span class="note" { "(" (cell.remark) ")" } }
                }
            }
        } }
    }
}

/// Text that lines break only where a reader expects it: not within `--option` nor between a number and its percent sign, but in a long
/// list or path behind a comma, a slash, an equals sign or an underscore.
pub(crate) fn breakable(text: &str) -> Markup {
    let text = text.replace(" %", "\u{a0}%");
    html! {
        @for (at, word) in text.split(' ').enumerate() {
            @if at > 0 { " " }
            @if word.starts_with("--") { span class="option" { (word) } }
            @else if word.chars().count() > LONG_WORD {
                @for part in word.split_inclusive([',', '/', ';', '=', '_']) { (part) wbr; }
            }
            @else { (word) }
        }
    }
}

fn number(column: &Column) -> Option<&'static str> {
    column.number.then_some("number")
}

fn class(cell: &Cell, column: &Column) -> Option<String> {
    let classes: Vec<&str> = [number(column), class_of(cell.tone)].into_iter().flatten().collect();
    (!classes.is_empty()).then(|| classes.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_in_long_lists_only() {
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
    }

    #[test]
    fn names_that_are_numbers_stand_above_each_other() {
        let mut numbers = Table::numbers("t", "Hours", ["Loss"]).row(vec!["8,760".into(), "1".into()]);
        assert!(table(&numbers).into_string().contains("<th class=\"grid_row_header\" scope=\"row\">8,760"));
        numbers.columns[0].number = true;
        let page = table(&numbers).into_string();
        assert!(page.contains("<th class=\"grid_row_header number\" scope=\"row\">8,760"), "{page}");
    }

    #[test]
    fn only_the_widest_tables_have_the_smallest_font_in_print() {
        let form = |columns: usize| form(&Table::numbers("t", "Name", vec!["a"; columns - 1]));
        assert_eq!(
            [form(8), form(9), form(11), form(12)],
            [None, Some("wide"), Some("wide"), Some("wide widest")]
        );
    }
}
