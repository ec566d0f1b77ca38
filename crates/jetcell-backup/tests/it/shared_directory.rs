//! Restores into directories in which other processes create files concurrently.

use std::io;
use std::path::{Path, PathBuf};

use jetcell_backup::{BackupType, RestoreOptions, restore};
use jetcell_sync::Arc;
use jetcell_sync::atomic::{AtomicBool, Ordering};
use jetcell_vfs::{File, OpenMode, SimVfs, Vfs, VfsLayer};

use super::test_instance::{TestInstance, back_up_directory, disk, options};

const TARGET: &str = "/restored";

/// Simulates another process that creates files directly before the restore creates its first log.
struct CrowdedVfs {
    disk: SimVfs,
    names: &'static [&'static str],
    is_done: AtomicBool,
}

impl VfsLayer for CrowdedVfs {
    fn inner(&self) -> &dyn Vfs {
        &self.disk
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let is_log = path.extension().is_some_and(|ending| ending == "restoring");
        if mode == OpenMode::CreateNew && is_log && !self.is_done.swap(true, Ordering::SeqCst) {
            self.names.iter().for_each(|name| self.disk.put(&Path::new(TARGET).join(name), &[7; 4096]));
        }
        self.disk.open(path, mode)
    }
}

fn backed_up() -> SimVfs {
    let (disk, files) = disk();
    let site = TestInstance::open(&files, "/one", 300);
    site.insert(0..20);
    site.close();
    back_up_directory(&files, "/one", "/backup", &options(BackupType::Full, None)).unwrap();
    disk
}

/// Runs a restore while another process creates files with these names.
fn restored(disk: &SimVfs, names: &'static [&'static str]) -> jetcell_backup::Result<()> {
    let crowded = CrowdedVfs { disk: disk.clone(), names, is_done: AtomicBool::new(false) };
    let files: Arc<dyn Vfs> = Arc::new(crowded);
    let options = RestoreOptions { threads: false, ..RestoreOptions::default() };
    restore(&files, &["/backup".into()], Path::new(TARGET), &options).map(drop)
}

fn paths(names: &[&str]) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = names.iter().map(|name| Path::new(TARGET).join(name)).collect();
    paths.sort();
    paths
}

#[test]
fn a_failed_restore_keeps_files_created_concurrently_by_other_processes() {
    const OTHERS: &[&str] =
        &["notes.txt", "other.edb", "other.restoring", "E0000000099.log", "E01.log", "data.jfm"];
    let disk = backed_up();
    disk.corrupt(Path::new("/backup/data.edb"), 5 << 12, &[1, 2, 3]).unwrap();
    restored(&disk, OTHERS).unwrap_err();
    assert_eq!(disk.list(Path::new(TARGET)).unwrap(), paths(OTHERS));
}

#[test]
fn a_restore_failing_at_any_operation_removes_only_own_files() {
    const OTHERS: &[&str] = &["notes.txt", "other.restoring", "E01.log"];
    let first = backed_up();
    let mut failed = 0;
    for count in 1..200 {
        let disk = first.clone_disk();
        disk.fail_at(disk.operations() + count, io::ErrorKind::StorageFull);
        let is_ok = restored(&disk, OTHERS).is_ok();
        let left = disk.list(Path::new(TARGET)).unwrap_or_default();
        for path in paths(OTHERS).iter().filter(|path| disk.contents(path).is_some()) {
            assert!(left.contains(path), "{count}: {left:?}");
        }
        if is_ok {
            assert!(left.len() > OTHERS.len() && paths(OTHERS).iter().all(|path| left.contains(path)));
            continue;
        }
        failed += 1;
        assert!(left.is_empty() || left == paths(OTHERS), "{count}: {left:?}");
    }
    assert!(failed > 20, "{failed}");
}

#[test]
fn a_restore_does_not_overwrite_a_concurrently_created_file() {
    let disk = backed_up();
    restored(&disk, &["data.edb"]).unwrap_err();
    assert_eq!(disk.contents(Path::new("/restored/data.edb")).unwrap(), [7; 4096]);
    assert_eq!(disk.list(Path::new(TARGET)).unwrap(), paths(&["data.edb"]));
}
