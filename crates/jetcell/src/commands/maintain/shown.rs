//! The result of maintenance, as text and as JSON.

use std::path::PathBuf;

use ese_engine::{Database, DefragProgress, ScanProgress};
use serde_json::{Value, json};

use crate::console;
use crate::outcome::Outcome;

/// What was done with a database.
pub(super) struct Maintained {
    path: PathBuf,
    scan: ScanProgress,
    defragmentation: DefragProgress,
}

impl Maintained {
    pub fn of(database: &Database) -> Maintained {
        Maintained {
            path: database.path().to_path_buf(),
            scan: database.scan_progress(),
            defragmentation: database.defrag_progress(),
        }
    }

    fn is_complete(&self, (scan, defragmentation): (bool, bool)) -> bool {
        (!scan || self.scan.passes > 0) && (!defragmentation || self.defragmentation.passes > 0)
    }

    fn is_sound(&self) -> bool {
        self.scan.pass.bad == 0 && self.defragmentation.skipped == 0
    }
}

/// Shows the result of the tasks: scan, defragmentation.
pub(super) fn show(results: &[Maintained], tasks: (bool, bool), json: bool) -> Outcome {
    let whole = results.iter().all(|result| result.is_complete(tasks));
    match json {
        true => {
            let databases: Vec<_> = results.iter().map(|result| as_json(result, tasks)).collect();
            console::print(&format!("{}\n", json!({ "complete": whole, "databases": databases })));
        }
        false => results.iter().for_each(|result| print_text(result, tasks)),
    }
    match whole && results.iter().all(Maintained::is_sound) {
        true => Outcome::Good,
        false => Outcome::Findings,
    }
}

fn as_json(result: &Maintained, (scan, defragmentation): (bool, bool)) -> Value {
    let mut fields = match scan {
        true => scan_as_json(&result.scan),
        false => json!({}),
    };
    if let Some(fields) = fields.as_object_mut() {
        fields.insert("path".to_string(), json!(result.path));
        if defragmentation {
            fields.insert("defragmentation".to_string(), defragmentation_as_json(&result.defragmentation));
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
        "advice": pass.advice().map(|advice| advice.text()),
    })
}

fn print_text(result: &Maintained, (scan, defragmentation): (bool, bool)) {
    let mut lines = Vec::new();
    if defragmentation {
        lines.push(format!(
            "{}: defragmentation {}",
            result.path.display(),
            state(result.defragmentation.passes)
        ));
        lines.extend(defragmentation_lines(&result.defragmentation));
    }
    if scan {
        let progress = &result.scan;
        lines.push(format!("{}: pass {}", result.path.display(), state(progress.passes)));
        let counters = progress.pass.counters();
        lines.extend(counters.iter().map(|(name, count)| format!("  {count:>12} {name}")));
        lines.extend(progress.findings.iter().map(|(page, flaw)| format!("  page {page}: {flaw}")));
    }
    console::print(&format!("{}\n", jetcell_report::printable_lines(&lines.join("\n"))));
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
