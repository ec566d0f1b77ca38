//! `--dir array:NAME`: databases and logs on an array, in the same process. Results and small state files stay in the directory of the
//! array.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use jetcell_array::Volume;
use jetcell_vfs::Vfs;
use jetcell_workload::{Mistake, TestKind};
use serde_json::json;

use crate::commands::raid::{ArrayFiles, Caretaker, RunningArray, Severity, Start};
use crate::console;
use crate::outcome::Failure;

const PREFIX: &str = "array:";
/// Replaces `array:NAME` by the absolute path of the directory, and returns those paths.
pub fn of_directories(directories: &mut [PathBuf]) -> Result<Vec<PathBuf>, Vec<Mistake>> {
    let mut arrays = vec![];
    for directory in directories {
        let Some(name) = directory.to_str().and_then(|text| text.strip_prefix(PREFIX)) else { continue };
        let path = std::path::absolute(name)
            .map_err(|error| vec![Mistake::new(format!("{}: {error}", directory.display()))])?;
        arrays.push(path.clone());
        *directory = path;
    }
    Ok(arrays)
}

/// Refuses tests that copy databases by the file system of the machine.
pub fn check_test(test: TestKind, to: Option<&Path>, arrays: &[PathBuf]) -> Result<(), Vec<Mistake>> {
    if !arrays.is_empty() && (matches!(test, TestKind::Recovery | TestKind::Replication) || to.is_some()) {
        let text = "databases on an array cannot be copied: test recovery, test replication and --to need a directory that is no array";
        return Err(vec![Mistake::new(text)]);
    }
    Ok(())
}

/// The arrays of a run, and the rebuilds that go on beside its load.
pub struct ArrayVolumes {
    mounted: Vec<Mounted>,
    stop: Arc<AtomicBool>,
}

struct Mounted {
    directory: PathBuf,
    volume: Volume,
    files: ArrayFiles,
    rebuild: Option<JoinHandle<()>>,
}

impl ArrayVolumes {
    /// Starts the arrays. Those with something to rebuild are rebuilt from now on.
    pub fn mount(mut directories: Vec<PathBuf>) -> Result<ArrayVolumes, Failure> {
        directories.sort();
        directories.dedup();
        let stop = Arc::new(AtomicBool::new(false));
        let mut mounted = vec![];
        for directory in directories {
            let RunningArray { array, vfs, files } = Start::of(&directory).start()?;
            let is_whole = array.rebuild_progress().is_complete();
            let volume = Volume::mount(array, vfs.clock(), &directory)
                .map_err(|error| format!("{}: {error}", directory.display()))?;
            let rebuild = (!is_whole).then(|| {
                let (volume, stop) = (volume.clone(), stop.clone());
                console::note(&format!("{}: members are rebuilt beside the load", directory.display()));
                std::thread::spawn(move || rebuild(&volume, &stop))
            });
            mounted.push(Mounted { directory, volume, files, rebuild });
        }
        Ok(ArrayVolumes { mounted, stop })
    }

    /// The volumes with their directories.
    pub fn mounts(&self) -> Vec<(PathBuf, Arc<dyn Vfs>)> {
        let mount =
            |mounted: &Mounted| (mounted.directory.clone(), Arc::new(mounted.volume.clone()) as Arc<dyn Vfs>);
        self.mounted.iter().map(mount).collect()
    }

    /// Shuts the arrays down.
    pub fn close(self) -> Result<(), Failure> {
        self.stop.store(true, Ordering::SeqCst);
        for Mounted { directory, volume, mut files, rebuild } in self.mounted {
            let was_rebuilding = rebuild.is_some();
            if let Some(rebuild) = rebuild {
                // An error of the rebuild is one of the array: the close reports it.
                let _ = rebuild.join();
            }
            let found =
                volume.with_array(|array| (array.status(), array.counters(), array.rebuild_progress()));
            if let Some((status, counters, progress)) = found {
                if was_rebuilding && progress.is_complete() {
                    files.event(
                        "rebuild_completed",
                        Severity::Information,
                        "The rebuild is complete.",
                        json!({}),
                    );
                }
                let text = format!(
                    "A test ended: {} blocks written in {} commits, {} rows recovered, {} blocks repaired.",
                    counters.blocks_written,
                    counters.commits,
                    counters.rows_recovered,
                    counters.blocks_repaired
                );
                files.event("test_ended", Severity::Information, &text, json!({}));
                files.save_members(&status)?;
            }
            volume.close().map_err(|error| format!("{}: {error}", directory.display()))?;
        }
        Ok(())
    }
}

/// Rebuilds zone by zone, with pauses while the load is slow.
fn rebuild(volume: &Volume, stop: &AtomicBool) {
    let mut caretaker = Caretaker::new();
    while !stop.load(Ordering::SeqCst) {
        match volume.with_array(|array| caretaker.step(array)) {
            Some(Ok(care)) if !care.is_whole => std::thread::sleep(care.pause),
            // Complete, closed, or failed: the load meets the error as well.
            _ => return,
        }
    }
}
