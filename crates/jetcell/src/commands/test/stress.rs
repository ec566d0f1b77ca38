//! `jetcell test stress`.

use jetcell_workload::TestKind;

use super::kind::StorageTestCommand;

/// The command `jetcell test stress`.
#[derive(Clone, Debug)]
pub struct StressTest;

impl StorageTestCommand for StressTest {
    const KIND: TestKind = TestKind::Stress;
    const EXAMPLES: &'static str = EXAMPLES;
}

const EXAMPLES: &str = "\
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
