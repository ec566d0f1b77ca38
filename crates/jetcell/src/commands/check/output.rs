//! Output of a check: text for people, JSON lines for programs.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ese_check::{
    CheckOutcome, CheckPhase, CheckProgress, EseFileKind, FileReport, FileState, Finding, FindingCounts,
    FindingKind, LogSet, Severity,
};
use ese_format::header::DatabaseState;
use jetcell_host::{Evidence, ProgressReport, completed_share};
use jetcell_input::time::format_duration;
use jetcell_input::{Align, Printable, printable_rows};
use jetcell_report::{ReportCell, ReportTable, StyledText, Tone, flush_table_text};
use jetcell_vfs::parent_directory;
use serde::Serialize;

use crate::console;
use crate::outcome::{CommandError, CommandResult};

/// Maximum number of findings that are listed for each file. A badly damaged file may have one finding per page.
const MAX_LISTED_FINDINGS: u64 = 100;
/// Maximum number of files of unsupported types that are listed by name.
const MAX_LISTED_FILES: usize = 3;

/// Interface for receiving check results from several threads.
pub trait CheckOutput: Send + Sync {
    /// Receives a finding as soon as it is found.
    fn report_finding(&self, finding: &Finding);
    /// Receives the report of a completed file.
    fn report_file(&self, report: FileReport);
    /// Receives the progress of the current file.
    fn report_progress(&self, progress: CheckProgress);
    /// Receives the overall results at the end of the check.
    fn finish(&self, sets: &[LogSet], skipped: &[CommandError]) -> CommandResult<()>;
}

/// Check output as JSON lines.
#[derive(Default)]
pub struct JsonCheckOutput {
    bar: CheckProgressOutput,
    evidence: Evidence,
    /// The last failure to serialize a line.
    failure: Mutex<Option<serde_json::Error>>,
}

impl JsonCheckOutput {
    /// Creates the output of a check of `paths`.
    pub fn new(paths: &[PathBuf]) -> JsonCheckOutput {
        let evidence = Evidence::collect(paths.iter().map(PathBuf::as_path));
        JsonCheckOutput { evidence, ..JsonCheckOutput::default() }
    }

    fn write<T: Serialize>(&self, kind: &'static str, content: &T, evidence: Option<&Evidence>) {
        match jetcell_input::json_line(&JsonCheckLine { kind, content, evidence }) {
            Ok(text) => console::print_json(&(text + "\n")),
            Err(error) => *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error),
        }
    }
}

#[derive(Serialize)]
struct JsonCheckLine<'a, T> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    content: &'a T,
    #[serde(flatten)]
    evidence: Option<&'a Evidence>,
}

/// Prints a line. Line ends within it are escaped.
fn write_out(line: &str) {
    console::print_wrapped(printable_rows([line]) + "\n");
}

/// Renders a finding. Its severity is coloured.
fn finding_text(finding: &Finding) -> StyledText {
    let (severity, text) = (finding.severity.to_string(), finding.to_string());
    let tone = if finding.severity == Severity::Error { Tone::Bad } else { Tone::Warning };
    let rest = text.strip_prefix(severity.as_str()).unwrap_or_default();
    let mut out = StyledText::new().with(&severity, tone);
    out.add_line(rest);
    out
}

impl CheckOutput for JsonCheckOutput {
    fn report_finding(&self, finding: &Finding) {
        self.bar.with_line_hidden(|| self.write("finding", finding, None));
    }

    fn report_file(&self, report: FileReport) {
        self.bar.clear();
        self.write("summary", &report, Some(&self.evidence));
    }

    fn report_progress(&self, progress: CheckProgress) {
        self.bar.show(progress);
    }

