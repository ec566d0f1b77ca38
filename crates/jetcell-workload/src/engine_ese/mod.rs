//! Runs the load on the real engine. Each database has its own instance and log stream. All instances share one page
//! cache.
//!
//! Each page is written once, directly to its location, as in ESE. First writing page images to a side file would
//! protect against torn writes, but ESE does not perform this I/O. The plan and the report mention this.
//!
//! ```text
//!  table "Messages <n>"   Id (primary) | Thread (index ByThread) | Short | Long
//! ```

mod backup;
mod load;
mod log_copies;
mod maintenance;
mod parallel;
mod replay;
mod replication;
mod session;
mod verify;
mod volumes;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_engine::Database;
use ese_engine::internals::cache::{Cache, CacheOptions, EvictionPolicy};
use ese_engine::internals::log::LogNames;
use ese_engine::{
    BackgroundThreads, BulkLoadOptions, ColumnDefinition, DatabaseOptions, EventSink, IndexDefinition,
    Instance, InstanceOptions, LoadBuffers, TableDefinition, TornPageProtection, WorkerGroup,
};
use ese_format::PageSize;
use ese_format::record::{ColumnFlags, ColumnType};
use jetcell_host::Cancellation;
use jetcell_host::machine::ArrayStorage;
pub use jetcell_vfs::Backend;
use jetcell_vfs::{
    CountedVfs, IoOperation, IoReason, IoSnapshot, LatencyPrecision, MountedVfs, RealOptions, RealVfs, Vfs,
};
use parking_lot::Mutex;

use self::log_copies::ClosedLogReader;
use self::maintenance::TaskRuntimes;
use self::parallel::run_in_parallel;
use self::session::EseSession;
use crate::engine::{
    BulkLoadAction, DatabaseOpenMode, DatabaseStore, ExistingDatabase, LoadRow, PassiveCopies, ReplayStart,
    Result, StorageEngine, StorageSession, VerificationDepth,
};
use crate::error::Error;
use crate::layout::{CopyPlan, InstancePlan, LOG_BASE_NAME, RunPlan};
use crate::measurement::{
    ArrayCounters, CacheUsage, DefragSummary, InstanceIo, IoTotals, LatencyHistogram, LogCopySummary,
    ScanSummary, VerificationResult,
};
use crate::profile::{MaintenanceSettings, RecoveryMode};
use crate::start_error::StartError;
use crate::watch::{BackupWatch, ReplayWatch};

/// Number of bytes by which a database file is extended.
const EXTENSION_BYTES: u32 = 8 << 20;

/// Share of free frames, in permille, below which the cleaner starts. It is higher than ESE's default of 1 %: the
/// smallest caches have a thousand pages, and on fast storage the load uses up ten free pages before the cleaner thread
/// runs.
const START_CLEANING_PERMILLE: u32 = 30;

/// Maximum number of instances for which latency distributions have three significant digits. With more instances,
/// they have two.
const PRECISE_INSTANCES: usize = 8;

/// Jetcell's own storage engine, running on the machine's file system.
pub struct EseEngine {
    files: Arc<dyn Vfs>,
    /// Array directories. Files under these directories are stored on array volumes.
    arrays: Vec<PathBuf>,
    /// Descriptions of the arrays, for results.
    array_storage: Vec<(PathBuf, ArrayStorage)>,
    array_counters: Option<Arc<ArrayCounterReader>>,
    events: Mutex<Option<Arc<dyn EventSink>>>,
}

/// Function that reads the array counters.
type ArrayCounterReader = dyn Fn() -> ArrayCounters + Send + Sync;

impl EseEngine {
    /// Starts the I/O backend.
    ///
    /// # Errors
    /// The backend's threads cannot be started, or the kernel does not support the requested backend.
    pub fn new(backend: Backend) -> io::Result<EseEngine> {
        EseEngine::with_mounts(backend, vec![])
    }

