//! `jetcell check`: verifies files and reports the location and meaning of each problem.

mod backups;
mod output;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use ese_check::{CheckOptions, CheckOutcome, CheckThrottle, EseFileKind, FileReport, check_files};
use ese_format::PageNumber;
use jetcell_backup::VerificationSubset;
use jetcell_host::cancelled_by_signals;
use jetcell_input::OptionValueError;
use jetcell_input::quantity::units::{self, UnitFactor};
use jetcell_input::quantity::{ByteRate, QuantityKind, TimeSpan};
use jetcell_vfs::{RealOptions, SkippedPath, files_below, parent_directory};

use crate::commands::check::output::{CheckOutput, JsonCheckOutput, TextCheckOutput};
use crate::decompressing_vfs::{DecompressingVfs, UnpackOptions};
use crate::in_use::check_not_in_use;
use crate::outcome::{CommandContext, CommandError, CommandOutcome, CommandResult};

/// Verify databases, logs, checkpoints and flush maps
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// Also check the structure: order, links, records, indexes, long values, catalog, space
    #[arg(long)]
    structure: bool,
    /// Print JSON, one object per line: each finding immediately, and a summary for each file
    #[arg(long)]
    json: bool,
    /// Limit the rate of disk transfers
    #[arg(long, value_name = "BYTES/S")]
    rate: Option<ByteRate>,
    /// Pause after each read
    #[arg(long, value_name = "TIME", conflicts_with = "rate")]
    pause: Option<TimeSpan>,
    /// Earlier name of --rate and --pause
    #[arg(long, value_name = "PAUSE|RATE", value_parser = throttle, conflicts_with_all = ["rate", "pause"], hide = true)]
    throttle: Option<CheckThrottle>,
    /// Start at this page, to continue an interrupted check of a single database
    #[arg(long, alias = "from", value_name = "PAGE", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    start_page: u32,
    /// Verify only a part of each backup: one of several equal parts (2/7), or the least recently verified data up to
    /// a percentage (10%) or a size (50GiB)
    #[arg(long, value_name = "N/T|P%|SIZE", value_parser = backups::subset)]
    subset: Option<VerificationSubset>,
    /// Verify only those parts of backups that were never verified, or that were bad when they were last verified
    #[arg(long, alias = "new")]
    unverified: bool,
    /// Check files that are in use, although their pages change while they are read
    #[arg(long)]
    anyway: bool,
    #[command(flatten)]
    unpack: UnpackOptions,
    /// Databases, logs, checkpoints, flush maps, or directories that contain such files at any depth
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

const EXAMPLES: &str =
    "The type of a file is determined from its content, not its name. The check never writes to a checked file; in a backup,
it records when each part was verified.
A dirty database is not damaged; the check says which logs it needs.

Examples:
  jetcell check priv1.edb
      every page, at about the read rate of the disk
  jetcell check --structure priv1.edb
      also every tree, record and index entry
  jetcell check /backup/mailbox/
      all databases, logs and checkpoints of a directory
  jetcell check backup/priv1.edb.zst
      a compressed file, unpacked to a temporary file
  jetcell check --offset 1MiB --length 18MiB disk.img
      a database in an image of a disk
  jetcell check --rate 20MB/s priv1.edb
      on a disk that other programs use
  jetcell check /backup/sunday
      a backup: all bytes, against the checksums in its manifest
  jetcell check --subset 2/7 /backup/sunday
      one seventh of it; --unverified: parts that were never found good
  jetcell check --start-page 81920 priv1.edb
      continues a check that Ctrl-C stopped
  jetcell check --json /backup | jq 'select(.type == \"summary\")'
Exit code: 0 no findings, 1 findings, or a link that leads nowhere or to a directory that is not checked, 2 a file could not be checked.";

