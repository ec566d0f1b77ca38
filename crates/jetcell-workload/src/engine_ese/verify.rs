//! Verification of databases and logs. It shares only the byte formats with the engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use ese_check::{Cancel, CheckOptions, Finding, FindingKind, Phase, Severity, check_database, check_logs};
use jetcell_vfs::Vfs;

use crate::engine::Depth;
use crate::layout::{InstancePlan, LOG_BASE_NAME, Plan};
use crate::measurement::{FileVerification, Verification};

/// Findings that are kept for each file. The first ones show what is wrong.
const FINDINGS_KEPT: usize = 10;

/// Interval between two reports of progress, each of which may cancel.
const TICK: Duration = Duration::from_millis(100);

enum Message {
    /// Bytes that are done, of all files.
    Done(u64),
    Checked(FileVerification),
}

/// Verifies every database and, at full depth, every log. `None` if `progress` returned `false`.
pub(super) fn verify(
    files: &Arc<dyn Vfs>,
    plan: &Plan,
    depth: Depth,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Option<Verification> {
    let lengths: Vec<(u64, u64)> =
        plan.instances.iter().map(|instance| lengths(&**files, instance)).collect();
    let everything = depth == Depth::Everything;
    let size = |(database, logs): &(u64, u64)| if everything { 2 * database + logs } else { *database };
    let total = lengths.iter().map(size).sum();
    let (sender, messages) = channel();
    let (files, instances) = (files.clone(), plan.instances.clone());
    let cancel = Cancel::default();
    let asked = cancel.clone();
    let reader = std::thread::spawn(move || {
        let mut before = 0;
        for (instance, (database, logs)) in instances.iter().zip(lengths) {
            let checked =
                verify_database(&files, &instance.database, depth, before, database, &sender, &asked);
            if asked.is_cancelled() {
                return;
            }
            let _ = sender.send(Message::Checked(checked));
            before += if everything { 2 * database } else { database };
            let _ = sender.send(Message::Done(before));
            if !everything {
                continue;
            }
            let _ = sender.send(Message::Checked(verify_logs(&*files, &instance.log_dir, &asked)));
            before += logs;
            let _ = sender.send(Message::Done(before));
        }
    });
    let mut verification = Verification::default();
    let mut done = 0;
    loop {
        if !progress(done, total) {
            cancel.cancel();
            // The thread ends at the next page. Its findings do not count.
            let _ = reader.join();
            return None;
        }
        match messages.recv_timeout(TICK) {
            Ok(Message::Done(bytes)) => done = bytes,
            Ok(Message::Checked(file)) => verification.files.push(file),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Some(verification),
        }
    }
}

/// Bytes of the database and of its logs.
fn lengths(files: &dyn Vfs, instance: &InstancePlan) -> (u64, u64) {
    let logs = files.list(&instance.log_dir).unwrap_or_default();
    let bytes = |path: &PathBuf| files.file_len(path).unwrap_or(0);
    (bytes(&instance.database), logs.iter().map(bytes).sum())
}

/// Verifies pages, then trees. Each of the two passes counts as the length of the file.
fn verify_database(
    files: &Arc<dyn Vfs>,
    path: &Path,
    depth: Depth,
    before: u64,
    len: u64,
    sender: &Sender<Message>,
    cancel: &Cancel,
) -> FileVerification {
    let sender = sender.clone();
    let progress = move |progress: ese_check::Progress| {
        let part = (u128::from(len) * u128::from(progress.done)).checked_div(u128::from(progress.total));
        let part = part.map_or(len, |part| part as u64);
        let done = if progress.phase == Phase::Pages { part } else { len + part };
        // After a cancellation the receiver is gone.
        let _ = sender.send(Message::Done(before + done));
    };
    let options = CheckOptions {
        structure: depth == Depth::Everything,
        progress: Some(Arc::new(progress)),
        cancel: cancel.clone(),
        ..CheckOptions::default()
    };
    let mut report = match check_database(&**files, path, &options) {
        Ok(report) => report,
        Err(error) => return unreadable(path, &error),
    };
    if !report.clean && depth == Depth::Everything {
        report.findings.insert(0, not_shut_down(path, &report.state));
    }
    let pages = report.pages.unwrap_or_default();
    let damaged = pages.wrong_page + pages.bad + pages.unreadable;
    // An error in the structure may involve no damaged page, but the file must not pass.
    let bad = if damaged > 0 { damaged } else { report.errors().count() as u64 };
    FileVerification {
        path: path.to_path_buf(),
        blocks: pages.examined(),
        bad,
        repaired: pages.repairable,
        findings: lines(report.errors()),
    }
}

fn not_shut_down(path: &Path, state: &str) -> Finding {
    let what = format!("the database is in state {state} after the run");
    Finding::of_file(path, FindingKind::DirtyDatabase, Severity::Error, what)
}

fn verify_logs(files: &dyn Vfs, directory: &Path, cancel: &Cancel) -> FileVerification {
    let report = match check_logs(files, directory, LOG_BASE_NAME, cancel) {
        Ok(report) => report,
        Err(error) => return unreadable(directory, &error),
    };
    let errors = || report.findings.iter().filter(|finding| finding.severity == Severity::Error);
    FileVerification {
        path: directory.to_path_buf(),
        blocks: report.logs.iter().map(|log| u64::from(log.valid_segments)).sum(),
        bad: errors().count() as u64,
        repaired: report.logs.iter().filter(|log| log.torn).count() as u64,
        findings: lines(errors()),
    }
}

fn unreadable(path: &Path, error: &dyn std::error::Error) -> FileVerification {
    let findings = vec![error.to_string()];
    FileVerification { path: path.to_path_buf(), bad: 1, findings, ..FileVerification::default() }
}

fn lines<'a>(errors: impl Iterator<Item = &'a Finding>) -> Vec<String> {
    errors.take(FINDINGS_KEPT).map(ToString::to_string).collect()
}
