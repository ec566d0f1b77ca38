//! Validates a profile. For each mistake, a one-line message describes what is wrong and how to correct it.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use ese_engine::LogOptions;

use super::{ConfigurationError, DatabaseSource, Mix, Profile, TestKind};
use crate::units::{ByteSize, DatabaseSize};

/// Maximum scan pause that ESE accepts. ESE: `JET_paramDbScanThrottle`.
const MAX_SCAN_PAUSE: Duration = Duration::from_secs(60);

/// Minimum size of a database in bytes. A smaller database would consist mostly of fixed structures and preallocated
/// space.
const MIN_DATABASE: u64 = 32 << 20;

/// Collects the mistakes of a profile.
#[derive(Default)]
struct ProfileChecks(Vec<ConfigurationError>);

impl ProfileChecks {
    fn check(&mut self, good: bool, problem: impl fmt::Display, advice: impl Into<Cow<'static, str>>) {
        if !good {
            self.0.push(ConfigurationError::new(problem.to_string()).advise(advice));
        }
    }
}

impl Profile {
    /// Returns all mistakes in the order of the options.
    pub(super) fn mistakes(&self) -> Vec<ConfigurationError> {
        let mut checks = ProfileChecks::default();
        self.check_databases(&mut checks);
        self.check_mix(&mut checks);
        self.check_records(&mut checks);
        self.check_thresholds(&mut checks);
        self.check_percentiles(&mut checks);
        self.check_rates(&mut checks);
        self.check_times(&mut checks);
        self.check_maintenance(&mut checks);
        for path in
            self.dirs.iter().chain(&self.log_dirs).chain(&self.output).chain(&self.to).chain(&self.copy_dirs)
        {
            checks.check(
                path.to_str().is_some(),
                format_args!("{} is not valid UTF-8, which the result files require", path.display()),
                "use a different name",
            );
        }
        checks.0
    }

    fn check_databases(&self, checks: &mut ProfileChecks) {
        checks.check(!self.dirs.is_empty(), "a directory is required", "add --dir DIR");
        checks.check(
            (1..=999).contains(&self.databases.unwrap_or(1)),
            "--databases is out of range",
            "use a value from 1 to 999",
        );
        let (dirs, count) = (self.dirs.len(), self.databases.unwrap_or(0));
        checks.check(
            self.databases.is_none_or(|count| count >= dirs),
            format_args!("{dirs} directories are too many for {count} databases"),
            "raise --databases or remove a --dir",
        );
        if let (true, DatabaseSize::Absolute(size)) = (self.source != DatabaseSource::Open, self.size)
            && let Err(mistake) = self.fits_a_database(size)
        {
            checks.0.push(mistake);
        }
        checks.check(
            self.growth_percent <= 1000,
            "--growth-percent is out of range",
            "use a value from 0 to 1000",
        );
        let (latency, most) = (self.waypoint_latency, LogOptions::MAX_WAYPOINT_LATENCY);
        checks.check(
            latency <= most,
            format_args!("--waypoint-latency {latency} is out of range"),
            format!("use a value from 0 to {most} logs"),
        );
        let threads = self.threads;
        checks.check(
            (1..=4096).contains(&threads),
            format_args!("--threads {threads} is out of range"),
            "use a value from 1 to 4096",
        );
        if let Some(cache) = self.cache {
            checks.check(
                cache.0 >= 8 << 20,
                format_args!("--cache {cache} is too small"),
                "use at least 8MiB",
            );
        }
        if let Some(size) = self.page_size {
            checks.check(
                [4096, 8192, 16384, 32768].contains(&size.0),
                format_args!("--page-size {size} is not supported"),
                "use 4KiB, 8KiB, 16KiB or 32KiB",
            );
        }
    }

    fn check_mix(&self, checks: &mut ProfileChecks) {
        let Mix { insert, delete, replace, read } = self.mix;
        let sum = [insert, delete, replace, read].map(u32::from).iter().sum::<u32>();
        checks.check(
            sum == 100,
            format_args!(
                "mix: insert {insert} + delete {delete} + replace {replace} + read {read} is {sum} percent"
            ),
            "change the shares to a sum of 100",
        );
        checks.check(
            delete <= insert,
            format_args!(
                "mix: delete {delete} is more than insert {insert}, so the databases would become empty"
            ),
            "lower delete or raise insert",
        );
        let lazy = self.lazy_percent;
        checks.check(
            lazy <= 100,
            format_args!("lazy_percent {lazy} is out of range"),
            "use a value from 0 to 100",
        );
        checks.check(
            (1..=10_000).contains(&self.batch_updates),
            "batch_updates is out of range",
            "use a value from 1 to 10000",
        );
    }

