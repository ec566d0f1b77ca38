//! The profile: everything that decides what a run does. The same profile and seed give the same load.
//!
//! A profile is made in two steps, so that "not given" stays distinguishable from "the default": [`Options`]
//! come from the command line and from a TOML file, [`Options::resolve`] fills in the defaults and validates.
//! Defaults are Jetstress 2013's unless the comment gives a reason.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::{ByteSize, TimeSpan};

/// What a person may set; everything is optional. Keys of the TOML file have the names of the fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Directories for databases, used in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dirs: Vec<PathBuf>,
    /// Directories for logs, used in turn; the database directories when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log_dirs: Vec<PathBuf>,
    /// Number of databases, each with its own log stream.
    pub databases: Option<usize>,
    /// Size of each database after creation.
    pub size: Option<ByteSize>,
    /// Load threads, shared by all databases.
    pub threads: Option<usize>,
    /// Measured time.
    pub duration: Option<TimeSpan>,
    /// Cache shared by all databases.
    pub cache: Option<ByteSize>,
    /// Database page size.
    pub page_size: Option<ByteSize>,
    /// Shares of the operations, in percent.
    pub mix: Option<Mix>,
    /// Share of commits that do not wait for the log, in percent.
    pub lazy_percent: Option<u8>,
    /// Updates in a batch.
    pub batch_updates: Option<u32>,
    /// Shape of the records.
    pub records: Option<Records>,
    /// Limits of the verdict.
    pub thresholds: Option<Thresholds>,
    /// I/O operations per second that must be reached.
    pub target_iops: Option<f64>,
    /// Tolerated shortfall from the target, as a fraction.
    pub margin: Option<f64>,
    /// Seed of the load.
    pub seed: Option<u64>,
    /// Time between samples.
    pub sample_interval: Option<TimeSpan>,
    /// Whether logs that are no longer needed are removed during the run.
    pub circular_log: Option<bool>,
    /// Use databases that exist.
    pub open: Option<bool>,
    /// Replace databases that exist.
    pub force: Option<bool>,
    /// Where results go.
    pub output: Option<PathBuf>,
}

/// A complete, valid description of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Directories for databases, used in turn.
    pub dirs: Vec<PathBuf>,
    /// Directories for logs, used in turn; never empty.
    pub log_dirs: Vec<PathBuf>,
    /// Number of databases; `None` with [`Source::Open`] means as many as are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub databases: Option<usize>,
    /// Size of each database after creation.
    pub size: ByteSize,
    /// Load threads, shared by all databases.
    pub threads: usize,
    /// Measured time.
    pub duration: TimeSpan,
    /// Cache shared by all databases; `None` leaves it to [`default_cache`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<ByteSize>,
    /// Page size; `None` takes that of existing databases, or 32 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<ByteSize>,
    /// Shares of the operations.
    pub mix: Mix,
    /// Share of commits that do not wait for the log, in percent.
    pub lazy_percent: u8,
    /// Updates in a batch.
    pub batch_updates: u32,
    /// Shape of the records.
    pub records: Records,
    /// Limits of the verdict.
    pub thresholds: Thresholds,
    /// I/O operations per second that must be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_iops: Option<f64>,
    /// Tolerated shortfall from the target, as a fraction.
    pub margin: f64,
    /// Seed of the load.
    pub seed: u64,
    /// Time between samples.
    pub sample_interval: TimeSpan,
    /// Whether logs that are no longer needed are removed during the run.
    pub circular_log: bool,
    /// Where the databases come from.
    pub source: Source,
    /// Where results go; `None` lets the plan choose a name in the first directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<PathBuf>,
}

/// Shares of the four operations in percent; together 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// New records.
    pub insert: u8,
    /// Records removed.
    pub delete: u8,
    /// Records changed.
    pub replace: u8,
    /// Records read and verified.
    pub read: u8,
}

/// Shape of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Records {
    /// Bytes of the short column, which every record has. Jetstress: `ShortPadLength`.
    pub short_bytes: u32,
    /// Bytes of the long column. Jetstress: `LongPadLength`.
    pub long_bytes: u32,
    /// Share of the records that have the long column, in percent. Jetstress: `Bulky1Percentage`.
    pub long_percent: u8,
    /// Tables in each database; they are filled in parallel.
    pub tables: u32,
}

/// Limits of the verdict, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Thresholds {
    /// Average latency of database reads.
    pub average_database_read_ms: f64,
    /// Highest average latency of database reads in any sample.
    pub maximum_database_read_ms: f64,
    /// Average latency of log writes.
    pub average_log_write_ms: f64,
    /// Highest average latency of log writes in any sample.
    pub maximum_log_write_ms: f64,
    /// Waits for a free cache page.
    pub page_fault_stalls: u64,
}