    /// Starts the I/O backend as [`EseEngine::new`] does, and mounts array volumes at directories of the machine. Each
    /// volume is given as a file system.
    ///
    /// # Errors
    /// Returns the same errors as [`EseEngine::new`].
    pub fn with_mounts(backend: Backend, mounts: Vec<(PathBuf, Arc<dyn Vfs>)>) -> io::Result<EseEngine> {
        let files = Arc::new(RealVfs::new(RealOptions { backend, ..RealOptions::default() })?);
        let arrays = mounts.iter().map(|(directory, _)| directory.clone()).collect();
        let files: Arc<dyn Vfs> =
            if mounts.is_empty() { files } else { Arc::new(MountedVfs::new(files, mounts)) };
        let events = Mutex::default();
        Ok(EseEngine { files, arrays, array_storage: vec![], array_counters: None, events })
    }

    /// Sets the function that reads the array counters for each sample. The function must return quickly.
    #[must_use]
    pub fn with_array_counters(self, read: Arc<ArrayCounterReader>) -> EseEngine {
        EseEngine { array_counters: Some(read), ..self }
    }

    /// Sets the descriptions of the arrays, each with the directory under which the test accesses it. They are included
    /// in the results.
    #[must_use]
    pub fn with_array_storage(self, array_storage: Vec<(PathBuf, ArrayStorage)>) -> EseEngine {
        EseEngine { array_storage, ..self }
    }

    fn is_locked(&self, path: &Path) -> bool {
        // Locking a missing file would create it.
        let busy = || self.files.lock(path).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        self.files.exists(path).unwrap_or(true) && busy()
    }
}

impl StorageEngine for EseEngine {
    fn report_events(&self, events: Arc<dyn EventSink>) {
        *self.events.lock() = Some(events);
    }

    fn files(&self) -> Arc<dyn Vfs> {
        self.files.clone()
    }

    fn array_of(&self, path: &Path) -> Option<PathBuf> {
        self.arrays.iter().find(|array| path.starts_with(array)).cloned()
    }

    fn array_storage(&self) -> &[(PathBuf, ArrayStorage)] {
        &self.array_storage
    }

    fn inspect(&self, instance: &InstancePlan) -> std::result::Result<ExistingDatabase, StartError> {
        crate::plan::inspect(&*self.files, instance)
    }

    fn is_in_use(&self, instance: &InstancePlan) -> bool {
        let log_lock = instance.log_dir.join(format!("{LOG_BASE_NAME}.lock"));
        self.is_locked(&instance.database) || self.is_locked(&log_lock)
    }