    fn check_records(&self, checks: &mut ProfileChecks) {
        let records = &self.records;
        checks.check(
            (32..=255).contains(&records.short_bytes),
            format_args!("records.short_bytes {} is out of range", records.short_bytes),
            "use a value from 32 to 255",
        );
        checks.check(
            (32..=1 << 20).contains(&records.long_bytes),
            format_args!("records.long_bytes {} is out of range", records.long_bytes),
            "use a value from 32 to 1048576",
        );
        checks.check(
            records.long_percent <= 100,
            "records.long_percent is out of range",
            "use a value from 0 to 100",
        );
        checks.check(
            (1..=64).contains(&records.tables),
            "records.tables is out of range",
            "use a value from 1 to 64",
        );
    }

    fn check_thresholds(&self, checks: &mut ProfileChecks) {
        let limits = &self.thresholds;
        for (kind, average, maximum) in [
            ("database_read", limits.average_database_read_ms, limits.maximum_database_read_ms),
            ("log_write", limits.average_log_write_ms, limits.maximum_log_write_ms),
        ] {
            for (which, limit) in [("average", average), ("maximum", maximum)] {
                checks.check(
                    limit.is_finite() && limit > 0.0,
                    format_args!("thresholds.{which}_{kind}_ms {limit} is out of range"),
                    "use a value greater than 0",
                );
            }
            checks.check(
                average <= maximum || average.is_nan() || maximum.is_nan(),
                format_args!("thresholds.average_{kind}_ms {average} is above maximum_{kind}_ms {maximum}"),
                "raise the maximum or lower the average",
            );
        }
    }

    fn check_percentiles(&self, checks: &mut ProfileChecks) {
        let limits = &self.thresholds;
        for (name, limit) in [
            ("p95_database_read_ms", limits.p95_database_read_ms),
            ("p99_database_read_ms", limits.p99_database_read_ms),
            ("p95_log_write_ms", limits.p95_log_write_ms),
            ("p99_log_write_ms", limits.p99_log_write_ms),
            ("p95_operation_ms", limits.p95_operation_ms),
            ("p99_operation_ms", limits.p99_operation_ms),
        ] {
            checks.check(
                limit.is_none_or(|limit| limit.is_finite() && limit > 0.0),
                format_args!("thresholds.{name} {} is out of range", limit.unwrap_or_default()),
                "use a value greater than 0",
            );
        }
    }

    fn check_rates(&self, checks: &mut ProfileChecks) {
        if let Some(target) = self.target_iops {
            checks.check(
                target.is_finite() && target > 0.0,
                format_args!("--target-iops {target} is out of range"),
                "use a value greater than 0",
            );
        }
        let repeat = self.repeat;
        checks.check(
            (1..=1000).contains(&repeat),
            format_args!("--repeat {repeat} is out of range"),
            "use a value from 1 to 1000",
        );
        for (given, option) in [
            (self.rate.is_some(), "--rate"),
            (self.repeat > 1, "--repeat"),
            (self.target_iops.is_some(), "--target-iops"),
        ] {
            checks.check(
                !(self.find_max && given),
                "--find-max chooses the rates and repeats the best rate",
                format!("omit {option}"),
            );
        }
        for (given, option) in [(self.repeat > 1, "--repeat"), (self.find_max, "--find-max")] {
            checks.check(
                !(self.stop_when_steady && given),
                "--stop-when-steady ends one measurement",
                format!("omit it or {option}"),
            );
        }
        if let Some(rate) = self.rate {
            checks.check(
                (0.001..=1e8).contains(&rate),
                format_args!("--rate {rate} is out of range"),
                "use a value from 0.001 to 100000000",
            );
        }
        let margin = self.margin;
        checks.check(
            (0.0..1.0).contains(&margin),
            format_args!("margin {margin} is out of range"),
            "use a value of at least 0 and less than 1",
        );
    }

    fn check_maintenance(&self, checks: &mut ProfileChecks) {
        let none = self.maintenance().tasks.is_none();
        for (given, option) in [
            (self.maintenance_window.is_some(), "--maintenance-window"),
            (self.maintenance_impact, "--maintenance-impact"),
        ] {
            checks.check(
                !(given && none),
                format_args!("{option} requires maintenance tasks"),
                "add an option such as --maintenance scan",
            );
        }
        if !self.maintenance_impact {
            return;
        }
        checks.check(
            self.test == TestKind::Performance,
            "--maintenance-impact is supported only by test performance, because the turns of other tests are \
             not comparable",
            "omit it",
        );
        checks.check(
            self.repeat > 1,
            "--maintenance-impact compares rounds of turns",
            "use --repeat 2 or more",
        );
        for (given, option) in [
            (self.find_max, "--find-max"),
            (self.stop_when_steady, "--stop-when-steady"),
            (self.maintenance_window.is_some(), "--maintenance-window"),
        ] {
            checks.check(
                !given,
                "--maintenance-impact determines which tasks run and when",
                format!("omit {option}"),
            );
        }
    }

