use std::io;
use std::ops::Range;

use jetcell_array::SharedBlock;
use jetcell_vfs::{
    CrashOptions, FaultEffect, FaultTarget, FaultVfs, FileLayer, InjectedFault, SimVfs, VfsLayer,
};

use super::*;

const PATH: &str = "/log/write-log";
const ARRAY: u128 = 77;
const IDENTITY: WriteLogIdentity = WriteLogIdentity { array: ARRAY, created_after: 5, bytes: MIN_BYTES };
const POINT: u64 = 12;

fn path() -> &'static Path {
    Path::new(PATH)
}

fn entries(seed: u64, blocks: usize) -> Vec<WriteLogEntry> {
    let block = SharedBlock::copy_from(&[seed as u8; BLOCK]);
    let data = vec![block; blocks];
    vec![
        WriteLogEntry { lun: 3, first: seed, count: blocks as u64, data: Some(data) },
        WriteLogEntry { lun: 4, first: 9, count: 1 << 40, data: None },
    ]
}

fn log(disk: &SimVfs) -> WriteLog {
    let mut log = WriteLog::create(disk, path(), IDENTITY).unwrap();
    log.restart(POINT);
    log
}

fn open(vfs: &dyn Vfs) -> WriteLog {
    WriteLog::open(vfs, path(), IDENTITY).unwrap()
}

/// Returns the seeds of the entries that a replay finds.
fn replayed(vfs: &dyn Vfs) -> Result<Vec<u64>> {
    let found = WriteLog::open(vfs, path(), IDENTITY)?.replay(POINT)?;
    Ok(found.iter().step_by(2).map(|entry| entry.first).collect())
}

fn refused(result: Result<impl Sized>) -> WriteLogError {
    match result {
        Err(ArrayError::WriteLog(error)) => error,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was accepted"),
    }
}

fn is_damage(error: &ArrayError) -> bool {
    matches!(error, ArrayError::WriteLog(WriteLogError::Damaged { .. }))
}

#[test]
fn only_entries_after_the_consistency_point_are_replayed() {
    let disk = SimVfs::new();
    let mut written = log(&disk);
    assert!(written.append(&entries(1, 3)).unwrap() && written.append(&entries(2, 0)).unwrap());
    let expected = [entries(1, 3), entries(2, 0)].concat();
    assert_eq!(open(&disk).replay(12).unwrap(), expected);
    assert_eq!(open(&disk).replay(13).unwrap(), []);
    let newer = refused(open(&disk).replay(11));
    assert_eq!(newer, WriteLogError::NewerThanCatalogue { path: PATH.into(), newer: 12, point: 11 });
    // The log restarts. Older records that remain after the new ones are ignored.
    written.restart(13);
    assert!(written.append(&entries(3, 1)).unwrap());
    assert_eq!(open(&disk).replay(13).unwrap(), entries(3, 1));
    let mut again = open(&disk);
    again.replay(13).unwrap();
    assert!(!again.append(&entries(5, 2)).unwrap(), "a consistency point must follow the replay");
    again.restart(14);
    assert!(again.append(&entries(5, 2)).unwrap());
    assert_eq!(open(&disk).replay(14).unwrap(), entries(5, 2));
    again.clear().unwrap();
    assert_eq!(open(&disk).replay(12).unwrap(), []);
}

#[test]
fn a_log_fills_completely_and_rejects_entries_without_space() {
    let disk = SimVfs::new();
    let mut written = log(&disk);
    let most = written.max_entry_blocks() as usize;
    assert!(!written.append(&entries(9, most + 1)).unwrap(), "larger than a record");
    let mut seed = 0;
    while written.append(&entries(seed + 1, most)).unwrap() {
        seed += 1;
    }
    while written.append(&entries(seed + 1, 0)).unwrap() {
        seed += 1;
    }
    assert_eq!(written.next_offset, written.geometry.records_end());
    assert_eq!(replayed(&disk).unwrap(), (1..=seed).collect::<Vec<_>>());
}

