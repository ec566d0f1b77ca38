//! Tests of real files, with and without `O_DIRECT`, on both backends.

use std::io::ErrorKind;

use jetcell_sync::mpsc;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tempfile::TempDir;

use super::*;
use crate::{FaultVfs, TransferKind};

const WHY: IoReason = IoReason::Other;
const BACKENDS: [Backend; 2] = [Backend::Uring, Backend::Threads];

/// Creates a directory on the disk that contains the build directory, because /tmp may be in memory.
fn on_disk() -> TempDir {
    let build = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    TempDir::new_in(build).unwrap()
}

/// Creates a directory in memory, or returns `None` if the machine has no in-memory file system.
fn in_memory() -> Option<TempDir> {
    TempDir::new_in("/dev/shm").ok()
}

fn vfs(backend: Backend, direct: bool) -> Option<RealVfs> {
    let vfs = RealVfs::new(RealOptions { backend, direct });
    if let Err(error) = &vfs {
        println!("skipped {backend:?}: {error}");
    }
    vfs.ok()
}

fn every_kind(mut test: impl FnMut(&RealVfs, &Path)) {
    for (backend, direct) in BACKENDS.into_iter().flat_map(|backend| [(backend, true), (backend, false)]) {
        for directory in [Some(on_disk()), in_memory()].iter().flatten() {
            vfs(backend, direct).iter().for_each(|vfs| test(vfs, directory.path()));
        }
    }
}

/// Runs a batch to completion. Returns results and buffers in batch order.
fn run(file: &dyn File, batch: Vec<(TransferKind, u64, IoBuffer)>) -> Vec<(io::Result<()>, IoBuffer)> {
    let (sender, receiver) = mpsc::channel();
    let transfers = batch.into_iter().enumerate().map(|(index, (kind, offset, buffer))| {
        let sender = sender.clone();
        let done = Box::new(move |result, buffer| sender.send((index, result, buffer)).unwrap());
        Transfer { kind, offset, buffer, reason: WHY, done }
    });
    file.submit(transfers.collect());
    drop(sender);
    let mut finished: Vec<_> = receiver.iter().collect();
    finished.sort_by_key(|(index, ..)| *index);
    finished.into_iter().map(|(_, result, buffer)| (result, buffer)).collect()
}

#[test]
fn batched_sync_results_are_in_file_order() {
    struct BadFile<'file>(&'file dyn File);
    impl crate::FileLayer for BadFile<'_> {
        fn inner(&self) -> &dyn File {
            self.0
        }
        fn sync(&self, _reason: IoReason) -> io::Result<()> {
            Err(ErrorKind::StorageFull.into())
        }
    }
    every_kind(|vfs, directory| {
        assert!(vfs.sync_files(&[], WHY).is_empty());
        let file = vfs.open(&directory.join("synced"), OpenMode::CreateNew).unwrap();
        file.grow(4096).unwrap();
        let bad = BadFile(&*file);
        let results = vfs.sync_files(&[&*file, &bad, &*file, &bad], WHY);
        assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true, false]);
    });
}

#[test]
fn direct_io_is_detected_and_probing_leaves_no_files() {
    for directory in [Some(on_disk()), in_memory()].iter().flatten() {
        let available = direct_io_available(directory.path());
        println!("{}: direct I/O {available}", directory.path().display());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        let file = Descriptor::open(&directory.path().join("a"), OpenMode::CreateNew, true).unwrap();
        assert_eq!(file.is_direct(), available);
    }
    assert!(!direct_io_available(Path::new("/nowhere")));
}

