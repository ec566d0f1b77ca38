//! Converts options to a profile by filling in the defaults.

use std::time::Duration;

use super::options::{default, default_record, default_threshold};
use super::{
    ConfigurationError, DatabaseSource, MailboxRequirement, Options, Profile, RecordLayout, RecordOptions,
    TestKind, ThresholdOptions, Thresholds,
};
use crate::units::TimeSpan;

impl Options {
    /// Resolves the profile of a performance test: fills in the defaults and validates the result. The error contains
    /// all mistakes, not just the first one.
    pub fn resolve(self) -> Result<Profile, Vec<ConfigurationError>> {
        self.resolve_for(TestKind::Performance)
    }

    /// Resolves the profile of a test. Options that do not apply to the test are ignored, because the same file may
    /// configure all tests.
    pub fn resolve_for(self, test: TestKind) -> Result<Profile, Vec<ConfigurationError>> {
        self.without_other_tests(test).resolve_all(test)
    }

    /// Removes the options that do not apply to the test.
    fn without_other_tests(self, test: TestKind) -> Options {
        match test {
            TestKind::Performance => self,
            TestKind::Stress => Options {
                repeat: None,
                find_max: None,
                stop_when_steady: None,
                duration: self.duration.or(Some(TimeSpan(STRESS_DURATION))),
                ..self
            },
            TestKind::Backup => Options {
                waypoint_latency: None,
                repeat: None,
                find_max: None,
                stop_when_steady: None,
                target_iops: None,
                thresholds: ThresholdOptions::default(),
                sample_interval: self.sample_interval.or(Some(TimeSpan(REPLAY_INTERVAL))),
                ..self
            },
            TestKind::Replication => Options {
                repeat: None,
                find_max: None,
                stop_when_steady: None,
                target_iops: None,
                thresholds: ThresholdOptions::default(),
                ..self
            },
            TestKind::Recovery => Options {
                waypoint_latency: None,
                duration: None,
                repeat: None,
                find_max: None,
                stop_when_steady: None,
                target_iops: None,
                thresholds: ThresholdOptions::default(),
                // Circular logging would remove the logs that must be replayed.
                circular_log: Some(false),
                sample_interval: self.sample_interval.or(Some(TimeSpan(REPLAY_INTERVAL))),
                ..self
            },
        }
    }

