//! The kinds of storage tests, and which options each of them has.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::options::OptionInfo;

/// A kind of storage test. Jetstress: `Type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestKind {
    /// A load is measured and judged.
    #[default]
    Performance,
    /// A performance test of a day, with lenient maxima, that can be continued after a crash.
    Stress,
    /// All pages are read and verified, as a backup does. Jetstress: `DatabaseBackup`.
    Backup,
    /// Logs are generated and replayed. Jetstress: `SoftRecovery`.
    Recovery,
    /// Passive copies follow the databases of a load.
    Replication,
}

use TestKind::{Backup, Performance, Recovery, Replication, Stress};

/// Options that only some tests have, by their keys.
const ONLY: &[(&str, &[TestKind])] = &[
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
    /// The kinds of an ESRP document, in the order of its appendices.
    pub const ALL: [TestKind; 4] = [Performance, Stress, Backup, Recovery];

    /// The name of the command, and of the test in results.
    pub const fn name(self) -> &'static str {
        match self {
            Performance => "performance",
            Stress => "stress",
            Backup => "backup",
            Recovery => "recovery",
            Replication => "replication",
        }
    }

    /// Begin of the name of the default directory for results.
    pub const fn directory(self) -> &'static str {
        match self {
            Performance => "Performance",
            Stress => "Stress",
            Backup => "DatabaseBackup",
            Recovery => "SoftRecovery",
            Replication => "Replication",
        }
    }

    /// Whether the limits for latencies and the target are rules of the verdict. Jetstress judges no other test by them.
    pub const fn judges_speed(self) -> bool {
        matches!(self, Performance | Stress)
    }

    /// Whether the test has this option.
    pub fn has(self, option: &OptionInfo) -> bool {
        let speed = option.heading == "Verdict" && option.key != "strict";
        match ONLY.iter().find(|(key, _)| *key == option.key) {
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
