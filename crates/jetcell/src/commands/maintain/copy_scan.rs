//! Page scan of a passive copy.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ese_engine::EventSink;
use jetcell_copies::{CopyScanOptions, CopyScanProgress, CopyState, ScannedDatabase, scan_copy};
use jetcell_host::{Cancellation, ProgressReport, cancel_on_signals, completed_share};
use jetcell_vfs::Vfs;
use serde_json::json;

use super::{MaintainArgs, MaintainTaskName};
use crate::commands::copies::scan_json;
use crate::console;
use crate::outcome::{CommandError, CommandOutcome, CommandResult};
use crate::shared::files::open_events;

/// Returns the copy to scan, or `None` if the paths belong to an instance.
pub(super) fn copy_to_scan<'p>(vfs: &Arc<dyn Vfs>, paths: &'p [PathBuf]) -> CommandResult<Option<&'p Path>> {
    for path in paths.iter().filter(|path| path.is_dir()) {
        if CopyState::read(&**vfs, path)?.is_some() {
            return match paths {
                [copy] => Ok(Some(copy)),
                _ => Err(CommandError::new(format_args!("{} is a copy", path.display()))
                    .advise("specify only its directory")),
            };
        }
    }
    Ok(None)
}

impl MaintainArgs {
    pub(super) fn scan_copy(&self, vfs: &Arc<dyn Vfs>, directory: &Path) -> CommandResult {
        if self.tasks.iter().any(|task| *task != MaintainTaskName::Scan) {
            return Err(CommandError::new("a copy only replays the changes of its active side")
                .context(directory.display())
                .advise("use only --tasks scan"));
        }
        if self.maintenance_window.is_some() {
            return Err(CommandError::new(format_args!(
                "{}: a copy is scanned immediately",
                directory.display()
            ))
            .advise("omit --maintenance-window"));
        }
        self.scan()?;
        let stop = Cancellation::default();
        cancel_on_signals(&stop)?;
        let events = open_events(directory)?;
        let options = CopyScanOptions {
            batch_bytes: usize::try_from(self.batch.0).unwrap_or(usize::MAX),
            throttle: self.throttle(),
            interval: Duration::ZERO,
            events: Some(events),
            profile: self.event_profile,
            cancellation: stop.clone(),
        };
        let mut report = ProgressReport::new(Duration::MAX);
        let scan = scan_copy(vfs, directory, &options, &mut |database, last| {
            let is_due = report.is_due();
            if let Some(line) = report.line().filter(|_| is_due) {
                let page = database.next.unwrap_or(last).min(last);
                let details = format!("page {page} of {last}, {} bad", database.bad);
                line.show(&database.file, completed_share(page.into(), last.into()), &details);
            }
            true
        });
        drop(report);
        let scan = scan?;
        let complete = !stop.is_cancelled();
        console::print_result(
            self.json,
            || as_json(directory, &scan, complete),
            || as_text(directory, &scan),
        );
        let sound = scan.databases.iter().all(|database| database.bad == 0);
        Ok(if complete && sound { CommandOutcome::Good } else { CommandOutcome::Findings })
    }
}

fn as_json(directory: &Path, scan: &CopyScanProgress, complete: bool) -> serde_json::Value {
    json!({ "complete": complete, "databases": scan_json(directory, scan) })
}

fn as_text(directory: &Path, scan: &CopyScanProgress) -> String {
    let mut lines = Vec::new();
    for one in &scan.databases {
        let ScannedDatabase { pages, uninitialized, corrected, bad, .. } = one;
        lines.push(format!(
            "{}: {pages} pages scanned, {uninitialized} never written, {corrected} with a corrected bit, {bad} bad",
            directory.join(&one.file).display()
        ));
        lines.extend(one.bad_pages.iter().take(10).map(|(page, what)| format!("  page {page}: {what}")));
        if let Some(next) = one.next {
            lines.push(format!("  stopped at page {next}; the same command resumes there"));
        }
    }
    jetcell_input::printable_rows(&lines)
}