    fn resolve_all(self, test: TestKind) -> Result<Profile, Vec<ConfigurationError>> {
        let find_max = self.find_max.unwrap_or_else(default::find_max);
        let maintenance_impact = self.maintenance_impact.unwrap_or_else(default::maintenance_impact);
        let usual = Duration::from_secs(if find_max { 15 } else { 60 });
        let duration = self.duration.unwrap_or(TimeSpan(usual));
        let source = self.source();
        let open = matches!(source, Ok(DatabaseSource::Open));
        let mailboxes = MailboxRequirement::from_options(&self);
        let carried = mailboxes.as_ref().ok().copied().flatten();
        let databases =
            if open { self.databases } else { Some(self.databases.unwrap_or(self.dirs.len().max(1))) };
        let growth_percent = self.growth_percent.unwrap_or_else(default::growth_percent);
        let size = carried.map(|all| all.database_size(databases.unwrap_or(1), growth_percent)).or(self.size);
        let profile = Profile {
            test,
            to: self.to.filter(|_| test == TestKind::Backup),
            under_load: test == TestKind::Backup && self.under_load.unwrap_or_else(default::under_load),
            logs: self.logs.unwrap_or_else(default::logs),
            mode: self.mode.unwrap_or_else(default::mode),
            databases,
            mailboxes: carried,
            log_dirs: if self.log_dirs.is_empty() { self.dirs.clone() } else { self.log_dirs },
            dirs: self.dirs,
            size: size.unwrap_or_else(default::size),
            growth_percent,
            threads: self.threads.unwrap_or_else(default::threads),
            duration,
            repeat: self.repeat.unwrap_or(if maintenance_impact { 3 } else { 1 }),
            cache: self.cache,
            page_size: self.page_size,
            mix: self.mix.unwrap_or_else(default::mix),
            lazy_percent: self.lazy_percent.unwrap_or_else(default::lazy_percent),
            batch_updates: self.batch_updates.unwrap_or_else(default::batch_updates),
            records: self.records.resolve(),
            thresholds: self.thresholds.resolve(duration.0, test, find_max),
            target_iops: carried
                .filter(|_| !find_max && test.judges_speed())
                .map(|all| all.target_iops())
                .or(self.target_iops),
            strict: self.strict.unwrap_or_else(default::strict),
            margin: self.margin.unwrap_or_else(default::margin),
            rate: self.rate,
            find_max,
            stop_when_steady: self.stop_when_steady.unwrap_or_else(default::stop_when_steady),
            skew: self.skew.unwrap_or_else(default::skew),
            scan: self.maintenance.map_or(self.scan.unwrap_or_else(default::scan), |tasks| tasks.scan),
            zero: self.maintenance.is_some_and(|tasks| tasks.zero),
            defrag: self.maintenance.is_some_and(|tasks| tasks.defrag),
            layout: self.maintenance.is_some_and(|tasks| tasks.layout),
            maintenance_impact,
            maintenance_window: self.maintenance_window,
            event_profile: self.event_profile.unwrap_or_else(default::event_profile),
            scan_pause: self.scan_pause.unwrap_or_else(default::scan_pause),
            copies: self.copies.unwrap_or_else(default::copies),
            copy_dirs: if test == TestKind::Replication { self.copy_dirs } else { Vec::new() },
            copy_mode: self
                .copy_mode
                .filter(|_| test == TestKind::Replication)
                .unwrap_or_else(default::copy_mode),
            keep_instance: self.keep_instance.filter(|_| test == TestKind::Replication),
            seed: self.seed.unwrap_or_else(default::seed),
            sample_interval: self.sample_interval.unwrap_or(default_interval(duration.0)),
            circular_log: self.circular_log.unwrap_or_else(default::circular_log),
            waypoint_latency: self.waypoint_latency.unwrap_or_else(default::waypoint_latency),
            zero_at_creation: self.zero_at_creation.unwrap_or_else(default::zero_at_creation),
            reset: self.reset.filter(|_| test != TestKind::Stress),
            source: source.as_ref().map_or(DatabaseSource::New, |source| *source),
            description: self.description,
            output: self.output,
        };
        let mut mistakes = profile.mistakes();
        mistakes.extend(source.err());
        mistakes.extend(mailboxes.err());
        if mistakes.is_empty() { Ok(profile) } else { Err(mistakes) }
    }

    fn source(&self) -> Result<DatabaseSource, ConfigurationError> {
        let open = self.open.unwrap_or_else(default::open);
        let force = self.force.unwrap_or_else(default::force);
        let resume = self.resume.unwrap_or_else(default::resume);
        match (open, force, resume) {
            (false, false, false) => Ok(DatabaseSource::New),
            (true, false, false) => Ok(DatabaseSource::Open),
            (false, true, false) => Ok(DatabaseSource::Replace),
            (false, false, true) => Ok(DatabaseSource::Resume),
            _ => Err(ConfigurationError::new(
                "--open uses existing databases, --resume continues their creation, and --force replaces \
                 them",
            )
            .advise("specify only one of these options")),
        }
    }
}

/// Default limit for the 99th percentile of the operation latency in a search. Jetstress has no limit for operations.
/// Without one, a search would accept a rate at which the storage is fast but operations queue up.
const MAX_OPERATION_MS: f64 = 1000.0;

/// Duration of a stress test, as required for an ESRP paper.
const STRESS_DURATION: Duration = Duration::from_secs(24 * 3600);

/// Interval between samples of a replay, as in Jetstress. Samples of a backup have the same interval.
const REPLAY_INTERVAL: Duration = Duration::from_secs(2);

/// Returns the default sample interval: 15 s, as in Jetstress, or less for short runs, which then have about 60
/// samples.
fn default_interval(duration: Duration) -> TimeSpan {
    TimeSpan((duration / 60).clamp(Duration::from_secs(1), Duration::from_secs(15)).min(duration))
}

