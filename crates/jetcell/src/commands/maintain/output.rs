//! Output of maintenance results as text and as JSON.

use std::path::Path;

use ese_engine::{DefragProgress, ScanProgress, ShrinkReport, TrimReport};
use jetcell_copies::{CopyScanProgress, ScannedDatabase};
use jetcell_input::json_path;
use jetcell_report::{ReportCell, ReportColumn, ReportTable, StyledText, table_text};
use jetcell_workload::maintenance::{DatabaseFailure, DatabaseMaintenanceResult};
use serde_json::{Map, Value, json};

use crate::console;
use crate::outcome::CommandError;

pub(super) fn as_json(result: &DatabaseMaintenanceResult) -> Value {
    let DatabaseMaintenanceResult { path, scan, defragmentation, layout, shrink, trim, failure, .. } = result;
    let mut fields = match scan.as_ref().map(scan_as_json) {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let optional = [
        ("failure", failure.as_ref().map(|failure| json!(failure_error(failure).full_text()))),
        ("defragmentation", defragmentation.as_ref().map(defragmentation_as_json)),
        ("layout", layout.as_ref().map(layout_as_json)),
        ("shrink", shrink.as_ref().map(shrink_as_json)),
        ("trim", trim.as_ref().map(trim_as_json)),
    ];
    fields.insert("path".to_string(), json!(json_path(path)));
    if result.is_unopened {
        fields.insert("opened".to_string(), json!(false));
    }
    fields.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))));
    fields.into()
}

fn shrink_as_json(report: &ShrinkReport) -> Value {
    let ShrinkReport { released, pages_before, pages_after, page_bytes, milliseconds } = *report;
    json!({
        "pages_before": pages_before, "pages_after": pages_after, "released": released,
        "bytes_returned": (pages_before - pages_after) * page_bytes, "milliseconds": milliseconds,
    })
}

fn trim_as_json(report: &TrimReport) -> Value {
    let TrimReport { released, holes, pages, page_bytes } = *report;
    json!({ "holes": holes, "pages": pages, "released": released, "bytes_returned": pages * page_bytes })
}

fn scan_as_json(progress: &ScanProgress) -> Value {
    let pass = &progress.pass;
    let findings: Vec<_> = progress
        .findings
        .iter()
        .map(|(page, flaw)| json!({ "page": page.get(), "flaw": flaw.to_string() }))
        .collect();
    json!({
        "complete": progress.passes > 0, "zeroing": pass.zeroing, "seconds": pass.seconds,
        "invocations": pass.invocations, "days": pass.days, "pages": pass.pages, "bad": pass.bad,
        "uninitialized": pass.uninitialized, "unchanged": pass.unchanged, "unused_zeroed": pass.unused_zeroed,
        "used": pass.used, "records_zeroed": pass.records_zeroed, "chunks_zeroed": pass.chunks_zeroed,
        "remainder": pass.zeroing.then(|| pass.remainder()), "next_page": (progress.passes == 0).then(|| {
            progress.position.map_or(1, |page| page.get() + 1)
        }),
        "findings": findings,
    })
}

fn defragmentation_as_json(progress: &DefragProgress) -> Value {
    let pass = &progress.pass;
    json!({
        "complete": progress.passes > 0, "seconds": pass.seconds, "invocations": pass.invocations,
        "days": pass.days, "pages_visited": pass.pages_visited, "pages_freed": pass.pages_freed,
        "partial_merges": pass.partial_merges, "skipped": progress.skipped,
        "passes_since_creation": pass.total.passes, "days_since_creation": pass.total.days,
        "advice": pass.advice().map(ese_engine::WindowAdvice::text),
    })
}

fn layout_as_json(progress: &DefragProgress) -> Value {
    json!({
        "complete": progress.passes > 0, "pages_visited": progress.pages_visited,
        "pages_moved": progress.pages_moved, "pages_freed": progress.pages_freed,
        "partial_merges": progress.partial_merges, "skipped": progress.skipped, "trees_queued": progress.queued,
    })
}

