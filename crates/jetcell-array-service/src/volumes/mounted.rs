//! A mounted array: its start, its shutdown, and the event that reports the writes of the test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jetcell_array::ArrayError;
use jetcell_host::Cancellation;
use jetcell_host::machine::ArrayStorage;
use jetcell_luns::{HostWriteCounters, LunVolume, SharedLunVolume, Volume};
use jetcell_sync::thread::{self, JoinHandle};
use jetcell_sync::{Arc, Mutex, Weak};
use jetcell_vfs::create_private_directory;
use serde_json::json;

use crate::control::ControlSocket;
use crate::description::transfers_json;
use crate::directory::{ArrayEventSeverity, ArrayFiles};
use crate::environment::ServiceEnvironment;
use crate::error::{Error, InArray, Result};
use crate::members::SimulatedDriveOptions;
use crate::running::{
    ArrayInUse, ArrayOwner, ArrayStartOptions, ConcurrentActivity, RunningArray, log_options,
};

/// A mounted array, with the volumes that a test uses.
pub(super) struct MountedVolume {
    array: PathBuf,
    files: Arc<Mutex<ArrayFiles>>,
    /// Test directories, each with a description of the array or LUN that stores its files.
    pub storage: Vec<(PathBuf, ArrayStorage)>,
    /// Test directories, each with the volume that contains its files.
    pub volumes: Vec<(PathBuf, Volume)>,
    luns: Option<SharedLunVolume>,
    /// The array with its maintainer. The reference does not keep the array in use.
    used: Weak<ArrayInUse>,
    /// Thread that maintains the array until the test ends.
    maintenance_thread: JoinHandle<()>,
    control: ControlSocket,
    environment: ServiceEnvironment,
}

impl MountedVolume {
    /// Starts an array. `directories` are test directories, each with the LUN that contains its files.
    pub fn mount(
        path: PathBuf,
        directories: BTreeMap<PathBuf, Option<String>>,
        stop: &Cancellation,
        environment: &ServiceEnvironment,
    ) -> Result<MountedVolume> {
        let mut running = ArrayStartOptions::for_array(&path).start(environment)?;
        let shown = path.display();
        let holds_luns = LunVolume::exists_on(&mut running.array).in_array(&shown)?;
        if let Some(what) = mismatch_reason(&path, holds_luns, &directories) {
            return running.refuse(what);
        }
        let is_whole = running.array.rebuild_progress().is_complete();
        let storage = describe_storage(&running, &directories);
        let log = log_options(&running, false);
        let RunningArray { array, files, .. } = running;
        let clock = || environment.vfs.clock();
        let used_luns = directories.values().flatten().cloned().collect();
        let (volumes, luns, owner): (_, _, Arc<dyn ArrayOwner>) = if holds_luns {
            let luns = SharedLunVolume::new(LunVolume::start(array, &log).in_array(&shown)?);
            let volumes =
                directories.into_iter().filter_map(|(directory, lun)| lun.map(|lun| (directory, lun)));
            let mounted: Result<Vec<_>> = volumes
                .map(|(directory, lun)| {
                    let volume = Volume::mount_lun(luns.clone(), &lun, clock(), &directory);
                    let volume = volume.in_array(&shown)?;
                    // This directory stores results and state files.
                    create_private_directory(&directory)
                        .map_err(|source| Error::Path { path: directory.clone(), source })?;
                    Ok((directory, volume))
                })
                .collect();
            let mounted = match mounted {
                Ok(mounted) => mounted,
                Err(failure) => {
                    // The first error is reported.
                    let _ = close_luns(luns, &path);
                    return Err(failure);
                }
            };
            (mounted, Some(luns.clone()), Arc::new(luns))
        } else {
            let volume = Volume::mount(array, clock(), &path).in_array(&shown)?;
            (vec![(path.clone(), volume.clone())], None, Arc::new(volume))
        };
        if !is_whole {
            environment.note(format_args!("{shown}: members are rebuilt while the load runs"));
        }
        let files = Arc::new(Mutex::new(files));
        let activity = ConcurrentActivity::with_luns(used_luns);
        let used = Arc::new(ArrayInUse::new(owner, files.clone(), environment.clone(), activity));
        let (weak, control) = (Arc::downgrade(&used), ControlSocket::open(&path, used.clone()));
        let stop = stop.clone();
        let maintenance_thread = thread::spawn(move || {
            // Errors from a rebuild or a consistency point are reported when the array is closed.
            let _ = used.maintain_until_stopped(None, &stop);
        });
        let environment = environment.clone();
        Ok(MountedVolume {
            array: path,
            files,
            storage,
            volumes,
            luns,
            used: weak,
            maintenance_thread,
            control,
            environment,
        })
    }

