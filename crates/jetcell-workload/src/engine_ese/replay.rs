//! Replays the logs of a load. Before the load, the state of the databases is preserved. After the load, it is
//! restored, and replay brings the databases up to date again.
//!
//! With [`RecoveryMode::True`], the complete file is preserved as a copy, which shares blocks with the original if
//! the file system supports that. With [`RecoveryMode::Compatible`], only the header is restored. This header states
//! that redo needs all logs of the load, although the pages already contain all changes. A database whose checkpoint
//! did not advance during the load would have the same header.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_engine::internals::cache::{Cache, CacheOptions, EvictionPolicy};
use ese_engine::internals::log::LogNames;
use ese_engine::{Error as EngineError, EventSink, InstanceOptions, PageSize, Replayer, TornPageProtection};
use ese_format::Generation;
use ese_format::LogPosition;
use ese_format::header::{DatabaseHeader, DatabaseState};
use ese_format::log::header::LogHeader;
use jetcell_vfs::{CountedVfs, Vfs, clone_or_copy, rename_durably, sync_file};

use super::io_counters;
use crate::engine::{ReplayStart, Result};
use crate::error::Error;
use crate::layout::{InstancePlan, LOG_BASE_NAME, RunPlan};
use crate::measurement::ReplayCounters;
use crate::profile::RecoveryMode;
use crate::watch::ReplayWatch;

/// Length, in bytes, of the region at the start of a database that contains both copies of the header.
const HEADER_REGION_BYTES: usize = 2 * (32 << 10);

/// Copies a closed database to preserve its state. `progress` receives the number of bytes copied, and returns
/// `false` to cancel.
pub(super) fn preserve_state(instance: &InstancePlan, progress: &mut dyn FnMut(u64) -> bool) -> Result<()> {
    let kept = instance.state_before_load();
    remove_preserved_state(instance)?;
    // An incomplete copy is never used: the run ends, and the next run replaces the copy.
    let copied = clone_or_copy(&instance.database, &kept, progress).map(|_is_complete| ());
    copied.map_err(|error| Error::io(&kept, &error))
}

/// Removes the preserved state.
pub(super) fn remove_preserved_state(instance: &InstancePlan) -> Result<()> {
    let kept = instance.state_before_load();
    match fs::remove_file(&kept) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(&kept, &error)),
        _ => Ok(()),
    }
}

/// Returns the position at which replay of an open database starts.
pub(super) fn replay_start(database: &Path) -> Result<ReplayStart> {
    let header = read_header(database)?;
    Ok(ReplayStart { generation: header.attach_position.generation.0, attached: header })
}

/// Restores a closed database to the state from which its replay starts.
pub(super) fn restore_state(instance: &InstancePlan, start: &ReplayStart, mode: RecoveryMode) -> Result<()> {
    let database = &instance.database;
    match mode {
        RecoveryMode::True => {
            let kept = instance.state_before_load();
            let renamed = rename_durably(&kept, database);
            renamed.map_err(|error| Error::io(&kept, &error))
        }
        RecoveryMode::Compatible => {
            let now = read_header(database)?;
            let newest = newest_generation(instance)?;
            let header = DatabaseHeader {
                state: DatabaseState::DirtyShutdown,
                gen_min_required: Generation(start.generation),
                gen_max_required: newest,
                gen_max_committed: newest,
                db_time: now.db_time,
                last_tree: now.last_tree,
                ..start.attached.clone()
            };
            write_header(database, &header).map_err(|error| Error::io(database, &error))
        }
    }
}

fn read_header(database: &Path) -> Result<DatabaseHeader> {
    let io_error = |error: &io::Error| Error::io(database, error);
    let file = File::open(database).map_err(|error| io_error(&error))?;
    let mut start = vec![0; HEADER_REGION_BYTES];
    let read = file.read_at(&mut start, 0).map_err(|error| io_error(&error))?;
    let header = DatabaseHeader::read_from_start(&start[..read]);
    Ok(header.map_err(|error| EngineError::corrupt(database, error))?.0)
}

/// Writes the two copies of the header one after the other, so one valid copy always exists.
fn write_header(database: &Path, header: &DatabaseHeader) -> io::Result<()> {
    let file = File::options().write(true).open(database)?;
    let page = header.encode();
    for copy in [1, 0] {
        file.write_all_at(&page, copy * page.len() as u64)?;
        sync_file(&file)?;
    }
    Ok(())
}

fn names(instance: &InstancePlan) -> LogNames {
    LogNames::new(&instance.log_dir, LOG_BASE_NAME)
}

fn newest_generation(instance: &InstancePlan) -> Result<Generation> {
    let path = names(instance).current();
    let bytes = fs::read(&path).map_err(|error| Error::io(&path, &error))?;
    let header = LogHeader::decode(&bytes).map_err(|error| EngineError::corrupt(path, error))?;
    Ok(header.generation)
}

/// Returns the logs starting at generation `first`. The current log is the last one.
fn logs_from(instance: &InstancePlan, first: u32) -> Result<Vec<PathBuf>> {
    let newest = newest_generation(instance)?;
    let archived = (first..newest.0).map(|generation| names(instance).archived(Generation(generation)));
    Ok(archived.chain([names(instance).current()]).collect())
}

/// Replays all logs of a load and shuts the database down cleanly.
pub(super) fn replay(
    files: &Arc<dyn Vfs>,
    plan: &RunPlan,
    instance: &InstancePlan,
    start: &ReplayStart,
    events: Option<Arc<dyn EventSink>>,
    watch: &ReplayWatch,
) -> Result<()> {
    let logs = logs_from(instance, start.generation)?;
    let Some((newest, closed)) = logs.split_last() else { return Ok(()) };
    let page_size = PageSize::new(plan.page_bytes).ok_or(Error::PageSize(plan.page_bytes))?;
    let counted = Arc::new(CountedVfs::new(files.clone()));
    let share = plan.cache_bytes as usize / plan.instances.len().max(1);
    let cache = Cache::new(CacheOptions {
        // As during the load, the storage must receive the writes that ESE would issue.
        eviction: EvictionPolicy::WriteBack,
        ..CacheOptions::new(share, page_size, files.clock())
    });
    cache.start_threads()?;
    let mut options = InstanceOptions::with_cache(counted.clone(), instance.log_dir.clone(), cache.clone())
        .torn_page_protection(TornPageProtection::Off)
        .event_sink(events);
    options.log.base_name = LOG_BASE_NAME;
    let mut replayer = Replayer::open(options, closed.first().unwrap_or(newest))?;
    let counters = |replayer: &Replayer, logs: usize| {
        let replayed = replayer.summary();
        ReplayCounters {
            logs: logs as u64,
            records: replayed.records.values().sum(),
            changes: replayed.changed,
            io: io_counters(&counted.snapshot()),
        }
    };
    for (number, log) in closed.iter().enumerate() {
        replayer.replay(log)?;
        if !watch.update(counters(&replayer, number + 1)) {
            replayer.stop()?;
            return Ok(());
        }
    }
    replayer.replay_until(newest, LogPosition::MAX)?;
    let last = counters(&replayer, logs.len());
    replayer.finish()?;
    cache.shutdown();
    // The counters must include the writes made at the end of the replay.
    watch.update(ReplayCounters { io: io_counters(&counted.snapshot()), ..last });
    Ok(())
}