pub(super) fn as_text(result: &DatabaseMaintenanceResult) -> StyledText {
    let mut out = StyledText::new();
    if result.is_unopened {
        let path = result.path.display();
        out.add_line(&match &result.failure {
            Some(failure) => format!("{path}: not opened: {}", failure_error(failure).full_text()),
            None => format!("{path}: not opened; the same command maintains it"),
        });
    }
    let mut add = |title: &str, state: &str, counters: &[(u64, &str)], lines: Vec<String>| {
        out.add_line(&format!("{}: {title} {state}", result.path.display()));
        let columns = [ReportColumn::numbers(""), ReportColumn::text("")];
        let rows = counters.iter().map(|(count, name)| vec![ReportCell::count(*count), (*name).into()]);
        let table = ReportTable { facts: true, ..ReportTable::new(title, columns).rows(rows) };
        out.append(table_text(&table, console::width()));
        lines.iter().for_each(|line| out.add_line(&format!("  {line}")));
    };
    if let Some(DefragProgress { pass, skipped, passes, .. }) = &result.defragmentation {
        let counters = [
            (pass.pages_visited, "pages visited"),
            (pass.pages_freed, "pages freed"),
            (pass.partial_merges, "partial merges"),
            (*skipped, "damaged pages skipped"),
            (pass.total.passes, "passes since the database was created"),
        ];
        let advice = pass.advice().map(|advice| advice.text().to_string());
        add("defragmentation", state(*passes), &counters, advice.into_iter().collect());
    }
    if let Some(layout) = &result.layout {
        let counters = [
            (layout.pages_visited, "pages visited"),
            (layout.pages_moved, "pages moved"),
            (layout.pages_freed, "pages freed"),
            (layout.skipped, "damaged pages skipped"),
            (layout.queued, "trees still queued"),
        ];
        add("sequential layout", state(layout.passes), &counters, Vec::new());
    }
    if let Some(report) = &result.shrink {
        let counters = [(report.pages_before, "pages before"), (report.pages_after, "pages after")];
        add("shrink", "complete", &counters, Vec::new());
    }
    if let Some(report) = &result.trim {
        let counters = [(report.pages, "pages returned"), (report.holes, "holes")];
        add("trim", "complete", &counters, Vec::new());
    }
    if let Some(scan) = &result.scan {
        let counters = scan.pass.counters().into_iter().map(|(name, count)| (count, name));
        let counters: Vec<_> = counters.collect();
        let findings = scan.findings.iter().map(|(page, flaw)| format!("page {page}: {flaw}"));
        add("pass", state(scan.passes), &counters, findings.collect());
    }
    out
}

fn state(passes: u64) -> &'static str {
    match passes {
        0 => "interrupted; the same command resumes it",
        _ => "complete",
    }
}

pub(super) fn copy_as_text(directory: &Path, scan: &CopyScanProgress) -> StyledText {
    let mut out = StyledText::new();
    for one in &scan.databases {
        let ScannedDatabase { pages, uninitialized, corrected, bad, .. } = one;
        out.add_line(&format!(
            "{}: {pages} pages scanned, {uninitialized} never written, {corrected} with a corrected bit, {bad} bad",
            directory.join(&one.file).display()
        ));
        for (page, what) in one.bad_pages.iter().take(10) {
            out.add_line(&format!("  page {page}: {what}"));
        }
        if let Some(next) = one.next {
            out.add_line(&format!("  stopped at page {next}; the same command resumes there"));
        }
    }
    out
}

/// Returns the error about the databases on which a task failed.
pub(super) fn failure_error(failure: &DatabaseFailure) -> CommandError {
    let error = CommandError::from(failure.clone());
    match failure {
        DatabaseFailure::Unattached(_) | DatabaseFailure::Instance(_) => error,
        _ => error.add_advice("the same command resumes the work on this database"),
    }
}
