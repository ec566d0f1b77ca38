//! Storage test commands. Each command has a type that defines its test kind and its examples.

use jetcell_workload::TestKind;

/// Interface to a command that runs one kind of storage test.
pub trait TestCommand: Clone + Send + Sync + 'static {
    /// Kind of the test.
    const KIND: TestKind;
    /// Help text shown after the options.
    const EXAMPLES: &'static str;
}

/// Defines the type of a command.
macro_rules! test_command {
    ($name:ident, $examples:expr) => {
        #[doc = concat!("The command of the test `", stringify!($name), "`.")]
        #[derive(Clone, Debug)]
        pub struct $name;

        impl TestCommand for $name {
            const KIND: TestKind = TestKind::$name;
            const EXAMPLES: &'static str = $examples;
        }
    };
}

test_command!(Performance, PERFORMANCE_EXAMPLES);
test_command!(Stress, STRESS_EXAMPLES);
test_command!(Backup, BACKUP_EXAMPLES);
test_command!(Recovery, RECOVERY_EXAMPLES);
test_command!(Replication, REPLICATION_EXAMPLES);

const PERFORMANCE_EXAMPLES: &str = "\
Examples:
  jetcell test performance --dir jetcell-run --size 1GiB --duration 60s
      a first test: one database of 1 GiB, measured for a minute
  jetcell test performance --dir /db1 --dir /db2 --log-dir /logs --size 100GiB --duration 2h --target-iops 540
      two databases with their logs on a separate volume, two hours, judged against a target
  jetcell test performance --dir /db1 --dir /db2 --log-dir /logs --open --duration 24h
      the same databases again, for a day
  jetcell test performance --dir array:arr1 --size 10GiB --duration 1h
      database and logs on an array made by jetcell raid create, which is rebuilt under load if members are missing
  jetcell test performance --dir array:arr2/mail --log-dir array:arr2/logs --size 10GiB --duration 1h
      on LUNs made by jetcell raid lun create, which never overwrite in place
  jetcell test performance --dir /db1 --dir /db2 --log-dir /logs --resume
      continues a creation that was killed: the first command with --resume
  jetcell test performance --dir /db1 --open --find-max --threads 16
      finds the highest sustained rate, and shows a chart of latency over rate
  jetcell test performance --config run.toml --json > result.json
      options from a file; jetcell test performance --example-config prints one with every key
  jetcell test performance --dir /db1 --open --duration 2h --live --metrics 9100
      charts in the terminal, and counters for Prometheus at http://127.0.0.1:9100/metrics
  jetcell test performance --config JetstressConfig.xml --dir /db1 --dir /db2
      uses a configuration of Microsoft's Jetstress, and prints which elements are honoured or ignored
  jetcell test performance --dir /db1 --open --strict --quiet && echo the storage is good enough
      for scripts: one line, and an exit code that also reflects doubts about the measurement

Files:
  DIR/Jetstress001001.edb      databases
  LOGDIR/log001/E00*.log       logs
  DIR/jetcell-creation.json    exists while databases are created; --resume needs it
  OUTPUT/                      result.json, samples.csv, events.jsonl, report.html

Exit code: 0 pass, 1 fail or stopped early, 2 could not run.
Ctrl-C stops the run cleanly with a report; a second Ctrl-C stops it immediately.";

const STRESS_EXAMPLES: &str = "\
Examples:
  jetcell test stress --dir jetcell-run --size 1GiB --duration 10m
      a first test of ten minutes
  jetcell test stress --dir /db1 --dir /db2 --log-dir /logs --open --target-iops 540
      the databases of another test, for 24 hours
  jetcell test stress --dir /db1 --resume
      continues a test that was interrupted by a crash of the program or of the machine; it knows its options
  jetcell test stress --config JetstressConfig.xml --dir /db1 --dir /db2 --duration 24h
      uses a configuration of Microsoft's Jetstress, with its lenient thresholds

