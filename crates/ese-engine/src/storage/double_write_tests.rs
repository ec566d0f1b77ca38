//! Tests the restoration of torn pages from a side file, and failures of the side file.

use super::*;
use ese_format::checksum::seal_page;
use ese_format::page::{NodeFlags, PageFlags, PageMut};
use ese_format::{DbTime, LogTime, TreeId};
use jetcell_sync::mpsc;
use jetcell_vfs::{CrashOptions, FaultEffect, FaultTarget, FaultVfs, InjectedFault, SimVfs};
use std::time::Duration;

const SIZE: PageSize = PageSize::KIB_4;
const PAGE: PageNumber = PageNumber::fixed(5);

fn image(time: u64, fill: u8) -> Vec<u8> {
    let mut bytes = vec![0; SIZE.bytes()];
    let mut page = PageMut::format(&mut bytes, SIZE, PAGE, TreeId(9), PageFlags::LEAF);
    page.insert_node(0, NodeFlags::empty(), b"k", &[fill; 3900]).unwrap();
    page.set_db_time(DbTime(time));
    seal_page(&mut bytes, SIZE, PAGE);
    bytes
}

/// Durable end of the log when the images are created.
const DURABLE: LogPosition = LogPosition::new(3, 9, 40);

fn signature(random: u32) -> Signature {
    Signature::new(random, LogTime::NONE)
}

fn header() -> DatabaseHeader {
    DatabaseHeader::for_new_database(SIZE, signature(7), signature(8))
}

fn write(file: &dyn File, offset: u64, bytes: &[u8]) {
    let mut buffer = IoBuffer::zeroed(bytes.len());
    buffer.copy_from_slice(bytes);
    file.write_at(offset, &buffer, IoReason::Other).unwrap();
}

/// Creates a database with one page.
fn database(stored: &[u8]) -> (SimVfs, &'static Path, Arc<dyn File>) {
    let (vfs, path) = (SimVfs::new(), Path::new("/data.edb"));
    let file = vfs.open(path, OpenMode::CreateNew).unwrap();
    write(&*file, SIZE.offset_of(PAGE), stored);
    (vfs, path, file)
}

/// Restores torn pages as recovery does after a crash. The log with this signature ends at `until`. Returns the
/// number of restored pages and the content of the page.
fn after(vfs: &SimVfs, path: &Path, log: Signature, until: LogPosition) -> (usize, Vec<u8>) {
    let file = vfs.open(path, OpenMode::Write).unwrap();
    let count = restore(vfs, path, &*file, &header(), log, until).unwrap();
    let mut found = IoBuffer::zeroed(SIZE.bytes());
    file.read_at(SIZE.offset_of(PAGE), &mut found, IoReason::Other).unwrap();
    (count, found.to_vec())
}

/// Runs [`after`] for a page whose stored content is `stored`. `damage` changes the image that was written last.
fn restored(stored: &[u8], written: &[u8], damage: impl Fn(&mut [u8])) -> (usize, Vec<u8>) {
    let (vfs, path, file) = database(stored);
    let side = DoubleWrite::create(&vfs, path, file, &header(), signature(8)).unwrap();
    drop(side.protect(&[(PAGE, written)], DURABLE).unwrap());
    let mut torn = written.to_vec();
    damage(&mut torn);
    write(&*vfs.open(&path_of(path), OpenMode::Write).unwrap(), DESCRIPTOR as u64, &torn);
    after(&vfs, path, signature(8), DURABLE)
}

#[test]
fn a_torn_page_is_restored_and_a_newer_page_is_kept() {
    let (old, new) = (image(10, 1), image(20, 2));
    let mut torn = new.clone();
    torn[2048..].copy_from_slice(&old[2048..]);
    assert_eq!(restored(&torn, &new, |_| ()), (1, new.clone()));
    assert_eq!(restored(&new, &old, |_| ()), (0, new));
}

#[test]
fn a_torn_image_is_not_used_although_its_checksum_matches() {
    let (old, new) = (image(10, 1), image(20, 2));
    let tear = |bytes: &mut [u8]| bytes[1024..2048].fill(0);
    let mut torn = new.clone();
    tear(&mut torn);
    assert_eq!(verify_page(&mut torn, SIZE, PAGE), PageIntegrity::Good, "the checksum does not detect it");
    assert_eq!(restored(&old, &new, tear), (0, old));
}