#[test]
fn random_transfers_match_an_in_memory_file() {
    const BLOCKS: u64 = 64;
    every_kind(|vfs, directory| {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let file = vfs.open(&directory.join("a"), OpenMode::CreateNew).unwrap();
        file.grow(BLOCKS * 4096).unwrap();
        let mut model = vec![0u8; BLOCKS as usize * 4096];
        for _ in 0..60 {
            // The transfers of one batch may run in any order, so they do not overlap.
            let mut blocks: Vec<u64> = (0..BLOCKS).step_by(8).collect();
            blocks.shuffle(&mut rng);
            let batch = blocks.iter().take(rng.random_range(1..8)).map(|block| {
                let mut buffer = IoBuffer::zeroed(rng.random_range(1..=8) * 4096);
                let kind = if rng.random() { TransferKind::Read } else { TransferKind::Write };
                if kind == TransferKind::Write {
                    rng.fill(&mut buffer[..]);
                }
                (kind, block * 4096, buffer)
            });
            let batch: Vec<_> = batch.collect();
            let places: Vec<_> = batch.iter().map(|(kind, offset, _)| (*kind, *offset as usize)).collect();
            for ((kind, offset), (result, buffer)) in places.into_iter().zip(run(&*file, batch)) {
                result.unwrap();
                let place = &mut model[offset..offset + buffer.len()];
                match kind {
                    TransferKind::Read => assert!(*place == *buffer),
                    TransferKind::Write => place.copy_from_slice(&buffer),
                }
            }
        }
        file.sync(WHY).unwrap();
        assert!(std::fs::read(directory.join("a")).unwrap() == model);
    });
}

#[test]
fn dropping_the_vfs_waits_for_transfers_from_all_threads() {
    for vfs in BACKENDS.into_iter().filter_map(|backend| vfs(backend, true)) {
        let directory = on_disk();
        let file = vfs.open(&directory.path().join("a"), OpenMode::CreateNew).unwrap();
        file.write_at(0, &IoBuffer::zeroed(1 << 20), WHY).unwrap();
        let completed = Arc::new(jetcell_sync::atomic::AtomicUsize::new(0));
        jetcell_sync::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for batch in 0..40 {
                        let transfer = |index: u64| {
                            let completed = completed.clone();
                            let done = Box::new(move |result: io::Result<()>, _| {
                                result.unwrap();
                                completed.fetch_add(1, jetcell_sync::atomic::Ordering::SeqCst);
                            });
                            let offset = (batch * 50 + index) % 256 * 4096;
                            let buffer = IoBuffer::zeroed(4096);
                            Transfer { kind: TransferKind::Read, offset, buffer, reason: WHY, done }
                        };
                        file.submit((0..50).map(transfer).collect());
                    }
                });
            }
        });
        drop((file, vfs));
        assert_eq!(completed.load(jetcell_sync::atomic::Ordering::SeqCst), 4 * 40 * 50);
    }
}

#[test]
fn completions_may_submit_transfers_and_drop_the_last_handle() {
    for vfs in BACKENDS.into_iter().filter_map(|backend| vfs(backend, true)) {
        let directory = on_disk();
        let file = vfs.open(&directory.path().join("a"), OpenMode::CreateNew).unwrap();
        drop(vfs);
        file.grow(4096).unwrap();
        let (sender, receiver) = mpsc::channel();
        fn next(file: Arc<dyn File>, left: u32, sender: mpsc::Sender<()>) {
            let again = file.clone();
            let done = Box::new(move |result: io::Result<()>, _| {
                result.unwrap();
                match left {
                    0 => drop((again, sender)),
                    _ => next(again, left - 1, sender),
                }
            });
            let buffer = IoBuffer::zeroed(4096);
            file.submit(vec![Transfer { kind: TransferKind::Write, offset: 0, buffer, reason: WHY, done }]);
        }
        next(file, 200, sender);
        assert!(receiver.recv().is_err(), "the last completion dropped its sender");
    }
}