/// Where the databases of a run come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Created; refused when files are there already.
    New,
    /// Created in place of whatever is there.
    Replace,
    /// They exist.
    Open,
}

impl Default for Mix {
    fn default() -> Mix {
        Mix { insert: 40, delete: 20, replace: 5, read: 35 }
    }
}

impl Default for Records {
    fn default() -> Records {
        Records { short_bytes: 200, long_bytes: 2000, long_percent: 100, tables: 8 }
    }
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            average_database_read_ms: 20.0,
            maximum_database_read_ms: 100.0,
            average_log_write_ms: 10.0,
            maximum_log_write_ms: 100.0,
            page_fault_stalls: 0,
        }
    }
}

/// Beyond six hours a run is an endurance test, whose maxima are lenient. Jetstress: type `Stress`.
const STRESS_FROM: Duration = Duration::from_secs(6 * 3600);

impl Thresholds {
    /// Jetstress's limits for a run of this length.
    pub fn for_duration(duration: Duration) -> Thresholds {
        let strict = Thresholds::default();
        if duration <= STRESS_FROM {
            return strict;
        }
        Thresholds { maximum_database_read_ms: 200.0, maximum_log_write_ms: 200.0, ..strict }
    }
}

/// One thing wrong with the options: what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake(pub String);

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Options {
    /// Reads a TOML file. A mistake names the line.
    pub fn read(path: &Path) -> Result<Options, Mistake> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Mistake(format!("--config {shown}: cannot be read: {error}")))?;
        toml::from_str(&text).map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            let message = error.message().replace('\n', " ");
            Mistake(format!("--config {shown}, line {line}: {message}"))
        })
    }

    /// These options where given, those of `base` elsewhere.
    pub fn over(self, base: Options) -> Options {
        let list = |own: Vec<PathBuf>, other| if own.is_empty() { other } else { own };
        Options {
            dirs: list(self.dirs, base.dirs),
            log_dirs: list(self.log_dirs, base.log_dirs),
            databases: self.databases.or(base.databases),
            size: self.size.or(base.size),
            threads: self.threads.or(base.threads),
            duration: self.duration.or(base.duration),
            cache: self.cache.or(base.cache),
            page_size: self.page_size.or(base.page_size),
            mix: self.mix.or(base.mix),
            lazy_percent: self.lazy_percent.or(base.lazy_percent),
            batch_updates: self.batch_updates.or(base.batch_updates),
            records: self.records.or(base.records),
            thresholds: self.thresholds.or(base.thresholds),
            target_iops: self.target_iops.or(base.target_iops),
            margin: self.margin.or(base.margin),
            seed: self.seed.or(base.seed),
            sample_interval: self.sample_interval.or(base.sample_interval),
            circular_log: self.circular_log.or(base.circular_log),
            open: self.open.or(base.open),
            force: self.force.or(base.force),
            output: self.output.or(base.output),
        }
    }

    /// Fills in the defaults; `seed` is used unless one is given. Every mistake is reported, not only the first.
    pub fn resolve(self, seed: u64) -> Result<Profile, Vec<Mistake>> {
        let duration = self.duration.unwrap_or(TimeSpan(Duration::from_secs(60)));
        let flags = (self.open.unwrap_or(false), self.force.unwrap_or(false));
        let profile = Profile {
            databases: match flags.0 {
                true => self.databases,
                false => Some(self.databases.unwrap_or(self.dirs.len().max(1))),
            },
            log_dirs: if self.log_dirs.is_empty() { self.dirs.clone() } else { self.log_dirs },
            dirs: self.dirs,
            size: self.size.unwrap_or(ByteSize(1 << 30)),
            threads: self.threads.unwrap_or(4),
            duration,
            cache: self.cache,
            page_size: self.page_size,
            mix: self.mix.unwrap_or_default(),
            lazy_percent: self.lazy_percent.unwrap_or(70),
            batch_updates: self.batch_updates.unwrap_or(16),
            records: self.records.unwrap_or_default(),
            thresholds: self.thresholds.unwrap_or(Thresholds::for_duration(duration.0)),
            target_iops: self.target_iops,
            margin: self.margin.unwrap_or(0.05),
            seed: self.seed.unwrap_or(seed),
            sample_interval: self.sample_interval.unwrap_or(default_interval(duration.0)),
            circular_log: self.circular_log.unwrap_or(true),
            source: match flags {
                (true, _) => Source::Open,
                (false, true) => Source::Replace,
                (false, false) => Source::New,
            },
            output: self.output,
        };
        let mut mistakes = profile.mistakes();
        if flags == (true, true) {
            mistakes.push(Mistake(
                "--open uses existing databases and --force replaces them: give one of the two".into(),
            ));
        }
        if mistakes.is_empty() { Ok(profile) } else { Err(mistakes) }
    }
}

