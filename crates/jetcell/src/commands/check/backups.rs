//! Checks backups by verifying every byte against the checksums in the manifest.

use std::path::{Path, PathBuf};

use ese_check::CheckThrottle;
use jetcell_backup::{
    BackupFault, BackupList, BackupManifest, BackupState, BackupVerification, Cancellation,
    VerificationSubset, VerifyOptions, verify,
};
use jetcell_input::number::human_bytes;
use jetcell_input::printable;
use jetcell_input::quantity::{ByteRate, ByteSize, QuantityKind, positive, units};
use jetcell_input::{OptionValueError, json_path, json_paths};
use jetcell_report::{StyledText, Tone};
use jetcell_vfs::parent_directory;
use serde_json::json;

use crate::console;
use crate::outcome::{CommandError, CommandOutcome, CommandResult};
use crate::shared::files::vfs;
use crate::shared::json::json_with_evidence;
use crate::shared::transfer_progress::TransferProgress;

/// Names of the metadata files of a backup. All other files in a backup are backed-up data.
const METADATA_FILES: [&str; 4] = ["manifest.json", "manifest.partial.json", "verified.json", "proved.json"];

/// Name of the file that lists the backups of a set.
pub const SET_LIST: &str = "streams.json";

/// Sets of backups among the checked files.
#[derive(Default)]
pub struct CheckedSets {
    /// Directories of the sets, each with its missing backups.
    sets: Vec<(PathBuf, Vec<PathBuf>)>,
    /// Directories of the existing backups in the sets. They are checked even if only the list of the set is named.
    backups: Vec<PathBuf>,
    /// Directories with a list that cannot be read, each with the reason.
    unreadable: Vec<(PathBuf, BackupFault)>,
}

impl CheckedSets {
    /// Reads the lists of sets among `files`. `backups` are the directories of `files` that contain a backup. An
    /// unreadable list is ignored if no backup is below its directory, because it then belongs to a different program.
    pub fn read(files: &[PathBuf], backups: &[PathBuf]) -> CommandResult<CheckedSets> {
        let (vfs, mut read) = (vfs()?, CheckedSets::default());
        let lists = files.iter().filter(|file| file.ends_with(SET_LIST));
        for directory in lists.map(|list| parent_directory(list)) {
            let found = BackupList::find(&*vfs, directory)?;
            let is_missing = |member: &PathBuf| {
                matches!(BackupManifest::state(&*vfs, member), Ok(BackupState::NotABackup))
            };
            let own = found.sets.into_iter().filter(|(set, _)| set == directory);
            for (set, members) in own {
                let (missing, existing): (Vec<_>, Vec<_>) = members.into_iter().partition(is_missing);
                read.sets.push((set, missing));
                read.backups.extend(existing);
            }
            if read.contains(directory) || !backups.iter().any(|backup| backup.starts_with(directory)) {
                continue;
            }
            read.unreadable.extend(found.unusable.into_iter().filter(|(path, _)| path == directory));
        }
        Ok(read)
    }

    /// Adds the existing backups of the sets to the directories of backups.
    pub fn add_backups(&self, directories: &mut Vec<PathBuf>) {
        directories.extend_from_slice(&self.backups);
        directories.sort();
        directories.dedup();
    }

    /// Returns true if there are no sets.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty() && self.unreadable.is_empty()
    }

    /// Returns true if `directory` is the directory of a set.
    pub fn contains(&self, directory: &Path) -> bool {
        let unreadable = self.unreadable.iter().map(|(set, _)| set);
        self.sets.iter().map(|(set, _)| set).chain(unreadable).any(|set| set == directory)
    }

    /// Prints the missing backups, and returns the outcome.
    pub fn print(&self, is_json: bool) -> CommandResult {
        let mut outcome = CommandOutcome::Good;
        for (directory, missing) in self.sets.iter().filter(|(_, missing)| !missing.is_empty()) {
            outcome = CommandOutcome::Findings;
            let line = json!({ "type": "set", "path": json_path(directory), "missing": json_paths(missing) });
            let text = || {
                let mut out = StyledText::new();
                for backup in missing {
                    out.push("error", Tone::Bad);
                    out.add_line(&format!(": {}: {}", backup.display(), BackupFault::NotInSet));
                }
                out
            };
            console::print_serialized(is_json, || json_with_evidence(line, [directory]), text)?;
        }
        for (_, fault) in &self.unreadable {
            outcome = match fault {
                BackupFault::Unreadable(error) => CommandError::from(error.clone()),
                fault => CommandError::new(fault.to_string()),
            }
            .print();
        }
        Ok(outcome)
    }
}

/// Returns the directories of `files` that contain a backup, whether complete or not.
pub fn backup_directories(files: &[PathBuf]) -> Vec<PathBuf> {
    let is_manifest = |path: &&PathBuf| {
        path.file_name().is_some_and(|name| METADATA_FILES[..2].iter().any(|own| name == *own))
    };
    let mut found: Vec<PathBuf> =
        files.iter().filter(is_manifest).filter_map(|path| path.parent()).map(Path::to_path_buf).collect();
    found.sort();
    found.dedup();
    found
}

/// Returns true if a file is a metadata file of a backup.
pub fn is_metadata_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| METADATA_FILES.iter().any(|own| name == *own))
}

/// Options for checking a backup.
pub struct BackupCheckOptions {
    pub subset: Option<VerificationSubset>,
    pub only_unverified: bool,
    pub throttle: Option<CheckThrottle>,
    pub json: bool,
    pub cancel: Cancellation,
}

