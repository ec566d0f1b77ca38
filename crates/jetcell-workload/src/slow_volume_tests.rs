//! Tests of the load on the real engine with eight volumes, one of which is intermittently slow.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use jetcell_host::Cancellation;
use jetcell_vfs::{
    Backend, File, FileLayer, IoReason, OpenMode, RealOptions, RealVfs, Transfer, Vfs, VfsLayer,
};

use crate::engine::{DatabaseOpenMode, DatabaseStore, StorageEngine};
use crate::engine_ese::EseEngine;
use crate::layout::RunPlan;
use crate::load::{DatabaseLoad, fill};
use crate::measurement::IoTotals;
use crate::observer::{Observer, RunPhase};
use crate::profile::Options;
use crate::run_tests::scratch;

const VOLUMES: usize = 8;
/// Index of the slow volume.
const SLOW_VOLUME: usize = 3;
/// Delay added to every operation on the slow volume.
const DELAY: Duration = Duration::from_millis(40);
/// Duration of each slow or fast interval.
const INTERVAL: Duration = Duration::from_millis(400);

/// A volume that delays every transfer and sync while `slow` is set.
struct SlowVfs {
    inner: Arc<dyn Vfs>,
    slow: Arc<AtomicBool>,
}

impl VfsLayer for SlowVfs {
    fn inner(&self) -> &dyn Vfs {
        &*self.inner
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let inner = self.inner.open(path, mode)?;
        let (delayed, due) = channel::<(Instant, Vec<Transfer>)>();
        let below = inner.clone();
        // The thread ends when the file is closed.
        spawn(move || {
            for (at, batch) in due {
                sleep(at.saturating_duration_since(Instant::now()));
                below.submit(batch);
            }
        });
        Ok(Arc::new(SlowFile { inner, slow: self.slow.clone(), delayed }))
    }
}

struct SlowFile {
    inner: Arc<dyn File>,
    slow: Arc<AtomicBool>,
    delayed: Sender<(Instant, Vec<Transfer>)>,
}

impl SlowFile {
    fn delay(&self) -> Duration {
        if self.slow.load(Relaxed) { DELAY } else { Duration::ZERO }
    }
}

impl FileLayer for SlowFile {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8], reason: IoReason) -> io::Result<()> {
        sleep(self.delay());
        self.inner.read_at(offset, buffer, reason)
    }
    fn write_at(&self, offset: u64, data: &[u8], reason: IoReason) -> io::Result<()> {
        sleep(self.delay());
        self.inner.write_at(offset, data, reason)
    }
    /// Returns immediately, as a device does.
    fn submit(&self, batch: Vec<Transfer>) {
        self.delayed.send((Instant::now() + self.delay(), batch)).unwrap();
    }
    fn sync(&self, reason: IoReason) -> io::Result<()> {
        sleep(self.delay());
        self.inner.sync(reason)
    }
}

struct SilentObserver;

impl Observer for SilentObserver {
    fn begin_phase(&mut self, _: RunPhase, _: u64) {}
    fn advance(&mut self, _: u64, _: &str) {}
    fn log(&mut self, _: &str) {}
}

/// Reads of each database and their latencies, while the volume is fast (index 0) and slow (index 1).
#[derive(Default)]
struct VolumeReads {
    seconds: [f64; 2],
    reads: [[IoTotals; VOLUMES]; 2],
}

impl VolumeReads {
    fn measure(&mut self, store: &dyn DatabaseStore, is_slow: bool) {
        let (before, began) = (store.io(), Instant::now());
        sleep(INTERVAL);
        let after = store.io();
        self.seconds[usize::from(is_slow)] += began.elapsed().as_secs_f64();
        for ((sum, after), before) in self.reads[usize::from(is_slow)].iter_mut().zip(&after).zip(&before) {
            sum.add(&after.database_read.since(&before.database_read));
        }
    }

    /// Returns the reads per second and the mean read latency in milliseconds over the given volumes.
    fn rate_and_latency(&self, is_slow: bool, volumes: impl Iterator<Item = usize>) -> (f64, f64) {
        let (mut sum, at) = (IoTotals::default(), usize::from(is_slow));
        volumes.for_each(|volume| sum.add(&self.reads[at][volume]));
        let rates = sum.rates(self.seconds[at]);
        (rates.per_second, rates.average_ms)
    }

