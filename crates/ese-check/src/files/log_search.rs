//! Finds the logs of a database: which of the required logs are present, and which logs next to the database belong
//! to a different stream.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ese_format::checksum::SEGMENT_LEN;
use ese_format::header::{DatabaseHeader, DatabaseState};
use ese_format::log::header::LogHeader;
use ese_format::log::{has_log_extension, log_directories};
use ese_format::{Generation, Signature};
use jetcell_vfs::{IoBuffer, IoReason, OpenMode, parent_directory};

use super::{FileSet, is_recycled};
use crate::files::logs::check_log;
use crate::files::recognized_file::RecognizedFile;
use crate::files::report::RequiredLogs;
use crate::findings::Findings;
use crate::findings::finding::{FindingKind, Severity};

/// Maximum number of missing generations to list.
const MAX_LISTED_MISSING_LOGS: usize = 100;
/// Maximum number of foreign logs to name.
const MAX_NAMED_FOREIGN_LOGS: usize = 3;

/// A log whose header can be read.
struct FoundLog {
    signature: [u8; Signature::LEN],
    generation: Generation,
    path: PathBuf,
}

impl FileSet<'_> {
    /// Looks for the logs that a database needs among the checked logs. If none of the checked logs belongs to the
    /// database's stream, searches the directories where the logs of a database usually are.
    pub(super) fn required_logs(&self, path: &Path, header: &DatabaseHeader) -> RequiredLogs {
        let (first, last) = (header.gen_min_required.0, header.gen_max_required.0);
        let committed = header.gen_max_committed.0.max(last);
        let wanted = header.log_signature.to_bytes();
        let checked = self.streams.iter().filter(|((_, signature), _)| *signature == wanted);
        let mut logs: Vec<(u32, PathBuf, bool)> = checked
            .flat_map(|(_, logs)| logs)
            .map(|(generation, path, sound)| (generation.0, path.clone(), *sound))
            .collect();
        if logs.is_empty() {
            logs = log_directories(path)
                .iter()
                .flat_map(|directory| self.logs_in(directory))
                .filter(|log| log.signature == wanted)
                .map(|log| self.with_check_result(log))
                .collect();
        }
        let stream_is_here = !logs.is_empty();
        logs.retain(|(generation, ..)| (first..=committed).contains(generation));
        let has_sound_log =
            |wanted: u32| logs.iter().any(|(generation, _, sound)| *generation == wanted && *sound);
        // A damaged header may name billions of generations. Generation 0 means that the header does not name any
        // logs.
        let missing: Vec<u32> = (first.max(1)..=last)
            .filter(|&wanted| !has_sound_log(wanted))
            .take(MAX_LISTED_MISSING_LOGS)
            .collect();
        let complete = first > 0 && missing.is_empty();
        logs.sort();
        let found = logs.into_iter().map(|(_, path, _)| path).collect();
        RequiredLogs { first, last, committed, found, missing, complete, stream_is_here }
    }

    fn with_check_result(&self, log: FoundLog) -> (u32, PathBuf, bool) {
        let sound = check_log(self.vfs, &log.path, &mut Findings::new(&log.path)).is_ok_and(|log| log.sound);
        (log.generation.0, log.path, sound)
    }

    /// Reports logs next to a database that do not belong to any database in that directory. Each directory is
    /// reported only once.
    pub(super) fn report_foreign_logs(&mut self, path: &Path, own: Signature, findings: &mut Findings) {
        let directory = parent_directory(path);
        // A database that was always used without a log does not name a stream.
        if own == Signature::default() || !self.searched_directories.insert(directory.to_owned()) {
            return;
        }
        let logs = self.logs_in(directory);
        if logs.iter().all(|log| log.signature == own.to_bytes()) {
            return;
        }
        let streams = self.streams_of_databases(directory);
        let mut foreign: Vec<PathBuf> = logs
            .into_iter()
            .filter(|log| log.signature != own.to_bytes() && !streams.contains(&log.signature))
            .map(|log| log.path)
            .collect();
        foreign.sort();
        let names: Vec<String> = foreign
            .iter()
            .take(MAX_NAMED_FOREIGN_LOGS)
            .map(|log| log.file_name().unwrap_or_default().to_string_lossy().into_owned())
            .collect();
        let names = names.join(", ");
        let what = match foreign.len() {
            0 => return,
            1 => format!("the log {names} next to the database belongs to another log stream"),
            count if count <= MAX_NAMED_FOREIGN_LOGS => {
                format!("{count} logs next to the database belong to other log streams: {names}")
            }
            count => format!("{count} logs next to the database belong to other log streams: {names}, ..."),
        };
        findings.add_at_offset(Severity::Warning, FindingKind::LogForeign, None, what);
    }

    /// Returns the readable logs in a directory, including logs that were not checked.
    fn logs_in(&self, directory: &Path) -> Vec<FoundLog> {
        let mut logs = Vec::new();
        let mut known: BTreeSet<OsString> = BTreeSet::new();
        for ((_, signature), files) in self.streams.iter().filter(|((place, _), _)| place == directory) {
            for (generation, path, _) in files {
                known.extend(path.file_name().map(OsString::from));
                logs.push(FoundLog { signature: *signature, generation: *generation, path: path.clone() });
            }
        }
        let is_new = |path: &PathBuf| {
            has_log_extension(path)
                && !is_recycled(path)
                && path.file_name().is_some_and(|name| !known.contains(name))
        };
        let read = |path: PathBuf| {
            // A directory may contain many logs, so read only their headers.
            let mut start = IoBuffer::zeroed(SEGMENT_LEN);
            let file = self.vfs.open(&path, OpenMode::Read).ok()?;
            file.read_at(0, &mut start, IoReason::LogRead).ok()?;
            let header = LogHeader::decode(&start).ok()?;
            Some(FoundLog { signature: header.signature.to_bytes(), generation: header.generation, path })
        };
        let files = self.vfs.list(directory).unwrap_or_default();
        logs.extend(files.into_iter().filter(is_new).filter_map(read));
        logs
    }

    /// Returns the log streams to which a directory's databases belong.
    fn streams_of_databases(&self, directory: &Path) -> BTreeSet<[u8; Signature::LEN]> {
        let signature = |path: PathBuf| {
            let source = RecognizedFile::open(self.vfs, &path).ok()?;
            let (header, _) = DatabaseHeader::read_from_start(&source.start).ok()?;
            Some(header.log_signature.to_bytes())
        };
        let files = self.vfs.list(directory).unwrap_or_default();
        files.into_iter().filter(|path| !has_log_extension(path)).filter_map(signature).collect()
    }
}

