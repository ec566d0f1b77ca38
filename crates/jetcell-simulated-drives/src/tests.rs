//! Tests of simulated drives. Simulated time is compared with the model; for real time, only lower bounds are certain.
//! Other tests cover faults and power cuts in the underlying file system.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use jetcell_array::{Array, AssembleOptions, BLOCK, CreateArrayOptions, RaidLevel};
use jetcell_disk_simulation::CacheParameters;
use jetcell_disk_simulation::config::drives;
use jetcell_disk_simulation::disk::SimulatedDisk;
use jetcell_disk_simulation::drive::{DriveAccess, DriveModel};
use jetcell_vfs::{
    Clock, CrashOptions, FaultEffect, FaultTarget, FaultVfs, File, InjectedFault, IoBuffer, IoReason,
    OpenMode, RealOptions, RealVfs, SimVfs, Transfer, TransferKind, Vfs,
};

use crate::SimulatedDriveVfs;

const SIZE: u64 = 64 << 20;

fn drive(name: &str) -> DriveModel {
    drives().remove(name).unwrap()
}

/// Returns block offsets that are scattered over a file.
fn offsets(count: u64) -> Vec<u64> {
    (0..count).map(|number| number * 7919 % (SIZE / 8192) * 8192).collect()
}

/// Starts transfers at the same time. Returns their indices and completion times.
fn submitted(
    file: &dyn File,
    clock: &Arc<impl Clock + 'static>,
    kind: TransferKind,
    offsets: &[u64],
) -> Vec<(usize, Duration)> {
    let (sender, done) = channel();
    let transfer = |(number, offset): (usize, &u64)| {
        let (sender, clock) = (sender.clone(), clock.clone());
        let buffer = IoBuffer::zeroed(8192);
        let done = move |result: std::io::Result<()>, _| {
            result.unwrap();
            sender.send((number, clock.monotonic())).unwrap();
        };
        Transfer { kind, offset: *offset, buffer, reason: IoReason::Other, done: Box::new(done) }
    };
    file.submit(offsets.iter().enumerate().map(transfer).collect());
    drop(sender);
    done.into_iter().collect()
}

/// Returns the indices and completion times predicted by the model.
fn modelled(drive: &DriveModel, is_write: bool, offsets: &[u64]) -> Vec<(usize, Duration)> {
    let model = drive.with_capacity(SIZE);
    let (mut disk, mut now, mut done) = (SimulatedDisk::default(), Duration::ZERO, vec![]);
    for (number, position) in offsets.iter().enumerate() {
        let access = DriveAccess { position: *position, bytes: 8192, is_write };
        disk.push(&model, now, number, access, false);
    }
    let mut under_way = vec![];
    loop {
        while let Some(started) = disk.start(&model, now, Duration::ZERO) {
            under_way.push((now + started.time, started));
        }
        under_way.sort_by_key(|(end, _)| std::cmp::Reverse(*end));
        let Some((end, started)) = under_way.pop() else { return done };
        now = end;
        disk.finish(started);
        done.extend(started.operation.map(|number| (number, now)));
    }
}

#[test]
fn accesses_take_model_time_in_model_order() {
    for name in ["15k-146", "10k-300", "7k2-4000"] {
        let disk = SimVfs::new();
        let clock = disk.sim_clock();
        let vfs = SimulatedDriveVfs::in_simulated_time(Arc::new(disk), drive(name), clock.clone());
        let file = vfs.open(Path::new("/d"), OpenMode::CreateNew).unwrap();
        file.grow(SIZE).unwrap();
        assert_eq!(clock.monotonic(), Duration::ZERO, "a file that grows takes no time");
        let offsets = offsets(64);
        let found = submitted(&*file, &clock, TransferKind::Read, &offsets);
        assert_eq!(found, modelled(&drive(name), false, &offsets), "{name}");
        // With elevator scheduling, an access takes less time than an average seek and half a rotation.
        assert!(clock.monotonic() < Duration::from_millis(64 * 10), "{:?}", clock.monotonic());
        let before = clock.monotonic();
        file.sync(IoReason::Other).unwrap();
        assert_eq!(clock.monotonic(), before, "drives without a cache for writes have nothing to sync");
    }
}

#[test]
fn cached_writes_complete_immediately_and_syncs_reach_the_platters() {
    let DriveModel::Disk(mut disk) = drive("15k-146") else { panic!("a disk") };
    let (mb, read_ahead_kb, interface_mb_per_second) = (16.0, 256.0, 400.0);
    disk.cache = Some(CacheParameters { mb, read_ahead_kb, interface_mb_per_second, writes: true });
    let below = SimVfs::new();
    let clock = below.sim_clock();
    let vfs = SimulatedDriveVfs::in_simulated_time(Arc::new(below), DriveModel::Disk(disk), clock.clone());
    let file = vfs.open(Path::new("/d"), OpenMode::CreateNew).unwrap();
    file.grow(SIZE).unwrap();
    let start = clock.monotonic();
    let done = submitted(&*file, &clock, TransferKind::Write, &offsets(32));
    let answered = done.iter().map(|(_, end)| *end).max().unwrap() - start;
    file.sync(IoReason::Other).unwrap();
    let synced = clock.monotonic() - start;
    assert!(answered < Duration::from_millis(8) && synced > 4 * answered, "{answered:?} {synced:?}");
    let writes: u64 = vfs.counters().values().map(|counters| counters.writes).sum();
    assert_eq!(writes, 32);
}

