//! An in-memory storage engine for the unit tests of this crate: ordered maps, undo lists and simulated latencies.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use ese_engine::Error as EngineError;
use ese_format::foreign::FileContent;
use ese_format::header::DatabaseHeader;
use ese_format::{LogTime, PageSize, Signature};
use jetcell_host::Cancellation;
use jetcell_vfs::{Backend, RealOptions, RealVfs, Vfs};
use parking_lot::Mutex;

use crate::engine::{
    BulkLoadAction, CommitDurability, DatabaseOpenMode, DatabaseStore, ExistingDatabase, LoadRow,
    PassiveCopies, ReplayStart, Result, StorageEngine, StorageSession, VerificationDepth,
};
use crate::error::Error;
use crate::layout::{CopyPlan, InstancePlan, RunPlan};
use crate::measurement::{
    CacheUsage, DefragSummary, FileVerification, InstanceIo, LogCopySummary, ReplayCounters, ScanSummary,
    VerificationResult,
};
use crate::profile::{MaintenanceSettings, RecoveryMode};
use crate::start_error::StartError;
use crate::watch::{BackupWatch, ReplayWatch};

type ModelTable = BTreeMap<i64, LoadRow>;

/// Databases by path. They continue to exist after they are closed.
#[derive(Default)]
pub(crate) struct ModelEngine {
    pub(crate) databases: Mutex<BTreeMap<std::path::PathBuf, Arc<ModelDatabase>>>,
    /// Number of changes after which every further change fails, as on a broken disk.
    pub(crate) fail_after: Option<u64>,
    /// Whether verification finds a bad page in each database.
    pub(crate) bad_page: bool,
    /// Whether the scan finds a bad page in each database.
    pub(crate) scan_finds: bool,
}

#[derive(Default)]
pub(crate) struct ModelDatabase {
    tables: Vec<Mutex<ModelTable>>,
    io: Mutex<InstanceIo>,
    bytes: AtomicU64,
    changes: AtomicU64,
    fail_after: Option<u64>,
    scan_finds: bool,
    scanned: AtomicBool,
}

struct ModelStore(Vec<Arc<ModelDatabase>>, u64);

struct ModelSession {
    database: Arc<ModelDatabase>,
    undo: Vec<(u32, i64, Option<LoadRow>)>,
    position: Option<i64>,
}

impl ModelEngine {
    pub(crate) fn rows(&self, path: &std::path::Path, table: usize) -> Vec<LoadRow> {
        self.databases.lock()[path].tables[table].lock().values().cloned().collect()
    }

    /// Damages one record as a lost write would.
    pub(crate) fn damage(&self, path: &std::path::Path) {
        for table in &self.databases.lock()[path].tables {
            for row in table.lock().values_mut() {
                row.short[100] ^= 1;
            }
        }
    }
}

impl StorageEngine for ModelEngine {
    fn files(&self) -> Arc<dyn Vfs> {
        let options = RealOptions { backend: Backend::Threads, ..RealOptions::default() };
        Arc::new(RealVfs::new(options).unwrap())
    }

    fn inspect(&self, instance: &InstancePlan) -> std::result::Result<ExistingDatabase, StartError> {
        match instance.database.metadata() {
            Ok(file) if file.len() >= 4096 => {
                Ok(ExistingDatabase { page_bytes: 32768, file_bytes: file.len() })
            }
            _ => Err(StartError::NotADatabase {
                path: instance.database.clone(),
                content: FileContent::detect(&[]),
            }),
        }
    }

    fn is_in_use(&self, _: &InstancePlan) -> bool {
        false
    }

