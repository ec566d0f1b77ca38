//! Output of maintenance results as text and as JSON.

use std::path::PathBuf;

use ese_engine::{DefragProgress, ScanProgress, ShrinkReport, TrimReport};
use jetcell_input::json_path;
use serde_json::{Value, json};

use super::tasks::{MaintainedDatabase, MaintenanceTasks, ReturnedSpace, UnattachedDatabase};
use crate::console;
use crate::outcome::CommandOutcome;

/// Maintenance result for one database.
#[derive(Default)]
pub(super) struct DatabaseMaintenanceResult {
    path: PathBuf,
    scan: ScanProgress,
    defragmentation: DefragProgress,
    layout: DefragProgress,
    space: ReturnedSpace,
    failure: Option<String>,
}

impl DatabaseMaintenanceResult {
    pub fn from_maintained(attached: &MaintainedDatabase) -> DatabaseMaintenanceResult {
        let MaintainedDatabase { database, space, failure, .. } = attached;
        DatabaseMaintenanceResult {
            path: database.path().to_path_buf(),
            scan: database.scan_progress(),
            defragmentation: database.defrag_progress(),
            layout: database.layout_progress(),
            space: *space,
            failure: failure.clone(),
        }
    }

    pub fn from_unattached(unattached: UnattachedDatabase) -> DatabaseMaintenanceResult {
        let UnattachedDatabase { path, failure } = unattached;
        DatabaseMaintenanceResult { path, failure: Some(failure), ..DatabaseMaintenanceResult::default() }
    }

    fn is_complete(&self, tasks: MaintenanceTasks) -> bool {
        (!tasks.scan || self.scan.passes > 0)
            && (!tasks.defragmentation || self.defragmentation.passes > 0)
            && (!tasks.layout || self.layout.passes > 0)
            && (!tasks.shrink || self.space.shrink.is_some())
            && (!tasks.trim || self.space.trim.is_some())
    }

    fn is_sound(&self) -> bool {
        self.scan.pass.bad == 0 && self.defragmentation.skipped == 0 && self.layout.skipped == 0
    }
}

/// Shows the result of the tasks.
pub(super) fn show(
    results: &[DatabaseMaintenanceResult],
    tasks: MaintenanceTasks,
    json: bool,
) -> CommandOutcome {
    let whole = results.iter().all(|result| result.is_complete(tasks));
    if json {
        let databases: Vec<_> = results.iter().map(|result| as_json(result, tasks)).collect();
        console::print_json(&format!("{}\n", json!({ "complete": whole, "databases": databases })));
    } else {
        results.iter().for_each(|result| print_text(result, tasks));
    }
    if results.iter().any(|result| result.failure.is_some()) {
        return CommandOutcome::CouldNotRun;
    }
    if whole && results.iter().all(DatabaseMaintenanceResult::is_sound) {
        CommandOutcome::Good
    } else {
        CommandOutcome::Findings
    }
}

fn as_json(result: &DatabaseMaintenanceResult, tasks: MaintenanceTasks) -> Value {
    let mut fields = if tasks.scan { scan_as_json(&result.scan) } else { json!({}) };
    if let Some(fields) = fields.as_object_mut() {
        fields.insert("path".to_string(), json!(json_path(&result.path)));
        if let Some(what) = &result.failure {
            fields.insert("failure".to_string(), json!(what));
        }
        if tasks.defragmentation {
            fields.insert("defragmentation".to_string(), defragmentation_as_json(&result.defragmentation));
        }
        if tasks.layout {
            fields.insert("layout".to_string(), layout_as_json(&result.layout));
        }
        if let Some(report) = &result.space.shrink {
            let ShrinkReport { released, pages_before, pages_after, page_bytes, milliseconds } = *report;
            let shrink = json!({
                "pages_before": pages_before, "pages_after": pages_after, "released": released,
                "bytes_returned": (pages_before - pages_after) * page_bytes, "milliseconds": milliseconds,
            });
            fields.insert("shrink".to_string(), shrink);
        }
        if let Some(report) = &result.space.trim {
            let TrimReport { released, holes, pages, page_bytes } = *report;
            let trim = json!({
                "holes": holes, "pages": pages, "released": released, "bytes_returned": pages * page_bytes,
            });
            fields.insert("trim".to_string(), trim);
        }
    }
    fields
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

fn print_text(result: &DatabaseMaintenanceResult, tasks: MaintenanceTasks) {
    let mut lines = Vec::new();
    if tasks.defragmentation {
        lines.push(format!(
            "{}: defragmentation {}",
            result.path.display(),
            state(result.defragmentation.passes)
        ));
        lines.extend(defragmentation_lines(&result.defragmentation));
    }
    if tasks.layout {
        let layout = &result.layout;
        lines.push(format!("{}: sequential layout {}", result.path.display(), state(layout.passes)));
        let counters = [
            (layout.pages_visited, "pages visited"),
            (layout.pages_moved, "pages moved"),
            (layout.pages_freed, "pages freed"),
            (layout.skipped, "damaged pages skipped"),
            (layout.queued, "trees still queued"),
        ];
        lines.extend(counters.iter().map(|(count, name)| format!("  {count:>12} {name}")));
    }
    if let Some(report) = &result.space.shrink {
        lines.push(format!("{}: shrink complete", result.path.display()));
        lines.push(format!("  {:>12} pages before", report.pages_before));
        lines.push(format!("  {:>12} pages after", report.pages_after));
    }
    if let Some(report) = &result.space.trim {
        lines.push(format!("{}: trim complete", result.path.display()));
        lines.push(format!("  {:>12} pages returned", report.pages));
        lines.push(format!("  {:>12} holes", report.holes));
    }
    if tasks.scan {
        let progress = &result.scan;
        lines.push(format!("{}: pass {}", result.path.display(), state(progress.passes)));
        let counters = progress.pass.counters();
        lines.extend(counters.iter().map(|(name, count)| format!("  {count:>12} {name}")));
        lines.extend(progress.findings.iter().map(|(page, flaw)| format!("  page {page}: {flaw}")));
    }
    console::print_wrapped(jetcell_input::printable_rows(&lines) + "\n");
}

fn state(passes: u64) -> &'static str {
    match passes {
        0 => "interrupted; the same command resumes it",
        _ => "complete",
    }
}

fn defragmentation_lines(progress: &DefragProgress) -> Vec<String> {
    let pass = &progress.pass;
    let counters = [
        (pass.pages_visited, "pages visited"),
        (pass.pages_freed, "pages freed"),
        (pass.partial_merges, "partial merges"),
        (progress.skipped, "damaged pages skipped"),
        (pass.total.passes, "passes since the database was created"),
    ];
    let mut lines: Vec<String> =
        counters.iter().map(|(count, name)| format!("  {count:>12} {name}")).collect();
    lines.extend(pass.advice().map(|advice| format!("  {}", advice.text())));
    lines
}
