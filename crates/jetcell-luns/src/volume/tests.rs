use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jetcell_array::{
    Array, ArrayAccess, AssembleOptions, BLOCK, BlockStore, CreateArrayOptions, RaidLevel, ZONE_ROWS,
};
use jetcell_sync::Arc;
use jetcell_vfs::{File, IoBuffer, IoReason, OpenMode, Transfer, TransferKind, Vfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Volume;
use crate::luns::{LunVolume, SharedLunVolume, WriteLogOptions};
use crate::test_blocks::member_bytes;
use jetcell_vfs::{CrashOptions, SimVfs};

const ROOT: &str = "/arr";

fn path(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

fn members() -> Vec<PathBuf> {
    (0..5).map(|member| format!("/m/{member}").into()).collect()
}

/// Storage of the files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StorageKind {
    Array,
    Lun,
}

const LUN: &str = "files";

/// Creates an array with three data members, which has room for about 6 MiB of files.
fn disk(on: StorageKind) -> SimVfs {
    let disk = SimVfs::new();
    for member in members() {
        let file = disk.open(&member, OpenMode::CreateNew).unwrap();
        file.grow(member_bytes(64, 10 * ZONE_ROWS)).unwrap();
        file.sync(IoReason::Other).unwrap();
    }
    disk.sync_directory(Path::new("/m")).unwrap();
    let options = CreateArrayOptions { journal_images: 64, ..CreateArrayOptions::new(RaidLevel::Raid6, 9) };
    Array::create(&disk, &members(), &options).unwrap();
    if on == StorageKind::Lun {
        let mut luns = LunVolume::create(array(&disk, &members()), &log(&disk)).unwrap();
        luns.create_lun(LUN, 512 + 900).unwrap();
        luns.close().unwrap();
    }
    disk
}

fn log(disk: &SimVfs) -> WriteLogOptions {
    WriteLogOptions { bytes: 1 << 20, ..WriteLogOptions::new(Arc::new(disk.clone()), "/log".into()) }
}

fn array(disk: &SimVfs, members: &[PathBuf]) -> Array {
    let options = AssembleOptions { force: true, ..AssembleOptions::default() };
    Array::assemble(Arc::new(disk.clone()), members, options).unwrap()
}

fn luns(disk: &SimVfs, members: &[PathBuf]) -> SharedLunVolume {
    SharedLunVolume::new(LunVolume::start(array(disk, members), &log(disk)).unwrap())
}

fn mounted_with(disk: &SimVfs, on: StorageKind, members: &[PathBuf]) -> Volume {
    let (clock, root) = (disk.clock(), Path::new(ROOT));
    match on {
        StorageKind::Array => Volume::mount(array(disk, members), clock, root),
        StorageKind::Lun => Volume::mount_lun(luns(disk, members), LUN, clock, root),
    }
    .unwrap()
}

fn mounted(disk: &SimVfs, on: StorageKind) -> Volume {
    mounted_with(disk, on, &members())
}

fn content(seed: u64, blocks: usize) -> Vec<u8> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..blocks * BLOCK).map(|_| rng.random()).collect()
}

fn read_all(volume: &Volume, name: &str) -> Vec<u8> {
    let file = volume.open(&path(name), OpenMode::Read).unwrap();
    let mut buffer = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut buffer, IoReason::Other).unwrap();
    buffer
}

#[test]
fn files_survive_restarts_and_member_loss() {
    [StorageKind::Array, StorageKind::Lun].into_iter().for_each(files_are_there);
}

fn files_are_there(on: StorageKind) {
    let disk = disk(on);
    let volume = mounted(&disk, on);
    let file = volume.open(&path("logs/a"), OpenMode::CreateNew).unwrap();
    file.write_at(0, &content(1, 40), IoReason::Other).unwrap();
    file.write_at(8192, &content(2, 3), IoReason::Other).unwrap();
    volume.open(&path("b"), OpenMode::CreateNew).unwrap().grow(5 * BLOCK as u64).unwrap();
    volume.rename(&path("b"), &path("c")).unwrap();
    assert!(volume.exists(&path("logs")).unwrap() && !volume.exists(&path("b")).unwrap());
    assert_eq!(volume.list(&path("logs")).unwrap(), [path("logs/a")]);
    assert!(volume.open(Path::new("/other/a"), OpenMode::Read).is_err());
    drop(file);
    volume.close().unwrap();

    let volume = mounted_with(&disk, on, &members().split_off(2));
    let expected = [&content(1, 40)[..8192], &content(2, 3), &content(1, 40)[8192 + 3 * BLOCK..]].concat();
    assert!(read_all(&volume, "logs/a") == expected);
    assert_eq!(read_all(&volume, "c"), vec![0; 5 * BLOCK]);
}

