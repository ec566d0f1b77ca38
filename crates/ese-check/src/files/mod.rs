//! Checks several files: each file individually, and then whether the files match each other.
//!
//! Logs are checked first, because the report on a database states whether the logs that it needs are present.

pub(crate) mod checkpoint;
pub(crate) mod flush_map;
pub(crate) mod logs;
pub(crate) mod recognized_file;
pub(crate) mod report;

mod log_search;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_format::Generation;
use ese_format::recognise::EseFileKind;
use jetcell_vfs::{Vfs, parent_directory};
use serde::Serialize;

use crate::database_check::examine_database;
use crate::files::checkpoint::check_checkpoint;
use crate::files::flush_map::check_flush_map;
use crate::files::logs::{CheckedLog, check_log, check_successor};
use crate::files::recognized_file::RecognizedFile;
use crate::files::report::{CheckOutcome, FileReport, FileState, PageStateCounts};
use crate::findings::Findings;
use crate::findings::finding::{FindingKind, Severity};
use crate::options::CheckOptions;

use log_search::report_dirty;

/// Summary of the log files that one stream has in a directory.
#[derive(Clone, Debug, Serialize)]
pub struct LogSet {
    /// Path of the directory.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub directory: PathBuf,
    /// First generation.
    pub first: u32,
    /// Last generation.
    pub last: u32,
    /// Number of logs.
    pub logs: usize,
    /// Whether each log is the direct successor of the previous log.
    pub unbroken: bool,
}

/// Directory and signature of a log stream.
type LogStreamKey = (PathBuf, [u8; 28]);

/// Checks all files in this order: logs, checkpoints, flush maps, databases, others. Passes each report to `each` as
/// soon as it is complete. Returns the log streams that were found.
pub fn check_files(
    vfs: &dyn Vfs,
    paths: &[PathBuf],
    options: &CheckOptions,
    each: &mut dyn FnMut(FileReport),
) -> Vec<LogSet> {
    let mut by_format: BTreeMap<EseFileKind, Vec<PathBuf>> = BTreeMap::new();
    for path in paths {
        match RecognizedFile::open(vfs, path) {
            Ok(source) => by_format.entry(EseFileKind::detect(&source.start)).or_default().push(path.clone()),
            Err(error) => {
                let findings = Findings::new(path).with_sink(options.sink.clone());
                let report = FileReport::unreadable(path, EseFileKind::Unknown, error.to_string(), findings);
                each(FileReport { io_error: Some(Arc::new(error)), ..report });
            }
        }
    }
    let mut set = FileSet {
        vfs,
        options,
        each,
        streams: BTreeMap::new(),
        sets: Vec::new(),
        searched_directories: BTreeSet::new(),
    };
    let mut take_paths = |format| by_format.remove(&format).unwrap_or_default();
    set.logs(take_paths(EseFileKind::Log));
    take_paths(EseFileKind::Checkpoint).iter().for_each(|path| set.checkpoint(path));
    take_paths(EseFileKind::FlushMap).iter().for_each(|path| set.flush_map(path));
    take_paths(EseFileKind::Database).iter().for_each(|path| set.database(path));
    take_paths(EseFileKind::Unknown).iter().for_each(|path| set.unknown(path));
    set.sets
}

struct FileSet<'a> {
    vfs: &'a dyn Vfs,
    options: &'a CheckOptions,
    each: &'a mut dyn FnMut(FileReport),
    /// Generation, path, and soundness of every checked log, grouped by stream.
    streams: BTreeMap<LogStreamKey, Vec<(Generation, PathBuf, bool)>>,
    sets: Vec<LogSet>,
    /// Directories that were searched for foreign logs.
    searched_directories: BTreeSet<PathBuf>,
}