#[test]
fn completions_may_submit_excess_transfers_and_transfers_that_cannot_start() {
    for vfs in BACKENDS.into_iter().filter_map(|backend| vfs(backend, false)) {
        let directory = on_disk();
        let path = directory.path().join("a");
        let descriptor = Descriptor::open(&path, OpenMode::CreateNew, false).unwrap().without_buffered();
        let file = RealFile { descriptor: Arc::new(descriptor), engine: vfs.engine.clone() };
        let file: Arc<dyn File> = Arc::new(file);
        let (sender, receiver) = mpsc::channel();
        // Submits 1 + 3 + 9 + ... transfers, 1093 in total. Every seventh transfer cannot start.
        fn spread(file: &Arc<dyn File>, level: u32, number: usize, sender: &mpsc::Sender<bool>) {
            let len = if number % 7 == 6 { 512 } else { 4096 };
            let (again, results) = (file.clone(), sender.clone());
            let done = Box::new(move |result: io::Result<()>, _| {
                results.send(result.is_ok() == (len == 4096)).unwrap();
                (0..3)
                    .filter(|_| level < 6)
                    .for_each(|one| spread(&again, level + 1, number * 3 + one, &results));
            });
            let buffer = IoBuffer::zeroed(len);
            file.submit(vec![Transfer { kind: TransferKind::Write, offset: 0, buffer, reason: WHY, done }]);
        }
        spread(&file, 0, 0, &sender);
        for _ in 0..1093 {
            assert!(receiver.recv_timeout(std::time::Duration::from_secs(20)).expect("a completion"));
        }
    }
}

#[test]
fn more_transfers_than_the_queue_depth_may_fail_to_start() {
    for vfs in BACKENDS.into_iter().filter_map(|backend| vfs(backend, false)) {
        let directory = on_disk();
        let path = directory.path().join("a");
        let descriptor = Descriptor::open(&path, OpenMode::CreateNew, false).unwrap().without_buffered();
        let file = RealFile { descriptor: Arc::new(descriptor), engine: vfs.engine.clone() };
        let (sender, receiver) = mpsc::channel();
        let submit = |count: usize, len: usize| {
            let transfer = |_| {
                let sender = sender.clone();
                let done = Box::new(move |result: io::Result<()>, _| sender.send(result.is_ok()).unwrap());
                let buffer = IoBuffer::zeroed(len);
                Transfer { kind: TransferKind::Write, offset: 0, buffer, reason: WHY, done }
            };
            file.submit((0..count).map(transfer).collect());
        };
        let next = || receiver.recv_timeout(std::time::Duration::from_secs(20)).expect("a completion");
        // Submits as many failing transfers as there are slots, and then more. A valid transfer follows each of them.
        for count in [128, 300] {
            submit(count, 512);
            assert!((0..count).all(|_| !next()));
            submit(1, 4096);
            assert!(next());
        }
    }
}

#[test]
fn the_backend_is_io_uring_where_the_kernel_allows_it() {
    let allowed = RealVfs::new(RealOptions { backend: Backend::Uring, direct: true }).is_ok();
    let expected = if allowed { "io_uring" } else { "threads" };
    println!("automatic backend: {expected}");
    assert_eq!(RealVfs::new(RealOptions::default()).unwrap().backend_name(), expected);
    assert_eq!(vfs(Backend::Threads, true).unwrap().backend_name(), "threads");
}

#[test]
fn files_that_refuse_direct_io_are_opened_buffered() {
    // Files in /proc never allow O_DIRECT. The tests cannot rely on that for any other volume.
    let file = Descriptor::open(Path::new("/proc/self/cmdline"), OpenMode::Read, true).unwrap();
    let mut start = [0; 1];
    file.read_exact_at(0, &mut start).unwrap();
    assert!(!file.is_direct() && start != [0]);
}

#[test]
fn reads_past_end_and_writes_to_read_only_files_fail() {
    every_kind(|vfs, directory| {
        let path = directory.join("a");
        std::fs::write(&path, vec![3; 6000]).unwrap();
        let file = vfs.open(&path, OpenMode::Read).unwrap();
        let kinds = |results: Vec<(io::Result<()>, IoBuffer)>| {
            results.into_iter().map(|(result, _)| result.err().map(|error| error.kind())).collect::<Vec<_>>()
        };
        let read = |offset, len| (TransferKind::Read, offset, IoBuffer::zeroed(len));
        let batch = vec![read(0, 4096), read(4096, 4096), read(0, 8192), read(8192, 4096)];
        let eof = Some(ErrorKind::UnexpectedEof);
        assert_eq!(kinds(run(&*file, batch)), [None, eof, eof, eof]);
        assert_eq!(file.read_at(4096, &mut [0; 4096], WHY).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        let write = vec![(TransferKind::Write, 0, IoBuffer::zeroed(4096))];
        assert!(kinds(run(&*file, write))[0].is_some() && file.write_at(0, &[0; 512], WHY).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), [3; 6000]);
    });
}

