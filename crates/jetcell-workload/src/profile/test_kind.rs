//! Kinds of storage tests, and the options that apply to each.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::options::OptionInfo;

/// A kind of storage test. Jetstress: `Type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestKind {
    /// Measures and judges a load.
    #[default]
    Performance,
    /// A 24-hour performance test with lenient maximum latencies. It can be resumed after a crash.
    Stress,
    /// Reads and verifies all pages, as a backup does. Jetstress: `DatabaseBackup`.
    Backup,
    /// Generates and replays logs. Jetstress: `SoftRecovery`.
    Recovery,
    /// Replicates the databases under load to passive copies.
    Replication,
}

use TestKind::{Backup, Performance, Recovery, Replication, Stress};

/// Keys of options that apply only to certain tests.
const TEST_SPECIFIC_OPTIONS: &[(&str, &[TestKind])] = &[
    ("logs", &[Recovery]),
    ("mode", &[Recovery]),
    ("to", &[Backup]),
    ("under_load", &[Backup]),
    ("copy_dirs", &[Replication]),
    ("copy_mode", &[Replication]),
    ("keep_instance", &[Replication]),
    ("waypoint_latency", &[Performance, Stress, Replication]),
    ("duration", &[Performance, Stress, Backup, Replication]),
    ("circular_log", &[Performance, Stress, Backup, Replication]),
    ("repeat", &[Performance]),
    ("find_max", &[Performance]),
    ("reset", &[Performance, Backup, Recovery, Replication]),
    ("stop_when_steady", &[Performance]),
];

impl TestKind {
    /// Tests in an ESRP document, in the order of the document's appendices.
    pub const ALL: [TestKind; 4] = [Performance, Stress, Backup, Recovery];

    /// Returns the command name, which is also the test's name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Performance => "performance",
            Stress => "stress",
            Backup => "backup",
            Recovery => "recovery",
            Replication => "replication",
        }
    }

    /// Returns the prefix of the default results directory's name.
    pub const fn directory(self) -> &'static str {
        match self {
            Performance => "Performance",
            Stress => "Stress",
            Backup => "DatabaseBackup",
            Recovery => "SoftRecovery",
            Replication => "Replication",
        }
    }

    /// Returns true if the verdict on the test applies the latency limits and the target. As in Jetstress, verdicts on
    /// other tests ignore both.
    pub const fn judges_speed(self) -> bool {
        matches!(self, Performance | Stress)
    }

    /// Returns true if the option applies to the test.
    pub fn has_option(self, option: &OptionInfo) -> bool {
        let speed = option.heading == "Verdict" && option.key != "strict";
        match TEST_SPECIFIC_OPTIONS.iter().find(|(key, _)| *key == option.key) {
            Some((_, tests)) => tests.contains(&self),
            None => !speed || self.judges_speed(),
        }
    }
}

impl fmt::Display for TestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
