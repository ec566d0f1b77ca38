//! `jetcell test replication`.

use jetcell_workload::TestKind;

use super::kind::StorageTestCommand;

/// The command `jetcell test replication`.
#[derive(Clone, Debug)]
pub struct ReplicationTest;

impl StorageTestCommand for ReplicationTest {
    const KIND: TestKind = TestKind::Replication;
    const EXAMPLES: &'static str = EXAMPLES;
}

const EXAMPLES: &str = "\
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
