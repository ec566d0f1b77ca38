//! The logs that survived the loss of a database, and that a restore replays after the logs of the backups.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ese_engine::RecoverySet;
use ese_format::log::has_log_extension;
use ese_format::log::header::{LogHeader, SEGMENT_BYTES};
use ese_format::log::segment::RECORDS_AT;
use ese_format::recognise::EseFileKind;
use ese_format::{Generation, LogPosition};
use jetcell_sync::Arc;
use jetcell_vfs::{FileStem, IoBuffer, IoReason, OpenMode, Vfs, is_unfinished};

use crate::chain::BackupChain;
use crate::damaged_log::DamagedLog;
use crate::error::{BackupError, Result};
use crate::manifest::{StoredLog, hex_time};
use crate::planned_log::PlannedLog;
use crate::set_error::BackupSetError;

/// Names of archived logs have 5 to 8 hexadecimal digits after the base name.
const GENERATION_DIGITS: std::ops::RangeInclusive<usize> = 5..=8;

/// The logs in a directory: those of the stream, and those with a damaged header.
#[derive(Default)]
pub struct SurvivingLogs {
    readable: BTreeMap<Generation, PathBuf>,
    /// Logs with a damaged header.
    pub damaged: Vec<DamagedLog>,
}

/// A gap in the logs. Logs exist after the gap, but they cannot be replayed.
pub struct LogGap {
    /// Position at which the missing records begin.
    pub at: LogPosition,
    /// Reason why they are missing.
    pub error: BackupSetError,
}

impl SurvivingLogs {
    /// Lists the logs in a directory. `in_backup` are the logs of the backups.
    ///
    /// # Errors
    /// Returns an error if the directory or a log cannot be read, if there are no logs, or if they belong to another
    /// stream.
    pub fn find(
        vfs: &Arc<dyn Vfs>,
        chain: &BackupChain,
        directory: &Path,
        in_backup: &[PlannedLog],
    ) -> Result<SurvivingLogs> {
        let mut files = vfs.list(directory).map_err(|error| BackupError::io(directory, &error))?;
        files.retain(|path| has_log_extension(path) && !is_unfinished(path));
        let mut damaged = Vec::new();
        let mut sound = Vec::new();
        for path in files {
            match find_damage(&**vfs, &path, chain.base.manifest.base_name, in_backup)? {
                Some(log) => damaged.push(log),
                None => sound.push(path),
            }
        }
        if sound.is_empty() && damaged.is_empty() {
            return Err(BackupSetError::NoSurvivingLogs(directory.to_path_buf()).into());
        }
        let mut found = SurvivingLogs { damaged, ..SurvivingLogs::default() };
        if sound.is_empty() {
            return Ok(found);
        }
        let set = match RecoverySet::find(vfs, &sound) {
            // The remaining files do not belong to a log stream. They are, for example, prepared logs.
            Err(ese_engine::Error::Usage(ese_engine::UsageError::NothingFound))
                if !found.damaged.is_empty() =>
            {
                return Ok(found);
            }
            set => set?,
        };
        set.require_complete()?;
        if Some(set.signature) != chain.base.manifest.signature() {
            return Err(BackupSetError::OtherSurvivingLogs(directory.to_path_buf()).into());
        }
        found.readable = set.logs;
        Ok(found)
    }

    /// Adds the logs that follow the logs from the backups. If logs are missing before the last one, returns the gap.
    /// Marks a damaged log whose copy in the backup may be incomplete.
    pub fn append_to(
        &mut self,
        vfs: &Arc<dyn Vfs>,
        chain: &BackupChain,
        logs: &mut Vec<PlannedLog>,
    ) -> Result<Option<LogGap>> {
        let last = logs.last().map_or(Generation(0), |log| log.generation);
        let mut expected = last.next();
        // The last log may have been open when it was backed up, so a surviving log may contain more of its records.
        let open = chain.backups().last().is_some_and(|(_, manifest)| manifest.generations.last_is_open);
        if let Some(log) = logs.last_mut().filter(|_| open) {
            let next = self.readable.get(&expected);
            if let Some(path) = self.readable.get(&last) {
                log.path.clone_from(path);
                log.stored = None;
            } else if !next.map(|next| continues(vfs, next, log)).transpose()?.unwrap_or(false) {
                let has_gap = next.is_some();
                for damaged in self.damaged.iter_mut().filter(|log| log.generation == Some(last)) {
                    damaged.is_partial = true;
                }
                if has_gap {
                    let at =
                        log.stored.as_ref().map_or(LogPosition::new(last.0, 0, 0), StoredLog::end_position);
                    return Ok(Some(LogGap { at, error: self.missing(last) }));
                }
            }
        }
        for (generation, path) in self.readable.range(expected..) {
            if *generation != expected {
                // The first record of a generation is in its second segment.
                let at = LogPosition::new(expected.0, 1, RECORDS_AT as u16);
                return Ok(Some(LogGap { at, error: self.missing(expected) }));
            }
            logs.push(PlannedLog { generation: *generation, path: path.clone(), stored: None });
            expected = generation.next();
        }
        Ok(None)
    }

