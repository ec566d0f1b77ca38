//! Configuration of an experiment, read from a TOML file: drive, load and layouts.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jetcell_input::toml::{self, TomlError};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::drive::DriveModel;

/// Size of a chunk in bytes. A chunk is a run of consecutive data on one drive. Its size determines which drives hold a
/// row's parity.
pub(crate) const CHUNK: u64 = 64 << 10;
/// Size of a volume's blocks in bytes.
pub(crate) const BLOCK: u64 = 4096;

/// The paper's experiment, as a commented configuration file.
pub const EXAMPLE: &str = include_str!("exchange-2007.toml");

/// Drive parameters from data sheets, by drive name.
const DRIVES: &str = include_str!("drives.toml");

/// Reason why a configuration is invalid.
#[derive(Clone, Debug, PartialEq, Error)]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum InvalidConfig {
    #[error(transparent)]
    Toml(#[from] TomlError),
    #[error("{file}: {mistake}")]
    File { file: String, mistake: Box<InvalidConfig> },
    #[error("{key} must be {rule}")]
    Value { key: &'static str, rule: &'static str },
    #[error("the configuration has no [[layouts]]")]
    NoLayouts,
    #[error("unknown drive \"{name}\"")]
    UnknownDrive { name: String, known: Vec<String> },
    #[error("drive {drive}: {field} is out of range")]
    DriveOfTable { drive: String, field: &'static str },
    #[error("{field} is out of range for a drive")]
    Drive { field: &'static str },
    #[error("layout {layout}: each group must have between {min} and 64 drives")]
    GroupSize { layout: String, min: usize },
    #[error("layout {layout}: the data requires {:.0} % of the capacity", .fill * 100.0)]
    Capacity { layout: String, fill: f64 },
    #[error("layout {layout}: write_anywhere requires parity and positive values")]
    WriteAnywhere { layout: String },
    #[error("layout {layout}: with scale {scale}, a drive has {blocks} blocks")]
    Scale { layout: String, scale: u64, blocks: u64 },
}

impl InvalidConfig {
    /// Returns what the user can do about the error, for example `correct this value`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            InvalidConfig::Toml(error) => return error.advice(),
            InvalidConfig::File { mistake, .. } => return mistake.advice(),
            InvalidConfig::UnknownDrive { known, .. } => {
                return Some(format!("known drives: {}", known.join(", ")).into());
            }
            InvalidConfig::Value { .. } => "correct this value",
            InvalidConfig::NoLayouts => "add at least one",
            InvalidConfig::GroupSize { .. } => "RAID 10 requires an even number",
            InvalidConfig::Capacity { .. } => "change load.data_gb or the number of drives",
            InvalidConfig::WriteAnywhere { .. } => "overwritten must be between 0 and 100",
            InvalidConfig::Scale { .. } => "choose a scale that results in 4096 to 4194304 blocks",
            InvalidConfig::DriveOfTable { .. } | InvalidConfig::Drive { .. } => return None,
        }))
    }

    fn in_file(self, file: &str) -> InvalidConfig {
        InvalidConfig::File { file: file.into(), mistake: Box::new(self) }
    }
}

/// Configuration for a disk simulation experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Seed of the random number generator.
    pub seed: u64,
    /// Name of a drive in the built-in table or in [`Config::drives`].
    pub drive: String,
    /// Additional drives.
    #[serde(default)]
    pub drives: BTreeMap<String, DriveModel>,
    /// Host load.
    pub load: SimulatedLoad,
    /// Measured duration of each state, in simulated seconds.
    pub seconds: f64,
    /// Duration of the warm-up before the measurement, in seconds.
    pub warm_up_seconds: f64,
    /// Parameters for rebuilding a lost drive.
    pub rebuild: RebuildParameters,
    /// Drives for logs. If absent, there are no logs.
    #[serde(default)]
    pub log: Option<LogDriveConfig>,
    /// Layouts to compare.
    pub layouts: Vec<SimulatedLayout>,
}

/// A simulated load of page reads and writes at random positions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatedLoad {
    /// Number of users.
    pub users: f64,
    /// Host I/O operations per second for each user.
    pub iops_per_user: f64,
    /// Fraction of I/O operations that are reads, between 0 and 1.
    pub read_share: f64,
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Total size of all databases in gigabytes (10^9).
    pub data_gb: f64,
    /// Maximum number of simultaneous host accesses. Further accesses wait in the host.
    pub outstanding: usize,
}