    fn verify(
        &self,
        plan: &RunPlan,
        depth: VerificationDepth,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Option<VerificationResult> {
        let volumes = volumes::volumes(plan, &self.arrays);
        verify::verify(&self.files, plan, &volumes, depth, progress)
    }

    fn open(&self, plan: &RunPlan, opening: DatabaseOpenMode) -> Result<Box<dyn DatabaseStore>> {
        let page_size = PageSize::new(plan.page_bytes).ok_or(Error::PageSize(plan.page_bytes))?;
        let pages = match opening {
            DatabaseOpenMode::Create => plan.memory().page_bytes().min(plan.cache_bytes / 2),
            DatabaseOpenMode::Attach => plan.memory().page_bytes(),
        };
        let cache = Cache::new(CacheOptions {
            start_cleaning_permille: START_CLEANING_PERMILLE,
            stop_cleaning_permille: 2 * START_CLEANING_PERMILLE,
            // The storage must receive the same writes as it would from ESE.
            eviction: EvictionPolicy::WriteBack,
            ..CacheOptions::new(pages as usize, page_size, self.files.clock())
        });
        cache.start_threads()?;
        let volumes = volumes::volumes(plan, &self.arrays);
        let workers = volumes::workers(&volumes, self.files.clock())?;
        let (files, worked, copiers) = (self.files.clone(), Mutex::default(), Mutex::default());
        let events = self.events.lock().clone();
        let of_disk = plan.databases_of_disks();
        let mut store = EseStore {
            files,
            cache,
            units: Vec::new(),
            buffers: Arc::default(),
            volumes,
            zero_at_creation: plan.zero_at_creation,
            disk_positions: of_disk,
            worked,
            copiers,
            events,
            array_counters: self.array_counters.clone(),
        };
        let open = |number: usize| {
            let workers = workers[number].clone();
            let shared =
                SharedResources { files: &self.files, cache: &store.cache, workers, events: &store.events };
            OpenInstance::open(shared, plan, &plan.instances[number], opening)
        };
        store.units = each_database(&*self.files, plan, &store.volumes, open)?;
        Ok(Box::new(store))
    }

    fn preserve_state(&self, instance: &InstancePlan, progress: &mut dyn FnMut(u64) -> bool) -> Result<()> {
        replay::preserve_state(instance, progress)
    }

    fn remove_preserved_state(&self, instance: &InstancePlan) -> Result<()> {
        replay::remove_preserved_state(instance)
    }

    fn restore_state(&self, instance: &InstancePlan, start: &ReplayStart, mode: RecoveryMode) -> Result<()> {
        replay::restore_state(instance, start, mode)
    }

    fn replay(
        &self,
        plan: &RunPlan,
        database: usize,
        start: &ReplayStart,
        watch: &ReplayWatch,
    ) -> Result<()> {
        let events = self.events.lock().clone();
        replay::replay(&self.files, plan, &plan.instances[database], start, events, watch)
    }
}

/// Runs a possibly slow operation, such as crash recovery, on each database. Volumes are processed concurrently, and
/// each volume limits how many of its databases are processed at the same time. Returns the results in plan order.
fn each_database<R: Send>(
    files: &dyn Vfs,
    plan: &RunPlan,
    volumes: &[usize],
    open: impl Fn(usize) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    // Databases that do not exist yet are treated as small.
    let bytes: Vec<u64> =
        plan.instances.iter().map(|place| files.file_len(&place.database).unwrap_or(0)).collect();
    let queues = verify::queues(plan, volumes, &bytes);
    let done: Mutex<BTreeMap<usize, Result<R>>> = Mutex::default();
    std::thread::scope(|scope| {
        for lane in verify::lanes(&queues, u64::MAX) {
            let (done, open) = (&done, &open);
            scope.spawn(move || {
                verify::run_jobs(&lane, |database| {
                    let result = open(database);
                    done.lock().insert(database, result);
                });
            });
        }
    });
    done.into_inner().into_values().collect()
}

/// An instance with its database.
struct OpenInstance {
    instance: Arc<Instance>,
    database: Arc<Database>,
    counted: Arc<CountedVfs>,
    log_names: LogNames,
    place: InstancePlan,
}

/// Resources that instances share.
struct SharedResources<'a> {
    files: &'a Arc<dyn Vfs>,
    cache: &'a Arc<Cache>,
    workers: Option<Arc<WorkerGroup>>,
    events: &'a Option<Arc<dyn EventSink>>,
}

impl OpenInstance {
    fn open(
        shared: SharedResources<'_>,
        plan: &RunPlan,
        place: &InstancePlan,
        opening: DatabaseOpenMode,
    ) -> Result<OpenInstance> {
        let SharedResources { files, cache, workers, events } = shared;
        // Several distributions are kept in memory for each database.
        let digits = if plan.instances.len() > PRECISE_INSTANCES {
            LatencyPrecision::Two
        } else {
            LatencyPrecision::Three
        };
        let counted = Arc::new(CountedVfs::with_digits(files.clone(), digits));
        let mut options = InstanceOptions::with_cache(counted.clone(), place.log_dir.clone(), cache.clone())
            .circular_log(plan.circular_log)
            .event_sink(events.clone())
            .background(workers.map_or(BackgroundThreads::Own, BackgroundThreads::Shared));
        options.log.base_name = LOG_BASE_NAME;
        options.log.waypoint_latency = plan.waypoint_latency;
        options.events.profile = plan.event_profile.0;
        options.version_store_bytes = plan.memory().version_store_bytes() as usize;
        if !plan.page_protection {
            options.torn_page_protection = TornPageProtection::Off;
        }
        let mut instance = Instance::open(options.clone())?;
        if opening == DatabaseOpenMode::Create && instance.recovery().ran {
            // After a clean shutdown, bulk loads can use the space that recovery has freed.
            instance.shutdown()?;
            drop(instance);
            instance = Instance::open(options)?;
        }
        let extension_pages = EXTENSION_BYTES / plan.page_bytes;
        let attach = opening == DatabaseOpenMode::Attach
            || files.exists(&place.database).map_err(|e| Error::io(&place.database, &e))?;
        let database = if attach {
            instance.attach(&place.database, extension_pages)?
        } else {
            let options = DatabaseOptions { initial_pages: extension_pages, extension_pages };
            instance.create_database(&place.database, &options)?
        };
        let log_names = LogNames::new(&place.log_dir, LOG_BASE_NAME);
        Ok(OpenInstance { instance, database, counted, log_names, place: place.clone() })
    }
}