#[test]
fn unaligned_buffers_and_ranges_match_direct_transfers() {
    every_kind(|vfs, directory| {
        let file = vfs.open(&directory.join("a"), OpenMode::CreateNew).unwrap();
        let pattern: Vec<u8> = (0..3 * (1 << 20) + 1).map(|i| (i / 7 % 251) as u8).collect();
        let (aligned, odd) = (&pattern[1..1 + 2 * (1 << 20)], &pattern[1..1001]);
        file.write_at(0, aligned, WHY).unwrap();
        file.write_at(2048 + 512, odd, WHY).unwrap();
        let mut model = aligned.to_vec();
        model[2560..3560].copy_from_slice(odd);
        let mut whole = IoBuffer::zeroed(model.len());
        file.read_at(0, &mut whole, WHY).unwrap();
        assert!(*whole == *model);
        let mut part = vec![0; 8193];
        file.read_at(4096, &mut part[1..], WHY).unwrap();
        assert!(part[1..] == model[4096..4096 + 8192]);
        let results = run(&*file, vec![(TransferKind::Read, 2048, IoBuffer::zeroed(2048))]);
        assert!(results[0].0.is_ok() && *results[0].1 == model[2048..4096]);
    });
}

#[test]
fn scattered_buffers_are_contiguous_in_the_file() {
    every_kind(|vfs, directory| {
        let file = vfs.open(&directory.join("a"), OpenMode::CreateNew).unwrap();
        let mut memory = IoBuffer::zeroed(8 * 4096);
        memory.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 512 + at % 251) as u8);
        let pages: Vec<&[u8]> = memory.chunks(4096).collect();
        // More parts than one system call accepts. Some pages occur several times.
        let many: Vec<&[u8]> = (0..1500).map(|n| pages[n % 7]).collect();
        let odd = [&memory[4096..8192], &memory[1..4097], &[], &memory[100..612], &memory[8192..12288]];
        for (offset, parts) in [(8192, &many[..]), (4096, &[pages[3], pages[3], &memory[8192..]]), (0, &odd)]
        {
            file.write_parts_durable(offset, parts, WHY).unwrap();
            let whole = parts.concat();
            let mut read = IoBuffer::zeroed(whole.len());
            file.read_at(offset, &mut read, WHY).unwrap();
            assert!(*read == *whole);
        }
    });
}

#[test]
fn growth_reserves_zeros_and_a_full_volume_keeps_the_length() {
    every_kind(|vfs, directory| {
        let file = vfs.open(&directory.join("a"), OpenMode::CreateNew).unwrap();
        file.write_at(0, &[9; 4096], WHY).unwrap();
        file.grow(1 << 20).unwrap();
        let mut bytes = IoBuffer::zeroed(1 << 20);
        file.read_at(0, &mut bytes, WHY).unwrap();
        assert!(bytes[..4096] == [9; 4096] && bytes[4096..].iter().all(|byte| *byte == 0));
        assert_eq!(file.grow(4096).unwrap_err().kind(), ErrorKind::InvalidInput);
        let (len, free) = (file.len().unwrap(), vfs.free_space(directory).unwrap());
        assert!(free > 0);
        assert!(file.grow(1 << 60).is_err(), "more than any volume has");
        assert_eq!(file.len().unwrap(), len);
        file.truncate(8192).unwrap();
        assert_eq!((file.len().unwrap(), file.truncate(1 << 20).is_err()), (8192, true));
    });
}

#[test]
fn zeros_are_written_where_space_cannot_be_reserved() {
    let directory = on_disk();
    let vfs = vfs(Backend::Threads, true).unwrap();
    let descriptor = Descriptor::open(&directory.path().join("a"), OpenMode::CreateNew, true).unwrap();
    let file = RealFile { descriptor: Arc::new(descriptor), engine: vfs.engine.clone() };
    file.write_at(0, &[1; 5000], WHY).unwrap();
    file.write_zeros(5000, (1 << 21) + 100).unwrap();
    let bytes = std::fs::read(directory.path().join("a")).unwrap();
    assert_eq!(bytes.len(), (1 << 21) + 100);
    assert!(bytes[..5000].iter().all(|byte| *byte == 1) && bytes[5000..].iter().all(|byte| *byte == 0));
}

