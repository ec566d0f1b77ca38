//! `jetcell test performance`.

use jetcell_workload::TestKind;

use super::kind::StorageTestCommand;

/// The command `jetcell test performance`.
#[derive(Clone, Debug)]
pub struct PerformanceTest;

impl StorageTestCommand for PerformanceTest {
    const KIND: TestKind = TestKind::Performance;
    const EXAMPLES: &'static str = EXAMPLES;
}

const EXAMPLES: &str = "\
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