    /// Returns the error for a generation that has no readable log.
    fn missing(&self, generation: Generation) -> BackupSetError {
        match self.damaged.iter().find(|log| log.generation == Some(generation)) {
            Some(log) => BackupSetError::LogDamaged { path: log.path.clone(), error: log.error },
            None => BackupSetError::LogMissing(generation.0),
        }
    }
}

/// Returns true if the log at `next` continues the copy of a log in a backup.
fn continues(vfs: &Arc<dyn Vfs>, next: &Path, log: &PlannedLog) -> Result<bool> {
    let Some(stored) = &log.stored else { return Ok(true) };
    let Some(Ok(header)) = read_start(&**vfs, next)?.map(|start| LogHeader::decode(&start)) else {
        return Ok(false);
    };
    let checksum = jetcell_input::hex::hex64(header.previous_checksum);
    // Logs in earlier formats have the checksum 0, which does not prove that the copy is complete.
    let same_content = checksum == stored.checksum;
    Ok(hex_time(header.previous_created) == stored.created && same_content)
}

/// Returns the header damage of a file whose name or content shows that it is a log of the stream. Returns `None` if
/// the header is sound, if the file is not a log, or if it no longer exists.
fn find_damage(
    vfs: &dyn Vfs,
    path: &Path,
    base: FileStem,
    in_backup: &[PlannedLog],
) -> Result<Option<DamagedLog>> {
    let Some(start) = read_start(vfs, path)? else { return Ok(None) };
    let Err(error) = LogHeader::decode(&start) else { return Ok(None) };
    let name = LogName::parse(path, base);
    let is_log = match name {
        // An engine may not have finished writing this file, so a bad header does not count as damage.
        Some(LogName::Prepared) => false,
        Some(_) => true,
        None => EseFileKind::detect(&start) == EseFileKind::Log,
    };
    if !is_log {
        return Ok(None);
    }
    let generation = match name {
        Some(LogName::Archived(generation)) => Some(generation),
        _ => None,
    };
    let is_in_backup = in_backup.iter().any(|log| Some(log.generation) == generation);
    Ok(Some(DamagedLog { path: path.to_path_buf(), generation, error, is_in_backup, is_partial: false }))
}

/// Returns the first segment of a file, which may be truncated, or `None` if the file no longer exists.
fn read_start(vfs: &dyn Vfs, path: &Path) -> Result<Option<IoBuffer>> {
    let io_error = |error: std::io::Error| BackupError::io(path, &error);
    let file = match vfs.open(path, OpenMode::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(io_error)?,
    };
    let len = file.len().map_err(io_error)?.min(SEGMENT_BYTES as u64) as usize;
    let mut start = IoBuffer::zeroed(len);
    file.read_at(0, &mut start, IoReason::Backup).map_err(io_error)?;
    Ok(Some(start))
}

/// Meaning of a log's file name, whose letters may be in upper or lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogName {
    Current,
    Prepared,
    Archived(Generation),
}

impl LogName {
    fn parse(path: &Path, base: FileStem) -> Option<LogName> {
        let stem = path.file_stem()?.to_str()?;
        let (start, rest) = stem.split_at_checked(base.len())?;
        if !start.eq_ignore_ascii_case(base.as_str()) {
            return None;
        }
        if rest.is_empty() {
            return Some(LogName::Current);
        }
        if rest.eq_ignore_ascii_case("tmp") {
            return Some(LogName::Prepared);
        }
        let is_number =
            GENERATION_DIGITS.contains(&rest.len()) && rest.bytes().all(|b| b.is_ascii_hexdigit());
        let generation = is_number.then(|| u32::from_str_radix(rest, 16).ok()).flatten()?;
        Some(LogName::Archived(Generation(generation)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_name_contains_the_base_name() {
        let parse = |name: &str| LogName::parse(Path::new(name), FileStem::E00);
        assert_eq!(parse("/a/E00.log"), Some(LogName::Current));
        assert_eq!(parse("e00TMP.LOG"), Some(LogName::Prepared));
        assert_eq!(parse("E000001A.log"), Some(LogName::Archived(Generation(0x1A))));
        assert_eq!(parse("e000000001b.jtx"), Some(LogName::Archived(Generation(0x1B))));
        for other in
            ["E01.log", "E0.log", "E001.log", "E00+0001A.log", "install.log", "äö.log", "E00000000001.log"]
        {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
