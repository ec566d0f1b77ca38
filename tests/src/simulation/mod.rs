//! The whole engine on a simulated disk, from one seed. Several sessions do random work, which is interrupted at any
//! write or sync, recovered, and compared with every state that was ever committed.
//!
//! A seed has several lives. Each life does random work until the power fails or the instance is shut down cleanly.
//! Sometimes the power fails again during recovery. After recovery, the database must contain all durable commits, a
//! gapless prefix of the lazy commits, and no uncommitted changes. The check must not report any findings in the
//! database files and the logs.

pub mod backups;
mod damage;
mod deep;
mod disk;
mod life;
mod lost_logs;
mod model;
mod restored;
mod work;

use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_check::{Cancellation, CheckOptions, check_database, check_logs};
use ese_engine::internals::cache::{Cache, CacheOptions, EvictionPolicy};
use ese_engine::{BackgroundThreads, Error, Instance, InstanceOptions};
use ese_format::{Generation, PageSize};
use jetcell_array::RaidLevel;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use self::disk::CrashableDisk;
use self::lost_logs::DurableMark;
use self::model::ModelState;
use crate::merge_counts::MergeCounts;

/// One in this many seeds has deep trees.
const DEEP_EVERY: u64 = 8;

/// Counts of the events of a seed.
#[derive(Clone, Copy, Default, Debug)]
pub struct SimulationTally {
    /// Number of power cuts and kills.
    pub cuts: u64,
    /// Number of these power cuts and kills that occurred during or shortly after recovery.
    pub in_recovery: u64,
    /// Number of these power cuts and kills that occurred after recovery had left databases attached.
    pub left_attached: u64,
    /// Number of clean shutdowns.
    pub shutdowns: u64,
    /// Number of committed transactions.
    pub commits: u64,
    /// Number of partial merges, in which a full leaf moved nodes to its neighbour. Counted only if all logs are
    /// kept.
    pub shared: u64,
    /// Number of internal pages that were removed because no records were left below them. Counted only if all logs
    /// are kept.
    pub internal_removed: u64,
    /// Number of pages that online defragmentation freed.
    pub freed: u64,
    /// Number of leaves that a sequential layout moved.
    pub moved: u64,
    /// Number of pages that were returned to the file system.
    pub returned: u64,
    /// Number of pages that were damaged on purpose and found by a scan.
    pub damaged: u64,
    /// Number of levels of the deepest tree that was seen after a clean shutdown.
    pub levels: u64,
    /// Number of dirty pages that the cache evicted without a write.
    pub delta_evictions: u64,
    /// Number of changes that recovery kept for pages that it did not read.
    pub kept: u64,
    /// Number of log generations that were lost after a cut.
    pub lost_generations: u64,
    /// Number of these cuts that lost durable commits.
    pub lost_commits: u64,
}

impl AddAssign for SimulationTally {
    /// Adds the counts of another seed.
    fn add_assign(&mut self, other: SimulationTally) {
        self.cuts += other.cuts;
        self.in_recovery += other.in_recovery;
        self.left_attached += other.left_attached;
        self.shutdowns += other.shutdowns;
        self.commits += other.commits;
        self.shared += other.shared;
        self.internal_removed += other.internal_removed;
        self.freed += other.freed;
        self.moved += other.moved;
        self.returned += other.returned;
        self.damaged += other.damaged;
        self.levels = self.levels.max(other.levels);
        self.delta_evictions += other.delta_evictions;
        self.kept += other.kept;
        self.lost_generations += other.lost_generations;
        self.lost_commits += other.lost_commits;
    }
}

/// Choices that are made once per seed.
struct SeedPlan {
    size: PageSize,
    cache_pages: usize,
    eviction: EvictionPolicy,
    log_bytes: u32,
    circular: bool,
    depth: u64,
    databases: usize,
    /// Maximum number of newest generations that may be lost.
    waypoint_latency: u32,
    /// True if each session has a table whose tree has four levels.
    deep: bool,
}