    /// Returns a weak reference to the array, and its volumes, for reading their counters.
    pub fn watch(&self) -> (Weak<ArrayInUse>, Vec<Volume>) {
        (self.used.clone(), self.volumes.iter().map(|(_, volume)| volume.clone()).collect())
    }

    /// Shuts the array down.
    pub fn close(self) -> Result<()> {
        drop(self.control);
        // If the thread panicked, it has already reported the panic.
        let _ = self.maintenance_thread.join();
        let MountedVolume { array, files, volumes, luns, environment, .. } = self;
        // The consistency point writes pending changes, which must be included in the figures.
        let last = luns.as_ref().map_or(Ok(()), |luns| luns.with_volume(LunVolume::consistency_point));
        report(&volumes, luns.as_ref(), &mut files.lock(), &environment);
        // A volume that is not closed would keep the LUNs in use.
        let close = |closed: std::result::Result<(), ArrayError>, (_, volume): &(PathBuf, Volume)| {
            let this = volume.close();
            closed.and(this)
        };
        let closed = volumes.iter().fold(last, close);
        drop(volumes);
        let ended = luns.map_or(Ok(()), |luns| close_luns(luns, &array));
        closed.in_array(array.display()).and(ended)
    }
}

/// Adds an event with the test's figures to the array's event file.
fn report(
    volumes: &[(PathBuf, Volume)],
    luns: Option<&SharedLunVolume>,
    files: &mut ArrayFiles,
    environment: &ServiceEnvironment,
) {
    let Some((_, first)) = volumes.first() else { return };
    let found = first.with_array(|array| (array.status(), array.counters()));
    let Some((status, counters)) = found else { return };
    let host = host_writes(volumes.iter().map(|(_, volume)| volume));
    let absorbed = luns.map(|luns| luns.with_volume(|luns| luns.counters()));
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
    files.event("test_ended", ArrayEventSeverity::Information, &text, figures);
    if let Err(failure) = files.save_members(&status) {
        environment.note(failure.full_text());
    }
}

/// Describes the array or LUN that stores the files of each directory.
fn describe_storage(
    running: &RunningArray,
    directories: &BTreeMap<PathBuf, Option<String>>,
) -> Vec<(PathBuf, ArrayStorage)> {
    let status = running.array.status();
    let array = &running.files.directory;
    let of_directory = |lun: &Option<String>| ArrayStorage {
        array: array.path.clone(),
        level: status.level.to_string(),
        members: status.slots.iter().filter_map(|slot| slot.member.clone()).collect(),
        lun: lun.clone(),
        simulated_drive: array.simulated_drive.as_ref().map(SimulatedDriveOptions::as_text),
    };
    directories.iter().map(|(directory, lun)| (directory.clone(), of_directory(lun))).collect()
}

/// Returns the reason why the directories do not match the array, or `None` if they do.
fn mismatch_reason(
    array: &Path,
    holds_luns: bool,
    directories: &BTreeMap<PathBuf, Option<String>>,
) -> Option<Error> {
    let of_array = directories.values().any(Option::is_none);
    match holds_luns {
        true if of_array => Some(Error::ArrayHasLuns(array.to_path_buf())),
        false if directories.len() > 1 || !of_array => Some(Error::ArrayWithoutLuns(array.to_path_buf())),
        _ => None,
    }
}

/// Returns the sum of the writes to several volumes.
pub(super) fn host_writes<'a>(volumes: impl IntoIterator<Item = &'a Volume>) -> HostWriteCounters {
    let mut sum = HostWriteCounters::default();
    for HostWriteCounters { writes, blocks } in volumes.into_iter().map(Volume::host_writes) {
        sum.writes += writes;
        sum.blocks += blocks;
    }
    sum
}

fn close_luns(luns: SharedLunVolume, array: &Path) -> Result<()> {
    let luns = luns.into_inner().ok_or_else(|| Error::FilesInUse(array.to_path_buf()))?;
    luns.close().in_array(array.display())
}
