//! Support for `--dir array:NAME` and `--dir array:NAME/LUN`: databases and logs are stored on an array or on its
//! LUNs, in the same process. Results and small state files are stored in the directory NAME or NAME/LUN.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jetcell_array_service::ArrayVolumes;
pub use jetcell_array_service::files_of_array;
use jetcell_workload::TestKind;
use jetcell_workload::measurement::ArrayCounters;

use super::array_environment::array_environment;
use crate::outcome::{CommandContext, CommandError, CommandResult};

const ARRAY_PREFIX: &str = "array:";

/// Replaces each `array:NAME` with the absolute path of the directory, and returns these paths.
pub fn resolve_array_directories(directories: &mut [PathBuf]) -> CommandResult<Vec<PathBuf>> {
    let mut arrays = vec![];
    for directory in directories {
        let Some(name) = directory.to_str().and_then(|text| text.strip_prefix(ARRAY_PREFIX)) else {
            continue;
        };
        let path = std::path::absolute(name).context(directory.display())?;
        arrays.push(path.clone());
        *directory = path;
    }
    Ok(arrays)
}

/// Fails for tests that copy databases through the machine's file system.
pub fn check_test(test: TestKind, to: Option<&Path>, arrays: &[PathBuf]) -> CommandResult<()> {
    if !arrays.is_empty() && (matches!(test, TestKind::Recovery | TestKind::Replication) || to.is_some()) {
        return Err(CommandError::new("databases on an array cannot be copied").advise(
            "for test recovery, test replication and --to, use a directory that is not on an array",
        ));
    }
    Ok(())
}

/// Starts the arrays that the directories name.
pub fn mount_arrays(directories: Vec<PathBuf>) -> CommandResult<ArrayVolumes> {
    ArrayVolumes::mount(directories, array_environment)
}

/// Returns a function that reads the most recent counters of all arrays, or `None` if there are no arrays.
pub fn array_counters(volumes: &ArrayVolumes) -> Option<Arc<dyn Fn() -> ArrayCounters + Send + Sync>> {
    let watched = volumes.watch();
    if watched.is_empty() {
        return None;
    }
    Some(Arc::new(move || {
        let mut all = ArrayCounters::default();
        for (array, host) in watched.read() {
            let members = array.counters.members.total();
            all.add(&ArrayCounters {
                host_writes: host.writes,
                host_blocks: host.blocks,
                member_reads: members.reads,
                member_writes: members.writes,
                member_blocks_written: members.blocks_written,
                zones_done: array.zones_done,
                zones: array.zones,
                missing: array.missing as u64,
            });
        }
        all
    }))
}
