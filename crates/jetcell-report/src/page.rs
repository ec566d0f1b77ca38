//! The design of all pages: style sheet, script, tables, charts. One file without external resources; its script shows values of
//! charts and nothing else.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::bars::Bars;
use crate::chart::Chart;
use crate::table::{Cell, Column, Table, Tone};

/// Colours for light and dark pages, and everything else.
pub(crate) const STYLE: &str = concat!(include_str!("colours.css"), include_str!("report.css"));
/// Shows values of charts. A page without scripts is complete, because the tables have the figures.
pub(crate) const SCRIPT: &str = include_str!("report.js");

/// Tables with more columns than this have a smaller font.
const MANY_COLUMNS: usize = 8;

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
            @for note in &table.notes { p class="note" { (note) } }
        }
    }
}

/// Tables of text fold on narrow screens: each cell stands on a line of its own, with the name of its column.
fn folds(table: &Table) -> bool {
    !table.facts && table.columns.iter().skip(1).any(|column| !column.number)
}

fn form(table: &Table) -> Option<&'static str> {
    let many = table.columns.len() > MANY_COLUMNS;
    if folds(table) { Some("fold") } else { many.then_some("wide") }
}

fn row(row: &[Cell], table: &Table) -> Markup {
    let folds = folds(table);
    html! {
        tr { @for (at, (cell, column)) in row.iter().zip(&table.columns).enumerate() {
            @if at == 0 {
                th class="grid_row_header" scope="row" { (cell.text) }
            } @else {
                td class=[class(cell, column)] data-column=[folds.then_some(&column.name)] {
                    (cell.text)
                    @if !cell.remark.is_empty() { " " span class="note" { "(" (cell.remark) ")" } }
                }
            }
        } }
    }
}

fn number(column: &Column) -> Option<&'static str> {
    column.number.then_some("number")
}

fn class(cell: &Cell, column: &Column) -> Option<String> {
    let classes: Vec<&str> = [number(column), class_of(cell.tone)].into_iter().flatten().collect();
    (!classes.is_empty()).then(|| classes.join(" "))
}