#[test]
fn a_flush_larger_than_a_record_is_split() {
    let disk = SimVfs::new();
    let mut written = log(&disk);
    let many: Vec<WriteLogEntry> = (1..20).flat_map(|seed| entries(seed, 4)).collect();
    assert!(written.append(&many).unwrap() && written.number > 1);
    assert_eq!(open(&disk).replay(POINT).unwrap(), many);
}

/// Writes records with seeds starting at 1. Returns their offsets.
fn records(disk: &SimVfs, count: u64) -> Vec<u64> {
    let mut log = log(disk);
    (1..=count)
        .map(|seed| {
            let at = log.next_offset;
            assert!(log.append(&entries(seed, 2)).unwrap());
            at
        })
        .collect()
}

#[test]
fn single_block_damage_loses_no_record_or_is_reported() {
    let disk = SimVfs::new();
    let places = records(&disk, 5);
    let all: Vec<u64> = (1..=5).collect();
    for block in 0..MIN_BYTES / BLOCK as u64 {
        for within in [0, 30, 3000] {
            let damaged = disk.clone_disk();
            damaged.corrupt(path(), block * BLOCK as u64 + within, &[0xA5; 512]).unwrap();
            match replayed(&damaged) {
                Ok(found) => assert_eq!(found, all, "block {block}"),
                // Only the last two records have shadows.
                Err(error) => {
                    assert!(is_damage(&error), "{error}");
                    let at = block * BLOCK as u64;
                    assert!((places[0]..places[3]).contains(&at), "block {block}");
                }
            }
        }
    }
}

/// A disk with a range of bytes that cannot be read.
struct UnreadableRangeVfs {
    disk: SimVfs,
    bad: Range<u64>,
}

struct UnreadableRangeFile {
    file: Arc<dyn File>,
    bad: Range<u64>,
}

impl VfsLayer for UnreadableRangeVfs {
    fn inner(&self) -> &dyn Vfs {
        &self.disk
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(UnreadableRangeFile { file: self.inner().open(path, mode)?, bad: self.bad.clone() }))
    }
}

impl FileLayer for UnreadableRangeFile {
    fn inner(&self) -> &dyn File {
        &*self.file
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], reason: IoReason) -> io::Result<()> {
        if offset < self.bad.end && self.bad.start < offset + buffer.len() as u64 {
            return Err(io::Error::other("bad sector"));
        }
        self.file.read_at(offset, buffer, reason)
    }
}

#[test]
fn unreadable_blocks_and_devices_lose_no_log_record() {
    let disk = SimVfs::new();
    let places = records(&disk, 5);
    let all: Vec<u64> = (1..=5).collect();
    for block in 0..MIN_BYTES / BLOCK as u64 {
        let at = block * BLOCK as u64;
        match replayed(&UnreadableRangeVfs { disk: disk.clone(), bad: at..at + BLOCK as u64 }) {
            Ok(found) => assert_eq!(found, all, "block {block}"),
            Err(_) => assert!((places[0]..places[3]).contains(&at), "block {block}"),
        }
    }
    for reads in 0..40 {
        let faults = FaultVfs::new(Arc::new(disk.clone_disk()));
        let fault = InjectedFault::new(FaultTarget::Read, FaultEffect::IoError);
        faults.inject(fault.after_operations(reads).repeating());
        if let Ok(found) = replayed(&faults) {
            assert_eq!(found, all, "after {reads} reads");
        }
    }
}

#[test]
fn missing_trailing_records_are_reported_as_log_damage() {
    let disk = SimVfs::new();
    let places = records(&disk, 6);
    let all: Vec<u64> = (1..=6).collect();
    let end = MIN_BYTES as usize;
    for (lost, place) in places.iter().enumerate() {
        let damaged = disk.clone_disk();
        let zeros = vec![0; end - BLOCK - *place as usize];
        damaged.corrupt(path(), *place, &zeros).unwrap();
        match replayed(&damaged) {
            Ok(found) => assert!(found == all && lost >= 4, "from record {lost}"),
            Err(error) => assert!(is_damage(&error) && lost < 4, "{error}"),
        }
    }
}

