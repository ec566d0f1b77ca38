//! The result of a stress test survives a power cut that follows the removal of the test's resume state. The results
//! are on another file system, which is simulated and mounted by FUSE.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use jetcell_vfs::{CrashOptions, SimVfs, Vfs, VfsLayer};
use jetcell_workload::engine_ese::{Backend, EseEngine};
use jetcell_workload::{Cancellation, Observer, Options, RunPhase, RunResult, TestKind, run};
use system_tests::lying_disk::can_mount;
use system_tests::mounted::MountedFileSystem;

/// A simulated disk on which a power cut also removes each new directory whose parent directory was not synced.
struct StrictDisk {
    disk: SimVfs,
    new_directories: Mutex<BTreeSet<PathBuf>>,
}

impl StrictDisk {
    fn new() -> StrictDisk {
        StrictDisk { disk: SimVfs::new(), new_directories: Mutex::default() }
    }

    /// Returns the content that a file has after a power cut that loses everything that was not synced.
    fn content_after_power_cut(&self, path: &Path) -> Option<Vec<u8>> {
        let lose_all = CrashOptions {
            lose_write: 1.0,
            tear_write: 0.0,
            all_or_nothing: 0.0,
            lose_length: 1.0,
            lose_name: 1.0,
            tear_rename: 0.0,
        };
        let new = self.new_directories.lock().unwrap();
        let is_lost = path.ancestors().any(|ancestor| new.contains(ancestor));
        if is_lost { None } else { self.disk.crash(1, lose_all).contents(path) }
    }
}

impl VfsLayer for StrictDisk {
    fn inner(&self) -> &dyn Vfs {
        &self.disk
    }
    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.disk.create_directory(directory)?;
        self.new_directories.lock().unwrap().insert(directory.to_owned());
        Ok(())
    }
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.disk.sync_directory(directory)?;
        self.new_directories.lock().unwrap().retain(|new| new.parent() != Some(directory));
        Ok(())
    }
}

struct SilentObserver;

impl Observer for SilentObserver {
    fn begin_phase(&mut self, _: RunPhase, _: u64) {}
    fn advance(&mut self, _: u64, _: &str) {}
    fn log(&mut self, _: &str) {}
}

#[test]
fn a_stress_result_survives_a_power_cut() {
    if !can_mount() {
        return;
    }
    let databases = tempfile::tempdir().unwrap();
    let results = Arc::new(StrictDisk::new());
    let mounted = MountedFileSystem::new(results.clone()).unwrap();
    let options = Options {
        dirs: vec![databases.path().to_owned()],
        databases: Some(1),
        size: Some("32MiB".parse().unwrap()),
        cache: Some("24MiB".parse().unwrap()),
        threads: Some(2),
        duration: Some("1s".parse().unwrap()),
        sample_interval: Some("250ms".parse().unwrap()),
        output: Some(mounted.path().join("results/stress")),
        ..Options::default()
    };
    let profile = options.resolve_for(TestKind::Stress).unwrap();
    let engine = EseEngine::new(Backend::Threads).unwrap();
    run(&profile, &engine, &mut SilentObserver, &Cancellation::default()).unwrap();
    assert!(!databases.path().join("jetcell-stress.json").exists(), "the resume state was not removed");

    let left = results.content_after_power_cut(Path::new("/results/stress/result.json"));
    let result: RunResult = serde_json::from_slice(&left.expect("the result is lost")).unwrap();
    assert!(result.measured_seconds >= 1.0, "{}", result.reason);
}
