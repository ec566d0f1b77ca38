//! The design of all pages: style sheet, script, tables, charts. One file without external resources; its script shows values of
//! charts and nothing else.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::bars::Bars;
use crate::chart::Chart;
use crate::table::{Cell, Column, Table, Tone};
use jetcell_input::printable_lines;

/// Colours for light and dark pages, and everything else.
pub(crate) const STYLE: &str = concat!(include_str!("colours.css"), include_str!("report.css"));
/// Shows values of charts. A page without scripts is complete, because the tables have the figures.
pub(crate) const SCRIPT: &str = include_str!("report.js");

/// Tables of numbers with more columns than this have a smaller font.
const MANY_COLUMNS: usize = 8;

/// Characters side by side, gaps included, that a printed page of A4 or US Letter has room for: in its font, and in the smaller one.
/// Wider tables fold in print.
const PRINTED: usize = 80;
const PRINTED_SMALL: usize = 105;

/// Characters between two columns.
const GAP: usize = 2;

/// Words with more characters may continue on the next line.
const LONG_WORD: usize = 16;

/// A word without a place to break continues on the next line after so many characters, for which the narrowest cell of a page has room.
const LONGEST_PART: usize = 24;

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
    tables.iter().fold(page, Page::table).finish()
}

/// A complete page with its style sheet. Every page comes from here, so text from files is prepared here for all of them.
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
    printable_lines(&page.into_string()).into_owned()
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
    // The answer needs all rows, and every row needs the answer.
    let has_labels = folds(table) || folds_in_print(table);
    html! {
        section class=[(table.rows.len() > MANY_ROWS).then_some("long")] {
            (heading)
            @if !table.rows.is_empty() {
                div class="scroll" tabindex="0" { table class=[form(table)] {
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

/// Tables of text fold on narrow screens: each cell stands on a line of its own, with the name of its column.
fn folds(table: &Table) -> bool {
    !table.facts && table.columns.iter().skip(1).any(|column| !column.number)
}

/// Tables of many numbers have a smaller font.
fn is_wide(table: &Table) -> bool {
    table.columns.len() > MANY_COLUMNS && !folds(table)
}

/// Tables that are wider than a printed page fold there: the cells of a row stand below its name, each with the name of its column.
fn folds_in_print(table: &Table) -> bool {
    let room = if is_wide(table) { PRINTED_SMALL } else { PRINTED };
    !table.facts && narrowest(table) > room
}

/// Characters of the widest line of a table whose lines break wherever they may.
fn narrowest(table: &Table) -> usize {
    let longest = |text: &str| words(text).flatten().map(|part| part.chars().count()).max().unwrap_or(0);
    let column = |(at, column): (usize, &Column)| {
        let cells = table.rows.iter().filter_map(|row| row.get(at));
        let cells = cells.map(|cell| match column.number {
            true => cell.line().chars().count(),
            false => longest(&cell.text).max(longest(&cell.remark)),
        });
        GAP + cells.chain([longest(&column.name)]).max().unwrap_or(0)
    };
    table.columns.iter().enumerate().map(column).sum()
}

fn form(table: &Table) -> Option<String> {
    let classes = [(folds(table), "fold"), (is_wide(table), "wide"), (folds_in_print(table), "fold-printed")];
    let classes: Vec<&str> = classes.into_iter().filter_map(|(has, class)| has.then_some(class)).collect();
    (!classes.is_empty()).then(|| classes.join(" "))
}

fn row(row: &[Cell], table: &Table, has_labels: bool) -> Markup {
    html! {
        tr { @for (at, (cell, column)) in row.iter().zip(&table.columns).enumerate() {
            @if at == 0 {
                @let class = if column.number { "grid_row_header number" } else { "grid_row_header" };
                th class=(class) scope="row" { (breakable(&cell.text)) }
            } @else {
                td class=[class(cell, column)] data-column=[has_labels.then_some(&column.name)] {
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

/// The words of a text, each in the parts between which a line may end.
fn words(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.split(' ').map(|word| match word.chars().count() > LONG_WORD && !word.starts_with("--") {
        true => word.split_inclusive([',', '/', ';', '=', '_']).flat_map(pieces).collect(),
        false => vec![word],
    })
}

/// A part of a word in pieces of at most [`LONGEST_PART`] characters.
fn pieces(part: &str) -> Vec<&str> {
    let mut ends: Vec<usize> = part.char_indices().step_by(LONGEST_PART).map(|(at, _)| at).collect();
    ends.push(part.len());
    ends.windows(2).filter_map(|ends| part.get(ends[0]..ends[1])).collect()
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
        let hash = "0123456789abcdef".repeat(2);
        let (first, rest) = hash.split_at(LONGEST_PART);
        assert_eq!(breakable(&hash).into_string(), format!("{first}<wbr>{rest}<wbr>"));
        assert_eq!(breakable("Jetstress001001.edb").into_string(), "Jetstress001001.edb");
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
    fn tables_that_are_wider_than_a_printed_page_fold_there() {
        let of = |columns: usize, cell: &str| {
            let table = Table::numbers("t", "Name", vec!["a"; columns - 1]);
            table.row(vec![cell.into(); columns])
        };
        let form = |columns, cell: &str| form(&of(columns, cell)).unwrap_or_default();
        assert_eq!([form(8, "12,345.6"), form(9, "12,345.6")], ["", "wide"]);
        assert_eq!([form(8, "1,234,567.890"), form(12, "12,345.6")], ["fold-printed", "wide fold-printed"]);
        let page = table(&of(12, "12,345.6")).into_string();
        assert!(page.contains("<td class=\"number\" data-column=\"a\">12,345.6"), "{page}");
        let facts = Table::facts("t").fact("n", "a".repeat(200));
        assert!(!folds_in_print(&facts));
    }
}