#[test]
fn files_can_be_created_renamed_removed_and_listed() {
    let vfs = vfs(Backend::Threads, true).unwrap();
    let directory = on_disk();
    let deep = directory.path().join("x/y/z");
    vfs.create_directory(&deep).unwrap();
    vfs.create_directory(&deep).unwrap();
    for name in ["b", "c", "a"] {
        vfs.open(&deep.join(name), OpenMode::CreateNew).unwrap();
    }
    vfs.create_directory(&deep.join("not a file")).unwrap();
    vfs.rename(&deep.join("c"), &deep.join("b")).unwrap();
    vfs.sync_directory(&deep).unwrap();
    assert_eq!(vfs.list(&deep).unwrap(), [deep.join("a"), deep.join("b")]);
    vfs.remove(&deep.join("a")).unwrap();
    assert!(
        !vfs.exists(&deep.join("a")).unwrap()
            && vfs.exists(&deep.join("b")).unwrap()
            && vfs.exists(&deep).unwrap()
    );
    let open = |path: &Path, mode| vfs.open(path, mode).err().map(|error| error.kind());
    assert_eq!(open(&deep.join("a"), OpenMode::Write), Some(ErrorKind::NotFound));
    assert_eq!(open(&deep.join("b"), OpenMode::CreateNew), Some(ErrorKind::AlreadyExists));
    assert_eq!(open(&deep, OpenMode::Read), Some(ErrorKind::IsADirectory));
    assert_eq!(vfs.remove(&deep.join("a")).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(vfs.free_space(&deep.join("not/there/yet")).unwrap() > 0);
}

#[test]
fn a_listing_includes_files_without_readable_metadata() {
    let vfs = vfs(Backend::Threads, true).unwrap();
    let directory = on_disk();
    let [file, link, gone] = ["file", "link", "gone"].map(|name| directory.path().join(name));
    std::fs::write(&file, b"x").unwrap();
    std::os::unix::fs::symlink("nowhere", &gone).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert_eq!(vfs.list(directory.path()).unwrap(), [file, link.clone()]);
    std::fs::remove_file(&link).unwrap();
    // Following the link is an error other than "file not found".
    std::os::unix::fs::symlink(&link, &link).unwrap();
    assert!(vfs.list(directory.path()).is_err());
}

#[test]
fn a_file_lock_has_one_holder_across_all_names() {
    let directory = on_disk();
    let path = directory.path().join("lock");
    let (one, other) = (vfs(Backend::Threads, true).unwrap(), vfs(Backend::Threads, true).unwrap());
    let lock = one.lock(&path).unwrap();
    std::fs::hard_link(&path, directory.path().join("alias")).unwrap();
    for name in ["lock", "alias"] {
        let refused = other.lock(&directory.path().join(name)).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
    }
    drop(lock);
    drop(other.lock(&path).unwrap());
    // To flock, an open file without an entry in the table looks like a lock of another process.
    let foreign = std::fs::File::open(&path).unwrap();
    foreign.lock().unwrap();
    assert_eq!(one.lock(&path).err().unwrap().kind(), ErrorKind::WouldBlock);
    foreign.unlock().unwrap();
    assert!(one.lock(&path).is_ok());
}

#[test]
fn same_file_matches_all_hard_links_and_no_other_file() {
    let directory = on_disk();
    let [one, link, copy] = ["one", "link", "copy"].map(|name| directory.path().join(name));
    std::fs::write(&one, b"x").unwrap();
    std::fs::write(&copy, b"x").unwrap();
    std::os::unix::fs::symlink(&one, &link).unwrap();
    let vfs = vfs(Backend::Threads, false).unwrap();
    assert!(vfs.same_file(&one, &link) && vfs.same_file(&one, &directory.path().join("./one")));
    assert!(!vfs.same_file(&one, &copy) && !vfs.same_file(&one, &directory.path().join("absent")));
}

#[test]
fn pipes_devices_and_directories_are_refused_without_blocking() {
    let dir = on_disk();
    let pipe = dir.path().join("pipe");
    rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let socket = dir.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let vfs = vfs(Backend::Threads, true).unwrap();
    for (path, what) in [
        (pipe.as_path(), "a pipe"),
        (socket.as_path(), "a socket"),
        (Path::new("/dev/zero"), "a character device"),
        (dir.path(), "directory"),
    ] {
        let error = vfs.open(path, OpenMode::Read).err().unwrap().to_string();
        assert!(error.contains(what), "{error}");
    }
    assert!(!crate::is_locked(&pipe).unwrap());
}

#[test]
fn a_lock_is_detected_without_acquiring_the_lock() {
    let dir = on_disk();
    let path = dir.path().join("file");
    assert!(!crate::is_locked(&path).unwrap(), "it does not exist");
    let lock = vfs(Backend::Threads, true).unwrap().lock(&path).unwrap();
    assert!(crate::is_locked(&path).unwrap());
    drop(lock);
    assert!(!crate::is_locked(&path).unwrap());
    let _again = vfs(Backend::Threads, true).unwrap().lock(&path).unwrap();
}

/// A process may not access unmapped memory, so the kernel fails such a read on every backend.
#[test]
fn every_backend_returns_kernel_errors() {
    for backend in [Backend::Uring, Backend::Threads] {
        let Some(vfs) = vfs(backend, false) else { continue };
        let file = vfs.open(Path::new("/proc/self/mem"), OpenMode::Read).unwrap();
        let reads = (0..300).map(|_| (TransferKind::Read, 0, IoBuffer::zeroed(4096))).collect();
        let results = run(&*file, reads);
        assert_eq!(results.len(), 300);
        for (result, buffer) in results {
            assert_eq!(
                (result.unwrap_err().raw_os_error(), buffer.len()),
                (Some(5), 4096),
                "{backend:?}: EIO"
            );
        }
    }
}

#[test]
fn a_punched_hole_reads_as_zeros_and_frees_blocks() {
    let dir = on_disk();
    let path = dir.path().join("file");
    let blocks = || std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&path).unwrap());
    let vfs = vfs(Backend::Threads, false).unwrap();
    let file = vfs.open(&path, OpenMode::CreateNew).unwrap();
    let mut bytes = IoBuffer::zeroed(1 << 20);
    bytes.fill(7);
    file.write_at(0, &bytes, IoReason::Other).unwrap();
    file.sync(IoReason::Other).unwrap();
    let before = blocks();
    if file.punch_hole(1 << 20, 4096).is_err() {
        return; // The file system cannot do it, and says so before anything is changed.
    }
    assert_eq!((file.len().unwrap(), blocks()), (1 << 20, before), "nothing is behind the end");
    file.punch_hole(64 << 10, 512 << 10).unwrap();
    file.sync(IoReason::Other).unwrap();
    assert!(blocks() + 1000 <= before, "{before} blocks, {} afterwards", blocks());
    file.read_at(0, &mut bytes, IoReason::Other).unwrap();
    let hole = 64 << 10..576 << 10;
    assert!((0..1 << 20).all(|at| bytes[at] == if hole.contains(&at) { 0 } else { 7 }));
    file.reserve(64 << 10, 512 << 10).unwrap();
    let mut again = IoBuffer::zeroed(1 << 20);
    file.read_at(0, &mut again, IoReason::Other).unwrap();
    assert!(again[..] == bytes[..] && file.len().unwrap() == 1 << 20);
}