    fn check_times(&self, checks: &mut ProfileChecks) {
        let (logs, copies) = (self.logs, self.copies);
        checks.check(
            (1..=16).contains(&copies),
            format_args!("--copies {copies} is out of range"),
            "use a value from 1 to 16",
        );
        checks.check(
            (1..=1_000_000).contains(&logs),
            format_args!("--logs {logs} is out of range"),
            "use a value from 1 to 1000000",
        );
        let duration = self.duration.0;
        checks.check(!duration.is_zero(), "--duration is zero", "try a value such as 60s or 2h");
        checks.check(
            self.scan_pause.0 <= MAX_SCAN_PAUSE,
            format_args!("--scan-pause {} is out of range", self.scan_pause),
            "use a value from 0 to 60s",
        );
        let interval = self.sample_interval;
        checks.check(
            duration.is_zero() || (Duration::from_millis(1)..=duration).contains(&interval.0),
            format_args!("sample_interval {interval} is out of range"),
            "use a value from 1ms to the duration",
        );
        checks.check(
            i64::try_from(self.seed).is_ok(),
            format_args!("--seed {} is too large", self.seed),
            format!("use at most {}", i64::MAX),
        );
    }

    /// Returns an error if a database of this profile cannot have this size.
    pub(crate) fn fits_a_database(&self, size: ByteSize) -> Result<(), ConfigurationError> {
        let page = self.page_size.map_or(32768, |size| size.0).max(1);
        if size.0 < MIN_DATABASE {
            return Err(ConfigurationError::new(format!("--size {size} is too small"))
                .advise("a database needs at least 32MiB"));
        }
        if size.0 / page >= u64::from(i32::MAX as u32) {
            return Err(ConfigurationError::new(format!(
                "--size {size} exceeds the maximum size of a database"
            ))
            .advise("use more --databases"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use jetcell_input::with_advice;

    use crate::profile::Options;

    fn options(toml: &str) -> Options {
        toml::from_str(toml).unwrap()
    }

    fn mistakes(toml: &str) -> String {
        let found = options(toml).resolve().unwrap_err();
        found.iter().map(|error| with_advice(error, error.advice())).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn every_error_has_a_separate_line() {
        let text =
            mistakes("size = 0\nthreads = 0\nmix = { insert = 80, delete = 20, replace = 5, read = 35 }");
        assert_eq!(
            text,
            "a directory is required; add --dir DIR\n--size 0 is too small; a database needs at least \
             32MiB\n--threads 0 is out of range; use a value from 1 to 4096\nmix: insert 80 + delete 20 + \
             replace 5 + read 35 is 140 percent; change the shares to a sum of 100"
        );
        assert!(
            mistakes("dirs=['d']\nmix={insert=20,delete=30,replace=20,read=30}").contains("become empty")
        );
        assert!(mistakes("dirs=['d']\nthresholds.average_log_write_ms=101").contains("raise the maximum"));
        assert!(
            mistakes("dirs=['d']\nthresholds.average_log_write_ms=nan")
                .contains("; use a value greater than 0")
        );
        assert!(
            mistakes("dirs=['d']\nthresholds.p99_log_write_ms=0.0").contains("; use a value greater than 0")
        );
        assert!(mistakes("dirs=['d']\nwaypoint_latency=11").contains("; use a value from 0 to 10 logs"));
        assert!(mistakes("dirs=['d']\npage_size='5KiB'").contains("use 4KiB, 8KiB"));
        assert!(mistakes("dirs=['d']\nopen=true\nforce=true").contains("specify only one"));
        assert!(mistakes("dirs=['d']\nresume=true\nforce=true").contains("specify only one"));
        assert!(mistakes("dirs=['d','e']\ndatabases=1").contains("raise --databases"));
        assert!(mistakes("dirs=['d']\ntarget_iops=-1.0").contains("--target-iops"));
        for other in ["rate=5.0", "repeat=2", "target_iops=9.0"] {
            assert!(mistakes(&format!("dirs=['d']\nfind_max=true\n{other}")).contains("omit --"), "{other}");
        }
        for (given, hint) in [
            ("scan=false", "--maintenance-impact requires maintenance tasks"),
            ("maintenance='defrag'\nrepeat=1", "use --repeat 2 or more"),
            ("maintenance='defrag'\nfind_max=true", "omit --find-max"),
            ("maintenance='defrag'\nmaintenance_window='daily 01:00 4h'", "omit --maintenance-window"),
        ] {
            let found = mistakes(&format!("dirs=['d']\nmaintenance_impact=true\n{given}"));
            assert!(found.contains(hint), "{found}");
        }
        assert_eq!(options("dirs=['d']\nmaintenance_impact=true").resolve().unwrap().repeat, 3);
        let search = options("dirs=['d']\nfind_max=true\nrepeat=1").resolve().unwrap();
        assert_eq!(search.duration.0.as_secs(), 15);
    }
}