/// Checks that each completion can submit another transfer, a hundred thousand times in a row.
#[test]
fn completions_may_submit_the_next_transfer() {
    fn next(file: Arc<dyn File>, left: u32, done: std::sync::mpsc::Sender<()>) {
        let again = file.clone();
        let completed = move |result: std::io::Result<()>, _| {
            result.unwrap();
            match left {
                0 => done.send(()).unwrap(),
                _ => next(again, left - 1, done),
            }
        };
        let transfer = Transfer {
            kind: TransferKind::Read,
            offset: 0,
            buffer: IoBuffer::zeroed(BLOCK),
            reason: IoReason::Other,
            done: Box::new(completed),
        };
        file.submit(vec![transfer]);
    }
    let disk = disk(StorageKind::Array);
    let volume = mounted(&disk, StorageKind::Array);
    let file = volume.open(&path("a"), OpenMode::CreateNew).unwrap();
    file.grow(BLOCK as u64).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    next(file, 100_000, sender);
    assert!(receiver.try_recv().is_ok());
}

/// Checks that each read has its own result, and that the members work on all reads concurrently.
#[test]
fn reads_submitted_together_form_one_batch() {
    for on in [StorageKind::Array, StorageKind::Lun] {
        let disk = disk(on);
        let volume = mounted(&disk, on);
        let file = volume.open(&path("a"), OpenMode::CreateNew).unwrap();
        let content: Vec<u8> = (0..60 * BLOCK).map(|at| (at / BLOCK + 1) as u8).collect();
        file.write_at(0, &content, IoReason::Other).unwrap();
        file.sync(IoReason::Other).unwrap();
        volume.close().unwrap();
        let volume = mounted(&disk, on);
        let file = volume.open(&path("a"), OpenMode::Write).unwrap();
        let read = |blocks: &[u64]| -> (Vec<Option<u8>>, u64) {
            let reads = || volume.with_array(|array| array.counters().members.total().reads).unwrap();
            let before = reads();
            let (sender, receiver) = std::sync::mpsc::channel();
            let transfer = |block: &u64| {
                let sender = sender.clone();
                Transfer {
                    kind: TransferKind::Read,
                    offset: block * BLOCK as u64,
                    buffer: IoBuffer::zeroed(BLOCK),
                    reason: IoReason::Other,
                    done: Box::new(move |result, buffer: IoBuffer| {
                        sender.send(result.is_ok().then_some(buffer[17])).unwrap();
                    }),
                }
            };
            file.submit(blocks.iter().map(transfer).collect());
            (receiver.try_iter().collect(), reads() - before)
        };
        let all: Vec<u64> = (0..60).collect();
        let expected = |blocks: &[u64]| -> Vec<Option<u8>> {
            blocks.iter().map(|block| (*block < 60).then_some(*block as u8 + 1)).collect()
        };
        // The first read also loads the metadata of the blocks.
        read(&all);
        let (found, reads) = read(&all);
        assert_eq!(found, expected(&all), "{on:?}");
        assert!(reads < 20, "{on:?}: {reads} reads of members for 60 blocks");
        let some = [3, 70, 59, 3];
        assert_eq!(read(&some).0, expected(&some), "{on:?}: one is behind the end");
    }
}

#[test]
fn space_is_reused_zero_filled_and_limited() {
    [StorageKind::Array, StorageKind::Lun].into_iter().for_each(room_is_used_again);
}

fn room_is_used_again(on: StorageKind) {
    let disk = disk(on);
    let volume = mounted(&disk, on);
    let free = volume.free_space(Path::new(ROOT)).unwrap();
    for round in 0..3 {
        let file = volume.open(&path("a"), OpenMode::CreateNew).unwrap();
        file.grow(free).unwrap();
        assert!(read_all(&volume, "a").iter().all(|byte| *byte == 0), "round {round}");
        file.write_at(0, &content(7, free as usize / BLOCK), IoReason::Other).unwrap();
        let full = file.grow(free + 4096).unwrap_err();
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
        file.truncate(free - 64 * 4096).unwrap();
        file.sync(IoReason::Other).unwrap();
        assert_eq!(volume.free_space(Path::new(ROOT)).unwrap(), 64 * 4096);
        drop(file);
        volume.remove(&path("a")).unwrap();
        volume.sync_directory(Path::new(ROOT)).unwrap();
        assert_eq!(volume.free_space(Path::new(ROOT)).unwrap(), free);
    }
}

