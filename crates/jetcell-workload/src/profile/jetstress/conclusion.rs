//! Completes an import once all elements have been read: directories, sizes, thresholds, and lines for the terminal.

use std::path::PathBuf;

use jetcell_input::{Align, columns, cut, pad};

use super::elements::LISTED_UNKNOWN;
use super::reader::ElementEffect::{Honoured, Ignored};
use super::reader::{ElementNote, JetstressReader, JetstressSizing};
use super::{JetstressImport, is_windows_path};
use crate::profile::Thresholds;
use crate::profile::configuration_error::ConfigurationError;
use crate::units::{ByteSize, DatabaseSize};

/// Maximum width of an element's name and value in a note, in columns.
const MAX_ELEMENT: usize = 44;

impl JetstressReader<'_> {
    pub(super) fn finish(mut self) -> Result<JetstressImport, Vec<ConfigurationError>> {
        self.place_databases();
        self.size_databases();
        self.choose_thresholds();
        if self.unknown > LISTED_UNKNOWN {
            let more = self.unknown - LISTED_UNKNOWN;
            self.note(format!("{more} more"), Ignored("not known".into()));
        }
        if !self.mistakes.is_empty() {
            return Err(self.mistakes);
        }
        Ok(JetstressImport { notes: self.lines(), options: self.options })
    }

    /// Returns one line per note, to display in the terminal.
    fn lines(&mut self) -> Vec<String> {
        let mut notes =
            vec![format!("Configuration of Jetstress {}; command-line options override it", self.version)];
        // A description may be long, but its first words are enough here.
        for note in &mut self.notes {
            if columns(&note.element) > MAX_ELEMENT {
                note.element = format!("{}…", cut(&note.element, MAX_ELEMENT - 1).0);
            }
        }
        let width = self.notes.iter().map(|note| columns(&note.element)).max().unwrap_or(0);
        for ElementNote { element, fate } in &self.notes {
            let element = pad(element, width, Align::Left);
            notes.push(match fate {
                Honoured(what) => format!("  honoured  {element}  {what}"),
                Ignored(why) => format!("  ignored   {element}  {why}"),
            });
        }
        notes
    }

    fn place_databases(&mut self) {
        let count = self.database_paths.len();
        if count == 0 {
            return;
        }
        self.options.databases = Some(count);
        let databases = Honoured(format!("databases = {count}"));
        self.note("EseInstances", databases);
        let (databases, logs) =
            (std::mem::take(&mut self.database_paths), std::mem::take(&mut self.log_paths));
        let foreign = |paths: &[String]| paths.iter().find(|path| is_windows_path(path)).cloned();
        if !self.given.dirs.is_empty() {
            self.note("DatabasePaths", Ignored("--dir is given".into()));
        } else if let Some(path) = foreign(&databases) {
            let line = self.instances_line;
            self.mistakes.push(
                ConfigurationError::new(format!("line {line}: {path} is a Windows path")).advise(format!(
                    "specify directories for the {count} databases with --dir (and --log-dir)"
                )),
            );
        } else {
            self.note("DatabasePaths", Honoured("dirs".into()));
            self.options.dirs = databases.iter().map(PathBuf::from).collect();
        }
        if !self.given.log_dirs.is_empty() {
            self.note("LogPath", Ignored("--log-dir is given".into()));
        } else if logs == databases {
            self.note("LogPath", Honoured("logs are in the database directories".into()));
        } else if foreign(&logs).is_some() {
            self.note(
                "LogPath",
                Ignored(
                    "Windows paths: logs are written to the database directories, or to --log-dir".into(),
                ),
            );
        } else {
            self.note("LogPath", Honoured("log_dirs".into()));
            self.options.log_dirs = logs.iter().map(PathBuf::from).collect();
        }
    }

    /// Sizes the databases by Jetstress's rules: a share of the volume, or mailboxes times quota, less the space for
    /// growth.
    fn size_databases(&mut self) {
        let JetstressSizing { by_capacity, capacity_percent, mailboxes, quota_mib, iops_per_mailbox } =
            std::mem::take(&mut self.sizing);
        if by_capacity {
            if let Some(percent) = capacity_percent {
                self.options.size = Some(DatabaseSize::VolumePercent(percent.clamp(1, 100)));
                self.note(format!("CapacityPercentage {percent}"), Honoured(format!("size = {percent}%")));
            }
            if mailboxes.or(quota_mib).is_some() || iops_per_mailbox.is_some() {
                let why = "the size does not depend on the mailboxes, so the test does not have a target"
                    .to_string();
                self.note("MailboxCount, MailboxQuota, MailboxIops", Ignored(why));
            }
            return;
        }
        if let Some(percent) = capacity_percent {
            let why = "the mailboxes determine the size of the databases".to_string();
            self.note(format!("CapacityPercentage {percent}"), Ignored(why));
        }
        if let (Some(mailboxes), Some(quota)) = (mailboxes, quota_mib) {
            let databases = self.given.databases.or(self.options.databases).unwrap_or(1).max(1) as u128;
            let growth = u128::from(self.options.growth_percent.unwrap_or(0)) + 100;
            let mib = u128::from(mailboxes) * u128::from(quota) * 100 / growth / databases;
            // A size that overflows is out of range anyway and is rejected when the options are resolved.
            let size = ByteSize(u64::try_from(mib << 20).unwrap_or(u64::MAX));
            self.options.size = Some(size.into());
            let what = format!(
                "size = {size}: mailboxes x quota / {}, over {databases} databases",
                growth as f64 / 100.0
            );
            self.note(format!("MailboxCount {mailboxes}, MailboxQuota {quota}"), Honoured(what));
        }
        if let (Some(mailboxes), Some(iops)) = (mailboxes, iops_per_mailbox) {
            let target = mailboxes as f64 * iops;
            if target > 0.0 {
                self.options.target_iops = Some(target);
                self.note(format!("MailboxIops {iops}"), Honoured(format!("target_iops = {target}")));
            }
        }
    }

    /// Chooses the thresholds. The lenient set applies to stress tests: runs of type `Stress`, or runs longer than
    /// six hours.
    fn choose_thresholds(&mut self) {
        let duration = self.given.duration.or(self.options.duration);
        let stress =
            self.stress || duration.is_some_and(|duration| duration.0 > Thresholds::MAX_STRICT_DURATION);
        let sets = std::mem::take(&mut self.thresholds);
        let chosen = sets.iter().position(|set| set.for_stress == stress).or((!sets.is_empty()).then_some(0));
        for (number, set) in sets.into_iter().enumerate() {
            let element = format!("Thresholds {}", ConfigurationError::new(set.name));
            if Some(number) == chosen {
                let l = &set.limits;
                let limit = |limit: Option<f64>| limit.map_or("default".into(), |ms| ms.to_string());
                let what = format!(
                    "ms: database read average {}, maximum {}; log write average {}, maximum {}",
                    limit(l.average_database_read_ms),
                    limit(l.maximum_database_read_ms),
                    limit(l.average_log_write_ms),
                    limit(l.maximum_log_write_ms)
                );
                self.options.thresholds = set.limits;
                self.note(element, Honoured(what));
            } else {
                let kind = if stress {
                    "longer than 6 h or of type Stress"
                } else {
                    "neither longer than 6 h nor of type Stress"
                };
                self.note(element, Ignored(format!("the run is {kind}")));
            }
        }
    }
}
