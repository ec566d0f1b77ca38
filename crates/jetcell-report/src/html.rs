//! Renders `report.html`, the page for one run. Verdict, rules, and advice come first, then charts, then tables.
//! Scripts that process Jetstress reports look for the cells `td.success` and `th.grid_row_header`, so this page uses
//! the same classes.

use jetcell_workload::Profile;
use jetcell_workload::measurement::Sample;
use jetcell_workload::result::RunResult;
use maud::{Markup, html};

use crate::advice::advice;
use crate::page::{breakable, class_of, page, table};
use crate::series::{charts, distributions, latency_over_rate, load_heading, test_charts};
use crate::table::ReportTable;
use crate::tables;

/// Renders the whole page.
pub fn html(result: &RunResult, samples: &[Sample]) -> String {
    let verdict = tables::verdict_word(result.verdict);
    let class = class_of(tables::verdict_tone(result.verdict));
    let advice = advice(result, samples);
    page(
        &format!("Jetcell: {verdict}"),
        &html! {
            h1 { "Jetcell " (result.test.name()) " test: " span class=[class] { (verdict) } }
            p class="reason" { (breakable(&result.reason)) }
            p class="subject" { @for line in tables::test_description(result) { (line) br; } }
            (figures(&tables::headline(result)))
            (table(&tables::rules(result)))
            @if !advice.is_empty() {
                h2 { "What to look at" }
                ul class="advice" { @for line in &advice { li { (breakable(line)) } } }
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
                @let distributions = distributions(result);
                @if !distributions.is_empty() {
                    h2 { "Distribution" }
                    div class="charts" { @for chart in distributions { (chart.figure()) } }
                }
            }
            @for one in &tables::all(result, samples) { (table(one)) }
            (configuration(&result.repeatable_profile()))
        },
    )
}

/// Renders the most important figures for the first screen.
fn figures(table: &ReportTable) -> Markup {
    html! {
        @if !table.rows.is_empty() {
            dl class="figures" { @for row in &table.rows {
                @if let [name, value] = &row[..] {
                    div { dt { (name.text()) } dd { (value.text()) @if !value.remark().is_empty() { " " span class="note" { (value.remark()) } } } }
                }
            } }
        }
    }
}

fn configuration(profile: &Profile) -> Markup {
    html! {
        section class="long" {
            h2 { "Configuration" }
            p { "This file, given with " code { "--config" } ", repeats the run." }
            pre { (profile.to_toml()) }
            p { "This command also repeats the run." }
            pre class="wrap" { (breakable(&profile.to_command_line())) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{result, samples};
    use crate::page::{MIN_BREAKABLE_ROWS, SCRIPT, STYLE_SHEET};

    #[test]
    fn the_verdict_precedes_jetstress_tables_in_original_order() {
        let page = html(&result(), &samples(3));
        let position_of = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is missing"));
        let order = [
            "FAIL</span>",
            "one database, 1.01 GiB in all",
            ">Transactional IOPS</dt><dd>286.0 <span class=\"note\">target 270.0, +5.9 %",
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
        assert!(order.windows(2).all(|pair| position_of(pair[0]) < position_of(pair[1])));
        assert!(
            page.contains(r#"class="failure" data-column="Outcome">broken"#)
                && page.contains(r#"class="success" data-column="Outcome">held"#)
        );
    }

    #[test]
    fn the_search_curve_precedes_the_time_charts() {
        let mut result = result();
        assert!(!html(&result, &samples(3)).contains("Over rate"));
        result.analysis.saturation = Some(crate::example::saturation());
        let page = html(&result, &samples(3));
        let position_of = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is missing"));
        assert!(
            position_of(">Rules<") < position_of(">Over rate<")
                && position_of(">Over rate<") < position_of(">Over time<")
        );
        assert!(position_of(">Over rate<") < position_of("aria-label=\"Latency over rate"));
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
            ">286.0<",
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
        for outside in ["http:", "https:", "<link", "@import", "url(", "src=", "fetch(", "import("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert_eq!(page.matches("<script>").count(), 1);
        assert!(!SCRIPT.contains("innerHTML") && !SCRIPT.contains("</"), "text of a result stays text");
        assert!(page.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn external_text_is_escaped_in_html() {
        let mut result = result();
        result.evidence.machine.host = "<b>&".into();
        result.log = vec!["1 -- <b>&".into()];
        let page = html(&result, &[]);
        assert_eq!(page.matches("&lt;b&gt;&amp;").count(), 3, "the host twice, and the log");
    }

    #[test]
    fn in_print_only_long_sections_continue_on_the_next_page() {
        let mut result = result();
        let long = |result: &RunResult| html(result, &samples(3)).matches("<section class=\"long\">").count();
        assert_eq!(long(&result), 1, "the configuration");
        result.log = vec!["1 -- a".into(); MIN_BREAKABLE_ROWS + 1];
        assert_eq!(long(&result), 2);
        assert!(STYLE_SHEET.contains("section:not(.long) { break-inside: avoid; }"));
    }

    #[test]
    fn long_runs_do_not_make_long_pages() {
        assert!(html(&result(), &samples(50_000)).len() < 300_000);
    }

    #[test]
    fn colours_of_charts_are_defined_for_both_schemes() {
        for series in 0..8 {
            assert_eq!(STYLE_SHEET.matches(&format!("--series-{series}:")).count(), 2);
        }
    }
}