/// Reports the logs that a dirty database needs for recovery.
pub(super) fn report_dirty(path: &Path, state: DatabaseState, needs: &RequiredLogs, findings: &mut Findings) {
    let recovery = needs.recovery(path);
    let what = match (needs.first, needs.complete) {
        (0, _) => format!(
            "the database is in state {state:?}, but its header does not name the required logs; recovery \
             must start at the checkpoint or the oldest log; next: {recovery}"
        ),
        (_, true) => {
            format!(
                "the database is in state {state:?} and needs {needs}; no log is missing; next: {recovery}"
            )
        }
        (_, false) => {
            format!(
                "the database is in state {state:?} and needs {needs}; provide the logs; then: {recovery}"
            )
        }
    };
    findings.add_at_offset(Severity::Info, FindingKind::DirtyDatabase, 52, what);
    if needs.complete || needs.missing.is_empty() {
        return;
    }
    let missing: Vec<String> = needs.missing.iter().map(|generation| format!("{generation:X}")).collect();
    let which = match missing.as_slice() {
        [one] => format!("generation {one} is"),
        several => format!("generations {} are", several.join(", ")),
    };
    let why = if needs.stream_is_here { "" } else { "; no log of its stream was found" };
    let what = format!("of the logs that the database needs, {which} missing or damaged{why}");
    findings.add_at_offset(Severity::Warning, FindingKind::LogsIncomplete, 296, what);
}
