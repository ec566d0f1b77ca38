//! Tests of a recovery of Windows' files in place, as `jetcell recover --in-place` does it. After an interruption at
//! any operation, the recovery is repeated and produces the same database.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ese_check::{CheckOptions, FindingKind, Severity, check_database};
use ese_engine::{BackgroundThreads, CacheSource, InstanceOptions, RecoverySet, Replayer, Result};
use ese_format::header::{DatabaseHeader, DatabaseState};
use ese_format::{LogPosition, PageSize};
use jetcell_sync::Arc;
use jetcell_vfs::{CrashOptions, SimVfs, Vfs};
use testkit::corpus::Corpus;

const SIZE: PageSize = PageSize::KIB_4;
const DIRECTORY: &str = "/sru";
const DATABASE: &str = "/sru/SRUDB.dat";

type Tables = BTreeMap<String, (u64, BTreeMap<String, u64>)>;

/// Creates a disk with these files of the corpus under other names.
fn disk_with(corpus: &Corpus, files: &[(&str, &str)]) -> SimVfs {
    let disk = SimVfs::new();
    disk.create_directory(Path::new(DIRECTORY)).unwrap();
    for (stored, name) in files {
        disk.put(&Path::new(DIRECTORY).join(name), &corpus.read(&format!("logsets/{stored}")));
    }
    disk
}

fn recover(disk: &SimVfs) -> Result<usize> {
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let files: Vec<PathBuf> = vfs.list(Path::new(DIRECTORY)).unwrap();
    let set = RecoverySet::find(&vfs, &files)?;
    let plan = set.plan(LogPosition::MAX);
    assert!(plan.required.is_none() && plan.missing.is_none() && plan.committed.is_none(), "{plan:?}");
    set.verify(&vfs, &plan, LogPosition::MAX)?;
    let mut options = InstanceOptions::with_vfs(vfs, DIRECTORY.into());
    options.log.base_name = set.base_name;
    options.log.names = set.log_names;
    (options.background, options.cache) = (BackgroundThreads::None, CacheSource::Own { bytes: 1 << 20 });
    options.recovery.database_paths.search(DIRECTORY);
    let mut replayer = Replayer::open(options, &plan.logs[0].1)?;
    for (index, (_, path)) in plan.logs.iter().enumerate() {
        if index + 1 == plan.logs.len() {
            replayer.replay_until(path, LogPosition::MAX)?;
        } else {
            replayer.replay(path)?;
        }
    }
    Ok(replayer.finish()?.1.rolled_back)
}

/// Checks that the database is clean and undamaged, and returns the number of rows of each table and of entries of
/// each index.
fn rows(disk: &SimVfs, context: &str) -> Tables {
    let bytes = disk.contents(Path::new(DATABASE)).unwrap();
    let header = DatabaseHeader::read_from_start(&bytes[..2 * SIZE.bytes()]).unwrap().0;
    assert_eq!(header.state, DatabaseState::CleanShutdown, "{context}");
    let options = CheckOptions { structure: true, ..CheckOptions::default() };
    let report = check_database(disk, Path::new(DATABASE), &options).unwrap();
    // Windows logs an allocation in several steps, and a log can end between them.
    let faults: Vec<_> = report
        .findings
        .iter()
        .filter(|finding| finding.severity != Severity::Info && finding.kind != FindingKind::SpaceLeak)
        .collect();
    assert!(faults.is_empty(), "{context}: {faults:?}");
    let tables = report.structure.unwrap().tables.into_iter();
    tables.map(|table| (table.name, (table.rows, table.indexes))).collect()
}

fn interrupted(corpus: &Corpus, files: &[(&str, &str)], rolled_back: usize) {
    let undisturbed = disk_with(corpus, files);
    let before = undisturbed.operations();
    assert_eq!(recover(&undisturbed).unwrap(), rolled_back);
    let operations = undisturbed.operations() - before;
    let expected = rows(&undisturbed, "undisturbed");
    for cut in 1..operations {
        let disk = disk_with(corpus, files);
        disk.cut_power_after(disk.operations() + cut);
        assert!(recover(&disk).is_err(), "cut {cut} of {operations}");
        let after = [disk.process_kill(), disk.crash(cut, CrashOptions::default())];
        for (disk, how) in after.iter().zip(["process", "power"]) {
            let context = format!("{how}, cut {cut} of {operations}");
            recover(disk).unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(rows(disk, &context), expected, "{context}");
        }
    }
    assert!(operations > 100, "{operations}");
}

/// Uses all logs and the snapshot from before most of them. At the end the databases are clean.
#[test]
fn a_recovery_up_to_a_clean_shutdown() {
    let Some(corpus) = Corpus::locate() else { return };
    let files = [
        ("srum-server2022/a/SRUDB.dat", "SRUDB.dat"),
        ("srum-server2022/b/SRUtmp.log", "SRU00002.log"),
        ("srum-server2022/b/SRU00003.log", "SRU00003.log"),
        ("srum-server2022/b/SRU00004.log", "SRU00004.log"),
        ("srum-server2022/b/SRU.log", "SRU.log"),
    ];
    interrupted(&corpus, &files, 0);
}

/// The last log ends inside a transaction, so undo writes into the stream.
#[test]
fn a_recovery_with_undo() {
    let Some(corpus) = Corpus::locate() else { return };
    let files = [
        ("srum-server2022/a/SRUDB.dat", "SRUDB.dat"),
        ("srum-server2022/b/SRUtmp.log", "SRU00002.log"),
        ("srum-server2022/b/SRU00003.log", "SRU.log"),
    ];
    interrupted(&corpus, &files, 1);
}

#[test]
fn a_recovery_of_a_database_whose_pages_are_complete() {
    let Some(corpus) = Corpus::locate() else { return };
    let names = ["SRU0005B.log", "SRU.log", "SRU.chk", "SRUDB.dat"];
    let stored = names.map(|name| format!("srum-win11-dirty/{name}"));
    let files: Vec<_> = stored.iter().map(String::as_str).zip(names).collect();
    interrupted(&corpus, &files, 0);
}
