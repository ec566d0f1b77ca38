//! The configuration of a sizing: mailboxes, servers and disks. `example.toml` documents every key.
//!
//! A configuration error is a single line that contains the location, the mistake, and what to write instead.

use jetcell_input::toml;
use serde::{Deserialize, Serialize};

use crate::catalogue::CatalogueDisk;
use crate::error::SizingError;
use crate::platform::{Platform, PlatformChanges};
use crate::raid::GroupLayout;
use crate::states::SystemState;
use crate::units::{DataRate, DataSize, DurationQuantity, Share};

/// A complete configuration with comments. The documentation uses it as a worked example.
pub const EXAMPLE: &str = include_str!("example.toml");

/// All inputs to a sizing calculation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name of the platform whose coefficients apply.
    pub platform: String,
    /// Coefficients that override the platform's.
    #[serde(default)]
    pub platform_changes: PlatformChanges,
    /// Mailboxes and their load.
    pub mailboxes: MailboxConfig,
    /// Number of servers and their redundancy.
    #[serde(default)]
    pub servers: ServerConfig,
    /// Distribution of mailboxes over databases.
    #[serde(default)]
    pub databases: DatabaseConfig,
    /// Placement, retention and growth of logs.
    #[serde(default)]
    pub logs: LogConfig,
    /// Network traffic caused by replication.
    #[serde(default)]
    pub network: NetworkConfig,
    /// Backup and restore rates.
    #[serde(default)]
    pub backup: BackupConfig,
    /// Disks and arrays to compare.
    pub storage: StorageConfig,
    /// Prices, energy cost and service life.
    #[serde(default)]
    pub cost: CostConfig,
    /// Performance test for the design.
    #[serde(default)]
    pub test: TestRunConfig,
    /// Disks in addition to the catalogue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disk: Vec<CatalogueDisk>,
}

/// Configuration for mailboxes and their load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MailboxConfig {
    /// Number of mailboxes.
    pub count: u64,
    /// Messages sent and received per mailbox and day.
    pub messages_per_day: f64,
    /// Measured database reads and writes per second per mailbox. If absent, the I/O is computed from the number of
    /// messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<f64>,
    /// Share of writes in the measured I/O. If absent, the platform's share is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_share: Option<Share>,
    /// Average size of a message.
    #[serde(default = "default_message_size")]
    pub message_size: DataSize,
    /// Maximum size of a mailbox.
    pub quota: DataSize,
    /// Expected growth of the mailboxes.
    #[serde(default = "default_growth")]
    pub growth: Share,
    /// Retention time of deleted messages.
    #[serde(default = "default_retention")]
    pub retention: DurationQuantity,
    /// Share of mailboxes with additional clients, such as mobile devices.
    #[serde(default)]
    pub busier_share: Share,
    /// I/O of these mailboxes, as a multiple of the I/O of other mailboxes.
    #[serde(default = "one")]
    pub busier_factor: f64,
}

macro_rules! part {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty = $default:expr,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)+
        }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default,)+ }
            }
        }
    };
}

part!(
    /// Number of servers and their redundancy.
    ServerConfig {
        /// Number of servers that share the mailboxes.
        count: u32 = 1,
        /// Number of copies of each database, including the active copy.
        copies: u32 = 1,
        /// Number of servers lost at the same time in the failure scenario.
        lost: u32 = 1,
        /// I/O headroom that the storage must support above the average.
        headroom: Share = Share(0.2),
    }
);

part!(
    /// Distribution of mailboxes over databases.
    DatabaseConfig {
        /// Number of databases. If absent, the smallest number that `largest` allows, with equally many on every
        /// server.
        #[serde(skip_serializing_if = "Option::is_none")]
        count: Option<u32> = None,
        /// Maximum size of a database. If absent, the platform's limit is used.
        #[serde(skip_serializing_if = "Option::is_none")]
        largest: Option<DataSize> = None,
        /// Number of databases per volume.
        per_volume: u32 = 1,
        /// Share of a volume that stays free.
        free: Share = Share(0.2),
        /// Whether each server has a volume for maintenance and restores.
        restore_volume: bool = true,
    }
);

part!(
    /// Placement, retention and growth of logs.
    LogConfig {
        /// Whether logs are on dedicated disks.
        apart: bool = true,
        /// Retention time of logs if backups fail.
        without_truncation: DurationQuantity = DurationQuantity(3.0 * 86400.0),
        /// Time for which a copy may be unreachable.
        outage: DurationQuantity = DurationQuantity(86400.0),
        /// Replay delay of a lagged copy.
        lag: DurationQuantity = DurationQuantity(0.0),
        /// Share of mailboxes that are moved in a week. Every byte of a moved mailbox is logged.
        moved: Share = Share(0.01),
        /// Number of sequential log transfers that take as long as one random operation.
        sequential_credit: f64 = 2.0,
    }
);

