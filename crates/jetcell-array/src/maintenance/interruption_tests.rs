//! Tests of rebuilds and scrubs that are interrupted at every single write, either by a power cut or by killing the
//! process, and then resumed. There is also a test with a slow member.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jetcell_sync::Arc;
use jetcell_sync::thread;
use jetcell_vfs::{File, FileLayer, IoReason, OpenMode, Transfer, Vfs, VfsLayer};

use crate::test_array::{TestArray, ZONES, is_io_error};
use crate::{Array, ArrayState, AssembleOptions, RaidLevel, Result, ScrubReport, ZONE_ROWS};

/// Each level with its number of members, and the number of members that the tests remove or damage.
const SHAPES: [(RaidLevel, usize, usize); 3] =
    [(RaidLevel::Mirror, 2, 1), (RaidLevel::Raid5, 4, 1), (RaidLevel::RaidDp { prime: 17 }, 5, 2)];

fn written(level: RaidLevel, members: usize) -> TestArray {
    let mut tested = TestArray::new(level, members, 11);
    for _ in 0..4 {
        let batch = tested.random_batch();
        tested.write(&batch).unwrap();
    }
    tested
}

/// Interrupts the operation at each of its writes, each time on a copy of an array that was shut down, and starts the
/// array again. `after` receives the number of steps that had completed. Returns the number of writes.
fn interrupted_everywhere(
    prepared: &TestArray,
    step: impl Fn(&mut TestArray) -> Result<bool>,
    after: impl Fn(&mut TestArray, u64),
) -> u64 {
    for operations in 0.. {
        let mut tested = prepared.copy(operations);
        tested.array().set_zones_per_save(1);
        tested.disk.cut_power_after(tested.disk.operations() + operations);
        let mut steps = 0;
        let result = loop {
            match step(&mut tested) {
                Ok(false) => steps += 1,
                Ok(true) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        if result.is_ok() && tested.has_power() {
            return operations;
        }
        assert!(result.as_ref().err().is_none_or(is_io_error), "{result:?}");
        if operations % 3 == 0 {
            tested.array = None;
            tested.disk = tested.disk.process_kill();
            tested.reset();
        } else {
            tested.crash();
        }
        tested.assemble(true).unwrap();
        tested.array().set_zones_per_save(1);
        tested.check();
        after(&mut tested, steps);
        tested.check();
        assert!(tested.array().scrub().unwrap().is_clean(), "{} after {operations} writes", tested.level);
        let status = tested.array().status();
        assert_eq!(
            status.state,
            ArrayState::Optimal,
            "{} after {operations} writes: {status:?}",
            tested.level
        );
    }
    unreachable!("the work ends")
}

#[test]
fn a_rebuild_resumes_after_an_interruption_at_any_write() {
    for (level, members, lost) in SHAPES {
        let mut prepared = written(level, members);
        for slot in 0..lost {
            prepared.array().fail(slot).unwrap();
            let file = prepared.new_file();
            prepared.array().replace(slot, &file, false).unwrap();
        }
        prepared.refresh_members();
        prepared.close();
        let step = |tested: &mut TestArray| {
            if tested.array().rebuild_progress().is_complete() {
                return Ok(true);
            }
            let progress = tested.array().rebuild_rows(ZONE_ROWS)?;
            assert_eq!(progress.rows_lost, 0);
            Ok(false)
        };
        let writes = interrupted_everywhere(&prepared, step, |tested, steps| {
            let mut left = 0;
            while !step(tested).unwrap() {
                left += 1;
            }
            // The interrupted step may or may not have saved its zone.
            let cut = ZONES.checked_sub(steps + left).unwrap();
            assert!(cut <= 1, "{level}: {steps} steps, {left} afterwards");
        });
        assert!(writes > 2 * ZONES, "{writes}");
    }
}

#[test]
fn a_scrub_resumes_after_an_interruption_at_any_write() {
    for (level, members, damaged) in SHAPES {
        let mut prepared = written(level, members);
        prepared.close();
        for member in &prepared.members[..damaged] {
            for row in [0, 1, 5, 64, 70] {
                prepared.disk.corrupt(member, TestArray::offset(row) + 99, &[0x77; 700]).unwrap();
            }
            prepared.disk.corrupt(member, TestArray::records_offset(0), &[0x77; 512]).unwrap();
        }
        let step = |tested: &mut TestArray| {
            let mut report = ScrubReport::default();
            let is_last = tested.array().scrub_zones(1, &mut report)?;
            // After the power cut, every read fails.
            let is_good = report.unrecoverable.is_empty() && report.parity_mismatches.is_empty();
            assert!(is_good || !tested.has_power(), "{report:?}");
            Ok(is_last)
        };
        let writes = interrupted_everywhere(&prepared, step, |tested, steps| {
            let cursor = tested.array().scrub_cursor();
            assert!([steps, steps + 1].map(|zone| zone % ZONES).contains(&cursor), "{steps}, {cursor}");
            while !step(tested).unwrap() {}
            // Zones before the cursor have already been repaired.
            tested.array().scrub().unwrap();
        });
        assert!(writes > 2 * ZONES, "{writes}");
    }
}

/// A file system with one slow file, whose transfers complete after those of all other files.
struct SlowMemberVfs {
    inner: Arc<dyn Vfs>,
    slow: PathBuf,
}

struct SlowMemberFile(Arc<dyn File>);

fn pause() {
    thread::sleep(Duration::from_millis(1));
}

impl VfsLayer for SlowMemberVfs {
    fn inner(&self) -> &dyn Vfs {
        &*self.inner
    }
    fn open(&self, path: &Path, mode: OpenMode) -> std::io::Result<Arc<dyn File>> {
        let file = self.inner.open(path, mode)?;
        Ok(if path == self.slow { Arc::new(SlowMemberFile(file)) } else { file })
    }
}

impl FileLayer for SlowMemberFile {
    fn inner(&self) -> &dyn File {
        &*self.0
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8], reason: IoReason) -> std::io::Result<()> {
        pause();
        self.0.read_at(offset, buffer, reason)
    }
    fn write_at(&self, offset: u64, data: &[u8], reason: IoReason) -> std::io::Result<()> {
        pause();
        self.0.write_at(offset, data, reason)
    }
    fn submit(&self, batch: Vec<Transfer>) {
        let file = self.0.clone();
        thread::spawn(move || {
            pause();
            file.submit(batch);
        });
    }
}

#[test]
fn a_slow_member_neither_blocks_the_array_nor_changes_data() {
    let contents = |is_slow: bool| {
        let mut tested = written(RaidLevel::Raid6, 5);
        tested.close();
        if is_slow {
            let vfs = SlowMemberVfs { inner: tested.faults.clone(), slow: tested.members[1].clone() };
            let options = AssembleOptions::default();
            tested.array = Some(Array::assemble(Arc::new(vfs), &tested.members, options).unwrap());
        } else {
            tested.assemble(false).unwrap();
        }
        tested.array().fail(3).unwrap();
        let file = tested.new_file();
        tested.array().replace(3, &file, false).unwrap();
        for _ in 0..ZONES {
            let batch = tested.random_batch();
            tested.write(&batch).unwrap();
            tested.array().rebuild_rows(ZONE_ROWS).unwrap();
        }
        tested.refresh_members();
        assert!(tested.array().scrub().unwrap().is_clean());
        tested.check();
        let status = tested.array().status();
        assert_eq!((status.state, status.failed.len()), (ArrayState::Optimal, 1));
        tested.close();
        tested.members.iter().map(|member| tested.disk.contents(member)).collect::<Vec<_>>()
    };
    assert!(contents(true) == contents(false));
}
