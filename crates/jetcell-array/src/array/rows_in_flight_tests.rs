//! Tests with rows whose writes take a long time. Reads, other writes, scrubs and dropping the array must wait for
//! these writes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jetcell_sync::{Arc, thread};
use jetcell_vfs::{
    CrashOptions, FaultEffect, FaultTarget, FaultVfs, File, FileLayer, InjectedFault, OpenMode, SimVfs,
    Transfer, TransferKind, Vfs, VfsLayer,
};

use super::*;
use crate::RaidLevel;
use crate::test_array::{TestArray, UNIT};

/// Delay of writes. Long enough for a test to complete its other steps, even on a busy machine.
const WRITE_DELAY: Duration = Duration::from_millis(300);

/// A file system that delays submitted writes of rows. Writes of superblocks and of the journal are not delayed.
struct DelayedVfs(Arc<dyn Vfs>);

struct DelayedFile(Arc<dyn File>);

impl VfsLayer for DelayedVfs {
    fn inner(&self) -> &dyn Vfs {
        &*self.0
    }
    fn open(&self, path: &Path, mode: OpenMode) -> std::io::Result<Arc<dyn File>> {
        Ok(Arc::new(DelayedFile(self.0.open(path, mode)?)))
    }
}

impl FileLayer for DelayedFile {
    fn inner(&self) -> &dyn File {
        &*self.0
    }
    fn submit(&self, batch: Vec<Transfer>) {
        let is_late = |transfer: &Transfer| {
            transfer.kind == TransferKind::Write && transfer.offset >= TestArray::records_offset(0)
        };
        let (writes, others) = batch.into_iter().partition(is_late);
        self.0.submit(others);
        let file = self.0.clone();
        thread::spawn(move || {
            thread::sleep(WRITE_DELAY);
            file.submit(writes);
        });
    }
}

fn array_with_delayed_writes() -> TestArray {
    let mut tested = TestArray::new(RaidLevel::Raid6, 5, 1);
    tested.close();
    let late = Arc::new(DelayedVfs(tested.faults.clone()));
    let mut array = Array::assemble(late, &tested.members, AssembleOptions::default()).unwrap();
    array.set_new_rows(UNIT, 8..32);
    tested.array = Some(array);
    tested
}

/// Returns an array with new rows in flight.
fn array_with_rows_in_flight() -> TestArray {
    let mut tested = array_with_delayed_writes();
    let run: BTreeMap<u64, u64> = (0..60).map(|block| (block, block + 1)).collect();
    tested.write_run(&run).unwrap();
    assert!(tested.new_rows > 0 && tested.array().staging.has_new_rows());
    tested
}

/// Returns the content of each member, starting at the first record.
fn rows_of(disk: &SimVfs, members: &[PathBuf]) -> Vec<Vec<u8>> {
    let first = TestArray::records_offset(0) as usize;
    members.iter().map(|member| disk.contents(member).unwrap()[first..].to_vec()).collect()
}

/// Returns an array with a commit that was acknowledged and is being written in place.
fn array_with_commit_in_flight() -> TestArray {
    let mut tested = array_with_delayed_writes();
    let before = rows_of(&tested.disk, &tested.members);
    tested.write(&(0..20).map(|block| (block, block + 1)).collect()).unwrap();
    assert!(rows_of(&tested.disk, &tested.members) == before);
    tested
}

const LOSE_ALL: CrashOptions = CrashOptions {
    lose_write: 1.0,
    tear_write: 0.0,
    all_or_nothing: 0.0,
    lose_length: 0.0,
    lose_name: 0.0,
    tear_rename: 0.0,
};

/// Checks that the array survives a power failure while writes are in flight.
fn assert_survives_cut(tested: &mut TestArray) {
    tested.disk = tested.disk.crash(1, LOSE_ALL);
    tested.faults = Arc::new(FaultVfs::new(Arc::new(tested.disk.clone())));
    tested.array = None;
    tested.assemble(false).unwrap();
    tested.check();
}

fn assert_rebuilds(tested: &mut TestArray) {
    tested.array().fail(0).unwrap();
    let file = tested.new_file();
    tested.array().replace(0, &file, false).unwrap();
    tested.rebuild();
    assert!(tested.array().scrub().unwrap().is_clean());
    tested.check();
}

