//! `report.html`: one file without scripts and without anything from elsewhere.
//!
//! Verdict and rules come first, then the tables of a Jetstress report under their names, then what Jetstress does
//! not have. The cells `td.success` and `th.grid_row_header` are what scripts for Jetstress reports look for.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use workload::measure::LatencyTable;
use workload::result::{InstanceRow, RunResult, Verdict};
use workload::{Profile, Sample};

use crate::number::{bytes, latency, plain, span, three};
use crate::series;
use crate::text::{limit, verdict_word};

const STYLE: &str = include_str!("report.css");

/// Rows of the table of samples; longer runs are thinned out to about this many.
const SAMPLE_ROWS: usize = 60;

/// The whole page.
pub fn html(result: &RunResult, samples: &[Sample]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Jetcell: " (verdict_word(result.verdict)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (heading(result))
                (rules(result))
                (charts(result, samples))
                (summary(result))
                (sizing(result))
                (parameters(result))
                (instances(result))
                (transactional(&result.instances))
                (latencies("I/O latency", "kind of I/O", &result.latency))
                (latencies("Operation latency, commit included", "operation", &result.operation_latency))
                (operations(result))
                (sample_table(samples))
                (verification(result))
                (machine(result))
                (configuration(&result.configuration))
                (log(result))
            }
        }
    };
    page.into_string()
}

fn heading(result: &RunResult) -> Markup {
    html! {
        h1 { "Jetcell performance test: " span class=(class_of(result.verdict == Verdict::Pass)) { (verdict_word(result.verdict)) } }
        p class="reason" { (result.reason) }
    }
}

fn charts(result: &RunResult, samples: &[Sample]) -> Markup {
    html! {
        h2 { "Over time" }
        div class="charts" { @for chart in series::charts(result, samples) { (chart.figure()) } }
    }
}

fn class_of(good: bool) -> &'static str {
    if good { "success" } else { "failure" }
}

/// A table whose first column names the row.
fn facts(title: &str, rows: &[(&str, String)]) -> Markup {
    html! {
        h2 { (title) }
        div class="scroll" { table {
            @for (name, value) in rows {
                tr { th class="grid_row_header" scope="row" { (name) } td { (value) } }
            }
        } }
    }
}

fn rules(result: &RunResult) -> Markup {
    html! {
        h2 { "Rules" }
        div class="scroll" { table {
            thead { tr {
                th { "Rule" } th class="number" { "Measured" } th class="number" { "Limit" } th { "Outcome" } th { "Remark" }
            } }
            tbody { @for rule in &result.rules { tr {
                td { (rule.name) }
                td class="number" { (plain(rule.measured)) }
                td class="number" { (limit(rule.bound, rule.limit)) }
                td class=(class_of(rule.passed)) { @if rule.passed { "held" } @else { "broken" } }
                td class="note" { (rule.note) }
            } } }
        } }
        @if result.measured_seconds == 0.0 { p { "Nothing was measured, so there are no rules about speed." } }
    }
}

fn summary(result: &RunResult) -> Markup {
    let verdict = match result.verdict {
        Verdict::Pass => "Pass",
        Verdict::Fail => "Fail",
        Verdict::Incomplete => "Incomplete",
    };
    html! {
        h2 { "Test Summary" }
        div class="scroll" { table {
            tr {
                th class="grid_row_header" scope="row" { "Overall Test Result" }
                td class=(class_of(result.verdict == Verdict::Pass)) { (verdict) }
            }
            @for (name, value) in [
                ("Machine Name", &result.machine.host),
                ("Test Start Time", &result.started),
                ("Test End Time", &result.ended),
                ("Jetcell Version", &result.jetcell_version),
                ("Operating System", &result.machine.operating_system),
            ] {
                tr { th class="grid_row_header" scope="row" { (name) } td { (value) } }
            }
            @for phase in &result.phases {
                tr { th class="grid_row_header" scope="row" { (phase.phase.title()) } td { (span(phase.seconds)) } }
            }
        } }
    }
}

fn sizing(result: &RunResult) -> Markup {
    let mut rows = vec![("Achieved Transactional I/O per Second", three(result.achieved_transactional_iops))];
    if let Some(target) = result.configuration.target_iops {
        rows.push(("Target Transactional I/O per Second", plain(target)));
    }
    rows.push(("Initial Database Size (bytes)", bytes(result.initial_database_bytes)));
    rows.push(("Final Database Size (bytes)", bytes(result.final_database_bytes)));
    rows.push(("Database Files (Count)", result.database_files.to_string()));
    facts("Database Sizing and Throughput", &rows)
}

