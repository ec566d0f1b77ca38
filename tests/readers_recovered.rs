//! Three independent readers compare a database that was recovered from Windows' logs with the snapshot that Windows
//! made. They must find the same rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_engine::{InstanceOptions, RecoverySet, Replayer};
use ese_format::LogPosition;
use jetcell_vfs::{RealOptions, RealVfs, Vfs};
use system_tests::readers::{IndependentReader, InstalledReaders, ReadTable};
use testkit::corpus::Corpus;

/// Recovers the files of a directory in place, like `jetcell recover`, and returns the path of the database.
fn recover(directory: &Path) -> PathBuf {
    let vfs: Arc<dyn Vfs> =
        Arc::new(RealVfs::new(RealOptions { direct: false, ..RealOptions::default() }).unwrap());
    let files = vfs.list(directory).unwrap();
    let set = RecoverySet::find(&vfs, &files).unwrap();
    let plan = set.plan(LogPosition::MAX);
    set.verify(&vfs, &plan, LogPosition::MAX).unwrap();
    let mut options = InstanceOptions::with_vfs(vfs, directory.to_path_buf());
    options.log.base_name = set.base_name;
    options.log.names = set.log_names;
    options.recovery.database_paths.search(directory);
    let mut replayer = Replayer::open(options, &plan.logs[0].1).unwrap();
    let Some(((_, newest), closed)) = plan.logs.split_last() else { panic!("there are no logs") };
    closed.iter().for_each(|(_, log)| replayer.replay(log).unwrap());
    replayer.replay_until(newest, LogPosition::MAX).unwrap();
    replayer.finish().unwrap();
    directory.join("SRUDB.dat")
}

/// Returns the tables by name with their rows. If the catalog has deleted nodes, some readers list a table twice.
fn sorted(mut tables: Vec<ReadTable>) -> Vec<ReadTable> {
    tables.sort_by(|a, b| a.name.cmp(&b.name));
    tables
}

/// Compares a recovered set with a snapshot. `logs` lists files of the set, with their names in the recovery
/// directory.
fn compare(set: &str, files: &[(&str, &str)], snapshot: &str) {
    let (Some(corpus), Some(readers)) = (Corpus::locate(), InstalledReaders::locate().unwrap()) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    for (stored, name) in files {
        std::fs::write(directory.path().join(name), corpus.read(&format!("logsets/{set}/{stored}"))).unwrap();
    }
    let recovered = recover(directory.path());
    let known = format!("logsets/{set}/{snapshot}");
    let unpacked = tempfile::tempdir().unwrap();
    let windows = corpus.unpack(&known, unpacked.path());
    assert!(std::fs::read(&recovered).unwrap() != std::fs::read(&windows).unwrap());
    for reader in IndependentReader::ALL {
        let found = sorted(readers.read(reader, &recovered, true).unwrap());
        let expected = sorted(readers.read(reader, &windows, true).unwrap());
        assert_eq!(found.len(), expected.len(), "{}", reader.name());
        for (found, expected) in found.iter().zip(&expected) {
            let context = format!("{} {}", reader.name(), expected.name);
            assert_eq!((&found.name, &found.columns), (&expected.name, &expected.columns), "{context}");
            assert!(found.rows == expected.rows, "{context}: the rows differ");
            assert_eq!((found.row_count, found.rows.len()), (expected.row_count, expected.rows.len()));
        }
        for (name, table) in &corpus.file(&known).tables {
            let noted = match reader {
                IndependentReader::Libesedb => &table.libesedb,
                IndependentReader::Dissect => &table.dissect,
                IndependentReader::Impacket => &table.impacket,
            };
            let count = noted.as_ref().and_then(serde_json::Value::as_u64).unwrap();
            let mut counts = found.iter().filter(|table| table.name == *name).map(|table| table.row_count);
            assert!(counts.any(|found| found == count), "{} {name}: {count} rows", reader.name());
        }
    }
}

#[test]
fn readers_find_snapshot_rows_in_a_database_built_from_logs() {
    let files = [
        ("a/SRU00001.log", "SRU00001.log"),
        ("b/SRUtmp.log", "SRU00002.log"),
        ("b/SRU00003.log", "SRU00003.log"),
        ("b/SRU00004.log", "SRU00004.log"),
        ("b/SRU.log", "SRU.log"),
    ];
    compare("srum-server2022", &files, "b/SRUDB.dat");
}

#[test]
fn readers_find_all_rows_after_a_dirty_database_recovers() {
    let files = ["SRU0005B.log", "SRU.log", "SRU.chk", "SRUDB.dat"].map(|name| (name, name));
    compare("srum-win11-dirty", &files, "SRUDB.dat");
}