/// One seed: a simulated disk, and the expected content of its databases.
struct EngineSimulation {
    plan: SeedPlan,
    rng: ChaCha8Rng,
    disk: CrashableDisk,
    /// Paths of the databases.
    databases: Vec<PathBuf>,
    logs: PathBuf,
    cache: Option<Arc<Cache>>,
    /// Possible states. The first entry is the last state that is known to be on disk. The others are the states
    /// after each later commit.
    states: Vec<ModelState>,
    /// Index of the oldest state that recovery may find. All earlier states are obsolete.
    durable: usize,
    /// True for databases whose creation has returned.
    created: Vec<bool>,
    /// Durable states by generation. Used only if generations may be lost.
    marks: Vec<DurableMark>,
    /// True if a database may have been in the process of being detached. It may then need all generations so far.
    is_detaching: bool,
    /// Newest generation that each database needed after the last cut.
    floors: Vec<Generation>,
    /// True if generations were lost since the last successful recovery.
    has_lost_logs: bool,
    tally: SimulationTally,
    context: String,
}

/// Levels and member counts of the arrays on which a seed may run.
const ARRAYS: [(RaidLevel, usize); 6] = [
    (RaidLevel::RaidDp { prime: 17 }, 6),
    (RaidLevel::Raid5, 4),
    (RaidLevel::Raid6, 5),
    (RaidLevel::Mirror, 2),
    (RaidLevel::RaidDp { prime: 257 }, 8),
    (RaidLevel::Raid10 { copies: 2 }, 4),
];

/// Runs one seed. Panics if the engine lost or damaged data.
pub fn run(seed: u64) -> SimulationTally {
    run_on(seed, CrashableDisk::new())
}

/// Runs one seed on an array that has lost a member and loses further members. Panics if the engine or the array lost
/// or damaged data. Half of the seeds store the files on a LUN.
pub fn run_on_degraded_array(seed: u64) -> SimulationTally {
    let (level, members) = ARRAYS[seed as usize % ARRAYS.len()];
    run_on(seed, CrashableDisk::degraded_array(level, members, seed % 4 >= 2, seed))
}

/// Runs one seed with a waypoint latency. After a cut, up to as many of the newest log generations are lost. Panics
/// if the databases are then inconsistent, or if more is lost.
pub fn run_with_lost_logs(seed: u64) -> SimulationTally {
    let mut simulation = EngineSimulation::new(seed, CrashableDisk::new());
    simulation.plan.waypoint_latency = [1, 2, 3, 10][seed as usize % 4];
    simulation.run(seed)
}

fn run_on(seed: u64, disk: CrashableDisk) -> SimulationTally {
    EngineSimulation::new(seed, disk).run(seed)
}

impl EngineSimulation {
    fn run(mut self, seed: u64) -> SimulationTally {
        for life in 0..6 {
            self.context = format!("seed {seed}, life {life}");
            self.live();
            if !self.has_power() || self.rng.random_bool(0.9) {
                self.cut_power();
                self.lose_generations();
            }
        }
        if !self.plan.circular {
            let merges = MergeCounts::in_logs(self.disk.files(), Path::new("/log"));
            self.tally.shared = merges.partial;
            self.tally.internal_removed = merges.internal_removed;
        }
        self.count_delta_evictions(None);
        self.tally
    }

    /// Creates the choices of a seed and its simulation on a disk.
    fn new(seed: u64, disk: CrashableDisk) -> EngineSimulation {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let deep = seed.is_multiple_of(DEEP_EVERY);
        // Only 4 KiB pages produce deep trees with few records.
        let sizes = [PageSize::KIB_4, PageSize::KIB_4, PageSize::KIB_8, PageSize::KIB_16, PageSize::KIB_32];
        let size = sizes[if deep { 0 } else { rng.random_range(0..5) }];
        let log_bytes = match size.bytes() {
            4096 => [64 << 10, 128 << 10][rng.random_range(0..2)],
            8192 => 128 << 10,
            _ => 512 << 10,
        };
        let plan = SeedPlan {
            size,
            cache_pages: rng.random_range(32..=80),
            eviction: match [0, 500, 500, 750][rng.random_range(0..4)] {
                0 => EvictionPolicy::WriteBack,
                memory_permille => EvictionPolicy::KeepDeltas { memory_permille },
            },
            log_bytes,
            circular: rng.random_bool(0.4),
            depth: u64::from(log_bytes) * rng.random_range(1..4),
            waypoint_latency: 0,
            databases: if !deep && rng.random_bool(0.3) { 2 } else { 1 },
            deep,
        };
        EngineSimulation {
            created: vec![false; plan.databases],
            floors: vec![Generation(0); plan.databases],
            databases: ["/db0/data.edb", "/db1/data.edb"].map(PathBuf::from).to_vec(),
            logs: PathBuf::from("/log"),
            plan,
            rng,
            disk,
            cache: None,
            states: vec![ModelState::new()],
            durable: 0,
            marks: Vec::new(),
            is_detaching: false,
            has_lost_logs: false,
            tally: SimulationTally::default(),
            context: String::new(),
        }
    }

