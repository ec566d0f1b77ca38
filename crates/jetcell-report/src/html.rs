//! `report.html`: one file without scripts and external resources.
//!
//! Verdict, rules and advice come first, then charts, then the tables. The cells `td.success` and
//! `th.grid_row_header` are those that scripts for Jetstress reports search for.

use jetcell_workload::measurement::Sample;
use jetcell_workload::result::RunResult;
use jetcell_workload::{Profile, Verdict};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::advice::advice;
use crate::series::{charts, latency_by_percentile, latency_over_rate, load_heading, test_charts};
use crate::table::{Cell, Column, Table, Tone};
use crate::tables;

const STYLE: &str = include_str!("report.css");

/// Tables with more columns than this have a smaller font.
const MANY_COLUMNS: usize = 8;

/// In print, tables with more rows than this may continue on the next page.
const MANY_ROWS: usize = 20;

/// The whole page.
pub fn html(result: &RunResult, samples: &[Sample]) -> String {
    let verdict = tables::verdict_word(result.verdict);
    let class = class_of(if result.verdict == Verdict::Pass { Tone::Good } else { Tone::Bad });
    let advice = advice(result, samples);
    page(
        &format!("Jetcell: {verdict}"),
        &html! {
            h1 { "Jetcell " (result.test.name()) " test: " span class=[class] { (verdict) } }
            p class="reason" { (result.reason) }
            p class="subject" { @for line in tables::subject(result) { (line) br; } }
            (figures(&tables::headline(result)))
            (table(&tables::rules(result)))
            @if !advice.is_empty() {
                h2 { "What to look at" }
                ul class="advice" { @for line in &advice { li { (line) } } }
            }
            @if let Some(saturation) = &result.analysis.saturation {
                h2 { "Over rate" }
                div class="charts" { (latency_over_rate(saturation).figure()) }
            }
            @if let Some((heading, charts)) = test_charts(result) {
                h2 { (heading) }
                div class="charts" { @for chart in charts { (chart.figure()) } }
            }
            @if result.backup.as_ref().is_none_or(|backup| backup.cost.is_some()) {
                h2 { (load_heading(result)) }
                div class="charts" { @for chart in charts(result, samples) { (chart.figure()) } }
                @if let Some(chart) = latency_by_percentile(result) {
                    h2 { "Distribution" }
                    div class="charts" { (chart.figure()) }
                }
            }
            @for one in &tables::all(result, samples) { (table(one)) }
            (configuration(&result.configuration))
        },
    )
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
            body { (body) }
        }
    };
    page.into_string()
}

const fn class_of(tone: Tone) -> Option<&'static str> {
    match tone {
        Tone::Neutral => None,
        Tone::Good => Some("success"),
        Tone::Bad => Some("failure"),
    }
}

/// The figures of the first screen.
fn figures(table: &Table) -> Markup {
    html! {
        @if !table.rows.is_empty() {
            dl class="figures" { @for row in &table.rows {
                @if let [name, value] = &row[..] {
                    div { dt { (name.text) } dd { (value.text) @if !value.remark.is_empty() { " " span class="note" { (value.remark) } } } }
                }
            } }
        }
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

fn configuration(profile: &Profile) -> Markup {
    html! {
        section class="long" {
            h2 { "Configuration" }
            p { "This file, given with " code { "--config" } ", repeats the run." }
            pre { (profile.to_toml()) }
            p { "This command repeats the run, too." }
            pre class="wrap" { (profile.to_command_line()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{result, samples};

    #[test]
    fn the_verdict_comes_first_and_jetstress_tables_in_their_order() {
        let page = html(&result(), &samples(3));
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is missing"));
        let order = [
            "FAIL</span>",
            "one database, 1.01 GiB in all",
            ">Transactional IOPS</dt><dd>286 <span class=\"note\">target 270, +5.9 %",
            ">Rules<",
            ">What to look at<",
            ">Over time<",
            ">Test Summary<",
            ">Database Sizing and Throughput<",
            ">Jetstress System Parameters<",
            ">Database Configuration<",
            ">Transactional I/O Performance<",
            ">Background Database Maintenance I/O Performance<",
            ">Log Replication I/O Performance<",
            ">Total I/O Performance<",
            ">Host System Performance<",
            ">I/O Latency (msec)<",
            ">Storage<",
            ">Test Log<",
            ">Configuration<",
        ];
        assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])));
        assert!(
            page.contains(r#"class="failure" data-column="Outcome">broken"#)
                && page.contains(r#"class="success" data-column="Outcome">held"#)
        );
    }

    #[test]
    fn the_curve_of_a_search_is_before_the_charts_over_time() {
        let mut result = result();
        assert!(!html(&result, &samples(3)).contains("Over rate"));
        result.analysis.saturation = Some(crate::example::saturation());
        let page = html(&result, &samples(3));
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is missing"));
        assert!(at(">Rules<") < at(">Over rate<") && at(">Over rate<") < at(">Over time<"));
        assert!(at(">Over rate<") < at("aria-label=\"Latency over rate\""));
        assert!(page.contains("highest sustained rate: 600"));
    }

    #[test]
    fn jetstress_names_and_formats_are_kept() {
        let page = html(&result(), &samples(3));
        for text in [
            "I/O Database Reads Average Latency (msec)",
            "I/O Log Writes Average Bytes",
            "MSExchange Database ==&gt; Instances",
            "Achieved Transactional I/O per Second",
            "285.979",
            r#"<th class="grid_row_header" scope="row">Overall Test Result</th><td class="failure">Fail"#,
            "128.0 MB",
            "Database Page Fault Stalls/sec",
        ] {
            assert!(page.contains(text), "{text}");
        }
    }

    #[test]
    fn the_page_has_no_external_resources() {
        let page = html(&result(), &samples(3));
        for outside in ["http:", "https:", "<script", "<link", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn text_from_outside_is_escaped() {
        let mut result = result();
        result.machine.host = "<b>&".into();
        result.log = vec!["1 -- <b>&".into()];
        let page = html(&result, &[]);
        assert_eq!(page.matches("&lt;b&gt;&amp;").count(), 3, "the host twice, and the log");
    }

    #[test]
    fn in_print_only_long_sections_continue_on_the_next_page() {
        let mut result = result();
        let long = |result: &RunResult| html(result, &samples(3)).matches("<section class=\"long\">").count();
        assert_eq!(long(&result), 1, "the configuration");
        result.log = vec!["1 -- a".into(); MANY_ROWS + 1];
        assert_eq!(long(&result), 2);
        assert!(STYLE.contains("section:not(.long) { break-inside: avoid; }"));
    }

    #[test]
    fn long_runs_do_not_make_long_pages() {
        assert!(html(&result(), &samples(50_000)).len() < 200_000);
    }

    #[test]
    fn colours_of_charts_are_defined_for_both_schemes() {
        for series in 0..8 {
            assert_eq!(STYLE.matches(&format!("--series-{series}:")).count(), 2);
        }
    }
}
