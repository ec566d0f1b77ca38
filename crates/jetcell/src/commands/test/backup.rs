//! `jetcell test backup`.

use jetcell_workload::TestKind;

use super::kind::StorageTestCommand;

/// The command `jetcell test backup`.
#[derive(Clone, Debug)]
pub struct BackupTest;

impl StorageTestCommand for BackupTest {
    const KIND: TestKind = TestKind::Backup;
    const EXAMPLES: &'static str = EXAMPLES;
}

const EXAMPLES: &str = "\
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
  TO/Jetstress001001/          with --to, the backup: the database, the logs that it needs, and manifest.json;
                               jetcell restore TO/Jetstress001001 --to DIR restores it

Exit code: 0 pass, 1 fail or stopped early, 2 could not run.
Ctrl-C stops the run cleanly with a report; a second Ctrl-C stops it immediately.";