impl RecordOptions {
    fn resolve(self) -> RecordLayout {
        RecordLayout {
            short_bytes: self.short_bytes.unwrap_or_else(default_record::short_bytes),
            long_bytes: self.long_bytes.unwrap_or_else(default_record::long_bytes),
            long_percent: self.long_percent.unwrap_or_else(default_record::long_percent),
            tables: self.tables.unwrap_or_else(default_record::tables),
        }
    }
}

impl Default for RecordLayout {
    fn default() -> RecordLayout {
        RecordOptions::default().resolve()
    }
}

impl ThresholdOptions {
    fn resolve(self, duration: Duration, test: TestKind, find_max: bool) -> Thresholds {
        let lenient = test == TestKind::Stress || duration > Thresholds::MAX_STRICT_DURATION;
        let maximum = if lenient { 200.0 } else { 100.0 };
        Thresholds {
            average_database_read_ms: self
                .average_database_read_ms
                .unwrap_or_else(default_threshold::average_database_read_ms),
            maximum_database_read_ms: self.maximum_database_read_ms.unwrap_or(maximum),
            average_log_write_ms: self
                .average_log_write_ms
                .unwrap_or_else(default_threshold::average_log_write_ms),
            maximum_log_write_ms: self.maximum_log_write_ms.unwrap_or(maximum),
            page_fault_stalls: self.page_fault_stalls.unwrap_or_else(default_threshold::page_fault_stalls),
            p95_database_read_ms: self.p95_database_read_ms,
            p99_database_read_ms: self.p99_database_read_ms,
            p95_log_write_ms: self.p95_log_write_ms,
            p99_log_write_ms: self.p99_log_write_ms,
            p95_operation_ms: self.p95_operation_ms,
            p99_operation_ms: self.p99_operation_ms.or(find_max.then_some(MAX_OPERATION_MS)),
        }
    }
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        ThresholdOptions::default().resolve(Duration::ZERO, TestKind::Performance, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Mix;

    fn options(toml: &str) -> Options {
        toml::from_str(toml).unwrap()
    }

    #[test]
    fn defaults_match_the_jetstress_mail_load() {
        let profile = options("dirs = ['/data']").resolve().unwrap();
        assert_eq!(profile.mix, Mix { insert: 40, delete: 20, replace: 5, read: 35 });
        assert_eq!((profile.lazy_percent, profile.batch_updates, profile.seed), (70, 16, 1));
        assert_eq!((profile.records.short_bytes, profile.records.long_bytes), (200, 2000));
        assert_eq!(profile.thresholds, Thresholds::default());
        assert_eq!(profile.log_dirs, profile.dirs);
        assert_eq!(profile.databases, Some(1));
    }

    #[test]
    fn only_a_search_limits_operations_by_default() {
        let operation_limit = |toml: &str| options(toml).resolve().unwrap().thresholds.p99_operation_ms;
        assert_eq!(operation_limit("dirs=['d']"), None);
        assert_eq!(operation_limit("dirs=['d']\nfind_max=true"), Some(1000.0));
        assert_eq!(
            operation_limit("dirs=['d']\nfind_max=true\nthresholds.p99_operation_ms = 50"),
            Some(50.0)
        );
    }

    #[test]
    fn maximum_latency_limits_are_lenient_above_six_hours() {
        let run = |toml: &str| options(toml).resolve().unwrap().thresholds;
        assert_eq!(run("dirs=['d']\nduration='6h'").maximum_database_read_ms, 100.0);
        assert_eq!(run("dirs=['d']\nduration='7h'").maximum_database_read_ms, 200.0);
        assert_eq!(run("dirs=['d']\nduration='7h'").average_log_write_ms, 10.0);
        let own = run("dirs=['d']\nduration='7h'\nthresholds.maximum_log_write_ms = 150");
        assert_eq!((own.maximum_log_write_ms, own.maximum_database_read_ms), (150.0, 200.0));
    }
}