part!(
    /// Network traffic caused by replication.
    NetworkConfig {
        /// Share of a day's logs written in the busiest hour.
        peak_hour: Share = Share(0.12),
        /// Reduction in size by compression.
        compression: Share = Share(0.3),
        /// Protocol overhead.
        protocol: Share = Share(0.1),
        /// Round-trip time between two sites with copies.
        round_trip: DurationQuantity = DurationQuantity(0.02),
    }
);

part!(
    /// Backup and restore rates.
    BackupConfig {
        /// Transfer rate of each stream.
        stream: DataRate = DataRate(1e8),
        /// Number of concurrent streams.
        streams: u32 = 2,
        /// Transfer rate of the server's connection to its disks.
        bus: DataRate = DataRate(1e9),
        /// Time to replay one log file.
        replay: DurationQuantity = DurationQuantity(2.9),
        /// Number of databases that are replayed concurrently.
        parallel_replay: u32 = 4,
        /// Age of the backup, which determines how many logs are replayed after a restore.
        age: DurationQuantity = DurationQuantity(86400.0),
    }
);

/// The disks and arrays to compare.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorageConfig {
    /// Names of the disks to compare, as in the catalogue.
    pub disks: Vec<String>,
    /// Arrays to compare.
    pub layouts: Vec<GroupLayout>,
    /// Array for the log disks.
    #[serde(default = "GroupLayout::raid10")]
    pub log_layout: GroupLayout,
    /// Maximum average latency.
    #[serde(default = "default_latency")]
    pub latency: DurationQuantity,
    /// Maximum average latency while an array is degraded.
    #[serde(default = "default_latency")]
    pub degraded_latency: DurationQuantity,
    /// Share of each surviving disk's time that a rebuild may use.
    #[serde(default = "default_rebuild_share")]
    pub rebuild_share: Share,
    /// Share of the capacity that remains after formatting and right-sizing.
    #[serde(default = "default_formatted")]
    pub formatted: Share,
    /// Number of disks per spare, or 0 for no spares.
    #[serde(default = "default_disks_per_spare")]
    pub disks_per_spare: u32,
    /// States in which the storage must support the load.
    #[serde(default = "default_states")]
    pub states: Vec<SystemState>,
}

part!(
    /// Prices, energy cost and service life.
    CostConfig {
        /// Currency of all prices, as text. Currencies are not converted.
        currency: String = "EUR".into(),
        /// Price per kWh.
        tariff: f64 = 0.185,
        /// Total power including the building's overhead, as a multiple of the disks' power (PUE).
        pue: f64 = 1.6,
        /// Service life in years.
        years: f64 = 5.0,
        /// Labor cost of replacing a drive.
        replacement_work: f64 = 0.0,
    }
);

part!(
    /// Performance test for the design.
    TestRunConfig {
        /// Directories of the databases.
        dirs: Vec<String> = vec!["/mnt/db1".into()],
        /// Directories of the logs.
        log_dirs: Vec<String> = vec!["/mnt/log1".into()],
        /// Duration of the measurement.
        duration: DurationQuantity = DurationQuantity(7200.0),
        /// Number of load threads.
        threads: u32 = 16,
    }
);

fn default_message_size() -> DataSize {
    DataSize(75.0 * 1024.0)
}
fn default_growth() -> Share {
    Share(0.2)
}
fn default_retention() -> DurationQuantity {
    DurationQuantity(14.0 * 86400.0)
}
fn default_latency() -> DurationQuantity {
    DurationQuantity(0.02)
}
fn default_rebuild_share() -> Share {
    Share(0.3)
}
fn default_formatted() -> Share {
    Share(1.0)
}
fn default_disks_per_spare() -> u32 {
    30
}
fn default_states() -> Vec<SystemState> {
    SystemState::ALL.to_vec()
}
fn one() -> f64 {
    1.0
}
impl Default for Share {
    fn default() -> Share {
        Share(0.0)
    }
}

impl Config {
    /// Reads and checks a configuration. `file` is the file name to use in error messages.
    pub fn read(file: &str, text: &str) -> Result<Config, SizingError> {
        let config: Config = toml::parse(file, text)?;
        config
            .check()
            .map_err(|mistake| SizingError::File { file: file.into(), mistake: Box::new(mistake) })?;
        Ok(config)
    }

    /// Returns the platform with the configuration's overrides applied.
    pub fn platform(&self) -> Result<Platform, SizingError> {
        let platform = Platform::named(&self.platform)?.with(&self.platform_changes);
        platform.check()?;
        Ok(platform)
    }

