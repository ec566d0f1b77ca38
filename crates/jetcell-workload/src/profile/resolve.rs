//! From options to a profile: defaults filled in, mistakes found.

use std::time::Duration;

use super::{
    Mistake, Mix, Options, Profile, RecordOptions, Records, Source, ThresholdOptions, Thresholds,
    jetstress_pause,
};
use crate::scan::LONGEST_PAUSE_MS;
use crate::units::{ByteSize, DatabaseSize, TimeSpan};

/// Without a word about it, two runs of the same test are the same load and can be compared.
const DEFAULT_SEED: u64 = 1;

impl Options {
    /// Fills in the defaults. Every mistake is reported, not only the first.
    pub fn resolve(self) -> Result<Profile, Vec<Mistake>> {
        let find_max = self.find_max.unwrap_or(false);
        let usual = Duration::from_secs(if find_max { 15 } else { 60 });
        let duration = self.duration.unwrap_or(TimeSpan(usual));
        let source = self.source();
        let open = matches!(source, Ok(Source::Open));
        let profile = Profile {
            databases: match open {
                true => self.databases,
                false => Some(self.databases.unwrap_or(self.dirs.len().max(1))),
            },
            log_dirs: if self.log_dirs.is_empty() { self.dirs.clone() } else { self.log_dirs },
            dirs: self.dirs,
            size: self.size.unwrap_or(ByteSize(1 << 30).into()),
            growth_percent: self.growth_percent.unwrap_or(25),
            threads: self.threads.unwrap_or(4),
            duration,
            repeat: self.repeat.unwrap_or(1),
            cache: self.cache,
            page_size: self.page_size,
            mix: self.mix.unwrap_or_default(),
            lazy_percent: self.lazy_percent.unwrap_or(70),
            batch_updates: self.batch_updates.unwrap_or(16),
            records: self.records.resolve(),
            thresholds: self.thresholds.resolve(Thresholds::for_duration(duration.0)),
            target_iops: self.target_iops,
            margin: self.margin.unwrap_or(0.05),
            rate: self.rate,
            find_max,
            skew: self.skew.unwrap_or_default(),
            scan: self.scan.unwrap_or(true),
            scan_pause: self.scan_pause.unwrap_or_else(jetstress_pause),
            seed: self.seed.unwrap_or(DEFAULT_SEED),
            sample_interval: self.sample_interval.unwrap_or(default_interval(duration.0)),
            circular_log: self.circular_log.unwrap_or(true),
            source: source.as_ref().map_or(Source::New, |source| *source),
            description: self.description,
            output: self.output,
        };
        let mut mistakes = profile.mistakes();
        mistakes.extend(source.err());
        if mistakes.is_empty() { Ok(profile) } else { Err(mistakes) }
    }
}

impl Options {
    fn source(&self) -> Result<Source, Mistake> {
        let flags = [self.open, self.force, self.resume].map(|flag| flag.unwrap_or(false));
        match flags {
            [false, false, false] => Ok(Source::New),
            [true, false, false] => Ok(Source::Open),
            [false, true, false] => Ok(Source::Replace),
            [false, false, true] => Ok(Source::Resume),
            _ => Err(Mistake::new(
                "--open uses existing databases, --resume continues their creation and --force replaces them: give one",
            )),
        }
    }
}

/// 15 s as Jetstress samples, less in short runs so that there are always about 60 samples.
fn default_interval(duration: Duration) -> TimeSpan {
    TimeSpan((duration / 60).clamp(Duration::from_secs(1), Duration::from_secs(15)).min(duration))
}