fn parameters(result: &RunResult) -> Markup {
    let Profile { mix, threads, lazy_percent, .. } = &result.configuration;
    let percent = |value: u8| format!("{value}%");
    let mut rows = vec![
        ("Thread Count", threads.to_string()),
        ("Maximum Database Cache", format!("{:.1} MB", result.plan.cache_bytes as f64 / 1_048_576.0)),
        ("Database Page Size (bytes)", result.plan.page_bytes.to_string()),
        ("Insert Operations", percent(mix.insert)),
        ("Delete Operations", percent(mix.delete)),
        ("Replace Operations", percent(mix.replace)),
        ("Read Operations", percent(mix.read)),
        ("Lazy Commits", percent(*lazy_percent)),
        ("Database page writes", page_writes(result.plan.page_protection).to_string()),
        ("Database Page Fault Stalls", result.page_fault_stalls.to_string()),
        ("Cache in use at the end (bytes)", bytes(result.cache_used_bytes)),
    ];
    if let Some(peak) = result.peak_resident_bytes {
        rows.push(("Highest resident memory (bytes)", bytes(peak)));
    }
    facts("Jetstress System Parameters", &rows)
}

fn page_writes(protected: bool) -> &'static str {
    match protected {
        true => "to a side file first, then in place",
        false => "in place and once, as ESE writes; no side file protects against torn pages",
    }
}

fn instances(result: &RunResult) -> Markup {
    let row = |row: &InstanceRow| {
        let paths = format!("Log path: {}  Database: {}", row.log_path.display(), row.database.display());
        (row.instance.clone(), paths)
    };
    let rows: Vec<(String, String)> = result.instances.iter().map(row).collect();
    let rows: Vec<(&str, String)> = rows.iter().map(|(name, paths)| (name.as_str(), paths.clone())).collect();
    facts("Database Configuration", &rows)
}

fn transactional(instances: &[InstanceRow]) -> Markup {
    let Some(first) = instances.first() else { return html! {} };
    html! {
        h2 { "Transactional I/O Performance" }
        div class="scroll" { table class="wide" {
            thead { tr {
                th { "MSExchange Database ==> Instances" }
                @for (name, _) in first.jetstress_rows() { th class="number" { (name) } }
            } }
            tbody { @for instance in instances { tr {
                th class="grid_row_header" scope="row" { (instance.instance) }
                @for (_, value) in instance.jetstress_rows() { td class="number" { (three(value)) } }
            } } }
        } }
        p class="note" {
            "Averages are weighted by transfers: sums divided once, not means of samples. "
            "Writes are checkpoint and eviction writes; verification and preparation of log files do not count."
        }
    }
}

fn latencies(title: &str, what: &str, table: &LatencyTable) -> Markup {
    html! {
        h2 { (title) }
        div class="scroll" { table {
            thead { tr {
                th { (what) } th class="number" { "count" } th class="number" { "mean" } th class="number" { "p50" }
                th class="number" { "p90" } th class="number" { "p95" } th class="number" { "p99" }
                th class="number" { "p99.9" } th class="number" { "p99.99" } th class="number" { "maximum" }
            } }
            tbody { @for (name, summary) in table { tr {
                th scope="row" { (name.replace('_', " ")) }
                td class="number" { (summary.count) }
                @if summary.count == 0 {
                    @for _ in 0..8 { td class="number note" { "–" } }
                } @else {
                    td class="number" { (latency(summary.mean)) }
                    @for us in [summary.p50, summary.p90, summary.p95, summary.p99, summary.p99_9, summary.p99_99, summary.max] {
                        td class="number" { (latency(us as f64)) }
                    }
                }
            } } }
        } }
    }
}

fn operations(result: &RunResult) -> Markup {
    let operations = &result.operations;
    let mut rows: Vec<(&str, String)> =
        operations.counts.iter().map(|(kind, count)| (kind.as_str(), count.to_string())).collect();
    rows.push(("operations per second", plain(operations.per_second)));
    rows.push(("given up because another thread was first", operations.conflicts.to_string()));
    rows.push(("found no record", operations.misses.to_string()));
    rows.push(("records with wrong content", operations.wrong_records.to_string()));
    html! {
        (facts("Operations", &rows))
        @if !operations.wrong.is_empty() { ul { @for line in &operations.wrong { li class="failure" { (line) } } } }
    }
}