/// Returns the name of the load table with this number.
fn table_name(number: u32) -> String {
    format!("Messages {}", number + 1)
}

fn definition(number: u32) -> TableDefinition {
    let sized = |name: &str, kind, size| ColumnDefinition { size, ..ColumnDefinition::new(name, kind) };
    TableDefinition {
        name: table_name(number),
        columns: vec![
            ColumnDefinition::new("Id", ColumnType::LongLong).with_flags(ColumnFlags::NOT_NULL),
            sized("Thread", ColumnType::Binary, 16),
            sized("Short", ColumnType::Binary, 255),
            ColumnDefinition::new("Long", ColumnType::LongBinary),
        ],
        indexes: vec![
            IndexDefinition::new("ById", &["Id"]).primary(),
            IndexDefinition::new("ByThread", &["Thread"]),
        ],
        pages: 0,
        ..TableDefinition::default()
    }
}

/// Open databases.
struct EseStore {
    files: Arc<dyn Vfs>,
    cache: Arc<Cache>,
    units: Vec<OpenInstance>,
    /// Buffers for bulk loads.
    buffers: Arc<LoadBuffers>,
    /// Volume number of each unit.
    volumes: Vec<usize>,
    zero_at_creation: bool,
    /// Index of each database among the databases on its disk and the number of databases on that disk.
    disk_positions: Vec<(u32, u32)>,
    worked: Mutex<TaskRuntimes>,
    /// Log copiers, one for each unit. Empty unless the log reads of additional copies are simulated.
    copiers: Mutex<Vec<ClosedLogReader>>,
    /// Receiver of events, including those of the copies.
    events: Option<Arc<dyn EventSink>>,
    array_counters: Option<Arc<ArrayCounterReader>>,
}

impl DatabaseStore for EseStore {
    fn arrays(&self) -> Option<ArrayCounters> {
        self.array_counters.as_ref().map(|read| read())
    }
    fn volumes(&self) -> Vec<usize> {
        self.volumes.clone()
    }

    fn has_table(&self, database: usize, table: u32) -> Result<bool> {
        let unit = &self.units[database];
        let name = table_name(table);
        Ok(unit.instance.session().tables(&unit.database)?.contains(&name))
    }

    fn load_table(
        &self,
        database: usize,
        table: u32,
        memory: usize,
        next: &mut dyn FnMut(u64, &mut LoadRow) -> BulkLoadAction,
        stop: &Cancellation,
    ) -> Result<()> {
        let unit = &self.units[database];
        let buffers = self.buffers.clone();
        let options = BulkLoadOptions { buffers, ..load::options(memory, self.zero_at_creation) };
        load::table(unit, table, options, next, stop)
    }

    fn session(&self, database: usize) -> Result<Box<dyn StorageSession>> {
        let unit = &self.units[database];
        Ok(Box::new(EseSession::new(unit.instance.session(), unit.database.clone())))
    }

    fn io(&self) -> Vec<InstanceIo> {
        let mut all: Vec<InstanceIo> =
            self.units.iter().map(|unit| io_counters(&unit.counted.snapshot())).collect();
        let copiers = self.copiers.lock();
        all.iter_mut().zip(copiers.iter()).for_each(|(io, copier)| io.log_copy_read = copier.reads());
        all
    }

    fn cache(&self) -> CacheUsage {
        let counters = self.cache.counters();
        CacheUsage {
            used_bytes: counters.resident_bytes,
            limit_bytes: counters.max_bytes,
            stalls: counters.fault_stalls,
        }
    }

