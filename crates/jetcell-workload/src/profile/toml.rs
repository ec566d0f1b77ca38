//! The TOML configuration file. This module parses it, writes a file that repeats a run, and contains a commented
//! example.
//!
//! The example also serves as the list of known keys. A key that does not appear in it is a mistake.

use jetcell_input::toml::parse_with_example;

use super::configuration_error::ConfigurationError;
use super::options::{Options, RecordOptions, ThresholdOptions};
use super::{DatabaseSource, Profile, Thresholds};

/// A complete configuration with comments, which resolves to the defaults.
pub const EXAMPLE: &str = include_str!("example.toml");

/// Parses a configuration. Each unknown key is reported with its line and the most similar known key.
pub(super) fn parse(source: &str, text: &str) -> Result<Options, Vec<ConfigurationError>> {
    parse_with_example(source, text, &complete_text())
        .map_err(|mistakes| mistakes.into_iter().map(ConfigurationError::from).collect())
}

/// Returns the example with all keys, including the keys that are commented out.
fn complete_text() -> String {
    let uncomment = |line: &str| match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase()) => format!("{rest}\n"),
        _ => format!("{line}\n"),
    };
    EXAMPLE.lines().map(uncomment).collect()
}

/// Returns options with a value for every key.
#[cfg(test)]
pub(super) fn complete() -> Options {
    parse("example", &complete_text()).unwrap()
}