impl CheckArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        let CheckedPaths { files: mut paths, skipped, skipped_outcome } = CheckedPaths::find(&self.paths)?;
        let mut found = backups::backup_directories(&paths);
        let sets = backups::CheckedSets::read(&paths, &found)?;
        sets.add_backups(&mut found);
        self.require_backup_for_subset(!found.is_empty())?;
        let cancel = cancelled_by_signals()?;
        let options = backups::BackupCheckOptions {
            subset: self.subset,
            only_unverified: self.unverified,
            throttle: self.throttle(),
            json: self.json,
            cancel: cancel.clone(),
        };
        let mut worst = sets.print(self.json)?;
        for directory in &found {
            worst = worse_outcome(worst, backups::check(directory, &options)?);
        }
        // Pages whose checksums match the manifest were already verified when they were backed up.
        paths.retain(|path| {
            let in_backup = found.iter().any(|directory| path.parent() == Some(directory));
            let is_set_list = path.ends_with(backups::SET_LIST) && sets.contains(parent_directory(path));
            !is_set_list && (!in_backup || (self.structure && !backups::is_metadata_file(path)))
        });
        if paths.is_empty() && !(found.is_empty() && sets.is_empty()) {
            for error in &skipped {
                error.print();
            }
            return Ok(worse_outcome(worst, skipped_outcome));
        }
        if self.start_page > 1 && (paths.len() != 1 || self.structure) {
            return Err(CommandError::new("--start-page continues the check of a single database")
                .advise("specify only its path, and omit --structure"));
        }
        if paths.is_empty() {
            for error in &skipped {
                error.print();
            }
            return Err(CommandError::new("the directories contain no files")
                .advise("specify files, or directories that contain files at any depth"));
        }
        self.unpack.require_one_file(paths.len() == 1 && self.paths == paths)?;
        check_not_in_use(paths.iter().map(PathBuf::as_path), self.anyway)?;
        let vfs = DecompressingVfs::new(RealOptions::default(), self.unpack).context("cannot read files")?;
        let output: Arc<dyn CheckOutput> = if self.json {
            Arc::new(JsonCheckOutput::new(&self.paths))
        } else {
            Arc::new(TextCheckOutput::new(self.structure))
        };
        let (sink, watched) = (output.clone(), output.clone());
        let options = CheckOptions {
            structure: self.structure,
            sink: Some(Arc::new(move |finding| sink.report_finding(finding))),
            progress: Some(Arc::new(move |progress| watched.report_progress(progress))),
            throttle: self.throttle(),
            cancel: cancel.clone(),
            leaks_are_errors: false,
            start_page: PageNumber::new(self.start_page).unwrap_or(PageNumber::fixed(1)),
            ..CheckOptions::default()
        };
        let mut resume = None;
        let mut recognised = false;
        let sets = check_files(&vfs, &paths, &options, &mut |report| {
            if report.outcome == CheckOutcome::Unreadable && self.has_vanished(&report.path) {
                return;
            }
            resume = resume.or(report.resume_from);
            worst = worse_outcome(worst, self.outcome(&report));
            recognised |= report.format != EseFileKind::Unknown;
            output.report_file(report);
        });
        let nothing = !recognised
            && found.is_empty()
            && sets.is_empty()
            && worst == CommandOutcome::Good
            && !cancel.is_cancelled();
        if nothing && skipped_outcome == CommandOutcome::Good {
            for error in &skipped {
                error.print();
            }
            return Err(nothing_to_check(paths.len()));
        }
        output.finish(&sets, &skipped)?;
        if cancel.is_cancelled() {
            return match resume {
                Some(page) if paths.len() == 1 => {
                    Err(CommandError::new("stopped").advise(format!("continue with --start-page {page}")))
                }
                _ => Err(CommandError::new("stopped before all files were checked")),
            };
        }
        Ok(worse_outcome(worst, skipped_outcome))
    }

    /// Fails if only a part of the backups is to be checked, and there are no backups or the structure is checked too.
    fn require_backup_for_subset(&self, has_backups: bool) -> CommandResult<()> {
        let part = self.subset.is_some() || self.unverified;
        if part && self.structure {
            return Err(CommandError::new("--subset and --unverified cannot be combined with --structure")
                .advise("omit --structure"));
        }
        if part && !has_backups {
            return Err(CommandError::new("--subset and --unverified require the directory of a backup")
                .advise("specify one"));
        }
        Ok(())
    }

    /// Returns the limit on the disk load.
    fn throttle(&self) -> Option<CheckThrottle> {
        let rate = self.rate.map(|rate| CheckThrottle::BytesPerSecond(rate.0));
        rate.or(self.pause.map(|pause| CheckThrottle::Pause(pause.0))).or(self.throttle)
    }

    /// Returns true if a file has been removed or renamed since its directory was listed. Returns false for files
    /// that the user named explicitly.
    fn has_vanished(&self, path: &Path) -> bool {
        let gone = || path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        !self.paths.iter().any(|named| named == path) && gone()
    }

    /// Returns the outcome for a file. A file of an unsupported type is a failure only if the user named it
    /// explicitly.
    fn outcome(&self, report: &FileReport) -> CommandOutcome {
        match report.outcome {
            CheckOutcome::Sound => CommandOutcome::Good,
            CheckOutcome::Findings => CommandOutcome::Findings,
            CheckOutcome::Unreadable if report.format != EseFileKind::Unknown => CommandOutcome::CouldNotRun,
            CheckOutcome::Unreadable if self.paths.contains(&report.path) => {
                for finding in &report.findings {
                    let error = match &report.io_error {
                        Some(error) => CommandError::from(error.clone()),
                        None => CommandError::new(finding.message.as_str()),
                    };
                    let error = error.context(report.path.display());
                    if report.foreign { error.advise("specify such a file") } else { error }.print();
                }
                CommandOutcome::CouldNotRun
            }
            CheckOutcome::Unreadable if report.foreign => CommandOutcome::Good,
            CheckOutcome::Unreadable => CommandOutcome::CouldNotRun,
        }
    }
}