#[test]
fn links_and_directories_are_not_regular_files() {
    let dir = on_disk();
    let (file, link) = (dir.path().join("file"), dir.path().join("link"));
    std::fs::write(&file, "x").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let vfs: Arc<dyn Vfs> = Arc::new(vfs(Backend::Threads, false).unwrap());
    let layer = FaultVfs::new(vfs.clone());
    for (path, is) in
        [(&*file, true), (&*link, false), (dir.path(), false), (&*dir.path().join("none"), false)]
    {
        assert_eq!(vfs.is_regular_file(path).unwrap(), is, "{}", path.display());
        assert_eq!(layer.is_regular_file(path).unwrap(), is, "through a layer: {}", path.display());
    }
}

#[test]
fn write_own_refuses_links_and_files_with_other_names() {
    let dir = on_disk();
    let path_to = |name: &str| dir.path().join(name);
    std::fs::write(path_to("own"), [1; 4096]).unwrap();
    std::fs::write(path_to("victim"), [7; 4096]).unwrap();
    std::fs::hard_link(path_to("victim"), path_to("second name")).unwrap();
    std::os::unix::fs::symlink(path_to("victim"), path_to("link")).unwrap();
    std::os::unix::fs::symlink(path_to("created"), path_to("to nothing")).unwrap();
    let vfs: Arc<dyn Vfs> = Arc::new(vfs(Backend::Threads, true).unwrap());
    let layer: Arc<dyn Vfs> = Arc::new(FaultVfs::new(vfs.clone()));
    for vfs in [vfs, layer] {
        vfs.open(&path_to("own"), OpenMode::WriteOwn)
            .unwrap()
            .write_at(0, &[2; 4096], IoReason::Other)
            .unwrap();
        for name in ["link", "to nothing", "second name"] {
            let error = vfs.open(&path_to(name), OpenMode::WriteOwn).err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}: {error}");
        }
        let none = vfs.open(&path_to("none"), OpenMode::WriteOwn).err().unwrap();
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
        assert!(vfs.open(&path_to("to nothing"), OpenMode::CreateNew).is_err());
    }
    assert_eq!(std::fs::read(path_to("victim")).unwrap(), [7; 4096]);
    assert!(!path_to("created").exists());
    // Only root can create a file owned by another user. Such a file is refused, even in a directory owned by this
    // user.
    if std::os::unix::fs::chown(path_to("own"), Some(4711), None).is_ok() {
        let vfs = super::RealVfs::new(RealOptions::default()).unwrap();
        for (mode, owner) in [(0o700, 0), (0o1777, 0), (0o1777, 4711), (0o755, 4711)] {
            std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            std::os::unix::fs::chown(dir.path(), Some(owner), None).unwrap();
            let error = vfs.open(&path_to("own"), OpenMode::WriteOwn).err().unwrap();
            assert!(error.to_string().contains("another user"), "{mode:o} {owner}: {error}");
            let error = crate::OutputFile::create(&path_to("own")).unwrap_err();
            assert!(error.to_string().contains("another user"), "{mode:o} {owner}: {error}");
        }
        let names: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(!names.iter().any(|name| name.to_string_lossy().starts_with(".jetcell")), "{names:?}");
    }
}

