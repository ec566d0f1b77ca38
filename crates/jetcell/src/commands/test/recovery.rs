//! `jetcell test recovery`.

use jetcell_workload::TestKind;

use super::kind::StorageTestCommand;

/// The command `jetcell test recovery`.
#[derive(Clone, Debug)]
pub struct RecoveryTest;

impl StorageTestCommand for RecoveryTest {
    const KIND: TestKind = TestKind::Recovery;
    const EXAMPLES: &'static str = EXAMPLES;
}

const EXAMPLES: &str = "\
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