/// 15 s as Jetstress samples, less in short runs so that there are always about 60 samples.
fn default_interval(duration: Duration) -> TimeSpan {
    TimeSpan((duration / 60).clamp(Duration::from_secs(1), Duration::from_secs(15)).min(duration))
}

/// Jetstress gives each database at most 256 MiB of cache so that nearly every access misses. Databases of a
/// short run are small, so the cache is also at most an eighth of them, but at least 64 MiB each: less could not
/// take up the writes of one slow log flush.
pub fn default_cache(databases: usize, total_bytes: u64) -> ByteSize {
    let databases = databases as u64;
    ByteSize((total_bytes / 8).clamp(databases << 26, databases << 28))
}

impl Profile {
    /// The configuration file that describes this run again, seed included.
    pub fn to_toml(&self) -> String {
        let options = Options {
            dirs: self.dirs.clone(),
            log_dirs: self.log_dirs.clone(),
            databases: self.databases,
            size: Some(self.size),
            threads: Some(self.threads),
            duration: Some(self.duration),
            cache: self.cache,
            page_size: self.page_size,
            mix: Some(self.mix),
            lazy_percent: Some(self.lazy_percent),
            batch_updates: Some(self.batch_updates),
            records: Some(self.records),
            thresholds: Some(self.thresholds),
            target_iops: self.target_iops,
            margin: Some(self.margin),
            seed: Some(self.seed),
            sample_interval: Some(self.sample_interval),
            circular_log: Some(self.circular_log),
            open: (self.source == Source::Open).then_some(true),
            force: (self.source == Source::Replace).then_some(true),
            output: self.output.clone(),
        };
        toml::to_string(&options).expect("options have only string keys")
    }

    fn mistakes(&self) -> Vec<Mistake> {
        let mut found = Vec::new();
        let mut check = |good: bool, what: String| {
            if !good {
                found.push(Mistake(what));
            }
        };
        check(!self.dirs.is_empty(), "no directory is given: add --dir DIR".into());
        check((1..=999).contains(&self.databases.unwrap_or(1)), "--databases must be from 1 to 999".into());
        check(self.databases.is_none_or(|count| count >= self.dirs.len()), {
            let (dirs, count) = (self.dirs.len(), self.databases.unwrap_or(0));
            format!("{dirs} directories for {count} databases: raise --databases or drop a --dir")
        });
        if self.source != Source::Open {
            check(
                self.size.0 >= SMALLEST_DATABASE,
                format!("--size {} is too small: a database needs at least 32MiB", self.size),
            );
            let page = self.page_size.map_or(32768, |size| size.0);
            check(
                self.size.0 / page.max(1) < u64::from(i32::MAX as u32),
                format!("--size {} is more than a database can hold: use more --databases", self.size),
            );
        }
        check(
            (1..=4096).contains(&self.threads),
            format!("--threads {} must be from 1 to 4096", self.threads),
        );
        check(
            !self.duration.0.is_zero(),
            "--duration must be more than 0: write for example 60s or 2h".into(),
        );
        if let Some(cache) = self.cache {
            check(cache.0 >= 8 << 20, format!("--cache {cache} is too small: use at least 8MiB"));
        }
        if let Some(size) = self.page_size {
            check(
                [4096, 8192, 16384, 32768].contains(&size.0),
                format!("--page-size {size} does not exist: use 4KiB, 8KiB, 16KiB or 32KiB"),
            );
        }
        let Mix { insert, delete, replace, read } = self.mix;
        let sum = [insert, delete, replace, read].map(u32::from).iter().sum::<u32>();
        check(
            sum == 100,
            format!(
                "mix: insert {insert} + delete {delete} + replace {replace} + read {read} is {sum} percent: it must be 100"
            ),
        );
        check(self.lazy_percent <= 100, format!("lazy_percent {} is more than 100", self.lazy_percent));
        check((1..=10_000).contains(&self.batch_updates), "batch_updates must be from 1 to 10000".into());
        check((32..=255).contains(&self.records.short_bytes), {
            format!("records.short_bytes {} must be from 32 to 255", self.records.short_bytes)
        });
        check((32..=1 << 20).contains(&self.records.long_bytes), {
            format!("records.long_bytes {} must be from 32 to 1048576", self.records.long_bytes)
        });
        check(self.records.long_percent <= 100, "records.long_percent is more than 100".into());
        check((1..=64).contains(&self.records.tables), "records.tables must be from 1 to 64".into());
        let limits = &self.thresholds;
        for (name, limit) in [
            ("average_database_read_ms", limits.average_database_read_ms),
            ("maximum_database_read_ms", limits.maximum_database_read_ms),
            ("average_log_write_ms", limits.average_log_write_ms),
            ("maximum_log_write_ms", limits.maximum_log_write_ms),
        ] {
            check(limit.is_finite() && limit > 0.0, format!("thresholds.{name} {limit} must be more than 0"));
        }
        if let Some(target) = self.target_iops {
            check(target.is_finite() && target > 0.0, format!("--target-iops {target} must be more than 0"));
        }
        check((0.0..1.0).contains(&self.margin), format!("margin {} must be from 0 to below 1", self.margin));
        check(
            self.duration.0.is_zero()
                || (Duration::from_millis(1)..=self.duration.0).contains(&self.sample_interval.0),
            format!("sample_interval {} must be from 1ms to the duration", self.sample_interval),
        );
        found
    }
}

