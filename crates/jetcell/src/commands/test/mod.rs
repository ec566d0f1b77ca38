//! `jetcell test`: tests of storage.

mod backup;
#[cfg(feature = "lab")]
mod durability;
#[cfg(feature = "lab")]
mod filesystems;
mod kind;
mod load;
mod performance;
mod power_options;
mod recovery;
mod replication;
mod stress;
mod workload_options;

use clap::Subcommand;

use self::backup::BackupTest;
#[cfg(feature = "lab")]
use self::durability::DurabilityTestArgs;
#[cfg(feature = "lab")]
use self::filesystems::CompareFilesystemsArgs;
use self::load::StorageTestArgs;
#[cfg(feature = "fleet")]
pub use self::load::store;
use self::performance::PerformanceTest;
use self::recovery::RecoveryTest;
use self::replication::ReplicationTest;
use self::stress::StressTest;
#[cfg(not(feature = "lab"))]
use crate::disabled_command::DisabledCommand;
use crate::outcome::CommandResult;

/// Examples shown below the list of tests.
pub const EXAMPLES: &str = "\
Examples:
  jetcell test performance --dir jetcell-run --size 1GiB --duration 60s
      a first test: one database of 1 GiB, measured for a minute
  jetcell test stress --dir jetcell-run --open --duration 10m
      detects drift in ten minutes; without --duration, in a day
  jetcell test backup --dir jetcell-run --open
      reads and verifies all pages, as a backup does
  jetcell test recovery --dir jetcell-run --open --logs 50
      generates 50 logs under load, and replays them
  jetcell test durability /mnt/tested/run --witness tcp:otherhost:9200
      writes until the power is cut, and reports acknowledged writes to another host

jetcell test performance --help has more. Exit code: 0 pass, 1 fail or stopped early, 2 could not run.";

/// Test storage: run a load, measure, verify and judge the result
#[derive(Subcommand)]
pub enum TestCommand {
    /// Run a mail load on ESE databases and judge throughput and latency
    ///
    /// Create ESE databases, run a mail load on them, verify every page and judge the storage
    Performance(Box<StorageTestArgs<PerformanceTest>>),
    /// Run a mail load for 24 hours and judge it with lenient limits; it can be continued after a crash
    ///
    /// Run a mail load on ESE databases for a day, verify every page, judge the storage and detect drift
    Stress(Box<StorageTestArgs<StressTest>>),
    /// Read and verify all pages as a backup does, and measure the rate
    ///
    /// Read the pages of all ESE databases concurrently, verify each page, and show the rate, with or without a
    /// concurrent load
    Backup(Box<StorageTestArgs<BackupTest>>),
    /// Generate logs under load and measure how fast they are replayed
    ///
    /// Generate logs with a mail load on ESE databases, restore the databases to their earlier state, replay the logs
    /// and verify every page
    Recovery(Box<StorageTestArgs<RecoveryTest>>),
    /// Let passive copies follow a load, and compare their I/O with that of the active side
    ///
    /// Seed passive copies of ESE databases under a mail load, make them follow and catch up, and compare the I/O of
    /// both sides
    Replication(Box<StorageTestArgs<ReplicationTest>>),
    /// Test whether storage keeps acknowledged writes when the power is cut
    ///
    /// Write to storage until it is cut off, report acknowledged writes to a witness on another host, and verify them
    /// after the cut
    #[cfg(feature = "lab")]
    Durability(Box<DurabilityTestArgs>),
    /// Test whether storage keeps acknowledged writes when the power is cut (not in this build: feature lab)
    #[cfg(not(feature = "lab"))]
    Durability(DisabledCommand),
    /// Run the mail load on several file systems alternately, and compare them
    ///
    /// Run the mail load on directories of several file systems alternately, until the difference can be
    /// distinguished from noise
    #[cfg(feature = "lab")]
    Filesystems(Box<CompareFilesystemsArgs>),
    /// Run the mail load on several file systems alternately, and compare them (not in this build: feature lab)
    #[cfg(not(feature = "lab"))]
    Filesystems(DisabledCommand),
}

impl TestCommand {
    /// Runs the test.
    pub fn run(self) -> CommandResult {
        match self {
            TestCommand::Performance(command) => command.run(),
            TestCommand::Stress(command) => command.run(),
            TestCommand::Backup(command) => command.run(),
            TestCommand::Recovery(command) => command.run(),
            TestCommand::Replication(command) => command.run(),
            #[cfg(feature = "lab")]
            TestCommand::Durability(command) => command.run(),
            #[cfg(not(feature = "lab"))]
            TestCommand::Durability(command) => command.run("test durability", "lab"),
            #[cfg(feature = "lab")]
            TestCommand::Filesystems(command) => command.run(),
            #[cfg(not(feature = "lab"))]
            TestCommand::Filesystems(command) => command.run("test filesystems", "lab"),
        }
    }
}