#[test]
fn real_time_drives_share_one_thread_and_never_finish_early() {
    const SCALE: f64 = 50.0;
    let dir = tempfile::tempdir().unwrap();
    let real = Arc::new(RealVfs::new(RealOptions::default()).unwrap());
    let vfs = Arc::new(SimulatedDriveVfs::new(real, drive("15k-146"), SCALE).unwrap());
    let paths: Vec<PathBuf> = (0..63).map(|number| dir.path().join(format!("m{number}"))).collect();
    let files: Vec<Arc<dyn File>> =
        paths.iter().map(|path| vfs.open(path, OpenMode::CreateNew).unwrap()).collect();
    let of_drives = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.trim() == "drives").count()
    };
    let began = Instant::now();
    let (sender, done) = channel();
    for (number, file) in files.iter().enumerate() {
        file.grow(1 << 20).unwrap();
        for block in 0..4u64 {
            let mut buffer = IoBuffer::zeroed(8192);
            buffer.fill(number as u8 + 1);
            let sender = sender.clone();
            let finished = move |result: std::io::Result<()>, _| sender.send(result.is_ok()).unwrap();
            let (kind, offset, reason) = (TransferKind::Write, block * 131_072, IoReason::Other);
            file.submit(vec![Transfer { kind, offset, buffer, reason, done: Box::new(finished) }]);
        }
    }
    drop(sender);
    assert_eq!(done.into_iter().filter(|is_good| *is_good).count(), 63 * 4);
    assert_eq!(of_drives(), 1, "one thread for all drives");
    let elapsed = began.elapsed().mul_f64(SCALE);
    let busy = vfs.counters().values().map(|counters| counters.busy).max().unwrap();
    assert!(busy > Duration::from_millis(1) && elapsed >= busy, "{busy:?} in {elapsed:?}");
    // When reads are issued individually, each of them takes its full time.
    let before = vfs.counters()[&paths[5]].busy;
    let began = Instant::now();
    let mut buffer = IoBuffer::zeroed(8192);
    for block in [3u64, 0, 2] {
        files[5].read_at(block * 131_072, &mut buffer, IoReason::Other).unwrap();
        assert!(buffer.iter().all(|byte| *byte == 6));
    }
    let elapsed = began.elapsed().mul_f64(SCALE);
    let busy = vfs.counters()[&paths[5]].busy - before;
    assert!(busy > Duration::ZERO && elapsed >= busy, "{busy:?} in {elapsed:?}");
}

#[test]
fn drive_faults_and_power_cuts_lose_no_array_data() {
    let below = SimVfs::new();
    let clock = below.sim_clock();
    let faults = Arc::new(FaultVfs::new(Arc::new(below.clone())));
    let vfs: Arc<dyn Vfs> =
        Arc::new(SimulatedDriveVfs::in_simulated_time(faults.clone(), drive("15k-146"), clock.clone()));
    let members: Vec<PathBuf> = (0..6).map(|number| PathBuf::from(format!("/m{number}"))).collect();
    for path in &members {
        below.put(path, &vec![0; 4 << 20]);
    }
    Array::create(&*vfs, &members, &CreateArrayOptions::new(RaidLevel::RaidDp { prime: 17 }, 7)).unwrap();
    let mut array = Array::assemble(vfs.clone(), &members, AssembleOptions::default()).unwrap();
    let block = |number: u64| vec![number as u8 + 1; BLOCK];
    let before = clock.monotonic();
    for number in 0..20 {
        array.write(number * 3, &block(number)).unwrap();
    }
    array.flush().unwrap();
    assert!(clock.monotonic() - before > Duration::from_millis(1), "spindles take time");
    // A member fails, followed by a power cut.
    faults.inject(InjectedFault::new(FaultTarget::Read, FaultEffect::IoError).on_path("m2").repeating());
    let mut found = vec![0; BLOCK];
    array.read(3, &mut found).unwrap();
    assert_eq!(found, block(1));
    drop(array);
    let after = below.crash(5, CrashOptions::default());
    let clock = after.sim_clock();
    let vfs = Arc::new(SimulatedDriveVfs::in_simulated_time(Arc::new(after), drive("15k-146"), clock));
    let options = AssembleOptions { force: true, ..AssembleOptions::default() };
    let mut array = Array::assemble(vfs, &members, options).unwrap();
    for number in 0..20 {
        array.read(number * 3, &mut found).unwrap();
        assert_eq!(found, block(number), "{number}");
    }
}