/// Below this a database would be mostly fixed structures and preallocation.
const SMALLEST_DATABASE: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn options(toml: &str) -> Options {
        toml::from_str(toml).unwrap()
    }

    fn mistakes(toml: &str) -> String {
        let found = options(toml).resolve(1).unwrap_err();
        found.iter().map(Mistake::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn defaults_are_the_mail_load_of_jetstress() {
        let profile = options("dirs = ['/data']").resolve(7).unwrap();
        assert_eq!(profile.mix, Mix { insert: 40, delete: 20, replace: 5, read: 35 });
        assert_eq!((profile.lazy_percent, profile.batch_updates, profile.seed), (70, 16, 7));
        assert_eq!((profile.records.short_bytes, profile.records.long_bytes), (200, 2000));
        assert_eq!(profile.thresholds, Thresholds::default());
        assert_eq!(profile.log_dirs, profile.dirs);
        assert_eq!(profile.databases, Some(1));
    }

    #[test]
    fn maxima_are_lenient_beyond_six_hours() {
        let run = |toml: &str| options(toml).resolve(1).unwrap().thresholds;
        assert_eq!(run("dirs=['d']\nduration='6h'").maximum_database_read_ms, 100.0);
        assert_eq!(run("dirs=['d']\nduration='7h'").maximum_database_read_ms, 200.0);
        assert_eq!(run("dirs=['d']\nduration='7h'").average_log_write_ms, 10.0);
    }

    #[test]
    fn every_mistake_gets_its_own_line() {
        let text =
            mistakes("size = 0\nthreads = 0\nmix = { insert = 80, delete = 20, replace = 5, read = 35 }");
        assert_eq!(
            text,
            "no directory is given: add --dir DIR\n\
             --size 0 is too small: a database needs at least 32MiB\n\
             --threads 0 must be from 1 to 4096\n\
             mix: insert 80 + delete 20 + replace 5 + read 35 is 140 percent: it must be 100"
        );
        assert!(mistakes("dirs=['d']\npage_size='5KiB'").contains("use 4KiB, 8KiB"));
        assert!(mistakes("dirs=['d']\nopen=true\nforce=true").contains("one of the two"));
        assert!(mistakes("dirs=['d','e']\ndatabases=1").contains("raise --databases"));
        assert!(mistakes("dirs=['d']\ntarget_iops=-1.0").contains("--target-iops"));
    }

    #[test]
    fn a_typo_in_a_file_names_the_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "threads = 4\nthraeds = 5\n").unwrap();
        let mistake = Options::read(file.path()).unwrap_err().to_string();
        assert!(mistake.contains("line 2: unknown field `thraeds`"), "{mistake}");
        assert!(!mistake.contains('\n'));
    }

    #[test]
    fn the_command_line_wins_over_the_file() {
        let file = options("threads = 4\nsize = '64MiB'");
        let merged = options("threads = 9").over(file);
        assert_eq!((merged.threads, merged.size), (Some(9), Some(ByteSize::mib(64))));
    }

    #[test]
    fn a_profile_survives_its_written_forms() {
        let profile =
            options("dirs=['d']\nduration='90s'\ntarget_iops=270.0\npage_size='8KiB'").resolve(3).unwrap();
        let json = serde_json::to_string(&profile).unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&json).unwrap(), profile);
        assert_eq!(options(&profile.to_toml()).resolve(99).unwrap(), profile);
    }

    #[test]
    fn the_cache_stays_small_beside_the_databases() {
        assert_eq!(default_cache(1, 1 << 30), ByteSize::mib(128));
        assert_eq!(default_cache(1, 450 << 30), ByteSize::mib(256));
        assert_eq!(default_cache(4, 1 << 40), ByteSize::mib(1024));
        assert_eq!(default_cache(2, 64 << 20), ByteSize::mib(128));
    }
}