    /// Returns an error if the inputs cannot be sized. Called before the calculation.
    pub fn check(&self) -> Result<(), SizingError> {
        let (m, s, d) = (&self.mailboxes, &self.servers, &self.databases);
        let rule = |good: bool, error: SizingError| if good { Ok(()) } else { Err(error) };
        let within = |key: &str, value: f64, min: f64, max: f64| {
            rule((min..=max).contains(&value), SizingError::Range { key: key.into(), value, min, max })
        };
        let value = |good, key, text| rule(good, SizingError::Value { key, rule: text });
        let share = |good, key, share, text| rule(good, SizingError::Share { key, share, rule: text });
        let at_most_one = |key, of: Share| share(of.0 <= 1.0, key, of, "at most 100%");
        let below_one = |key, of: Share| share(of.0 < 1.0, key, of, "less than 100%");
        within("mailboxes.count", m.count as f64, 1.0, 1e9)?;
        within("mailboxes.messages_per_day", m.messages_per_day, 0.0, 1e5)?;
        within("mailboxes.busier_factor", m.busier_factor, 0.0, 1e3)?;
        within("mailboxes.growth (as a fraction)", m.growth.0, 0.0, 100.0)?;
        if let Some(iops) = m.iops {
            within("mailboxes.iops", iops, 0.0, 1e4)?;
        }
        at_most_one("mailboxes.write_share", m.write_share.unwrap_or_default())?;
        at_most_one("mailboxes.busier_share", m.busier_share)?;
        value(m.quota.0 > 0.0, "mailboxes.quota", "more than 0")?;
        within("servers.count", f64::from(s.count), 1.0, 1e4)?;
        within("servers.copies", f64::from(s.copies), 1.0, 16.0)?;
        rule(s.copies <= s.count, SizingError::Copies { copies: s.copies, servers: s.count })?;
        let lost = SizingError::ServersLost { lost: s.lost, servers: s.count };
        rule(s.lost < s.count || s.count == 1, lost)?;
        share(s.headroom.0 <= 10.0, "servers.headroom", s.headroom, "at most 1000%")?;
        if let Some(count) = d.count {
            within("databases.count", f64::from(count), 1.0, 1e6)?;
        }
        within("databases.per_volume", f64::from(d.per_volume), 1.0, 1e4)?;
        below_one("databases.free", d.free)?;
        at_most_one("logs.moved", self.logs.moved)?;
        within("logs.sequential_credit", self.logs.sequential_credit, 1.0, 100.0)?;
        value(self.network.peak_hour.0 <= 1.0, "network.peak_hour", "at most 100%")?;
        below_one("network.compression", self.network.compression)?;
        let has_rates = self.backup.stream.0 > 0.0 && self.backup.bus.0 > 0.0;
        value(has_rates, "backup.stream and backup.bus", "more than 0")?;
        within("backup.streams", f64::from(self.backup.streams), 1.0, 1e3)?;
        within("backup.parallel_replay", f64::from(self.backup.parallel_replay), 1.0, 1e3)?;
        self.storage.check()?;
        let c = &self.cost;
        let is_short = c.currency.chars().count() <= 8 && !c.currency.contains(char::is_control);
        value(is_short, "cost.currency", "at most 8 characters, such as \"EUR\"")?;
        within("cost.tariff", c.tariff, 0.0, 1e6)?;
        within("cost.pue", c.pue, 1.0, 10.0)?;
        within("cost.years", c.years, 0.0, 100.0)?;
        within("cost.replacement_work", c.replacement_work, 0.0, 1e9)?;
        let no_dirs = SizingError::Empty { key: "test.dirs", content: "at least one directory" };
        rule(!self.test.dirs.is_empty(), no_dirs)?;
        value(self.test.duration.0 >= 1.0, "test.duration", "at least 1s")?;
        within("test.threads", f64::from(self.test.threads), 1.0, 4096.0)
    }
}

impl StorageConfig {
    fn check(&self) -> Result<(), SizingError> {
        for (is_empty, key, content) in [
            (self.disks.is_empty(), "storage.disks", "the name of at least one disk"),
            (self.layouts.is_empty(), "storage.layouts", "at least one array, such as { raid = \"raid10\" }"),
            (self.states.is_empty(), "storage.states", "at least \"normal\""),
        ] {
            if is_empty {
                return Err(SizingError::Empty { key, content });
            }
        }
        let (rebuild, formatted) = (self.rebuild_share.0, self.formatted.0);
        for (is_met, key, rule) in [
            (self.latency.0 > 0.0 && self.degraded_latency.0 > 0.0, "latency", "more than 0"),
            (rebuild > 0.0 && rebuild < 1.0, "storage.rebuild_share", "above 0% and below 100%"),
            (formatted > 0.0 && formatted <= 1.0, "storage.formatted", "above 0% and at most 100%"),
        ] {
            if !is_met {
                return Err(SizingError::Value { key, rule });
            }
        }
        self.layouts.iter().chain([&self.log_layout]).try_for_each(GroupLayout::check)
    }
}