impl FileSet<'_> {
    fn findings(&self, path: &Path) -> Findings {
        Findings::new(path).with_sink(self.options.sink.clone())
    }

    /// Checks each log, and then the chains that the logs form.
    fn logs(&mut self, paths: Vec<PathBuf>) {
        let mut chains: BTreeMap<LogStreamKey, Vec<(CheckedLog, Findings)>> = BTreeMap::new();
        for path in paths {
            if self.options.cancel.is_cancelled() {
                return;
            }
            let mut findings = self.findings(&path);
            match check_log(self.vfs, &path, &mut findings) {
                Ok(log) if is_recycled(&path) => {
                    let report = log_report(&log, findings);
                    (self.each)(report);
                }
                Ok(log) => {
                    let key = (parent_directory(&path).to_owned(), log.header.signature.to_bytes());
                    chains.entry(key).or_default().push((log, findings));
                }
                Err((FindingKind::FileUnreadable, what)) => {
                    (self.each)(FileReport::unreadable(&path, EseFileKind::Log, what, findings));
                }
                Err((kind, what)) => {
                    findings.add_at_offset(Severity::Error, kind, 0, what);
                    let mut report = FileReport::new(&path, EseFileKind::Log);
                    report.set_findings(findings);
                    if kind == FindingKind::LogVersion {
                        report.outcome = CheckOutcome::Unreadable;
                    }
                    (self.each)(report);
                }
            }
        }
        for (key, mut chain) in chains {
            chain.sort_by_key(|(log, _)| log.header.generation);
            let mut unbroken = true;
            for index in 1..chain.len() {
                let (before, rest) = chain.split_at_mut(index);
                if let (Some((before, _)), Some((log, findings))) = (before.last(), rest.first_mut()) {
                    let known = findings.count();
                    check_successor(before, log, findings);
                    unbroken &= findings.count() == known;
                }
            }
            let generation =
                |entry: Option<&(CheckedLog, Findings)>| entry.map_or(0, |(log, _)| log.header.generation.0);
            self.sets.push(LogSet {
                directory: key.0.clone(),
                first: generation(chain.first()),
                last: generation(chain.last()),
                logs: chain.len(),
                unbroken,
            });
            for (log, findings) in chain {
                let place = (log.header.generation, log.summary.path.clone(), log.sound);
                self.streams.entry(key.clone()).or_default().push(place);
                let report = log_report(&log, findings);
                (self.each)(report);
            }
        }
    }

    fn checkpoint(&mut self, path: &Path) {
        let findings = self.findings(path);
        let source = match RecognizedFile::open(self.vfs, path) {
            Ok(source) => source,
            Err(error) => {
                let report =
                    FileReport::unreadable(path, EseFileKind::Checkpoint, error.to_string(), findings);
                return (self.each)(report);
            }
        };
        let (mut report, mut findings, checkpoint) = check_checkpoint(&source, path, findings);
        if let Some(checkpoint) = &checkpoint {
            let key = (parent_directory(path).to_owned(), checkpoint.log_signature.to_bytes());
            let needed = checkpoint.position.generation;
            if let Some(logs) = self.streams.get(&key)
                && !logs.iter().any(|(generation, ..)| *generation == needed)
            {
                let what =
                    format!("recovery must start in generation {:X}, but that log was not found", needed.0);
                findings.add_at_offset(Severity::Warning, FindingKind::CheckpointMismatch, 12, what);
            }
        }
        report.set_findings(findings);
        if checkpoint.is_none() {
            report.outcome = CheckOutcome::Unreadable;
        }
        (self.each)(report);
    }

    fn flush_map(&mut self, path: &Path) {
        let findings = self.findings(path);
        let report = match RecognizedFile::open(self.vfs, path) {
            Ok(source) => {
                let (mut report, findings) = check_flush_map(&source, path, findings);
                report.set_findings(findings);
                report
            }
            Err(error) => FileReport::unreadable(path, EseFileKind::FlushMap, error.to_string(), findings),
        };
        (self.each)(report);
    }

    fn unknown(&mut self, path: &Path) {
        let why = "the file is not an ESE database, log, checkpoint or flush map".to_owned();
        let mut findings = Findings::new(path);
        findings.lenient = true;
        let report = FileReport::unreadable(path, EseFileKind::Unknown, why, findings);
        (self.each)(FileReport { foreign: true, ..report });
    }

    fn database(&mut self, path: &Path) {
        let mut findings = self.findings(path);
        if self.options.cancel.is_cancelled() {
            return;
        }
        let (header, checked) = match examine_database(self.vfs, path, self.options, &mut findings) {
            Ok(examined) => examined,
            Err(error) => {
                let report = FileReport::unreadable(path, EseFileKind::Database, error.reason(), findings);
                return (self.each)(report);
            }
        };
        let mut report = FileReport::new(path, EseFileKind::Database);
        let state = if checked.temporary { FileState::Temporary } else { FileState::Database(checked.state) };
        report.state = Some(state);
        report.page_size = Some(checked.page_size);
        report.version =
            Some(format!("{:#x},{:#x},{:#x}", header.version, header.update, header.update_minor));
        let counts = checked.pages.unwrap_or_default();
        report.pages = Some(PageStateCounts::new(
            checked.file_pages,
            checked.last_owned_page,
            checked.first_page,
            &counts,
        ));
        report.structure = checked.structure;
        (report.resume_from, report.cancelled) = (checked.resume_from, checked.cancelled);
        if !checked.clean && !checked.temporary {
            let needs = self.required_logs(path, &header);
            report_dirty(path, checked.state, &needs, &mut findings);
            report.needs_logs = Some(needs);
        }
        self.report_foreign_logs(path, header.log_signature, &mut findings);
        report.set_findings(findings);
        (self.each)(report);
    }
}

fn log_report(log: &CheckedLog, findings: Findings) -> FileReport {
    let (header, summary) = (&log.header, &log.summary);
    let mut report = FileReport::new(&summary.path, EseFileKind::Log);
    let counts = summary.segments;
    let state = match (summary.torn, log.sound, u64::from(summary.valid_segments) + 1 >= counts.total) {
        (true, ..) => FileState::TornLog,
        (_, false, _) => FileState::DamagedLog,
        (_, _, true) => FileState::FullLog,
        _ => FileState::OpenLog,
    };
    report.state = Some(state);
    let page_size = u32::from(header.database_page_size);
    report.page_size = Some(if page_size == 0 { 4096 } else { page_size });
    let (major, minor) = (header.version_major, header.version_minor);
    report.version =
        Some(format!("{major}.{minor}.{}.{}", header.version_update, header.version_update_minor));
    report.segments = Some(counts);
    report.generation = Some(summary.generation);
    if let Ok(attached) = ese_format::attachment::Attachment::decode_list(&header.attachment_list) {
        report.databases = attached.iter().map(ese_format::attachment::Attachment::path_text).collect();
    }
    report.set_findings(findings);
    report
}

/// Returns true if the log file is set aside for later use, such as `E00tmp.log`. Its contents are not part of the
/// chain.
fn is_recycled(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    stem.to_ascii_lowercase().ends_with("tmp")
}