#[test]
fn an_array_with_other_content_is_rejected_and_left_unchanged() {
    let in_place = disk(StorageKind::Array);
    let mut other = array(&in_place, &members());
    other.write(300, &content(1, 1)).unwrap();
    other.close().unwrap();
    let refused = Volume::mount(array(&in_place, &members()), in_place.clock(), Path::new(ROOT));
    let refused = refused.err().unwrap().to_string();
    assert!(refused.contains("data of another program"), "{refused}");
    // The array was shut down: it can be read without a replay of its journal.
    let options = AssembleOptions { access: ArrayAccess::ReadOnly, ..AssembleOptions::default() };
    Array::assemble(Arc::new(in_place.clone()), &members(), options).unwrap();

    let disk = disk(StorageKind::Lun);
    let luns = luns(&disk, &members());
    luns.with_volume(|luns| luns.lun(LUN).unwrap().write_blocks(300, &content(1, 1))).unwrap();
    let mount = |name| Volume::mount_lun(luns.clone(), name, disk.clock(), Path::new(ROOT)).err().unwrap();
    assert!(mount(LUN).to_string().contains("data of another program"));
    assert!(mount("other").to_string().contains("other"));
}

#[test]
fn two_luns_have_separate_files_and_share_free_space() {
    let disk = disk(StorageKind::Lun);
    let shared = luns(&disk, &members());
    shared.with_volume(|luns| luns.create_lun("logs", 512 + 400)).unwrap();
    let mount = |name| Volume::mount_lun(shared.clone(), name, disk.clock(), Path::new(ROOT)).unwrap();
    let volumes = [LUN, "logs"].map(mount);
    for (seed, volume) in (0..).zip(&volumes) {
        let file = volume.open(&path("a"), OpenMode::CreateNew).unwrap();
        file.write_at(0, &content(seed, 50), IoReason::Other).unwrap();
    }
    volumes[0].close().unwrap();
    volumes[1].open(&path("b"), OpenMode::CreateNew).unwrap().grow(4096).unwrap();
    volumes[1].close().unwrap();
    drop(volumes);
    shared.into_inner().unwrap().close().unwrap();
    let again = luns(&disk, &members());
    for (seed, name) in [(0, LUN), (1, "logs")] {
        let volume = Volume::mount_lun(again.clone(), name, disk.clock(), Path::new(ROOT)).unwrap();
        assert!(read_all(&volume, "a") == content(seed, 50));
        assert_eq!(volume.exists(&path("b")).unwrap(), seed == 1);
    }
}

/// Durable state: files by name, with their content at the last sync.
type DurableFiles = BTreeMap<String, Vec<u8>>;

/// Runs random operations with a power cut after a number of disk operations. Content that was durable before the
/// last call must survive. Returns true if the power failed.
fn history(on: StorageKind, seed: u64) -> bool {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let disk = disk(on);
    let mut volume = mounted(&disk, on);
    let (mut durable, mut now) = (DurableFiles::new(), DurableFiles::new());
    // Writes to a LUN remain in memory until a sync, so they need fewer disk operations.
    let most = if on == StorageKind::Lun { 50 } else { 200 };
    disk.cut_power_after(disk.operations() + rng.random_range(0..most));
    for step in 0..40 {
        let name = format!("f{}", rng.random_range(0..4));
        let outcome = match rng.random_range(0..6) {
            0..3 => {
                let (first, blocks) = (rng.random_range(0..20), rng.random_range(1..30));
                let data = content(seed * 1000 + step, blocks);
                let mode = if now.contains_key(&name) { OpenMode::Write } else { OpenMode::CreateNew };
                let offset = first * BLOCK;
                let written = volume
                    .open(&path(&name), mode)
                    .and_then(|file| file.write_at(offset as u64, &data, IoReason::Other));
                let model = now.entry(name).or_default();
                model.resize(model.len().max(offset + data.len()), 0);
                model[offset..offset + data.len()].copy_from_slice(&data);
                written
            }
            3 if now.contains_key(&name) => {
                let other = format!("f{}", rng.random_range(0..4));
                let content = now.remove(&name).unwrap();
                now.insert(other.clone(), content);
                volume.rename(&path(&name), &path(&other))
            }
            4 if now.remove(&name).is_some() => volume.remove(&path(&name)),
            _ => {
                let synced = volume.sync_directory(Path::new(ROOT));
                if synced.is_ok() {
                    durable = now.clone();
                }
                synced
            }
        };
        if outcome.is_err() {
            drop(volume);
            let after = disk.crash(seed, CrashOptions::default());
            volume = mounted(&after, on);
            // A power cut during a sync may leave the new state instead, and other power cuts may leave blocks of
            // both states. Therefore, only files that did not change are checked.
            let names: Vec<PathBuf> = volume.list(Path::new(ROOT)).unwrap();
            let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_string();
            let found: DurableFiles =
                names.iter().map(|path| (name(path), read_all(&volume, &name(path)))).collect();
            for (name, content) in &durable {
                if now.get(name) == Some(content) {
                    assert!(
                        found.get(name) == Some(content),
                        "{on:?}, seed {seed}: {name} was durable and unchanged"
                    );
                }
            }
            return true;
        }
    }
    false
}