impl Profile {
    /// Returns the configuration file that repeats this run, including the seed.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.to_options()).expect("paths are text, as resolving has checked")
    }

    pub(crate) fn to_options(&self) -> Options {
        let Thresholds {
            average_database_read_ms,
            maximum_database_read_ms,
            average_log_write_ms,
            maximum_log_write_ms,
            page_fault_stalls,
            p95_database_read_ms,
            p99_database_read_ms,
            p95_log_write_ms,
            p99_log_write_ms,
            p95_operation_ms,
            p99_operation_ms,
        } = self.thresholds;
        Options {
            dirs: self.dirs.clone(),
            log_dirs: self.log_dirs.clone(),
            databases: self.databases,
            size: self.mailboxes.is_none().then_some(self.size),
            growth_percent: Some(self.growth_percent),
            page_size: self.page_size,
            cache: self.cache,
            circular_log: Some(self.circular_log),
            waypoint_latency: Some(self.waypoint_latency),
            zero_at_creation: Some(self.zero_at_creation),
            strict: Some(self.strict),
            open: (self.source == DatabaseSource::Open).then_some(true),
            force: (self.source == DatabaseSource::Replace).then_some(true),
            // If the run resumed an interrupted database creation, repeating the run creates the databases from
            // scratch.
            resume: None,
            reset: self.reset,
            records: RecordOptions {
                short_bytes: Some(self.records.short_bytes),
                long_bytes: Some(self.records.long_bytes),
                long_percent: Some(self.records.long_percent),
                tables: Some(self.records.tables),
            },
            threads: Some(self.threads),
            duration: Some(self.duration),
            repeat: Some(self.repeat),
            mix: Some(self.mix),
            lazy_percent: Some(self.lazy_percent),
            batch_updates: Some(self.batch_updates),
            rate: self.rate,
            find_max: Some(self.find_max),
            stop_when_steady: Some(self.stop_when_steady),
            skew: Some(self.skew),
            scan: Some(self.scan),
            maintenance: (self.zero || self.defrag || self.layout).then_some(self.maintenance().tasks),
            maintenance_impact: Some(self.maintenance_impact),
            maintenance_window: self.maintenance_window,
            event_profile: Some(self.event_profile),
            scan_pause: Some(self.scan_pause),
            copies: Some(self.copies),
            copy_dirs: self.copy_dirs.clone(),
            copy_mode: Some(self.copy_mode),
            keep_instance: self.keep_instance,
            seed: Some(self.seed),
            to: self.to.clone(),
            under_load: Some(self.under_load),
            logs: Some(self.logs),
            mode: Some(self.mode),
            target_iops: self.target_iops.filter(|_| self.mailboxes.is_none()),
            mailboxes: self.mailboxes.map(|all| all.count),
            iops_per_mailbox: self.mailboxes.map(|all| all.iops_each),
            quota: self.mailboxes.map(|all| all.quota),
            margin: Some(self.margin),
            thresholds: ThresholdOptions {
                average_database_read_ms: Some(average_database_read_ms),
                maximum_database_read_ms: Some(maximum_database_read_ms),
                average_log_write_ms: Some(average_log_write_ms),
                maximum_log_write_ms: Some(maximum_log_write_ms),
                page_fault_stalls: Some(page_fault_stalls),
                p95_database_read_ms,
                p99_database_read_ms,
                p95_log_write_ms,
                p99_log_write_ms,
                p95_operation_ms,
                p99_operation_ms,
            },
            description: self.description.clone(),
            output: self.output.clone(),
            sample_interval: Some(self.sample_interval),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::{TestRequirement, skip};

    fn complete_table() -> toml::Table {
        complete_text().parse().unwrap()
    }

    fn mistakes(text: &str) -> String {
        let found = parse("a", text).unwrap_err();
        let text = found.iter().map(|error| match error.advice() {
            // Most mistakes have this advice.
            Some(advice) if advice == "correct this line" => error.to_string(),
            advice => jetcell_input::with_advice(error, advice),
        });
        text.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_example_gives_the_defaults() {
        let dirs = || vec!["d".into()];
        let example = Options { dirs: dirs(), ..parse("example", EXAMPLE).unwrap() };
        let nothing = Options { dirs: dirs(), ..Options::default() };
        assert_eq!(example.resolve().unwrap(), nothing.resolve().unwrap());
    }

    #[test]
    fn the_example_has_every_key_and_each_sets_an_option() {
        let complete = complete();
        let written = toml::Table::try_from(&complete).unwrap();
        assert_eq!(written.keys().collect::<Vec<_>>(), complete_table().keys().collect::<Vec<_>>());
        let missing = format!("{complete:?}").matches("None").count();
        assert_eq!(missing, 0, "{complete:?}");
    }

    #[test]
    fn every_key_has_a_command_line_option() {
        let keys = complete_table();
        let leaf = |(key, value): (&String, &toml::Value)| match value.as_table() {
            // On the command line, the four shares of the mix are a single option.
            Some(table) if key != "mix" => table.keys().cloned().collect(),
            _ => vec![key.clone()],
        };
        let mut keys: Vec<String> = keys.iter().flat_map(leaf).collect();
        let mut known: Vec<String> = Options::table().map(|option| option.key.to_string()).collect();
        keys.sort();
        known.sort();
        assert_eq!(keys, known);
    }

    #[test]
    fn every_key_is_documented() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let Ok(documentation) = std::fs::read_to_string(page) else {
            skip(
                TestRequirement::Repository,
                "docs/configuration.md is in the repository, not in the package",
            );
            return;
        };
        for (key, value) in &complete_table() {
            let inner =
                value.as_table().map(|table| table.keys().map(|inner| format!("{key}.{inner}")).collect());
            for key in inner.unwrap_or(vec![key.clone()]) {
                assert!(documentation.contains(&format!("`{key}`")), "{key} is not in docs/configuration.md");
            }
        }
    }

    #[test]
    fn a_typo_names_the_line_and_the_nearest_key() {
        assert_eq!(
            mistakes("threads = 4\nthraeds = 5\n"),
            "a, line 2: unknown key 'thraeds'; the nearest known key is 'threads'"
        );
        assert_eq!(
            mistakes("[thresholds]\n\naverage_databse_read_ms = 5\n[mix]\ninserts = 1\n"),
            "a, line 3: unknown key 'average_databse_read_ms'; the nearest known key is 'average_database_read_ms'\n\
             a, line 5: unknown key 'inserts'; the nearest known key is 'insert'"
        );
        assert_eq!(
            mistakes("short_byte = 3"),
            "a, line 1: unknown key 'short_byte'; the nearest known key is 'short_bytes' in [records]"
        );
        assert_eq!(
            mistakes("[mix]\nthread = 3"),
            "a, line 2: unknown key 'thread'; the nearest known key is 'threads', which belongs before the first [table]"
        );
    }

    #[test]
    fn an_invalid_value_names_the_line_and_key() {
        for (text, expected) in [
            (
                "threads = 'four'",
                "a, line 1: threads: invalid type: string \"four\", expected a number in its valid range",
            ),
            (
                "\nsize = '1XB'",
                "a, line 2: size: '1XB' does not have a valid unit; try a value such as 256MiB or 80%",
            ),
            ("size = -4", "a, line 1: size: '-4' is negative; try a value such as 256MiB or 80%"),
            ("cache = [1]", "a, line 1: cache: expected a number, or text in quotes"),
            (
                "duration = 'soon'",
                "a, line 1: duration: could not parse 'soon'; try a value such as 60s or 2h",
            ),
            (
                "lazy_percent = 300",
                "a, line 1: lazy_percent: invalid value: integer `300`, expected a number in its valid range",
            ),
            ("open = 1", "a, line 1: open: invalid type: integer `1`, expected true or false"),
            (
                "dirs = 'd'",
                "a, line 1: dirs: invalid type: string \"d\", expected a list such as [\"a\", \"b\"]",
            ),
            ("[mix]\ninsert = 1", "a, line 1: missing key 'mix.delete'"),
            (
                "mix = 3",
                "a, line 1: mix: invalid type: integer `3`, expected insert, delete, replace and read",
            ),
        ] {
            assert_eq!(mistakes(text), expected, "{text}");
        }
    }

    #[test]
    fn text_that_is_not_toml_is_refused() {
        let deep = format!("size = {}", "[".repeat(200_000));
        for text in ["threads", "threads = ", "= 4", "threads = 1\nthreads = 2", "\u{1b}[2J", &deep] {
            assert!(mistakes(text).starts_with("a, line "), "{text}");
        }
    }

    #[test]
    fn a_profile_reads_back_from_toml_and_json() {
        let text = "dirs=['d']\nduration='90s'\ntarget_iops=270.0\npage_size='8KiB'\nsize='80%'\nseed=3";
        let profile = parse("a", text).unwrap().resolve().unwrap();
        let json = serde_json::to_string(&profile).unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&json).unwrap(), profile);
        assert_eq!(parse("a", &profile.to_toml()).unwrap().resolve().unwrap(), profile);
        let complete = Options {
            force: None,
            resume: None,
            find_max: None,
            stop_when_steady: None,
            mailboxes: None,
            iops_per_mailbox: None,
            quota: None,
            ..complete()
        };
        let profile = complete.resolve().unwrap();
        assert_eq!(parse("a", &profile.to_toml()).unwrap().resolve().unwrap(), profile);
    }
}