fn sample_table(samples: &[Sample]) -> Markup {
    let step = samples.len().div_ceil(SAMPLE_ROWS).max(1);
    let highest = samples.iter().map(Sample::iops).fold(0.0, f64::max);
    let slowest = |sample: &Sample, value: fn(&workload::sampler::InstanceSample) -> f64| {
        sample.instances.iter().map(value).fold(0.0, f64::max)
    };
    html! {
        h2 { "Samples" }
        @if samples.is_empty() { p { "No samples were taken." } } @else {
            div class="scroll" { table {
                thead { tr {
                    th class="number" { "Time (s)" } th class="number" { "IOPS" } th {} th class="number" { "Database read (msec)" }
                    th class="number" { "Database write (msec)" } th class="number" { "Log write (msec)" }
                    th class="number" { "Operations/sec" } th class="number" { "Stalls" }
                } }
                tbody { @for sample in samples.iter().step_by(step) { tr {
                    td class="number" { (format!("{:.0}", sample.at_seconds)) }
                    td class="number" { (format!("{:.0}", sample.iops())) }
                    td { meter min="0" max=(highest) value=(sample.iops()) {} }
                    td class="number" { (three(slowest(sample, |i| i.database_read.average_ms))) }
                    td class="number" { (three(slowest(sample, |i| i.database_write.average_ms))) }
                    td class="number" { (three(slowest(sample, |i| i.log_write.average_ms))) }
                    td class="number" { (format!("{:.0}", sample.operations_per_second)) }
                    td class="number" { (sample.page_fault_stalls) }
                } } }
            } }
            p class="note" {
                "Latencies are those of the slowest instance. "
                @if step > 1 { "One sample in " (step) " is shown; all are in samples.csv." } @else { "The same as in samples.csv." }
            }
        }
    }
}

fn verification(result: &RunResult) -> Markup {
    html! {
        h2 { "Verification" }
        @match &result.verification {
            None => p { "The run ended before pages and logs were verified." },
            Some(verification) => {
                div class="scroll" { table {
                    thead { tr {
                        th { "File" } th class="number" { "Pages or segments" } th class="number" { "Bad" }
                        th class="number" { "Corrected bits" } th { "Findings" }
                    } }
                    tbody { @for file in &verification.files { tr {
                        td { (file.path.display()) }
                        td class="number" { (file.blocks) }
                        td class={ "number " (if file.bad == 0 { "" } else { "failure" }) } { (file.bad) }
                        td class="number" { (file.repaired) }
                        td { @for finding in &file.findings { (finding) br; } }
                    } } }
                } }
                p class="note" { "Read in " (span(verification.seconds)) "." }
            }
        }
    }
}

fn machine(result: &RunResult) -> Markup {
    let machine = &result.machine;
    let rows = vec![
        ("Kernel", machine.kernel.clone()),
        ("Processor", format!("{} × {}", machine.processors, machine.processor)),
        ("Memory (bytes)", bytes(machine.memory_bytes)),
    ];
    html! {
        (facts("Machine", &rows))
        div class="scroll" { table {
            thead { tr { th { "Directory" } th { "File system" } th { "Mount" } th { "Device" } th { "Scheduler" } } }
            tbody { @for storage in &machine.storage { tr {
                td { (storage.directory.display()) }
                @if let Some(mount) = &storage.mount {
                    td { (mount.file_system) }
                    td { (mount.source) " on " (mount.point.display()) " (" (mount.options) ")" }
                } @else { td {} td {} }
                @if let Some(device) = &storage.device {
                    td {
                        (device.name)
                        @if let Some(model) = &device.model { ", " (model) }
                        @if let Some(rotational) = device.rotational { @if rotational { ", rotational" } @else { ", not rotational" } }
                        @if let Some(cache) = &device.write_cache { ", " (cache) }
                    }
                    td { (device.scheduler.as_deref().unwrap_or("")) }
                } @else { td {} td {} }
            } } }
        } }
    }
}

fn configuration(profile: &Profile) -> Markup {
    html! {
        h2 { "Configuration" }
        p { "This file, given with " code { "--config" } ", describes the same run again." }
        pre { (profile.to_toml()) }
    }
}

fn log(result: &RunResult) -> Markup {
    html! { h2 { "Test Log" } pre { @for line in &result.log { (line) "\n" } } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{result, samples};

    #[test]
    fn the_verdict_and_its_rules_come_first() {
        let page = html(&result(), &samples(3));
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is missing"));
        let order = [
            "FAIL",
            "Average database read latency: 25 where",
            "<h2>Rules",
            "<h2>Test Summary",
            "<h2>Database Sizing",
            "<h2>Transactional I/O Performance",
            "<h2>I/O latency",
            "<h2>Samples",
            "<h2>Verification",
            "<h2>Machine",
        ];
        assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])));
        assert!(
            page.contains(r#"<td class="failure">broken"#) && page.contains(r#"<td class="success">held"#)
        );
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
            r#"<th class="grid_row_header" scope="row">Overall Test Result"#,
            "128.0 MB",
        ] {
            assert!(page.contains(text), "{text}");
        }
    }

    #[test]
    fn the_page_needs_nothing_else() {
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
        assert!(html(&result, &[]).contains("&lt;b&gt;&amp;"));
    }

    #[test]
    fn long_runs_are_thinned_out() {
        let page = html(&result(), &samples(5760));
        assert_eq!(page.matches("<meter").count(), 60);
        assert!(page.contains("One sample in 96 is shown"));
    }
}
