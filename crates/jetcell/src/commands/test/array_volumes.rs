//! Support for `--dir array:NAME` and `--dir array:NAME/LUN`: databases and logs are stored on an array or on its
//! LUNs, in the same process. Results and small state files are stored in the directory NAME or NAME/LUN.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

use jetcell_array::ArrayError;
use jetcell_host::Cancellation;
use jetcell_luns::{HostWriteCounters, LunVolume, SharedLunVolume, Volume};
use jetcell_vfs::{Vfs, create_private_directory};
use jetcell_workload::TestKind;
use jetcell_workload::measurement::ArrayCounters;
use serde_json::json;

use crate::commands::raid::{
    ArrayDirectory, ArrayEventSeverity, ArrayFiles, ArrayInUse, ArrayOwner, ArraySnapshot, ArrayStartOptions,
    ConcurrentActivity, ControlSocket, RunningArray, is_array, log_options, transfers_json,
};
use crate::console;
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

/// Returns the files that contain an array's data: its members and its write log. `directory` may also name a LUN.
pub fn files_of_array(directory: &Path) -> CommandResult<Vec<PathBuf>> {
    let (array, _) = array_and_lun(directory);
    let found = ArrayDirectory::open(&array)?;
    let mut all = found.members;
    all.extend(found.write_log.or_else(|| Some(array.clone())));
    all.retain(|path| path.exists());
    Ok(all)
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

/// The arrays used by a run, and the maintenance that runs concurrently: rebuilds and LUN consistency points.
pub struct ArrayVolumes {
    mounted: Vec<MountedVolume>,
    stop: Cancellation,
    /// Weak references for reading counters. They must not keep an array in use.
    watched_arrays: Vec<ArrayWithVolumes>,
}

/// An array, and the volumes on it.
type ArrayWithVolumes = (Weak<ArrayInUse>, Vec<Volume>);

struct MountedVolume {
    array: PathBuf,
    files: Arc<Mutex<ArrayFiles>>,
    /// Test directories, each with the volume that contains its files.
    volumes: Vec<(PathBuf, Volume)>,
    luns: Option<SharedLunVolume>,
    /// Thread that maintains the array until the test ends.
    maintenance_thread: Option<JoinHandle<()>>,
    control: Option<ControlSocket>,
}

/// Splits a test directory into the array and, if given, one of its LUNs.
fn array_and_lun(directory: &Path) -> (PathBuf, Option<String>) {
    let parent = directory.parent().filter(|parent| !is_array(directory) && is_array(parent));
    let lun = directory.file_name().and_then(|name| name.to_str());
    match parent.zip(lun) {
        Some((array, lun)) => (array.to_path_buf(), Some(lun.to_string())),
        None => (directory.to_path_buf(), None),
    }
}

impl ArrayVolumes {
    /// Starts the arrays. Members that need a rebuild, now or later, are rebuilt while the load runs.
    pub fn mount(directories: Vec<PathBuf>) -> CommandResult<ArrayVolumes> {
        let mut luns_of: BTreeMap<PathBuf, BTreeMap<PathBuf, Option<String>>> = BTreeMap::new();
        for directory in directories {
            let (array, lun) = array_and_lun(&directory);
            luns_of.entry(array).or_default().insert(directory, lun);
        }
        let mut volumes =
            ArrayVolumes { mounted: vec![], stop: Cancellation::default(), watched_arrays: vec![] };
        for (array, directories) in luns_of {
            if let Err(failure) = volumes.mount_one(array, directories) {
                // The arrays before the failed one have already been started.
                volumes.close()?;
                return Err(failure);
            }
        }
        Ok(volumes)
    }

    fn mount_one(
        &mut self,
        path: PathBuf,
        directories: BTreeMap<PathBuf, Option<String>>,
    ) -> CommandResult<()> {
        let mut running = ArrayStartOptions::for_array(&path).start()?;
        let error_with_path = |error: ArrayError| CommandError::from(error).context(path.display());
        let holds_luns = LunVolume::exists_on(&mut running.array).map_err(error_with_path)?;
        if let Some(what) = mismatch_reason(&path, holds_luns, &directories) {
            running.close()?;
            return Err(what);
        }
        let is_whole = running.array.rebuild_progress().is_complete();
        let log = log_options(&running, false);
        let RunningArray { array, vfs, files } = running;
        let used_luns = directories.values().flatten().cloned().collect();
        let (volumes, luns) = if holds_luns {
            let luns = SharedLunVolume::new(LunVolume::start(array, &log).map_err(error_with_path)?);
            let volumes =
                directories.into_iter().filter_map(|(directory, lun)| lun.map(|lun| (directory, lun)));
            let mounted: CommandResult<Vec<_>> = volumes
                .map(|(directory, lun)| {
                    let volume = Volume::mount_lun(luns.clone(), &lun, vfs.clock(), &directory);
                    let volume = volume.map_err(error_with_path)?;
                    // This directory stores results and state files.
                    create_private_directory(&directory).context(directory.display())?;
                    Ok((directory, volume))
                })
                .collect();
            let mounted = match mounted {
                Ok(mounted) => mounted,
                Err(failure) => {
                    close_luns(luns, &path)?;
                    return Err(failure);
                }
            };
            (mounted, Some(luns))
        } else {
            let volume = Volume::mount(array, vfs.clock(), &path).map_err(error_with_path)?;
            (vec![(path.clone(), volume)], None)
        };
        if !is_whole {
            console::print_note(&format!("{}: members are rebuilt while the load runs", path.display()));
        }
        let files = Arc::new(Mutex::new(files));
        let holder: Option<Arc<dyn ArrayOwner>> = match (&luns, &volumes[..]) {
            (Some(luns), _) => Some(Arc::new(luns.clone())),
            (None, [(_, volume), ..]) => Some(Arc::new(volume.clone())),
            (None, []) => None,
        };
        let (mut beside, mut control) = (None, None);
        if let Some(holder) = holder {
            let used = Arc::new(ArrayInUse::new(
                holder,
                files.clone(),
                vfs,
                ConcurrentActivity::with_luns(used_luns),
            ));
            let written: Vec<Volume> = volumes.iter().map(|(_, volume)| volume.clone()).collect();
            self.watched_arrays.push((Arc::downgrade(&used), written));
            control = Some(ControlSocket::open(&path, used.clone()));
            let stop = self.stop.clone();
            beside = Some(std::thread::spawn(move || {
                // Errors from a rebuild or a consistency point are reported when the array is closed.
                let _ = used.maintain_until_stopped(None, &stop);
            }));
        }
        self.mounted.push(MountedVolume {
            array: path,
            files,
            volumes,
            luns,
            maintenance_thread: beside,
            control,
        });
        Ok(())
    }

    /// Returns the volumes with their directories.
    pub fn mounts(&self) -> Vec<(PathBuf, Arc<dyn Vfs>)> {
        let volumes = self.mounted.iter().flat_map(|mounted| &mounted.volumes);
        volumes
            .map(|(directory, volume)| (directory.clone(), Arc::new(volume.clone()) as Arc<dyn Vfs>))
            .collect()
    }

    /// Returns a function that reads the most recent counters of all arrays, or `None` if there are no arrays.
    pub fn counters(&self) -> Option<Arc<dyn Fn() -> ArrayCounters + Send + Sync>> {
        let watched = self.watched_arrays.clone();
        let read = move || {
            let mut all = ArrayCounters::default();
            for (used, volumes) in &watched {
                if let Some(used) = used.upgrade() {
                    all.add(&sum_counters(&used.snapshot(), volumes));
                }
            }
            all
        };
        (!self.watched_arrays.is_empty())
            .then(|| Arc::new(read) as Arc<dyn Fn() -> ArrayCounters + Send + Sync>)
    }

    /// Shuts the arrays down.
    pub fn close(self) -> CommandResult<()> {
        self.stop.cancel();
        self.mounted.into_iter().try_for_each(MountedVolume::close)
    }
}

/// Returns the reason why the directories do not match the array, or `None` if they do.
fn mismatch_reason(
    array: &Path,
    holds_luns: bool,
    directories: &BTreeMap<PathBuf, Option<String>>,
) -> Option<CommandError> {
    let shown = array.display();
    let of_array = directories.values().any(Option::is_none);
    match holds_luns {
        true if of_array => Some(
            CommandError::new(format_args!("{shown}: the array contains LUNs"))
                .advise(format!("specify one of them: --dir array:{shown}/LUN")),
        ),
        false if directories.len() > 1 || !of_array => {
            let advice = "create a LUN with jetcell raid lun create, or use the whole array";
            Some(
                CommandError::new(format_args!("{shown}: the array has no LUNs"))
                    .advise(format!("{advice}: --dir array:{shown}")),
            )
        }
        _ => None,
    }
}

impl MountedVolume {
    fn close(mut self) -> CommandResult<()> {
        drop(self.control.take());
        if let Some(beside) = self.maintenance_thread.take() {
            // If the thread panicked, it has already reported the panic.
            let _ = beside.join();
        }
        // The consistency point writes pending changes, which must be included in the figures.
        let last = match &self.luns {
            Some(luns) => luns.with_volume(LunVolume::consistency_point),
            None => Ok(()),
        };
        let shown = self.array.display().to_string();
        self.report();
        // A volume that is not closed would keep the LUNs in use.
        let close = |closed: Result<(), ArrayError>, (_, volume): &(PathBuf, Volume)| {
            let this = volume.close();
            closed.and(this)
        };
        let closed = self.volumes.iter().fold(last, close);
        let ended = self.luns.take().map_or(Ok(()), |luns| close_luns(luns, &self.array));
        closed.context(shown).and(ended)
    }

    /// Adds an event with the test's figures to the array's event file.
    fn report(&mut self) {
        let Some((_, first)) = self.volumes.first() else { return };
        let found = first.with_array(|array| (array.status(), array.counters()));
        let Some((status, counters)) = found else { return };
        let mut host = HostWriteCounters::default();
        for (_, volume) in &self.volumes {
            let HostWriteCounters { writes, blocks } = volume.host_writes();
            host.writes += writes;
            host.blocks += blocks;
        }
        let absorbed = self.luns.as_ref().map(|luns| luns.with_volume(|luns| luns.counters()));
        // Blocks that are overwritten in memory before the consistency point are never written to the array.
        let stored = absorbed.map_or(counters.blocks_written, |luns| luns.host_blocks - luns.blocks_absorbed);
        let each = |members: u64, host: u64| (host > 0).then(|| members as f64 / host as f64);
        let total = counters.members.total();
        let content = counters.members.data_and_parity;
        let commands = each(total.writes, host.writes);
        let blocks = each(total.blocks_written, host.blocks);
        let written = each(content.blocks_written, stored);
        let moved = each(content.blocks_written + counters.blocks_read_for_writes, stored);
        let ratios = commands.zip(blocks).zip(written).map_or(String::new(), |((commands, blocks), written)| {
            format!(
                ", {commands:.2} member writes per write, and {blocks:.2} blocks per block; {written:.2} of \
                 data and parity per block that was not replaced in memory"
            )
        });
        let text = format!(
            "A test ended: {} writes of {} blocks{ratios}; {} commits, {} rows recovered, {} blocks \
             repaired, {} defects found.",
            host.writes,
            host.blocks,
            counters.commits,
            counters.rows_recovered,
            counters.blocks_repaired,
            counters.defects
        );
        let figures = json!({
            "host_writes": host.writes, "host_blocks": host.blocks, "stored_blocks": stored,
            "member_writes": total.writes, "member_blocks_written": total.blocks_written,
            "member_reads": total.reads, "member_blocks_read": total.blocks_read,
            "blocks_read_for_writes": counters.blocks_read_for_writes,
            "members": transfers_json(&counters.members), "defects": counters.defects,
            "member_writes_per_host_write": commands, "member_blocks_per_host_block": blocks,
            "data_and_parity_written_per_stored_block": written, "data_and_parity_moved_per_stored_block": moved,
        });
        let mut files = lock(&self.files);
        files.event("test_ended", ArrayEventSeverity::Information, &text, figures);
        if let Err(failure) = files.save_members(&status) {
            console::print_note(&failure.full_text());
        }
    }
}

fn sum_counters(seen: &ArraySnapshot, volumes: &[Volume]) -> ArrayCounters {
    let members = seen.counters.members.total();
    let mut counters = ArrayCounters {
        member_reads: members.reads,
        member_writes: members.writes,
        member_blocks_written: members.blocks_written,
        zones_done: seen.zones_done,
        zones: seen.zones,
        missing: seen.missing as u64,
        ..ArrayCounters::default()
    };
    for HostWriteCounters { writes, blocks } in volumes.iter().map(Volume::host_writes) {
        counters.host_writes += writes;
        counters.host_blocks += blocks;
    }
    counters
}

fn close_luns(luns: SharedLunVolume, array: &Path) -> CommandResult<()> {
    match luns.into_inner() {
        Some(luns) => luns.close().context(array.display()),
        None => Err(CommandError::new("files on the array are still in use, so the array was not shut down")
            .context(array.display())),
    }
}

fn lock(files: &Mutex<ArrayFiles>) -> MutexGuard<'_, ArrayFiles> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}