/// Configuration of simulated logs that are stored on separate drives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogDriveConfig {
    /// Number of drives. They form one group with the layout's level. With RAID 10 and an odd number, one drive is
    /// unused.
    pub drives: usize,
    /// Number of logs that are written concurrently.
    pub logs: u32,
    /// Number of log writes for each database write.
    pub writes_per_database_write: f64,
    /// Size of a log write in bytes, a multiple of 4096.
    pub write_bytes: u64,
}

/// Parameters for a simulated drive rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RebuildParameters {
    /// Number of bytes that are read from each drive at a time.
    pub piece_bytes: u64,
    /// Number of pieces that are rebuilt concurrently.
    pub pieces: usize,
    /// Maximum time in milliseconds that accesses of a rebuild or consistency point wait for host accesses.
    pub patience_ms: f64,
}

/// A RAID level that can be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SimulatedLevel {
    /// Mirrored pairs.
    Raid10,
    /// One rotated parity block.
    Raid5,
    /// Two rotated parity blocks.
    Raid6,
    /// Two fixed parity drives.
    RaidDp,
}

impl SimulatedLevel {
    /// Returns the number of drives that a group can lose, regardless of which drives fail.
    pub fn tolerated_losses(self) -> usize {
        self.parities().max(1)
    }

    /// Returns the number of parity drives in a group.
    pub fn parities(self) -> usize {
        match self {
            SimulatedLevel::Raid10 => 0,
            SimulatedLevel::Raid5 => 1,
            SimulatedLevel::Raid6 | SimulatedLevel::RaidDp => 2,
        }
    }
}

/// How simulated drives are arranged in RAID groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatedLayout {
    /// Name of the layout in reports.
    pub name: String,
    /// RAID level of each group.
    pub level: SimulatedLevel,
    /// Number of drives in each group.
    pub groups: Vec<usize>,
    /// Parameters for a volume that never overwrites blocks. If absent, blocks are overwritten in place.
    #[serde(default)]
    pub write_anywhere: Option<WriteAnywhereConfig>,
}

/// Configuration of a simulated volume that never overwrites blocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteAnywhereConfig {
    /// Interval between consistency points in seconds. A consistency point begins earlier if half of the write log is
    /// full.
    pub seconds: f64,
    /// Number of host writes that fit in half of the log.
    pub log_writes: usize,
    /// Duration of a log write in milliseconds.
    pub log_ms: f64,
    /// Factor by which the simulated volume is smaller than the real one. Both have the same fraction in use.
    pub scale: u64,
    /// Number of times that the data is overwritten before the load begins.
    pub overwritten: f64,
}

/// Returns all drives in the built-in table.
///
/// # Panics
/// Never panics, because a test checks the table.
pub fn drives() -> BTreeMap<String, DriveModel> {
    toml::parse("drives.toml", DRIVES).expect("the table of drives is valid")
}

/// Parses and checks a drive from a separate file. Errors begin with `source`.
///
/// # Errors
/// Returns an error if the text is not a drive, or if a value is out of range.
pub fn parse_drive(source: &str, text: &str) -> Result<DriveModel, InvalidConfig> {
    let drive: DriveModel = toml::parse(source, text)?;
    match drive.impossible_field() {
        Some(field) => Err(InvalidConfig::Drive { field }.in_file(source)),
        None => Ok(drive),
    }
}

impl Config {
    /// Returns the paper's experiment.
    ///
    /// # Panics
    /// Never panics, because a test checks the file.
    pub fn exchange_2007() -> Config {
        Config::read("exchange-2007.toml", EXAMPLE).expect("the example is valid")
    }

    /// Parses and checks a configuration. Errors begin with `source`.
    ///
    /// # Errors
    /// Returns an error if the text is not a configuration, or if a value is out of range.
    pub fn read(source: &str, text: &str) -> Result<Config, InvalidConfig> {
        let config: Config = toml::parse(source, text)?;
        config.check().map_err(|mistake| mistake.in_file(source))?;
        Ok(config)
    }