    fn verify(
        &self,
        plan: &RunPlan,
        _depth: VerificationDepth,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Option<VerificationResult> {
        let file = |instance: &InstancePlan| FileVerification {
            path: instance.database.clone(),
            blocks: 100,
            bad: u64::from(self.bad_page),
            findings: if self.bad_page { vec!["page 7: bad checksum".into()] } else { vec![] },
            ..FileVerification::default()
        };
        progress(1, 1)
            .then(|| VerificationResult { files: plan.instances.iter().map(file).collect(), seconds: 0.0 })
    }

    fn open(&self, plan: &RunPlan, opening: DatabaseOpenMode) -> Result<Box<dyn DatabaseStore>> {
        let mut databases = self.databases.lock();
        let mut opened = Vec::new();
        for instance in &plan.instances {
            if opening == DatabaseOpenMode::Create && !databases.contains_key(&instance.database) {
                let tables = (0..plan.tables).map(|_| Mutex::default()).collect();
                let database = ModelDatabase {
                    tables,
                    fail_after: self.fail_after,
                    scan_finds: self.scan_finds,
                    ..ModelDatabase::default()
                };
                databases.insert(instance.database.clone(), Arc::new(database));
            }
            let database = databases.get(&instance.database).ok_or(EngineError::RecordNotFound)?;
            *database.io.lock() = InstanceIo::default();
            opened.push(database.clone());
        }
        Ok(Box::new(ModelStore(opened, plan.cache_bytes)))
    }

    fn preserve_state(&self, _: &InstancePlan, progress: &mut dyn FnMut(u64) -> bool) -> Result<()> {
        progress(1);
        Ok(())
    }

    fn remove_preserved_state(&self, _: &InstancePlan) -> Result<()> {
        Ok(())
    }

    fn restore_state(&self, _: &InstancePlan, _: &ReplayStart, _: RecoveryMode) -> Result<()> {
        Ok(())
    }

    /// Simulates a replay. Each log contains 100 records and takes one millisecond.
    fn replay(
        &self,
        plan: &RunPlan,
        database: usize,
        start: &ReplayStart,
        watch: &ReplayWatch,
    ) -> Result<()> {
        let newest = self.databases.lock()[&plan.instances[database].database].generation();
        let mut counters = ReplayCounters::default();
        for _ in start.generation..=newest {
            counters.logs += 1;
            counters.records += CHANGES_PER_LOG;
            counters.io.database_read.record(32768, 1_000);
            std::thread::sleep(Duration::from_millis(1));
            if !watch.update(counters.clone()) {
                break;
            }
        }
        Ok(())
    }
}

/// Number of changes that fill a log.
const CHANGES_PER_LOG: u64 = 100;

impl ModelDatabase {
    fn generation(&self) -> u32 {
        (self.changes.load(Relaxed) / CHANGES_PER_LOG) as u32 + 1
    }
}

impl DatabaseStore for ModelStore {
    fn volumes(&self) -> Vec<usize> {
        vec![0; self.0.len()]
    }
    fn session(&self, database: usize) -> Result<Box<dyn StorageSession>> {
        Ok(Box::new(ModelSession { database: self.0[database].clone(), undo: Vec::new(), position: None }))
    }
    fn has_table(&self, database: usize, table: u32) -> Result<bool> {
        Ok(!self.0[database].tables[table as usize].lock().is_empty())
    }
    fn load_table(
        &self,
        database: usize,
        table: u32,
        _memory: usize,
        next: &mut dyn FnMut(u64, &mut LoadRow) -> BulkLoadAction,
        _stop: &Cancellation,
    ) -> Result<()> {
        let mut session =
            ModelSession { database: self.0[database].clone(), undo: Vec::new(), position: None };
        let mut row = LoadRow::default();
        for rows in 0.. {
            match next(rows * 2300, &mut row) {
                BulkLoadAction::Row => session.change(table, row.id, Some(row.clone()))?,
                BulkLoadAction::End => break,
                BulkLoadAction::Stop => return session.rollback(),
            }
        }
        Ok(())
    }
    fn io(&self) -> Vec<InstanceIo> {
        self.0.iter().map(|database| database.io.lock().clone()).collect()
    }
    fn cache(&self) -> CacheUsage {
        let read: u64 = self.io().iter().map(|io| io.database_read.bytes).sum();
        CacheUsage { used_bytes: read.min(self.1), limit_bytes: self.1, stalls: 0 }
    }
    /// Starts the simulated maintenance. The model has no sparse pages.
    fn start_maintenance(&self, settings: &MaintenanceSettings) -> Result<()> {
        let scan = settings.tasks.scan;
        self.0.iter().filter(|_| scan).for_each(|database| database.scanned.store(true, Relaxed));
        Ok(())
    }
    fn stop_maintenance(&self) {}
    fn finish_scan(&self) -> Vec<ScanSummary> {
        let scanned = self.0.iter().filter(|database| database.scanned.swap(false, Relaxed));
        scanned
            .map(|database| ScanSummary {
                bad: u64::from(database.scan_finds),
                findings: if database.scan_finds { vec!["page 7: wrong checksum".into()] } else { vec![] },
                ..ScanSummary::default()
            })
            .collect()
    }
    fn finish_defragmentation(&self) -> Vec<DefragSummary> {
        Vec::new()
    }
    /// Simulates a backup. Each database has a hundred pages.
    fn back_up(&self, database: usize, _: Option<&Path>, watch: &Arc<BackupWatch>) -> Result<()> {
        for page in 1..=100 {
            self.0[database].io.lock().backup_read.record(32768, 1_000);
            std::thread::sleep(Duration::from_millis(1));
            if !watch.update(|counters| (counters.pages, counters.bytes) = (page, page << 15)) {
                break;
            }
        }
        Ok(())
    }
    /// Simulates log reads. The model has no logs, so it immediately counts one log as read for each database.
    fn start_log_copies(&self, copies: u32) -> Result<()> {
        for database in &self.0 {
            (0..copies).for_each(|_| database.io.lock().log_copy_read.record(4096, 100));
        }
        Ok(())
    }
    fn replicate(&self, _: &[CopyPlan], _: &mut dyn FnMut(u64) -> bool) -> Result<Box<dyn PassiveCopies>> {
        unreachable!("the model has no logs to follow")
    }
    fn log_bytes(&self) -> u64 {
        0
    }
    fn finish_log_copies(&self) -> Vec<LogCopySummary> {
        let read = |database: &Arc<ModelDatabase>| database.io.lock().log_copy_read.operations > 0;
        self.0
            .iter()
            .filter(|one| read(one))
            .map(|_| LogCopySummary { logs: 1, ..LogCopySummary::default() })
            .collect()
    }
    fn database_bytes(&self, database: usize) -> u64 {
        self.0[database].bytes.load(Relaxed)
    }
    fn replay_start(&self, database: usize) -> Result<ReplayStart> {
        let signature = Signature::new(1, LogTime::NONE);
        let attached = DatabaseHeader::for_new_database(PageSize::KIB_32, signature, signature);
        Ok(ReplayStart { generation: self.generation(database), attached })
    }
    fn generation(&self, database: usize) -> u32 {
        self.0[database].generation()
    }
    fn shutdown(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl ModelSession {
    fn change(&mut self, table: u32, id: i64, row: Option<LoadRow>) -> Result<()> {
        let changes = self.database.changes.fetch_add(1, Relaxed);
        if self.database.fail_after.is_some_and(|limit| changes >= limit) {
            return Err(Error::io("model", &std::io::Error::other("write failed")));
        }
        self.database.bytes.fetch_add(row.as_ref().map_or(0, |_| 2300), Relaxed);
        self.database.io.lock().database_write.record(32768, 300);
        let mut rows = self.database.tables[table as usize].lock();
        let before = match row {
            Some(row) => rows.insert(id, row),
            None => rows.remove(&id),
        };
        self.undo.push((table, id, before));
        Ok(())
    }
}

impl StorageSession for ModelSession {
    fn begin(&mut self) -> Result<()> {
        self.undo.clear();
        Ok(())
    }
    fn commit(&mut self, commit: CommitDurability) -> Result<()> {
        if commit == CommitDurability::Durable {
            self.database.io.lock().log_write.record(4096, 500);
        }
        Ok(())
    }
    fn rollback(&mut self) -> Result<()> {
        for (table, id, before) in self.undo.drain(..).rev() {
            let mut rows = self.database.tables[table as usize].lock();
            match before {
                Some(row) => rows.insert(id, row),
                None => {
                    self.database.bytes.fetch_sub(2300, Relaxed);
                    rows.remove(&id)
                }
            };
        }
        Ok(())
    }
    fn insert(&mut self, table: u32, row: &LoadRow) -> Result<()> {
        if self.database.tables[table as usize].lock().contains_key(&row.id) {
            return Err(EngineError::KeyDuplicate.into());
        }
        self.change(table, row.id, Some(row.clone()))
    }
    fn seek(&mut self, table: u32, id: i64) -> Result<Option<i64>> {
        self.database.io.lock().database_read.record(32768, 1_000);
        self.position = self.database.tables[table as usize].lock().range(id..).next().map(|(id, _)| *id);
        Ok(self.position)
    }
    fn read(&mut self, table: u32) -> Result<LoadRow> {
        let id = self.position.ok_or(EngineError::RecordNotFound)?;
        self.database.tables[table as usize]
            .lock()
            .get(&id)
            .cloned()
            .ok_or(EngineError::RecordNotFound.into())
    }
    fn replace(&mut self, table: u32, row: &LoadRow) -> Result<()> {
        if !self.database.tables[table as usize].lock().contains_key(&row.id) {
            return Err(EngineError::WriteConflict.into());
        }
        self.change(table, row.id, Some(row.clone()))
    }
    fn delete(&mut self, table: u32) -> Result<()> {
        let id = self.position.ok_or(EngineError::RecordNotFound)?;
        if !self.database.tables[table as usize].lock().contains_key(&id) {
            return Err(EngineError::WriteConflict.into());
        }
        self.change(table, id, None)
    }
    fn last(&mut self, table: u32) -> Result<Option<i64>> {
        Ok(self.database.tables[table as usize].lock().keys().next_back().copied())
    }
}
