//! The child process that `tests/kill.rs` and `tests/copies_killed.rs` kill: several threads commit durably and
//! report each commit on standard output, while a scan with zeroing, compaction, and layout runs.
//!
//! `kill-child DIRECTORY`: line `T S G.` means that transaction S of thread T is durable; its commit is in log
//! generation G. Transaction S of a thread writes S into all `ROWS` rows of that thread, which makes a partially
//! applied transaction detectable.

#![forbid(unsafe_code)]

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use ese_engine::{CommitMode, Database, DefragKind, DefragOptions, Error, Instance, Result, ScanOptions};
use system_tests::killed::{ROWS, THREADS, create_if_new, open, write_rows};

fn main() -> ExitCode {
    let Some(directory) = std::env::args().nth(1) else {
        eprintln!("usage: kill-child DIRECTORY");
        return ExitCode::from(2);
    };
    match run(Path::new(&directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the scan with zeroing, compaction, and layout concurrently with the load, without end.
fn maintain(instance: &Arc<Instance>, db: &Arc<Database>) -> Result<()> {
    let scan = ScanOptions { zero: true, keep_progress: true, ..ScanOptions::default() };
    instance.start_maintenance(db, scan)?;
    for kind in [DefragKind::Compaction, DefragKind::SequentialLayout] {
        let options = DefragOptions { kind, keep_progress: true, ..DefragOptions::default() };
        instance.start_defragmentation(db, options)?;
    }
    Ok(())
}

fn run(directory: &Path) -> Result<()> {
    let (instance, db) = open(directory)?;
    create_if_new(&instance, &db)?;
    maintain(&instance, &db)?;
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (instance, db) = (instance.clone(), Arc::clone(&db));
                scope.spawn(move || {
                    let mut session = instance.session();
                    let mut number = system_tests::killed::read_number(&mut session, &db, thread)?;
                    loop {
                        number += 1;
                        session.begin()?;
                        write_rows(&mut session, &db, thread, number)?;
                        // Changes of a transaction that never commits must not survive.
                        if number % 5 == 0 {
                            session.begin()?;
                            write_rows(&mut session, &db, thread, -number)?;
                            session.rollback()?;
                        }
                        let durable = number % 3 != 0;
                        let id =
                            session.commit(if durable { CommitMode::Durable } else { CommitMode::Lazy })?;
                        if durable {
                            let line = format!("{thread} {number} {}.\n", id.0.generation.0);
                            let mut out = std::io::stdout().lock();
                            let written = out.write_all(line.as_bytes()).and_then(|()| out.flush());
                            written.map_err(|e| Error::io("stdout", &e))?;
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("threads do not panic")).collect()
    });
    const { assert!(ROWS > 1) };
    results.into_iter().collect()
}