    fn start_maintenance(&self, settings: &MaintenanceSettings) -> Result<()> {
        self.start_tasks(settings)
    }

    fn stop_maintenance(&self) {
        self.stop_tasks();
    }

    fn finish_scan(&self) -> Vec<ScanSummary> {
        self.stop_tasks();
        self.scans()
    }

    fn finish_defragmentation(&self) -> Vec<DefragSummary> {
        self.stop_tasks();
        self.defragmentations()
    }

    fn back_up(&self, database: usize, to: Option<&Path>, watch: &Arc<BackupWatch>) -> Result<()> {
        let unit = &self.units[database];
        match to {
            Some(to) => backup::write(&unit.instance, &self.files, &unit.place, to, watch),
            None => backup::read(&unit.instance, watch),
        }
    }

    fn start_log_copies(&self, copies: u32) -> Result<()> {
        let start = |unit: &OpenInstance| {
            let path = unit.log_names.directory().to_path_buf();
            ClosedLogReader::start(&self.files, unit.log_names.clone(), &unit.instance, copies)
                .map_err(|error| Error::io(path, &error))
        };
        *self.copiers.lock() = self.units.iter().map(start).collect::<Result<_>>()?;
        Ok(())
    }

    fn finish_log_copies(&self) -> Vec<LogCopySummary> {
        let copiers = std::mem::take(&mut *self.copiers.lock());
        let ended = self.units.iter().zip(copiers);
        let database = |unit: &OpenInstance| unit.database.path().to_path_buf();
        ended.map(|(unit, copier)| LogCopySummary { database: database(unit), ..copier.finish() }).collect()
    }

    fn replicate(
        &self,
        copies: &[CopyPlan],
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Box<dyn PassiveCopies>> {
        replication::start(&self.files, &self.units, copies, self.events.clone(), progress)
    }

    fn log_bytes(&self) -> u64 {
        self.units.first().map_or(0, |unit| self.files.file_len(&unit.log_names.current()).unwrap_or(0))
    }

    fn database_bytes(&self, database: usize) -> u64 {
        self.units[database].database.file_bytes().unwrap_or(0)
    }

    fn replay_start(&self, database: usize) -> Result<ReplayStart> {
        replay::replay_start(self.units[database].database.path())
    }

    fn generation(&self, database: usize) -> u32 {
        self.units[database].instance.core().log().tail().generation.0
    }

    fn shutdown(self: Box<Self>) -> Result<()> {
        let closed =
            run_in_parallel(self.units.len(), |number| Ok(self.units[number].instance.shutdown()?));
        self.cache.shutdown();
        closed.into_iter().collect()
    }
}

/// Converts the I/O counters to the form used in reports. I/O on headers and checkpoint files and I/O for file growth
/// do not count as transactional.
fn io_counters(snapshot: &IoSnapshot) -> InstanceIo {
    use IoOperation::{Read, Write};
    let sum = |reasons: &[IoReason], operation| totals(snapshot, reasons, operation);
    InstanceIo {
        database_read: sum(&[IoReason::DatabaseRead, IoReason::Preread], Read),
        database_write: sum(&[IoReason::CheckpointWrite, IoReason::EvictionWrite], Write),
        log_read: sum(&[IoReason::LogRead], Read),
        log_write: sum(&[IoReason::LogWrite], Write),
        log_format: sum(&[IoReason::LogFormat], Write),
        scan_read: sum(&[IoReason::Scan], Read),
        log_copy_read: IoTotals::default(),
        backup_read: sum(&[IoReason::Backup], Read),
        errors: snapshot.errors(),
    }
}

/// Adds up the transfers that were issued for the given reasons.
fn totals(snapshot: &IoSnapshot, reasons: &[IoReason], operation: IoOperation) -> IoTotals {
    let count = snapshot.total(reasons, operation);
    IoTotals {
        operations: count.operations,
        bytes: count.bytes,
        latency_us: count.latency_us,
        latencies: LatencyHistogram::from(count.latencies),
    }
}