    /// Checks the results for the time while the volume was slow, with wide margins: each other volume kept more than
    /// half of its rate and less than twice its latency, and the slow volume had less than a tenth of its rate.
    fn check_slow_period(&self) -> bool {
        let each = |volume: usize| {
            let [fast, slow] =
                [false, true].map(|is_slow| self.rate_and_latency(is_slow, volume..volume + 1));
            (slow.0 / fast.0, slow.1 / fast.1)
        };
        let of_others = (0..VOLUMES).filter(|volume| *volume != SLOW_VOLUME).map(each);
        let mut kept = of_others.map(|(rate, latency)| rate > 0.5 && latency < 2.0);
        let (rate, latency) = each(SLOW_VOLUME);
        kept.all(|kept| kept) && rate < 0.1 && latency > 10.0
    }
}

/// Returns options for 32 MiB databases in these directories, with eight load threads.
fn options(dirs: Vec<PathBuf>) -> Options {
    Options {
        databases: Some(dirs.len()),
        dirs,
        size: Some("32MiB".parse().unwrap()),
        cache: Some("48MiB".parse().unwrap()),
        threads: Some(8),
        ..Options::default()
    }
}

/// Verifies that each volume has its share of the threads. Otherwise all threads would end up waiting for the slow
/// volume, and all databases would become equally slow.
#[test]
fn one_slow_volume_does_not_slow_the_others() {
    let root = scratch();
    let dirs: Vec<PathBuf> = (0..VOLUMES).map(|volume| root.path().join(format!("v{volume}"))).collect();
    dirs.iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
    let real: Arc<dyn Vfs> = Arc::new(RealVfs::new(RealOptions::default()).unwrap());
    let slow = Arc::new(AtomicBool::new(false));
    let mounts = dirs.iter().enumerate().map(|(volume, dir)| -> (PathBuf, Arc<dyn Vfs>) {
        match volume {
            SLOW_VOLUME => (dir.clone(), Arc::new(SlowVfs { inner: real.clone(), slow: slow.clone() })),
            _ => (dir.clone(), real.clone()),
        }
    });
    let engine = EseEngine::with_mounts(Backend::Threads, mounts.collect()).unwrap();
    let mut profile = options(dirs).resolve().unwrap();
    profile.records.tables = 1;
    let plan = RunPlan::make(&profile, &engine, "now", false).unwrap();
    plan.instances.iter().for_each(|instance| std::fs::create_dir_all(&instance.log_dir).unwrap());
    let store = engine.open(&plan, DatabaseOpenMode::Create).unwrap();
    fill(&*store, &plan, &profile, &Cancellation::default(), &mut SilentObserver).unwrap();
    store.shutdown().unwrap();

    let store = engine.open(&plan, DatabaseOpenMode::Attach).unwrap();
    let load = DatabaseLoad::new(&*store, VOLUMES, &profile).unwrap();
    let mut measured = VolumeReads::default();
    let ((), failure) = load.run(|_| {
        // Fast and slow intervals alternate, because other programs also use the machine and affect both equally.
        for turn in 0..40 {
            for is_slow in [false, true] {
                slow.store(is_slow, Relaxed);
                measured.measure(&*store, is_slow);
            }
            if turn >= 2 && measured.check_slow_period() {
                break;
            }
        }
    });
    assert!(failure.is_none(), "{failure:?}");
    slow.store(false, Relaxed);
    store.shutdown().unwrap();
    let shown = |is_slow| {
        (0..VOLUMES).map(|volume| measured.rate_and_latency(is_slow, volume..volume + 1)).collect::<Vec<_>>()
    };
    assert!(
        measured.check_slow_period(),
        "reads per second and ms, fast: {:.1?}\nslow: {:.1?}",
        shown(false),
        shown(true)
    );
    eprintln!("fast: {:.1?}\nslow: {:.1?}", shown(false), shown(true));
}