/// A log lacks an image's changes if it is a different log, or an older copy of the log that an operator has restored.
#[test]
fn a_page_image_newer_than_the_log_is_ignored() {
    let (old, new) = (image(10, 1), image(20, 2));
    for (log, until, count) in [
        (8, DURABLE, 1),
        (8, LogPosition::new(4, 1, 40), 1),
        (8, LogPosition::new(3, 8, 40), 0),
        (9, DURABLE, 0),
    ] {
        let (vfs, path, file) = database(&old);
        let side = DoubleWrite::create(&vfs, path, file, &header(), signature(8)).unwrap();
        drop(side.protect(&[(PAGE, &new)], DURABLE).unwrap());
        let expected = if count > 0 { &new } else { &old };
        assert_eq!(after(&vfs, path, signature(log), until), (count, expected.clone()), "{log}, {until:?}");
    }
}

#[test]
fn only_side_files_from_earlier_versions_are_used_and_removed() {
    let (old, new) = (image(10, 1), image(20, 2));
    let mut batch = vec![0; DESCRIPTOR];
    batch[8..36].copy_from_slice(&signature(7).to_bytes());
    batch[36..40].copy_from_slice(&1_u32.to_le_bytes());
    batch[40..44].copy_from_slice(&PAGE.get().to_le_bytes());
    batch[44..52].copy_from_slice(&XxHash3_64::oneshot(&new).to_le_bytes());
    batch.extend_from_slice(&new);
    let side = Path::new("/data.jdw");
    for (magic, found) in [(b"jetcelDW", 1), (b"jetcelD2", 0), (b"database", 0)] {
        let (vfs, path, _) = database(&old);
        batch[..8].copy_from_slice(magic);
        vfs.put(side, &batch);
        let expected = if found > 0 { &new } else { &old };
        assert_eq!(after(&vfs, path, signature(8), DURABLE), (found, expected.clone()));
        discard(&vfs, path).unwrap();
        assert_eq!(vfs.exists(side).unwrap(), found == 0, "{magic:?}");
    }
}

#[test]
fn the_name_of_a_side_file_is_durable_after_its_creator_was_killed() {
    let path = Path::new("/data.edb");
    let create = |disk: &SimVfs| {
        discard(disk, path)?;
        let database = disk.open(path, OpenMode::Write).map_err(|e| Error::io(path, &e))?;
        DoubleWrite::create(disk, path, database, &header(), signature(8))
    };
    for operations in 1..8 {
        let disk = SimVfs::new();
        disk.put(path, &[]);
        disk.cut_power_after(operations);
        let _ = create(&disk);
        let disk = disk.process_kill();
        drop(create(&disk).unwrap().protect(&[(PAGE, &image(10, 1))], DURABLE).unwrap());
        let lost = CrashOptions { lose_name: 1.0, ..CrashOptions::default() };
        assert!(disk.crash(1, lost).contents(&path_of(path)).is_some(), "{operations}");
    }
}

/// A thread that waits for the previous batch must also get an error immediately, because no later thread would wake
/// it. A failed sync is not retried: a second sync can succeed even though the device has dropped pages.
#[test]
fn a_failure_wakes_all_waiters_and_is_not_retried() {
    let full = RING as usize / (DESCRIPTOR + SIZE.bytes());
    let cases = [
        (FaultTarget::Write, ".jdw", 1, true),
        (FaultTarget::Write, ".jdw", 1, false),
        (FaultTarget::Sync, ".jdw", 1, false),
        (FaultTarget::Sync, ".edb", full, false),
    ];
    for (target, part, batches, forever) in cases {
        let disk = Arc::new(FaultVfs::new(Arc::new(SimVfs::new())));
        let path = Path::new("/data.edb");
        let database = disk.open(path, OpenMode::CreateNew).unwrap();
        let side = DoubleWrite::create(&*disk, path, database, &header(), signature(8)).unwrap();
        let image = image(10, 1);
        let mut active = None;
        for _ in 0..batches {
            drop(active.take());
            active = Some(side.protect(&[(PAGE, &image)], DURABLE).unwrap());
        }
        let (done, ended) = mpsc::channel();
        for _ in 0..2 {
            let (side, image, done) = (side.clone(), image.clone(), done.clone());
            jetcell_sync::thread::spawn(move || {
                let result = side.protect(&[(PAGE, &image)], DURABLE).map(drop);
                let _ = done.send(result);
            });
        }
        assert!(
            ended.recv_timeout(Duration::from_millis(100)).is_err(),
            "the calls must wait for the previous batch"
        );
        let fault = InjectedFault::new(target, FaultEffect::IoError).on_path(part);
        disk.inject(if forever { fault.repeating() } else { fault });
        drop(active);
        for _ in 0..2 {
            let result = ended.recv_timeout(Duration::from_secs(5)).expect("a thread waits for ever");
            let error = result.unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(disk.fired_count(), 1, "{target:?} of {part}");
    }
}
