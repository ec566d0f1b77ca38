//! Maintenance of an instance or of a copy.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ese_engine::{DatabasePaths, Instance, InstanceOptions, RecoverySet};
use ese_format::recognise::has_database_or_log_extension;
use ese_format::{LogPosition, PageSize};
use jetcell_backup::{RecoveryError, check_not_in_use, log_directory};
use jetcell_copies::{CopyScanOptions, CopyState, scan_copy};
use jetcell_host::Cancellation;
use jetcell_vfs::{Vfs, files_at, parent_directory, with_path};

use super::error::{DatabaseFailure, MaintenanceError};
use super::request::{DatabaseMaintenanceResult, MaintenanceProgress, MaintenanceReport, MaintenanceRequest};
use super::tasks::{MaintenanceRun, MaintenanceSlots};
use crate::event_file::{EVENT_FILE, EventFile};

type Result<T> = std::result::Result<T, MaintenanceError>;

/// A log stream to maintain: its databases with their disks, and the directory of its logs.
struct MaintainedStream {
    set: RecoverySet,
    slots: MaintenanceSlots,
    directory: PathBuf,
    page_size: PageSize,
}

impl MaintainedStream {
    /// Returns the results of the databases if the instance is not opened.
    fn unopened_results(&self) -> Vec<DatabaseMaintenanceResult> {
        let unopened = |path: &PathBuf| DatabaseMaintenanceResult {
            path: path.clone(),
            is_unopened: true,
            ..DatabaseMaintenanceResult::default()
        };
        self.set.databases.iter().map(|database| unopened(&database.path)).collect()
    }
}

impl MaintenanceRequest {
    /// Runs the tasks until they are complete or `stop` is cancelled. Dirty databases are recovered first. Events are
    /// written next to the logs. A failure of a database does not prevent the tasks on the other databases. The log
    /// streams of several instances are maintained one after the other.
    ///
    /// # Errors
    /// The request cannot be applied to the files, an instance is in use, or none can be recovered.
    pub fn run(
        &self,
        vfs: &Arc<dyn Vfs>,
        stop: &Cancellation,
        progress: &mut dyn FnMut(MaintenanceProgress<'_>),
    ) -> Result<MaintenanceReport> {
        for path in self.paths.iter().filter(|path| path.is_dir()) {
            if CopyState::read(&**vfs, path)?.is_some() {
                return match &self.paths[..] {
                    [copy] => self.scan_copy(vfs, copy, stop, progress),
                    _ => Err(MaintenanceError::OnlyOneCopy(path.clone())),
                };
            }
        }
        let files = files_at(&self.paths, has_database_or_log_extension)?;
        RecoverySet::require_ese_files(vfs, &self.paths, &files)?;
        let streams = RecoverySet::split_streams(vfs, &files)?;
        // All instances are examined before one of them is changed.
        let examine = |files: &Vec<PathBuf>| self.examine(vfs, files);
        let streams = streams.iter().map(examine).collect::<Result<Vec<MaintainedStream>>>()?;
        let is_single = streams.len() == 1;
        let mut results = Vec::new();
        for stream in streams {
            let unopened = stream.unopened_results();
            // A stopped run does not open further instances. Its report is incomplete.
            if stop.is_cancelled() && !results.is_empty() {
                results.extend(unopened);
                continue;
            }
            let (mut databases, error) = match self.maintain(vfs, stream, stop, progress) {
                Ok((databases, closed)) => (databases, closed.err().map(MaintenanceError::from)),
                Err(error) if is_single => return Err(error),
                Err(error) => (unopened, Some(error)),
            };
            if let Some(error) = error {
                let failure = DatabaseFailure::Instance(Arc::new(error));
                progress(MaintenanceProgress::Failed(&failure));
                for database in databases.iter_mut().filter(|database| database.failure.is_none()) {
                    database.failure = Some(failure.clone());
                }
            }
            results.extend(databases);
        }
        Ok(MaintenanceReport::Instance(results))
    }

    /// Finds the databases of one stream. Changes nothing.
    fn examine(&self, vfs: &Arc<dyn Vfs>, files: &[PathBuf]) -> Result<MaintainedStream> {
        let set = RecoverySet::find_attachable(vfs, files)?;
        set.require_complete()?;
        let Some(first) = set.databases.first() else { return Err(MaintenanceError::NoDatabase) };
        let slots = MaintenanceSlots::assign(vfs, &set, self.parallel);
        self.check_window(&slots)?;
        let directory = if set.logs.is_empty() {
            parent_directory(&first.path).to_path_buf()
        } else {
            log_directory(&set.plan(LogPosition::MAX))?
        };
        check_not_in_use(&set, &directory).map_err(RecoveryError::from)?;
        Ok(MaintainedStream { page_size: first.header.page_size, set, slots, directory })
    }

    fn maintain(
        &self,
        vfs: &Arc<dyn Vfs>,
        stream: MaintainedStream,
        stop: &Cancellation,
        progress: &mut dyn FnMut(MaintenanceProgress<'_>),
    ) -> Result<(Vec<DatabaseMaintenanceResult>, ese_engine::Result<()>)> {
        let MaintainedStream { set, slots, directory, page_size } = stream;
        let events = open_events(&directory)?;
        let mut options = InstanceOptions::with_vfs(vfs.clone(), directory);
        options.log.base_name = set.base_name;
        options.log.names = set.log_names;
        options.page_size = page_size;
        options.events.sink = Some(Arc::new(events));
        options.events.profile = self.event_profile;
        let mut paths = DatabasePaths::default();
        set.databases.iter().for_each(|database| paths.search(parent_directory(&database.path)));
        options.recovery.database_paths = paths;
        let instance = Instance::open(options)?;
        let mut running = MaintenanceRun { request: self, instance: &instance, stop, progress };
        let results = running.run(&set, slots);
        Ok((results, instance.shutdown()))
    }

    fn scan_copy(
        &self,
        vfs: &Arc<dyn Vfs>,
        directory: &Path,
        stop: &Cancellation,
        progress: &mut dyn FnMut(MaintenanceProgress<'_>),
    ) -> Result<MaintenanceReport> {
        let other = !self.defragmentations.is_empty() || self.shrink || self.trim;
        let Some(scan) = self.scan.as_ref().filter(|scan| !scan.zero && !other) else {
            return Err(MaintenanceError::OnlyScan(directory.to_path_buf()));
        };
        if self.window.is_some() {
            return Err(MaintenanceError::CopyWindow(directory.to_path_buf()));
        }
        let options = CopyScanOptions {
            batch_bytes: scan.batch_bytes,
            throttle: scan.throttle.clone(),
            interval: Duration::ZERO,
            events: Some(Arc::new(open_events(directory)?)),
            profile: self.event_profile,
            cancellation: stop.clone(),
        };
        let scan = scan_copy(vfs, directory, &options, &mut |database, last| {
            progress(MaintenanceProgress::Copy(database, last));
            true
        })?;
        Ok(MaintenanceReport::Copy(directory.to_path_buf(), scan))
    }
}

fn open_events(directory: &Path) -> Result<EventFile> {
    Ok(EventFile::open(directory, true).map_err(|error| with_path(&directory.join(EVENT_FILE), error))?)
}