    fn finish(&self, sets: &[LogSet], skipped: &[CommandError]) -> CommandResult<()> {
        self.bar.clear();
        sets.iter().for_each(|set| self.write("log-set", set, None));
        for error in skipped {
            error.print();
        }
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// Check output as text: each finding immediately, then a table.
pub struct TextCheckOutput {
    bar: CheckProgressOutput,
    structure: bool,
    state: Mutex<TextCheckState>,
}

#[derive(Default)]
struct TextCheckState {
    reports: Vec<FileReport>,
    /// Number of findings listed so far for the current file.
    listed_findings: u64,
}

impl TextCheckOutput {
    /// Creates the output. `structure` is true if the check includes tree structures.
    pub fn new(structure: bool) -> TextCheckOutput {
        TextCheckOutput { bar: CheckProgressOutput::default(), structure, state: Mutex::default() }
    }
}

impl CheckOutput for TextCheckOutput {
    fn report_finding(&self, finding: &Finding) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Purely informational findings are shown only in the table.
        if finding.severity == Severity::Info {
            return;
        }
        state.listed_findings += 1;
        if state.listed_findings <= MAX_LISTED_FINDINGS {
            self.bar.with_line_hidden(|| {
                let mut text = finding_text(finding);
                text.add_line(&format!("    {}: {}", finding.kind, finding.meaning));
                console::print_wrapped(text);
            });
        }
    }

    fn report_file(&self, report: FileReport) {
        self.bar.clear();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let more = std::mem::take(&mut state.listed_findings).saturating_sub(MAX_LISTED_FINDINGS);
        if more > 0 {
            write_out(&format!("{}: {more} more findings; --json lists all", report.path.display()));
        }
        let is_note = |finding: &Finding| finding.kind == FindingKind::FormatNewer;
        let findings = report.findings.into_iter().filter(is_note).collect();
        state.reports.push(FileReport { findings, ..report });
    }

    fn report_progress(&self, progress: CheckProgress) {
        self.bar.show(progress);
    }

    fn finish(&self, sets: &[LogSet], skipped: &[CommandError]) -> CommandResult<()> {
        self.bar.clear();
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let any = state.reports.iter().any(|report| report.counts.errors + report.counts.warnings > 0);
        if any {
            write_out("");
        }
        let (table, notes) = summary(&state.reports, sets, self.structure);
        if !table.rows.is_empty() {
            console::print_wrapped(flush_table_text(&table));
        }
        notes.iter().for_each(|note| write_out(note));
        for error in skipped {
            error.print();
        }
        Ok(())
    }
}

/// Returns a table with a row for each database, for each log stream and for each other file, and advice.
fn summary(reports: &[FileReport], sets: &[LogSet], structure: bool) -> (ReportTable, Vec<String>) {
    let common = common_directory(reports);
    let name = |path: &Path| Printable(path.strip_prefix(&common).unwrap_or(path).display()).to_string();
    let mut rows: Vec<Vec<ReportCell>> = Vec::new();
    let mut notes = Vec::new();
    for report in reports.iter().filter(|report| report.format == EseFileKind::Database) {
        rows.push(database_row(report, name(&report.path)));
        let note =
            |finding: &Finding| format!("{}: {}: {}", name(&report.path), finding.message, finding.meaning);
        notes.extend(report.findings.iter().map(note));
        if let Some(needs) = &report.needs_logs {
            let command = needs.recovery(&report.path);
            let what = match (needs.first, needs.complete) {
                (0, _) => format!("next: {command}"),
                (_, true) => format!("needs log {needs}; no log is missing; next: {command}"),
                (_, false) => format!("needs log {needs}: provide the logs; then: {command}"),
            };
            notes.push(format!("{}: not shut down cleanly; {what}", name(&report.path)));
        }
    }
    rows.extend(log_rows(reports, sets, &name));
    for (format, one, many) in [
        (EseFileKind::Checkpoint, "checkpoint", "checkpoints"),
        (EseFileKind::FlushMap, "flush map", "flush maps"),
    ] {
        rows.extend(other_files_row(reports, format, one, many));
    }
    let others: Vec<String> =
        reports.iter().filter(|report| report.foreign).map(|report| name(&report.path)).collect();
    if !others.is_empty() {
        let (count, more) = (others.len(), if others.len() > MAX_LISTED_FILES { ", ..." } else { "" });
        let names = others.iter().take(MAX_LISTED_FILES).cloned().collect::<Vec<_>>().join(", ");
        let noun = if count == 1 { "file is" } else { "files are" };
        notes.push(format!("{count} {noun} not in an ESE format and not checked: {names}{more}"));
    }
    notes.extend(reports.iter().filter_map(|report| coverage(report, &name(&report.path))));
    if !structure && reports.iter().any(|report| report.format == EseFileKind::Database) {
        notes.push("Each page was checked individually; --structure also checks the trees.".to_owned());
    }
    let columns = ["FILE", "STATE", "PAGES", "GOOD", "ZERO", "VERDICT"];
    let table = ReportTable::text_columns("", &columns).aligned(2..5, Align::Right);
    (table.rows(rows), notes)
}

/// Describes the part of a database that was not read. Returns `None` if every page was read.
fn coverage(report: &FileReport, name: &str) -> Option<String> {
    let pages = report.pages.filter(|pages| pages.first > 1)?;
    Some(format!(
        "{name}: {} of {} pages were checked, from page {}; pages 1 to {} were not",
        pages.examined,
        pages.total,
        pages.first,
        pages.first - 1
    ))
}

/// Returns a row of the table. `pages` are the numbers of pages or log segments: all, good, and zero.
fn row(name: String, state: &str, pages: Option<[u64; 3]>, verdict: ReportCell) -> Vec<ReportCell> {
    let dash = || ReportCell::from("-");
    let pages =
        pages.map_or_else(|| [dash(), dash(), dash()], |pages| pages.map(|count| count.to_string().into()));
    [name.into(), state.into()].into_iter().chain(pages).chain([verdict]).collect()
}

fn database_row(report: &FileReport, name: String) -> Vec<ReportCell> {
    let state = match report.state {
        Some(FileState::Database(DatabaseState::CleanShutdown)) => "clean".to_owned(),
        Some(FileState::Database(DatabaseState::DirtyShutdown)) => "dirty".to_owned(),
        Some(other) => other.to_string(),
        None => "-".to_owned(),
    };
    let state = state.as_str();
    let Some(pages) = report.pages else {
        return row(name, state, None, verdict(report.outcome, report.counts, ""));
    };
    let mut what = String::new();
    for (number, text) in [
        (pages.bad, "bad"),
        (pages.repairable, "repairable"),
        (pages.missing, "missing"),
        (pages.unchecked, "unchecked"),
    ] {
        if number > 0 {
            let noun = if number == 1 { "page" } else { "pages" };
            what.push_str(&format!(", {number} {text} {noun}"));
        }
    }
    if let Some(structure) = &report.structure {
        let rows: u64 = structure.tables.iter().map(|table| table.rows).sum();
        what.push_str(&format!(", {} tables, {rows} rows", structure.tables.len()));
    }
    if report.cancelled {
        what.push_str(" so far, stopped");
    }
    let verdict = verdict(report.outcome, report.counts, &what);
    row(name, state, Some([pages.total, pages.good, pages.zero]), verdict)
}

fn log_rows(reports: &[FileReport], sets: &[LogSet], name: &dyn Fn(&Path) -> String) -> Vec<Vec<ReportCell>> {
    let mut rows = Vec::new();
    let mut left: Vec<&FileReport> =
        reports.iter().filter(|report| report.format == EseFileKind::Log).collect();
    let log_row = |name: String, state: &str, logs: &[&FileReport], broken: &str| {
        let sum = |count: fn(&ese_check::SegmentCounts) -> u64| {
            logs.iter().filter_map(|log| log.segments.as_ref()).map(count).sum::<u64>()
        };
        let worst = logs.iter().map(|log| log.outcome).max().unwrap_or(CheckOutcome::Sound);
        let segments = [sum(|counts| counts.total), sum(|counts| counts.good), sum(|counts| counts.zero)];
        row(name, state, Some(segments), verdict(worst, add(logs), broken))
    };
    for set in sets {
        let mine = |report: &FileReport| {
            report.segments.is_some()
                && parent_directory(&report.path) == set.directory
                && report.generation.is_some_and(|number| (set.first..=set.last).contains(&number))
        };
        let (logs, others) = left.into_iter().partition::<Vec<_>, _>(|report| mine(report));
        left = others;
        if logs.is_empty() {
            continue;
        }
        let state =
            format!("{} {:X}-{:X}", if logs.len() == 1 { "log" } else { "logs" }, set.first, set.last);
        let place = match logs.as_slice() {
            [one] => name(&one.path),
            _ => format!("{} ({} logs)", name(&set.directory), logs.len()),
        };
        rows.push(log_row(place, &state, &logs, if set.unbroken { "" } else { ", chain broken" }));
    }
    rows.extend(left.into_iter().map(|log| log_row(name(&log.path), "log", &[log], "")));
    rows
}

fn other_files_row(
    reports: &[FileReport],
    format: EseFileKind,
    one: &str,
    many: &str,
) -> Option<Vec<ReportCell>> {
    let files: Vec<&FileReport> = reports.iter().filter(|report| report.format == format).collect();
    let worst = files.iter().map(|file| file.outcome).max()?;
    let noun = if files.len() == 1 { one } else { many };
    Some(row(format!("{} {noun}", files.len()), "-", None, verdict(worst, add(&files), "")))
}

fn add(reports: &[&FileReport]) -> FindingCounts {
    reports.iter().fold(FindingCounts::default(), |sum, report| FindingCounts {
        errors: sum.errors + report.counts.errors,
        warnings: sum.warnings + report.counts.warnings,
        infos: sum.infos + report.counts.infos,
    })
}

/// Returns a cell with the verdict, followed by `rest`.
fn verdict(verdict: CheckOutcome, counts: FindingCounts, rest: &str) -> ReportCell {
    let part = |count: u64, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let warnings = part(counts.warnings, "warning");
    match (verdict, counts) {
        (CheckOutcome::Sound, _) => ReportCell::verdict("sound", Tone::Good, rest),
        (CheckOutcome::Unreadable, _) => ReportCell::verdict("UNREADABLE", Tone::Bad, rest),
        (CheckOutcome::Findings, FindingCounts { errors: 0, .. }) => {
            ReportCell::verdict(warnings, Tone::Warning, rest)
        }
        (CheckOutcome::Findings, FindingCounts { errors, warnings: 0, .. }) => {
            ReportCell::verdict(part(errors, "ERROR"), Tone::Bad, rest)
        }
        (CheckOutcome::Findings, FindingCounts { errors, .. }) => {
            ReportCell::verdict(part(errors, "ERROR"), Tone::Bad, format!(", {warnings}{rest}"))
        }
    }
}

/// Returns the deepest directory that contains all files. The table omits this common part of the paths.
fn common_directory(reports: &[FileReport]) -> std::path::PathBuf {
    let mut parents = reports.iter().map(|report| report.path.parent().unwrap_or(Path::new("")));
    let Some(first) = parents.next() else { return std::path::PathBuf::new() };
    parents
        .fold(first, |common, path| {
            common.ancestors().find(|candidate| path.starts_with(candidate)).unwrap_or(Path::new(""))
        })
        .to_owned()
}

/// Progress output on stderr.
#[derive(Default)]
struct CheckProgressOutput {
    progress_line: Mutex<CheckProgressLine>,
}

/// The progress line. It exists only on a terminal, after the first progress update.
#[derive(Default)]
struct CheckProgressLine {
    report: Option<ProgressReport>,
    phase: Option<CheckPhase>,
    began: Option<Instant>,
}

impl CheckProgressOutput {
    fn show(&self, progress: CheckProgress) {
        let mut shown = self.progress_line.lock().unwrap_or_else(PoisonError::into_inner);
        let new_report = || ProgressReport::new(ProgressReport::PLAIN_INTERVAL);
        if !shown.report.get_or_insert_with(new_report).is_due() {
            return;
        }
        let now = Instant::now();
        let (title, unit) = match progress.phase {
            CheckPhase::Pages => ("Pages", "pages"),
            CheckPhase::Structure => ("Trees", "tables"),
        };
        if shown.phase.replace(progress.phase) != Some(progress.phase) {
            shown.began = Some(now);
        }
        let percent = (progress.done * 100).checked_div(progress.total).unwrap_or(100);
        let Some(line) = shown.report.as_ref().and_then(ProgressReport::line) else {
            console::print_note(&format!("{title}: {percent} % of {} {unit}", progress.total));
            return;
        };
        let left = shown.began.and_then(|began| {
            let left = progress.total.saturating_sub(progress.done) as f64 / progress.done.max(1) as f64;
            Duration::try_from_secs_f64((now - began).as_secs_f64() * left).ok()
        });
        let left = left.map_or(String::new(), |left| format!("{} left, ", format_duration(left)));
        let details = format!("{left}{} of {} {unit}", progress.done, progress.total);
        line.show(title, completed_share(progress.done, progress.total), &details);
    }

    /// Hides the progress line while `write` runs.
    fn with_line_hidden(&self, write: impl FnOnce()) {
        let shown = self.progress_line.lock().unwrap_or_else(PoisonError::into_inner);
        match &shown.report {
            Some(report) => report.suspend(write),
            None => write(),
        }
    }

    fn clear(&self) {
        let mut shown = self.progress_line.lock().unwrap_or_else(PoisonError::into_inner);
        *shown = CheckProgressLine::default();
    }
}