/// Returns the error for directories that contain only files of unsupported types.
fn nothing_to_check(files: usize) -> CommandError {
    let what = match files {
        1 => "the only file is not".to_owned(),
        count => format!("none of the {count} files is"),
    };
    let kinds = "an ESE database, log, checkpoint or flush map";
    CommandError::new(format_args!("{what} {kinds}"))
        .advise("specify such files, or directories that contain them at any depth")
}

fn worse_outcome(one: CommandOutcome, other: CommandOutcome) -> CommandOutcome {
    match (one, other) {
        (CommandOutcome::CouldNotRun, _) | (_, CommandOutcome::CouldNotRun) => CommandOutcome::CouldNotRun,
        (CommandOutcome::Findings, _) | (_, CommandOutcome::Findings) => CommandOutcome::Findings,
        _ => CommandOutcome::Good,
    }
}

/// Files to check, and paths that are not checked.
struct CheckedPaths {
    files: Vec<PathBuf>,
    /// Errors that name the paths that are not checked.
    skipped: Vec<CommandError>,
    /// Worst outcome of these errors.
    skipped_outcome: CommandOutcome,
}

impl CheckedPaths {
    /// Finds the files at the paths that the user named.
    fn find(paths: &[PathBuf]) -> CommandResult<CheckedPaths> {
        let mut found =
            CheckedPaths { files: Vec::new(), skipped: Vec::new(), skipped_outcome: CommandOutcome::Good };
        let named: Vec<PathBuf> = paths.iter().filter_map(|path| std::fs::canonicalize(path).ok()).collect();
        let is_named = |link: &Path| {
            std::fs::canonicalize(link)
                .is_ok_and(|target| named.iter().any(|named| target.starts_with(named)))
        };
        for path in paths {
            let kind = std::fs::metadata(path).context(path.display())?;
            if !kind.is_dir() {
                found.files.push(path.clone());
                continue;
            }
            let files = files_below(path, &mut |skipped| match skipped {
                SkippedPath::LinkToDirectory(link) if is_named(&link) => {}
                skipped => found.skip(skipped),
            });
            found.files.extend(files);
        }
        found.files.dedup();
        Ok(found)
    }

    fn skip(&mut self, skipped: SkippedPath) {
        let (error, outcome) = match skipped {
            SkippedPath::Unreadable(path, error) => {
                (CommandError::from(error).context(path.display()), CommandOutcome::CouldNotRun)
            }
            SkippedPath::DanglingLink(path) => (
                CommandError::new("the target of the link does not exist").context(path.display()),
                CommandOutcome::Findings,
            ),
            SkippedPath::LinkToDirectory(path) => (
                CommandError::new("links to directories are not followed")
                    .context(path.display())
                    .advise("also specify the link itself"),
                CommandOutcome::Findings,
            ),
            SkippedPath::Unfinished(path) => (
                CommandError::new("not checked, because its name marks it as unfinished")
                    .context(path.display()),
                CommandOutcome::Good,
            ),
            _ => return,
        };
        self.skipped.push(error.with_outcome(outcome));
        self.skipped_outcome = worse_outcome(self.skipped_outcome, outcome);
    }
}

/// Rate of a throttle. A number without a unit could be a pause or a rate.
const THROTTLE_RATE: QuantityKind = QuantityKind::new(units::bytes_per_second, "20MB/s");
/// Pause of a throttle. `5m` could be meant as a rate.
const THROTTLE_PAUSE: QuantityKind = QuantityKind::new(short_time, "5ms");

fn short_time(unit: &str) -> Option<UnitFactor> {
    ["us", "ms", "s"].contains(&unit).then(|| units::microseconds(unit))?
}

fn throttle(text: &str) -> Result<CheckThrottle, OptionValueError> {
    let pause = THROTTLE_PAUSE.parse_whole(text).map(Duration::from_micros).map(CheckThrottle::Pause);
    let rate = || THROTTLE_RATE.parse_whole(text).ok().filter(|rate| *rate > 0);
    pause.ok().or_else(|| rate().map(CheckThrottle::BytesPerSecond)).ok_or_else(|| {
        OptionValueError::unparsable(text, "a pause or a rate", "try a value such as 5ms or 20MB/s")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttles_are_pauses_or_rates() {
        assert_eq!(throttle("5ms"), Ok(CheckThrottle::Pause(Duration::from_millis(5))));
        assert_eq!(throttle("0.5s"), Ok(CheckThrottle::Pause(Duration::from_millis(500))));
        assert_eq!(throttle("20MB/s"), Ok(CheckThrottle::BytesPerSecond(20_000_000)));
        assert_eq!(throttle("1MiB"), Ok(CheckThrottle::BytesPerSecond(1 << 20)));
        assert_eq!(throttle("20").unwrap_err().advice().unwrap(), "try a value such as 5ms or 20MB/s");
        for wrong in ["", "ms", "-5ms", "5 lightyears", "0MB/s", "1e400s", "999999999999999999999s"] {
            assert!(throttle(wrong).is_err(), "{wrong}");
        }
    }
}