#[test]
fn a_truncated_log_file_is_rejected_at_any_length() {
    let disk = SimVfs::new();
    records(&disk, 3);
    let whole = disk.contents(path()).unwrap();
    for length in (0..whole.len()).step_by(BLOCK / 2).chain([whole.len() - 1]) {
        disk.put(path(), &whole[..length]);
        let error = refused(WriteLog::open(&disk, path(), IDENTITY));
        let (found, expected) = (length as u64, MIN_BYTES);
        assert_eq!(error, WriteLogError::Shortened { path: PATH.into(), found, expected });
    }
    // If the end of the log is replaced by zeros, the shadows show whether records were lost.
    let shadows_end = WriteLogGeometry::for_size(MIN_BYTES).records_start() as usize;
    for length in (shadows_end..whole.len()).step_by(BLOCK) {
        let mut padded = whole[..length].to_vec();
        padded.resize(whole.len() + BLOCK, 0);
        disk.put(path(), &padded);
        if let Ok(found) = replayed(&disk) {
            assert_eq!(found, [1, 2, 3], "{length} bytes are left");
        }
    }
}

/// Cuts the power at each operation of an append, and then damages one block of the log. No acknowledged record may
/// be lost silently, and the last one may not be lost at all.
#[test]
fn a_power_cut_and_one_damaged_block_lose_no_acknowledged_record() {
    let mut recovered = 0;
    for operations in 0..9 {
        for seed in 0..6 {
            let disk = SimVfs::new();
            let mut log = log(&disk);
            let mut places = vec![];
            for record in 1..=3 {
                places.push(log.next_offset);
                assert!(log.append(&entries(record, 2)).unwrap());
            }
            disk.cut_power_after(disk.operations() + operations);
            let mut acknowledged = 3;
            for record in 4..=6 {
                places.push(log.next_offset);
                acknowledged += u64::from(matches!(log.append(&entries(record, 2)), Ok(true)));
            }
            let end = places[0] + 20 * BLOCK as u64;
            let cut = disk.crash(seed, CrashOptions::default());
            let whole = replayed(&cut).unwrap();
            assert!(whole.len() as u64 >= acknowledged);
            let last = places[acknowledged as usize - 1];
            for at in (0..end).step_by(BLOCK) {
                let damaged = cut.clone_disk();
                damaged.corrupt(path(), at + 20, &[0x5A; 700]).unwrap();
                match replayed(&damaged) {
                    Ok(found) => {
                        assert!(found.len() as u64 >= acknowledged, "{operations} {seed} {at}: {found:?}");
                        assert!(found.iter().copied().eq(1..=found.len() as u64), "{found:?}");
                        recovered += u64::from((last..last + 3 * BLOCK as u64).contains(&at));
                    }
                    Err(error) => {
                        assert!(is_damage(&error) && at < last, "{operations} {seed} {at}: {error}");
                    }
                }
            }
        }
    }
    assert!(recovered > 100, "{recovered}");
}

#[test]
fn a_log_with_one_damaged_header_is_still_recognized() {
    for at in [0, header_copy(MIN_BYTES)] {
        let disk = SimVfs::new();
        log(&disk);
        disk.corrupt(path(), at, &[9; BLOCK]).unwrap();
        let again = WriteLog::recreate(&disk, path(), 64 << 20, IDENTITY).unwrap();
        assert_eq!(again.bytes(), MIN_BYTES);
        // Opening a log does not change it. The damaged copy is rewritten by the replay.
        disk.corrupt(path(), at, &[9; BLOCK]).unwrap();
        let before = disk.contents(path()).unwrap();
        open(&disk);
        assert_eq!(disk.contents(path()).unwrap(), before);
        open(&disk).replay(POINT).unwrap();
        disk.corrupt(path(), header_copy(MIN_BYTES) - at, &[9; BLOCK]).unwrap();
        open(&disk);
    }
}