    fn db_path(&self, number: usize) -> PathBuf {
        self.databases[number].clone()
    }

    fn open(&mut self) -> ese_engine::Result<Arc<Instance>> {
        let disk = self.disk.files();
        for directory in [Path::new("/db0"), Path::new("/db1"), &self.logs] {
            disk.create_directory(directory).map_err(|e| Error::io(directory, &e))?;
        }
        let size = self.plan.size;
        let cache = Cache::new(CacheOptions {
            eviction: self.plan.eviction,
            ..CacheOptions::new(self.plan.cache_pages * size.bytes(), size, disk.clock())
        });
        self.count_delta_evictions(Some(cache.clone()));
        // This simulates another recovery that uses the cache: the log is replayed in smaller windows.
        let _of_another = self.rng.random_bool(0.5).then(|| {
            let pages = self.rng.random_range(0..=self.plan.cache_pages / 2);
            cache.grant_memory(pages * size.bytes())
        });
        let mut options = InstanceOptions::with_cache(disk, self.logs.clone(), cache);
        options.background = BackgroundThreads::None;
        options.log.file_size = self.plan.log_bytes;
        options.checkpoint.depth = self.plan.depth;
        options.log.circular = self.plan.circular;
        options.log.waypoint_latency = self.plan.waypoint_latency;
        options.recovery.accept_lost_logs = self.has_lost_logs;
        options.seed = Some(self.rng.random());
        let instance = Instance::open(options)?;
        self.has_lost_logs = false;
        self.tally.kept += instance.recovery().deferred;
        Ok(instance)
    }

    /// Adds the counts of the current cache, and replaces the cache with `next`.
    fn count_delta_evictions(&mut self, next: Option<Arc<Cache>>) {
        let last = std::mem::replace(&mut self.cache, next);
        self.tally.delta_evictions += last.map_or(0, |cache| cache.counters().delta_evictions);
    }

    /// Returns true if the power is on. An error while the power is on is a bug of the engine.
    fn has_power(&self) -> bool {
        self.disk.has_power()
    }

    /// Cuts the power unless it is already off, and restarts the disk.
    fn cut_power(&mut self) {
        self.tally.cuts += 1;
        self.disk = match self.rng.random_range(0..10) {
            0..3 => self.disk.process_kill(),
            _ => self.disk.crash(self.rng.random()),
        };
    }

    /// Opens the instance. Sometimes the power fails during or shortly after recovery.
    fn recover(&mut self) -> Arc<Instance> {
        while self.rng.random_bool(0.35) {
            let limit = 1 << self.rng.random_range(0..11);
            let at = self.disk.operations() + self.rng.random_range(0..limit) + 1;
            self.disk.stop_after(at);
            let opened = self.open().and_then(|instance| {
                self.tally.left_attached += u64::from(instance.recovery().left_attached > 0);
                self.run_random_operations(&instance)
            });
            if let Err(error) = opened
                && self.has_power()
            {
                panic!("{}: recovery failed: {error}", self.context);
            }
            self.tally.in_recovery += 1;
            self.is_detaching = true;
            self.cut_power();
        }
        self.open().unwrap_or_else(|error| panic!("{}: recovery failed: {error}", self.context))
    }

    /// Checks the files with `ese-check`.
    fn check_files(&mut self, what: &str) {
        for (number, _) in self.created.iter().enumerate().filter(|(_, created)| **created) {
            let report = check_database(&*self.disk.files(), &self.db_path(number), &CheckOptions::default());
            let report = report.unwrap_or_else(|error| panic!("{}, {what}: {error}", self.context));
            let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
            assert!(report.clean, "{}, {what}: database {number} is {:?}", self.context, report.state);
            assert!(findings.is_empty(), "{}, {what}: {findings:#?}", self.context);
            self.tally.levels =
                self.tally.levels.max(deep::levels(&*self.disk.files(), &self.db_path(number)));
        }
        let report = check_logs(&*self.disk.files(), &self.logs, "E00", &Cancellation::default());
        let report = report.unwrap_or_else(|error| panic!("{}, {what}: {error}", self.context));
        assert!(report.is_sound(), "{}, {what}: {:#?}", self.context, report.findings);
    }
}