    fn check(&self) -> Result<(), InvalidConfig> {
        let is_share = |value: f64| (0.0..=1.0).contains(&value);
        let is_positive = |value: f64| value.is_finite() && value > 0.0;
        let load = &self.load;
        let rules = [
            (
                is_positive(load.users) && is_positive(load.iops_per_user) && load.iops() < 1e7,
                "load.users and load.iops_per_user",
                "more than 0",
            ),
            (is_share(load.read_share), "load.read_share", "between 0 and 1"),
            (
                load.page_bytes >= 4096 && load.page_bytes.is_multiple_of(4096) && load.page_bytes <= 65536,
                "load.page_bytes",
                "a multiple of 4096 and at most 65536",
            ),
            ((1..=100_000).contains(&load.outstanding), "load.outstanding", "between 1 and 100000"),
            (is_positive(self.seconds) && self.seconds <= 1e5, "seconds", "between 0 and 100000"),
            ((0.0..=1e5).contains(&self.warm_up_seconds), "warm_up_seconds", "between 0 and 100000"),
            (
                self.rebuild.piece_bytes >= 4096 && self.rebuild.piece_bytes <= 64 << 20,
                "rebuild.piece_bytes",
                "between 4096 and 64 MiB",
            ),
            ((1..=1024).contains(&self.rebuild.pieces), "rebuild.pieces", "between 1 and 1024"),
            (
                (0.0..=1e9).contains(&self.rebuild.patience_ms),
                "rebuild.patience_ms",
                "between 0 and 1000000000",
            ),
            (self.log.is_none_or(|log| (4..=64).contains(&log.drives)), "log.drives", "between 4 and 64"),
            (
                self.log.is_none_or(|log| {
                    (1..=10_000).contains(&log.logs)
                        && (0.0..=100.0).contains(&log.writes_per_database_write)
                        && (4096..=1 << 20).contains(&log.write_bytes)
                        && log.write_bytes.is_multiple_of(4096)
                }),
                "log.logs",
                "between 1 and 10000, log.writes_per_database_write between 0 and 100, and \
                 log.write_bytes a multiple of 4096 up to 1 MiB",
            ),
        ];
        if let Some((_, key, rule)) = rules.into_iter().find(|(is_met, ..)| !is_met) {
            return Err(InvalidConfig::Value { key, rule });
        }
        if self.layouts.is_empty() {
            return Err(InvalidConfig::NoLayouts);
        }
        let drive = self.selected_drive()?;
        if let Some(field) = drive.impossible_field() {
            return Err(InvalidConfig::DriveOfTable { drive: self.drive.clone(), field });
        }
        self.layouts.iter().try_for_each(|layout| layout.check(load, &drive))
    }

    /// Returns the experiment's drive.
    ///
    /// # Errors
    /// Returns an error if there is no drive with this name.
    pub fn selected_drive(&self) -> Result<DriveModel, InvalidConfig> {
        let mut all = drives();
        all.extend(self.drives.clone());
        all.remove(&self.drive).ok_or_else(|| InvalidConfig::UnknownDrive {
            name: self.drive.clone(),
            known: all.into_keys().collect(),
        })
    }
}

impl SimulatedLoad {
    /// Returns the number of host I/O operations per second.
    pub fn iops(&self) -> f64 {
        self.users * self.iops_per_user
    }
}

impl SimulatedLayout {
    /// Returns the total number of drives in all groups.
    pub fn drives(&self) -> usize {
        self.groups.iter().sum()
    }

    /// Returns the number of data drives in a group.
    pub fn data_drives(&self, group: usize) -> usize {
        match self.level {
            SimulatedLevel::Raid10 => self.groups[group] / 2,
            level => self.groups[group] - level.parities(),
        }
    }

    /// Returns the fraction of the capacity that the load's data occupies.
    pub fn fill(&self, load: &SimulatedLoad, drive: &DriveModel) -> f64 {
        let data: usize = (0..self.groups.len()).map(|group| self.data_drives(group)).sum();
        load.data_gb * 1e9 / (data as f64 * drive.capacity() as f64)
    }