#[test]
fn locking_follows_no_link_and_works_on_directories() {
    let dir = on_disk();
    let path_to = |name: &str| dir.path().join(name);
    std::os::unix::fs::symlink(path_to("created"), path_to("to nothing")).unwrap();
    let vfs = vfs(Backend::Threads, false).unwrap();
    let error = vfs.lock(&path_to("to nothing")).err().unwrap();
    assert!(error.to_string().contains("a link to a file that does not exist"), "{error}");
    assert!(!path_to("created").exists());
    let held = vfs.lock_directory(dir.path()).unwrap();
    assert_eq!(vfs.lock_directory(dir.path()).err().unwrap().kind(), io::ErrorKind::WouldBlock);
    drop(held);
    vfs.lock_directory(dir.path()).unwrap();
    vfs.lock(&path_to("E00.lock")).unwrap();
    assert!(path_to("E00.lock").exists());
}

#[test]
fn created_files_and_directories_are_private() {
    let dir = on_disk();
    let directory = dir.path().join("a/b");
    let vfs = vfs(Backend::Threads, true).unwrap();
    vfs.create_directory(&directory).unwrap();
    drop(vfs.open(&directory.join("file"), OpenMode::CreateNew).unwrap());
    drop(vfs.lock(&directory.join("lock")).unwrap());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!((mode(&dir.path().join("a")), mode(&directory)), (0o700, 0o700));
    assert_eq!((mode(&directory.join("file")), mode(&directory.join("lock"))), (0o600, 0o600));
}