impl Profile {
    fn mistakes(&self) -> Vec<Mistake> {
        let mut found = Vec::new();
        let mut check = |good: bool, what: String| {
            if !good {
                found.push(Mistake::new(what));
            }
        };
        check(!self.dirs.is_empty(), "no directory is given: add --dir DIR".into());
        check((1..=999).contains(&self.databases.unwrap_or(1)), "--databases must be from 1 to 999".into());
        check(self.databases.is_none_or(|count| count >= self.dirs.len()), {
            let (dirs, count) = (self.dirs.len(), self.databases.unwrap_or(0));
            format!("{dirs} directories for {count} databases: raise --databases or drop a --dir")
        });
        if let (true, DatabaseSize::Absolute(size)) = (self.source != Source::Open, self.size)
            && let Err(what) = self.fits_a_database(size)
        {
            check(false, what);
        }
        check(self.growth_percent <= 1000, "--growth-percent must be from 0 to 1000".into());
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
        check(
            delete <= insert,
            format!("mix: delete {delete} is more than insert {insert}: the databases would run empty"),
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
        for (kind, average, maximum) in [
            ("database_read", limits.average_database_read_ms, limits.maximum_database_read_ms),
            ("log_write", limits.average_log_write_ms, limits.maximum_log_write_ms),
        ] {
            check(
                average <= maximum || average.is_nan() || maximum.is_nan(),
                format!(
                    "thresholds.average_{kind}_ms {average} is above maximum_{kind}_ms {maximum}: raise the maximum or lower the average"
                ),
            );
        }
        if let Some(target) = self.target_iops {
            check(target.is_finite() && target > 0.0, format!("--target-iops {target} must be more than 0"));
        }
        check((1..=1000).contains(&self.repeat), format!("--repeat {} must be from 1 to 1000", self.repeat));
        for (given, option) in [
            (self.rate.is_some(), "--rate"),
            (self.repeat > 1, "--repeat"),
            (self.target_iops.is_some(), "--target-iops"),
        ] {
            check(!(self.find_max && given), {
                format!("--find-max searches for the rate and repeats what it found: leave out {option}")
            });
        }
        if let Some(rate) = self.rate {
            check((0.001..=1e8).contains(&rate), format!("--rate {rate} must be from 0.001 to 100000000"));
        }
        check(
            self.scan_pause.0 <= Duration::from_millis(LONGEST_PAUSE_MS),
            format!("--scan-pause {} must be from 0 to 60s", self.scan_pause),
        );
        check((0.0..1.0).contains(&self.margin), format!("margin {} must be from 0 to below 1", self.margin));
        check(
            self.duration.0.is_zero()
                || (Duration::from_millis(1)..=self.duration.0).contains(&self.sample_interval.0),
            format!("sample_interval {} must be from 1ms to the duration", self.sample_interval),
        );
        check(i64::try_from(self.seed).is_ok(), format!("--seed {} must be at most {}", self.seed, i64::MAX));
        for path in self.dirs.iter().chain(&self.log_dirs).chain(&self.output) {
            check(path.to_str().is_some(), {
                format!("{} is not UTF-8, in which results are written: give another name", path.display())
            });
        }
        found
    }

    /// Whether one database of this profile can have this size.
    pub(crate) fn fits_a_database(&self, size: ByteSize) -> Result<(), String> {
        let page = self.page_size.map_or(32768, |size| size.0).max(1);
        if size.0 < SMALLEST_DATABASE {
            return Err(format!("--size {size} is too small: a database needs at least 32MiB"));
        }
        if size.0 / page >= u64::from(i32::MAX as u32) {
            return Err(format!("--size {size} is more than a database can hold: use more --databases"));
        }
        Ok(())
    }
}

impl RecordOptions {
    fn resolve(self) -> Records {
        let usual = Records::default();
        Records {
            short_bytes: self.short_bytes.unwrap_or(usual.short_bytes),
            long_bytes: self.long_bytes.unwrap_or(usual.long_bytes),
            long_percent: self.long_percent.unwrap_or(usual.long_percent),
            tables: self.tables.unwrap_or(usual.tables),
        }
    }
}

impl ThresholdOptions {
    fn resolve(self, usual: Thresholds) -> Thresholds {
        Thresholds {
            average_database_read_ms: self.average_database_read_ms.unwrap_or(usual.average_database_read_ms),
            maximum_database_read_ms: self.maximum_database_read_ms.unwrap_or(usual.maximum_database_read_ms),
            average_log_write_ms: self.average_log_write_ms.unwrap_or(usual.average_log_write_ms),
            maximum_log_write_ms: self.maximum_log_write_ms.unwrap_or(usual.maximum_log_write_ms),
            page_fault_stalls: self.page_fault_stalls.unwrap_or(usual.page_fault_stalls),
        }
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
        let found = options(toml).resolve().unwrap_err();
        found.iter().map(Mistake::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn defaults_are_the_mail_load_of_jetstress() {
        let profile = options("dirs = ['/data']").resolve().unwrap();
        assert_eq!(profile.mix, Mix { insert: 40, delete: 20, replace: 5, read: 35 });
        assert_eq!((profile.lazy_percent, profile.batch_updates, profile.seed), (70, 16, 1));
        assert_eq!((profile.records.short_bytes, profile.records.long_bytes), (200, 2000));
        assert_eq!(profile.thresholds, Thresholds::default());
        assert_eq!(profile.log_dirs, profile.dirs);
        assert_eq!(profile.databases, Some(1));
    }

    #[test]
    fn maxima_are_lenient_beyond_six_hours() {
        let run = |toml: &str| options(toml).resolve().unwrap().thresholds;
        assert_eq!(run("dirs=['d']\nduration='6h'").maximum_database_read_ms, 100.0);
        assert_eq!(run("dirs=['d']\nduration='7h'").maximum_database_read_ms, 200.0);
        assert_eq!(run("dirs=['d']\nduration='7h'").average_log_write_ms, 10.0);
        let own = run("dirs=['d']\nduration='7h'\nthresholds.maximum_log_write_ms = 150");
        assert_eq!((own.maximum_log_write_ms, own.maximum_database_read_ms), (150.0, 200.0));
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
        assert!(mistakes("dirs=['d']\nmix={insert=20,delete=30,replace=20,read=30}").contains("run empty"));
        assert!(mistakes("dirs=['d']\nthresholds.average_log_write_ms=101").contains("raise the maximum"));
        assert!(mistakes("dirs=['d']\nthresholds.average_log_write_ms=nan").contains("must be more than 0"));
        assert!(mistakes("dirs=['d']\npage_size='5KiB'").contains("use 4KiB, 8KiB"));
        assert!(mistakes("dirs=['d']\nopen=true\nforce=true").contains("give one"));
        assert!(mistakes("dirs=['d']\nresume=true\nforce=true").contains("give one"));
        assert!(mistakes("dirs=['d','e']\ndatabases=1").contains("raise --databases"));
        assert!(mistakes("dirs=['d']\ntarget_iops=-1.0").contains("--target-iops"));
        for other in ["rate=5.0", "repeat=2", "target_iops=9.0"] {
            assert!(
                mistakes(&format!("dirs=['d']\nfind_max=true\n{other}")).contains("leave out --"),
                "{other}"
            );
        }
        let search = options("dirs=['d']\nfind_max=true\nrepeat=1").resolve().unwrap();
        assert_eq!(search.duration.0.as_secs(), 15);
    }
}