#[test]
fn synced_unchanged_data_survives_power_cuts() {
    for on in [StorageKind::Array, StorageKind::Lun] {
        let cuts = (0..150).filter(|seed| history(on, *seed)).count();
        assert!(cuts > 75, "{on:?}: {cuts}");
    }
}

/// Checks that further reads are in flight while a long read is being completed, including reads that completions
/// submit.
#[test]
fn long_reads_start_before_the_previous_read_completes() {
    const LONG: usize = 256 * BLOCK;
    for on in [StorageKind::Array, StorageKind::Lun] {
        let disk = disk(on);
        let volume = mounted(&disk, on);
        let file = volume.open(&path("a"), OpenMode::CreateNew).unwrap();
        let written = content(3, 3 * 256);
        file.write_at(0, &written, IoReason::Other).unwrap();
        file.sync(IoReason::Other).unwrap();
        volume.close().unwrap();
        let volume = mounted(&disk, on);
        let file = volume.open(&path("a"), OpenMode::Read).unwrap();
        // This read also loads the metadata of the blocks.
        assert_eq!(read_all(&volume, "a"), written);
        let bytes = |volume: &Volume| {
            volume.with_array(|array| array.counters().members.total().blocks_read).unwrap() as usize * BLOCK
        };
        let before = bytes(&volume);
        let (sender, receiver) = std::sync::mpsc::channel();
        let transfer = |at: usize, done: Box<dyn FnOnce(std::io::Result<()>, IoBuffer) + Send>| Transfer {
            kind: TransferKind::Read,
            offset: (at * LONG) as u64,
            buffer: IoBuffer::zeroed(LONG),
            reason: IoReason::Other,
            done,
        };
        let completed = |at: usize| {
            let (sender, volume) = (sender.clone(), volume.clone());
            move |result: std::io::Result<()>, buffer: IoBuffer| {
                result.unwrap();
                sender.send((at, bytes(&volume) - before, buffer)).unwrap();
            }
        };
        let (again, last, first) = (file.clone(), completed(2), completed(0));
        let begins_last = move |result, buffer| {
            again.submit(vec![transfer(2, Box::new(last))]);
            first(result, buffer);
        };
        file.submit(vec![transfer(0, Box::new(begins_last)), transfer(1, Box::new(completed(1)))]);
        let found: Vec<(usize, usize, IoBuffer)> = receiver.try_iter().collect();
        assert_eq!(
            found.iter().map(|(at, begun, _)| (*at, begun / LONG)).collect::<Vec<_>>(),
            [(0, 2), (1, 3), (2, 3)],
            "{on:?}"
        );
        assert!(found.iter().all(|(at, _, buffer)| buffer[..] == written[at * LONG..][..LONG]), "{on:?}");
    }
}

/// Checks that the measured latency of a read or sync includes the time spent waiting while a rebuild or another
/// volume uses the array.
#[test]
fn operation_latency_includes_waiting_for_the_array() {
    for on in [StorageKind::Array, StorageKind::Lun] {
        let disk = disk(on);
        let clock = disk.clock();
        let volume = mounted(&disk, on);
        let file = volume.open(&path("a"), OpenMode::CreateNew).unwrap();
        file.write_at(0, &[1; BLOCK], IoReason::Other).unwrap();
        let meter = volume.load_meter();
        meter.take_mean_latency();
        let wait = std::time::Duration::from_millis(30);
        let operations: [&(dyn Fn() + Sync); 2] = [&|| file.sync(IoReason::Other).unwrap(), &|| {
            file.read_at(0, &mut [0; BLOCK], IoReason::Other).unwrap();
        }];
        for operation in operations {
            std::thread::scope(|scope| {
                volume.with_array(|_| {
                    scope.spawn(operation);
                    while meter.operations_in_progress() == 0 {
                        std::thread::yield_now();
                    }
                    clock.sleep(wait);
                });
            });
            assert_eq!((meter.take_mean_latency(), meter.operations_in_progress()), (Some(wait), 0));
        }
    }
}