/// Verifies a backup, and prints the result.
pub fn check(directory: &Path, options: &BackupCheckOptions) -> CommandResult {
    let BackupCheckOptions { subset, only_unverified, throttle, json, .. } = *options;
    let rate = match throttle {
        Some(CheckThrottle::BytesPerSecond(rate)) => Some(ByteRate(rate)),
        Some(CheckThrottle::Pause(_)) => {
            return Err(CommandError::new("a pause cannot be used with backups")
                .advise("use --rate, for example --rate 20MB/s"));
        }
        None => None,
    };
    let (progress, pace) = TransferProgress::with_cancel("Backup", rate, options.cancel.clone());
    let verified = verify(&vfs()?, directory, &VerifyOptions { subset, only_unverified, pace });
    drop(progress);
    let verified = match verified {
        Ok(verified) => verified,
        Err(error) => return Ok(CommandError::from(error).print()),
    };
    console::print_serialized(
        json,
        || json_with_evidence(as_json(directory, &verified), [directory]),
        || as_text(directory, &verified),
    )?;
    let usable = verified.manifest.databases.iter().all(|database| database.usable);
    Ok(CommandOutcome::good_if(verified.problems.is_empty() && usable))
}

fn as_json(directory: &Path, verified: &BackupVerification) -> serde_json::Value {
    let manifest = &verified.manifest;
    let faults: Vec<_> = verified
        .problems
        .iter()
        .map(|(path, at, what)| json!({ "path": json_path(path), "offset": at, "what": what }))
        .collect();
    json!({
        "type": "backup", "path": json_path(directory), "id": manifest.id, "kind": manifest.kind, "parent": manifest.parent,
        "began_unix_ms": manifest.began_unix_ms, "ended_unix_ms": manifest.ended_unix_ms,
        "generations": manifest.generations,
        "unusable": manifest.databases.iter().filter(|database| !database.usable).map(|database| &database.file).collect::<Vec<_>>(),
        "bytes": verified.bytes, "total_bytes": verified.total_bytes,
        "ranges": verified.ranges, "total_ranges": verified.total_ranges,
        "oldest_verification": verified.oldest, "faults": faults, "unnamed": verified.unknown_files,
    })
}

fn as_text(directory: &Path, verified: &BackupVerification) -> StyledText {
    let manifest = &verified.manifest;
    let mut out = StyledText::new();
    let error = |out: &mut StyledText, text: String| {
        out.push("error", Tone::Bad);
        out.add_line(&format!(": {text}"));
    };
    for (path, at, what) in &verified.problems {
        error(&mut out, format!("{}: at byte {at}: {what}", path.display()));
    }
    for database in manifest.databases.iter().filter(|database| !database.usable) {
        let (file, bad) = (&database.file, database.pages.bad);
        error(&mut out, format!("{file}: {bad} bad pages when it was backed up; not usable"));
    }
    let (verdict, tone) = if out.as_str().is_empty() { ("good", Tone::Good) } else { ("BAD", Tone::Bad) };
    out += &printable(&format!(
        "{}: {} backup, {} of {} verified: ",
        directory.display(),
        manifest.kind.to_engine_kind(),
        human_bytes(verified.bytes),
        human_bytes(verified.total_bytes)
    ));
    out.push(verdict, tone);
    out += "\n";
    if verified.ranges < verified.total_ranges && verified.oldest.is_none() {
        out += "  parts of the backup were never verified; --unverified verifies them\n";
    }
    for path in &verified.unknown_files {
        out += "  ";
        out.push("warning", Tone::Warning);
        out.add_line(&format!(": {}: not part of the backup; a restore ignores it", path.display()));
    }
    if let Some(why) = &verified.times_not_stored {
        out.add_line(&format!("  could not record the verified parts for the next check: {why}"));
    }
    out
}

/// Percentage of a backup.
const PERCENT: QuantityKind = QuantityKind::new(units::percent, "10%").with_max(100.0);

/// Parses a part such as `2/7`, `10%` or `50GiB`.
pub fn subset(text: &str) -> Result<VerificationSubset, OptionValueError> {
    let example = "try a value such as 2/7, 10% or 50GiB";
    let wrong = || OptionValueError::unparsable(text, "a part of a backup", example);
    if let Some((part, of)) = text.split_once('/') {
        let (part, of): (u64, u64) =
            (part.trim().parse().map_err(|_| wrong())?, of.trim().parse().map_err(|_| wrong())?);
        return if (1..=of).contains(&part) { Ok(VerificationSubset::Part(part, of)) } else { Err(wrong()) };
    }
    if text.ends_with('%') {
        let percent = PERCENT.parse(text).ok().filter(|percent| *percent > 0.0);
        return percent.map(VerificationSubset::Percent).ok_or_else(wrong);
    }
    positive(text).map(|ByteSize(bytes)| VerificationSubset::Bytes(bytes)).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subset_is_a_part_a_percentage_or_a_size() {
        assert_eq!(subset("2/7"), Ok(VerificationSubset::Part(2, 7)));
        assert_eq!(subset("12.5%"), Ok(VerificationSubset::Percent(12.5)));
        assert_eq!(subset("1GiB"), Ok(VerificationSubset::Bytes(1 << 30)));
        for wrong in ["", "0/7", "8/7", "a/b", "0%", "101%", "0", "-1GiB", "NaN%"] {
            assert!(subset(wrong).is_err(), "{wrong}");
        }
    }
}