    fn check(&self, load: &SimulatedLoad, drive: &DriveModel) -> Result<(), InvalidConfig> {
        let layout = self.name.clone();
        let min = if self.level == SimulatedLevel::Raid10 { 2 } else { self.level.parities() + 2 };
        let fits = |drives: &usize| {
            (min..=64).contains(drives) && (self.level != SimulatedLevel::Raid10 || drives.is_multiple_of(2))
        };
        if self.groups.is_empty() || !self.groups.iter().all(fits) {
            return Err(InvalidConfig::GroupSize { layout, min });
        }
        let most = if self.write_anywhere.is_some() { 0.98 } else { 1.0 };
        let fill = self.fill(load, drive);
        if !(fill > 0.0 && fill <= most) {
            return Err(InvalidConfig::Capacity { layout, fill });
        }
        if let Some(volume) = &self.write_anywhere {
            let is_sound = (0.001..=1e5).contains(&volume.seconds)
                && (1..=10_000_000).contains(&volume.log_writes)
                && (0.0..=1e5).contains(&volume.log_ms)
                && volume.scale > 0;
            if !is_sound || !(0.0..=100.0).contains(&volume.overwritten) || self.level.parities() == 0 {
                return Err(InvalidConfig::WriteAnywhere { layout });
            }
            let blocks = drive.capacity() / 4096 / volume.scale;
            if !(4096..=1 << 22).contains(&blocks) {
                return Err(InvalidConfig::Scale { layout, scale: volume.scale, blocks });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drive_table_and_the_example_are_valid() {
        assert!(drives().len() >= 4);
        let config = Config::exchange_2007();
        assert_eq!((config.load.iops(), config.layouts.len()), (5000.0, 5));
        assert!(config.layouts.iter().all(|layout| layout.drives() <= 63));
    }

    #[test]
    fn impossible_drives_are_rejected() {
        let disk = "[drives.x]\nkind = 'disk'\nname = 'x'\nrpm = 7200\ncapacity_gb = 146\ncylinders = 50000\n\
                    sectors_per_track = [500, 900]\nread_seek = [0.2, 3.5, 7]\nwrite_seek = [[1, 0.4], [50000, 8]]\n\
                    command_ms = 0.1\n";
        let ssd = "[drives.x]\nkind = 'ssd'\nname = 'x'\ncapacity_gb = 146\nread_ms = 0.1\nwrite_ms = 0.1\n\
                   mb_per_second = 500\nchannels = 8\n";
        let read = |drive: &str| {
            Config::read("a", &format!("{}\n{drive}", EXAMPLE.replacen("\"15k-146\"", "\"x\"", 1)))
        };
        for sound in [disk, ssd] {
            assert_eq!(read(sound).map(drop), Ok(()));
        }
        for (sound, from, to, field) in [
            (disk, "rpm = 7200", "rpm = 0", "rpm"),
            (disk, "rpm = 7200", "rpm = nan", "rpm"),
            (disk, "capacity_gb = 146", "capacity_gb = inf", "capacity_gb"),
            (disk, "cylinders = 50000", "cylinders = 0", "cylinders"),
            (disk, "[500, 900]", "[0, 900]", "sectors_per_track"),
            (disk, "[500, 900]", "[900, 500]", "sectors_per_track"),
            (disk, "[0.2, 3.5, 7]", "[0.2, inf, 7]", "read_seek"),
            (disk, "[[1, 0.4], [50000, 8]]", "[[9, 0.4], [9, 8]]", "write_seek"),
            (disk, "[[1, 0.4], [50000, 8]]", "[[1, -0.4], [50000, 8]]", "write_seek"),
            (disk, "command_ms = 0.1", "command_ms = -1", "command_ms"),
            (disk, "command_ms = 0.1", "command_ms = 0.1\nswitch_ms = nan", "switch_ms"),
            (
                disk,
                "command_ms = 0.1",
                "command_ms = 0.1\ncache = { mb = 16, read_ahead_kb = 99999, interface_mb_per_second = 400 }",
                "cache",
            ),
            (ssd, "mb_per_second = 500", "mb_per_second = 0", "mb_per_second"),
            (ssd, "read_ms = 0.1", "read_ms = inf", "read_ms"),
            (ssd, "channels = 8", "channels = 0", "channels"),
        ] {
            let text = read(&sound.replacen(from, to, 1)).unwrap_err().to_string();
            assert_eq!(text, format!("a: drive x: {field} is out of range"), "{to}");
        }
    }

    #[test]
    fn invalid_files_are_rejected_with_a_one_line_error() {
        for (from, to, what) in [
            ("seed = 1", "seed = -1", "a, line 4: seed: "),
            ("read_share = 0.5", "read_share = 1.5", "read_share must be between 0 and 1"),
            ("drive = \"15k-146\"", "drive = \"x\"", "unknown drive \"x\"; known drives: 10k-300"),
            ("data_gb = 2000", "data_gb = 2000000", "of the capacity"),
            ("level = \"raid6\"", "level = \"raid9\"", "unknown variant"),
            ("seconds = ", "secs = ", "unknown key 'secs'; the nearest known key is 'seed'"),
            ("patience_ms = ", "patience_ms = inf # ", "patience_ms must be between"),
        ] {
            assert!(EXAMPLE.contains(from), "{from}");
            let error = Config::read("a", &EXAMPLE.replacen(from, to, 1)).unwrap_err();
            let text = format!("{error}; {}", error.advice().unwrap());
            assert!(text.contains(what) && !text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn an_error_at_the_start_of_a_line_names_that_line() {
        let line = EXAMPLE.lines().position(|line| line.starts_with("seconds = ")).unwrap() + 1;
        let text = Config::read("a", &EXAMPLE.replacen("seconds = ", "secs = ", 1)).unwrap_err().to_string();
        assert!(text.starts_with(&format!("a, line {line}: unknown key 'secs'")), "{text}");
    }
}