Files:
  DIR/Jetstress001001.edb      databases
  LOGDIR/log001/E00*.log       logs
  DIR/jetcell-stress.json      exists until the test ends, with jetcell-stress.jsonl; --resume needs both
  OUTPUT/                      result.json, samples.csv, events.jsonl, report.html

Exit code: 0 pass, 1 fail or stopped early, 2 could not run.
Ctrl-C stops the run cleanly with a report; a second Ctrl-C stops it immediately. Both can be continued.";

const BACKUP_EXAMPLES: &str = "\
Examples:
  jetcell test backup --dir /db1 --dir /db2 --log-dir /logs --open
      reads all pages of the databases of another test at the same time, and verifies them
  jetcell test backup --dir /db1 --open --to /backup/monday
      also writes pages and logs to a new directory
  jetcell test backup --dir /db1 --open --under-load --duration 5m
      runs the mail load for five minutes alone and then during a backup, and shows the effect of each on the other
  jetcell test backup --dir jetcell-run --size 1GiB
      creates a database first

Files:
  DIR/Jetstress001001.edb      databases
  LOGDIR/log001/E00*.log       logs
  OUTPUT/                      result.json, samples.csv, events.jsonl, report.html
  TO/Jetstress001001.edb       with --to, the backup; .partial until it is complete
  TO/log001/E00*.log           the logs that it needs; jetcell recover --until LAST replays them

Exit code: 0 pass, 1 fail or stopped early, 2 could not run.
Ctrl-C stops the run cleanly with a report; a second Ctrl-C stops it immediately.";

const RECOVERY_EXAMPLES: &str = "\
Examples:
  jetcell test recovery --dir jetcell-run --size 1GiB --logs 50
      a first test: generates 50 logs under load, restores the earlier database, and replays the logs
  jetcell test recovery --dir /db1 --dir /db2 --log-dir /logs --open
      the databases of another test, 500 logs each, as in Jetstress
  jetcell test recovery --dir /db1 --open --mode compatible
      like Jetstress: the databases already contain the changes, and redo reads and changes almost nothing
  jetcell test recovery --config JetstressConfig.xml --dir /db1 --dir /db2
      uses a configuration of Microsoft's Jetstress, including LogFilesToReplay

Files:
  DIR/Jetstress001001.edb          databases; afterwards, they are clean and contain all changes
  DIR/Jetstress001001.edb.before   with --mode true, the database as it was before the load, until the replay
  LOGDIR/log001/E00*.log           logs; the next test with circular logging removes them
  OUTPUT/                          result.json, samples.csv, events.jsonl, report.html

Exit code: 0 pass, 1 fail or stopped early, 2 could not run.
Ctrl-C stops the run cleanly with a report; a second Ctrl-C stops it immediately.";

const REPLICATION_EXAMPLES: &str = "\
Passive copies are seeded from the open databases and replay their logs, in this process. They replay during the warm-up and for
--duration; then they are paused for a quarter of --duration and catch up, while the load continues. By default, an additional copy
discards its instance after every batch of logs, as Exchange 2007 did before SP1. Both are measured under the same load and cache size.

Examples:
  jetcell test replication --dir jetcell-run --size 1GiB --duration 2m --rate 500
      a first test: the cost of one copy of each kind
  jetcell test replication --dir /db1 --copy-dir /copy1 --copy-dir /copy2 --copies 2 --open --duration 30m
      the database of another test, copies on separate disks
  jetcell test replication --dir /db1 --open --copies 1 --keep-instance=false
      only what Exchange 2007 did
  jetcell test replication --dir /db1 --open --keep-instance=true --mode block --waypoint-latency 3
      copies also receive the current log; the three newest logs may be lost

Files:
  DIR/Jetstress001001.edb          databases
  LOGDIR/log001/E00*.log           logs
  COPYDIR/copy001001/              copy 1 of database 1, which is removed at the end
  OUTPUT/                          result.json, samples.csv, events.jsonl, report.html

Exit code: 0 pass, 1 fail or stopped early, 2 could not run.
Ctrl-C stops the run cleanly with a report; a second Ctrl-C stops it immediately.";