#[test]
fn writes_completing_after_a_sync_are_durable_after_the_next() {
    for begin in [array_with_rows_in_flight, array_with_commit_in_flight] {
        let mut tested = begin();
        tested.array().members_mut().save_config().unwrap();
        tested.array().row_writer().sync_members().unwrap();
        let rows = rows_of(&tested.disk, &tested.members);
        assert!(rows.iter().flatten().any(|byte| *byte != 0));
        assert!(rows_of(&tested.disk.crash(1, LOSE_ALL), &tested.members) == rows);
    }
}

#[test]
fn a_commit_is_acknowledged_before_the_in_place_write() {
    let mut tested = array_with_commit_in_flight();
    assert_survives_cut(&mut tested);
    // All operations that change or read the rows wait for the commit.
    let mut tested = array_with_commit_in_flight();
    tested.check();
    let counters = tested.array().counters();
    assert_eq!((counters.checksum_errors, counters.rows_recovered), (0, 0));
    let mut tested = array_with_commit_in_flight();
    tested.write(&(10..30).map(|block| (block, block + 7)).collect()).unwrap();
    tested.check();
    let mut tested = array_with_commit_in_flight();
    assert!(tested.array().scrub().unwrap().is_clean());
    let mut tested = array_with_commit_in_flight();
    assert_rebuilds(&mut tested);
    // After two more commits, the journal of the first commit is no longer needed.
    let mut tested = array_with_commit_in_flight();
    tested.write(&[(100, 5)].into()).unwrap();
    tested.write(&[(101, 6)].into()).unwrap();
    assert_survives_cut(&mut tested);
}

#[test]
fn a_member_failing_an_in_place_write_is_removed_later() {
    let mut tested = array_with_delayed_writes();
    let failing = tested.members[2].clone();
    let fault =
        InjectedFault::new(FaultTarget::Write, FaultEffect::IoError).on_path(failing.to_str().unwrap());
    tested.write(&(0..20).map(|block| (block, block + 1)).collect()).unwrap();
    tested.faults.inject(fault);
    assert!(tested.array().members().lost_slots().is_empty());
    tested.check();
    assert_eq!(tested.array().members().lost_slots(), [2]);
    tested.crash();
    tested.forget(&failing);
    tested.assemble(true).unwrap();
    assert_eq!(tested.array().members().lost_slots(), [2]);
    tested.check();
}

#[test]
fn reads_wait_for_rows_in_flight() {
    let mut tested = array_with_rows_in_flight();
    tested.check();
    let counters = tested.array().counters();
    assert_eq!((counters.checksum_errors, counters.rows_recovered), (0, 0));
    let mut tested = array_with_rows_in_flight();
    let blocks: Vec<u64> = (0..40).collect();
    let ahead = tested.array().start_read(&blocks);
    let mut bytes = vec![0; blocks.len() * BLOCK];
    let mut buffers: Vec<&mut [u8]> = bytes.chunks_exact_mut(BLOCK).collect();
    tested.array().finish_read(&blocks, &mut buffers, Some(ahead)).unwrap();
    assert!(bytes.chunks_exact(BLOCK).zip(1u64..).all(|(block, value)| block[..8] == value.to_le_bytes()));
    assert_eq!(tested.array().counters().checksum_errors, 0);
}

#[test]
fn writes_scrubs_and_rebuilds_wait_for_rows_in_flight() {
    let mut tested = array_with_rows_in_flight();
    tested.write(&[(3, 77)].into()).unwrap();
    tested.check();
    let mut tested = array_with_rows_in_flight();
    assert!(tested.array().scrub().unwrap().is_clean());
    tested.check();
    let mut tested = array_with_rows_in_flight();
    assert_rebuilds(&mut tested);
}

#[test]
fn a_dropped_array_writes_nothing_afterwards() {
    let mut tested = array_with_rows_in_flight();
    tested.array = None;
    let contents = |tested: &TestArray| -> Vec<_> {
        tested.members.iter().map(|member| tested.disk.contents(member)).collect()
    };
    let before = contents(&tested);
    thread::sleep(2 * WRITE_DELAY);
    assert!(contents(&tested) == before);
    // Writes that were not flushed are lost.
    tested.assemble(false).unwrap();
    tested.settle_model();
    assert!(tested.rows_cleared > 0 && tested.array().scrub().unwrap().is_clean());
}