#[test]
fn other_files_and_logs_from_other_volumes_are_rejected() {
    let disk = SimVfs::new();
    let open = |identity| refused(WriteLog::open(&disk, path(), identity));
    assert_eq!(open(IDENTITY), WriteLogError::Missing(PATH.into()));
    log(&disk);
    let foreign = || WriteLogError::Foreign(PATH.into());
    assert_eq!(open(WriteLogIdentity { array: 78, ..IDENTITY }), foreign());
    assert_eq!(open(WriteLogIdentity { created_after: 6, ..IDENTITY }), foreign());
    // A catalogue from an earlier version does not match a log of this version.
    assert_eq!(open(WriteLogIdentity { bytes: 0, ..IDENTITY }), foreign());
    WriteLog::open(&disk, path(), IDENTITY).unwrap();
    for offset in [0, header_copy(MIN_BYTES)] {
        disk.corrupt(path(), offset + 40, &[1]).unwrap();
    }
    assert_eq!(open(IDENTITY), foreign());
    let create =
        |bytes| WriteLog::create(&disk, path(), WriteLogIdentity { bytes, ..IDENTITY }).err().unwrap();
    assert!(create(4096).to_string().contains("at least"));
    let before = disk.contents(path()).unwrap();
    disk.corrupt(path(), 0, b"something").unwrap();
    assert!(matches!(create(2 * MIN_BYTES), ArrayError::Refused(ArrayRefusal::NotAWriteLog(_))));
    assert_eq!(disk.contents(path()).unwrap().len(), before.len(), "a file of others keeps its length");
}

/// Clears everything except for some of the headers. Each time, the log must be refused as damaged, and must open
/// after it is created again.
#[test]
fn a_used_log_without_records_is_rejected_as_damaged() {
    let disk = SimVfs::new();
    records(&disk, 3);
    let whole = disk.contents(path()).unwrap();
    let blocks = whole.len() / BLOCK;
    for kept in [&[0, blocks - 1][..], &[0], &[blocks - 1]] {
        let blanked: Vec<u8> = (0..blocks)
            .flat_map(|block| {
                if kept.contains(&block) {
                    whole[block * BLOCK..(block + 1) * BLOCK].to_vec()
                } else {
                    vec![0; BLOCK]
                }
            })
            .collect();
        let blank = disk.clone_disk();
        blank.put(path(), &blanked);
        for _ in 0..2 {
            let error = replayed(&blank).unwrap_err();
            assert!(is_damage(&error), "{kept:?}: {error}");
        }
        assert_eq!(blank.contents(path()).unwrap(), blanked, "a refused log is not changed");
        // If the catalogue has the next consistency point, the log is empty.
        assert_eq!(open(&blank).replay(POINT + 1).unwrap(), []);
        WriteLog::recreate(&blank, path(), MIN_BYTES, IDENTITY).unwrap();
        assert!(replayed(&blank).unwrap().is_empty());
    }
    disk.put(path(), &vec![0; whole.len()]);
    assert_eq!(refused(WriteLog::open(&disk, path(), IDENTITY)), WriteLogError::Foreign(PATH.into()));
}

/// Earlier versions did not store the consistency point in the headers.
#[test]
fn a_log_whose_headers_have_no_consistency_point_is_replayed() {
    let disk = SimVfs::new();
    records(&disk, 2);
    let mut block = vec![0; BLOCK];
    let geometry = Some(WriteLogGeometry::for_size(MIN_BYTES));
    WriteLogHeader { array: ARRAY, created_after: 5, used: 0, geometry }.encode(&mut block);
    for offset in [0, header_copy(MIN_BYTES)] {
        disk.corrupt(path(), offset, &block).unwrap();
    }
    assert_eq!(replayed(&disk).unwrap(), [1, 2]);
    assert_eq!(open(&disk).replay(POINT + 1).unwrap(), []);
}

/// Cuts the power at each operation of the first append. The log must open afterwards, and must contain the record if
/// it was acknowledged.
#[test]
fn a_log_opens_after_power_cut_in_the_first_append() {
    for operations in 0..9 {
        for seed in 0..20 {
            let disk = SimVfs::new();
            let mut log = log(&disk);
            disk.cut_power_after(disk.operations() + operations);
            let acknowledged = matches!(log.append(&entries(1, 2)), Ok(true));
            let found = replayed(&disk.crash(seed, CrashOptions::default())).unwrap();
            assert!(found == [1] || found.is_empty() && !acknowledged, "{operations} {seed}: {found:?}");
        }
    }
}
