//! An array on a simulated disk with a model of its content, for tests with faults and power cuts.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use jetcell_sync::Arc;
use jetcell_vfs::{CrashOptions, FaultEffect, FaultTarget, FaultVfs, InjectedFault, OpenMode, SimVfs, Vfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::bytes::copy_to_buffer;
use crate::member::MemberLayout;
use crate::{
    Array, ArrayError, AssembleOptions, BLOCK, BlockStore, CreateArrayOptions, RaidLevel, Result, ZONE_ROWS,
};

/// Number of images in a journal slot, which is the maximum number of rows in a commit.
pub const JOURNAL: u32 = 8;
pub const ZONES: u64 = 2;
pub const CHUNK: u32 = 4;
/// Number of new rows that are started together. It also determines the number of rows that are opened ahead of a
/// writer.
pub const UNIT: u64 = 4;
/// Number of blocks in each transfer of a sequential run.
const TRANSFER: u64 = 24;
const AHEAD: Range<u64> = 8..32;

/// Returns the content of a block with this value in the model: every word has this value. Value 0 stands for a block
/// that was never written.
pub fn content(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(BLOCK / 8)
}

pub struct TestArray {
    pub level: RaidLevel,
    pub disk: SimVfs,
    pub faults: Arc<FaultVfs>,
    /// Files from which the array is assembled.
    pub members: Vec<PathBuf>,
    pub array: Option<Array>,
    /// Expected value of each block.
    pub model: Vec<u64>,
    pub rng: ChaCha8Rng,
    /// Values that blocks may also have after a crash, because they were written since the last flush.
    pub unflushed: BTreeMap<u64, Vec<u64>>,
    /// Number of new rows that were written without the journal. `rows_cleared` is the number of rows that were
    /// cleared at startup. Both are totals over all restarts.
    pub new_rows: u64,
    pub rows_cleared: u64,
    /// Files on which every access fails.
    pub dead: Vec<PathBuf>,
    files: usize,
    zones: u64,
}

impl TestArray {
    pub fn new(level: RaidLevel, members: usize, seed: u64) -> TestArray {
        TestArray::with_zones(level, members, seed, ZONES)
    }

    pub fn with_zones(level: RaidLevel, members: usize, seed: u64, zones: u64) -> TestArray {
        let disk = SimVfs::new();
        let mut tested = TestArray {
            level,
            faults: Arc::new(FaultVfs::new(Arc::new(disk.clone()))),
            disk,
            members: vec![],
            array: None,
            model: vec![],
            rng: ChaCha8Rng::seed_from_u64(seed),
            unflushed: BTreeMap::new(),
            new_rows: 0,
            rows_cleared: 0,
            dead: vec![],
            files: 0,
            zones,
        };
        tested.members = (0..members).map(|_| tested.new_file()).collect();
        let options = CreateArrayOptions {
            chunk: CHUNK,
            journal_images: JOURNAL,
            ..CreateArrayOptions::new(level, 77)
        };
        Array::create(&tested.disk, &tested.members, &options).unwrap();
        tested.assemble(false).unwrap();
        tested.model = vec![0; tested.array().layout().blocks() as usize];
        tested
    }

    /// Returns an array that has some content and is shut down.
    pub fn closed(level: RaidLevel, members: usize) -> TestArray {
        let mut tested = TestArray::new(level, members, 1);
        let batch = tested.random_batch();
        tested.write(&batch).unwrap();
        tested.close();
        tested
    }

    /// Copies the array to another disk. The array must be shut down.
    pub fn copy(&self, seed: u64) -> TestArray {
        assert!(self.array.is_none());
        let disk = self.disk.clone_disk();
        let mut copy = TestArray {
            level: self.level,
            faults: Arc::new(FaultVfs::new(Arc::new(disk.clone()))),
            disk,
            members: self.members.clone(),
            array: None,
            model: self.model.clone(),
            rng: ChaCha8Rng::seed_from_u64(seed),
            unflushed: BTreeMap::new(),
            new_rows: 0,
            rows_cleared: 0,
            dead: vec![],
            files: self.files,
            zones: self.zones,
        };
        copy.assemble(false).unwrap();
        copy
    }

    /// Creates an empty, durable file of the right size.
    pub fn new_file(&mut self) -> PathBuf {
        let path = PathBuf::from(format!("/a/m{:02}", self.files));
        self.files += 1;
        let file = self.disk.open(&path, OpenMode::CreateNew).unwrap();
        file.grow(MemberLayout::new(JOURNAL).bytes_for(self.zones * ZONE_ROWS)).unwrap();
        file.sync(jetcell_vfs::IoReason::Other).unwrap();
        self.disk.sync_directory("/a".as_ref()).unwrap();
        path
    }

    pub fn array(&mut self) -> &mut Array {
        self.array.as_mut().unwrap()
    }

    pub fn assemble(&mut self, force: bool) -> Result<()> {
        let options = AssembleOptions { force, ..AssembleOptions::default() };
        self.array = None;
        let mut array = Array::assemble(self.faults.clone(), &self.members, options)?;
        self.rows_cleared += array.counters().rows_cleared;
        array.set_new_rows(UNIT, AHEAD);
        self.array = Some(array);
        Ok(())
    }

    /// Updates the list of files to those that the array currently uses.
    pub fn refresh_members(&mut self) {
        let status = self.array().status();
        let of_slots = status.slots.into_iter().flat_map(|slot| [slot.member, slot.replacement]).flatten();
        self.members = of_slots.chain(status.spares).collect();
    }

    /// Rebuilds until all replacements are complete.
    pub fn rebuild(&mut self) {
        while !self.array().rebuild_rows(ZONE_ROWS).unwrap().is_complete() {}
        self.refresh_members();
    }

    /// Shuts the array down.
    pub fn close(&mut self) {
        self.array.take().unwrap().close().unwrap();
    }

    /// Shuts the array down and assembles it again.
    pub fn restart(&mut self) {
        self.close();
        self.assemble(false).unwrap();
    }

    /// Simulates a restart of the machine without a power cut. Pending write faults of the disk are discarded.
    pub fn reset(&mut self) {
        self.array = None;
        self.disk = self.disk.clone_disk();
        self.faults = Arc::new(FaultVfs::new(Arc::new(self.disk.clone())));
        self.members.retain(|member| !self.dead.contains(member));
    }

    /// Cuts the power. Afterwards, the array is gone; see [`TestArray::assemble`].
    pub fn crash(&mut self) {
        self.array = None;
        let seed = self.rng.random();
        self.disk = self.disk.crash(seed, CrashOptions::default());
        self.members.retain(|member| !self.dead.contains(member));
        self.faults = Arc::new(FaultVfs::new(Arc::new(self.disk.clone())));
    }

    /// Returns distinct blocks with new values. They occupy at most as many rows as a commit can contain.
    pub fn random_batch(&mut self) -> BTreeMap<u64, u64> {
        let blocks = self.model.len() as u64;
        let count = self.rng.random_range(1..=u64::from(JOURNAL));
        let value = |rng: &mut ChaCha8Rng| rng.random::<u64>() | 1;
        if self.rng.random_bool(0.5) {
            // Uses adjacent blocks to produce whole rows.
            let count = count * self.array().layout().data_columns() as u64;
            let first = self.rng.random_range(0..blocks.min(64));
            let mut rows = std::collections::BTreeSet::new();
            let layout = *self.array().layout();
            let in_commit = |block: &u64| {
                rows.insert(layout.locate(*block).0);
                rows.len() <= JOURNAL as usize
            };
            let range: Vec<u64> = (first..(first + count).min(blocks)).take_while(in_commit).collect();
            return range.into_iter().map(|block| (block, value(&mut self.rng))).collect();
        }
        (0..count).map(|_| (self.rng.random_range(0..blocks), value(&mut self.rng))).collect()
    }

    /// Returns new values for all blocks of rows.
    pub fn rows(&mut self, rows: Range<u64>, value: u64) -> BTreeMap<u64, u64> {
        let layout = *self.array().layout();
        let blocks =
            rows.flat_map(|row| (0..layout.data_columns()).map(move |column| layout.block_at(row, column)));
        blocks.map(|block| (block, value + block)).collect()
    }

    pub fn stage(&mut self, batch: &BTreeMap<u64, u64>) -> Result<()> {
        batch.iter().try_for_each(|(block, value)| self.array().write(*block, &content(*value)))
    }

    /// Writes and commits a batch.
    pub fn write(&mut self, batch: &BTreeMap<u64, u64>) -> Result<()> {
        self.stage(batch)?;
        self.array().flush()?;
        batch.iter().for_each(|(block, value)| self.model[*block as usize] = *value);
        self.unflushed.clear();
        Ok(())
    }

    /// Returns consecutive blocks of many rows, with new values.
    pub fn random_run(&mut self) -> BTreeMap<u64, u64> {
        let (blocks, columns) = (self.model.len() as u64, self.array().layout().data_columns() as u64);
        // Some of the runs begin in the middle of a row.
        let first = self.rng.random_range(0..blocks * 3 / 4);
        let first = if self.rng.random_bool(0.5) { first / (16 * columns) * (16 * columns) } else { first };
        let count = columns * self.rng.random_range(8..60);
        (first..(first + count).min(blocks)).map(|block| (block, self.rng.random::<u64>() | 1)).collect()
    }

    /// Writes a run without a flush.
    pub fn write_run(&mut self, run: &BTreeMap<u64, u64>) -> Result<()> {
        let before = self.array().counters().new_rows;
        for (block, value) in run {
            let old = std::mem::replace(&mut self.model[*block as usize], *value);
            self.unflushed.entry(*block).or_default().push(old);
        }
        let run: Vec<(u64, u64)> = run.iter().map(|(block, value)| (*block, *value)).collect();
        let mut transfers = run.chunk_by(|one, next| one.0 + 1 == next.0 && !next.0.is_multiple_of(TRANSFER));
        let result = transfers.try_for_each(|transfer| {
            let data: Vec<u8> = transfer.iter().flat_map(|(_, value)| content(*value)).collect();
            write_transfer(self.array(), transfer[0].0, &data)
        });
        self.new_rows += self.array().counters().new_rows - before;
        result
    }

    /// Makes all previous writes durable.
    pub fn flush(&mut self) -> Result<()> {
        let before = self.array().counters().new_rows;
        let result = self.array().flush();
        self.new_rows += self.array().counters().new_rows - before;
        result.map(|()| self.unflushed.clear())
    }

    /// Updates the model after a crash: each unflushed block has one of the values that were written to it.
    pub fn settle_model(&mut self) {
        for (block, older) in std::mem::take(&mut self.unflushed) {
            let (found, newest) = (self.value(block).unwrap(), self.model[block as usize]);
            assert!(found == newest || older.contains(&found), "{} block {block}: {found}", self.level);
            self.model[block as usize] = found;
        }
    }

    /// Writes and flushes a run, cuts the power after a number of disk operations, and starts the array again.
    /// Returns true if the power failed.
    pub fn write_run_with_cut(&mut self, run: &BTreeMap<u64, u64>, operations: u64) -> bool {
        self.disk.cut_power_after(self.disk.operations() + operations);
        match self.write_run(run).and_then(|()| self.flush()) {
            Ok(()) if self.has_power() => {
                self.disk.cut_power_after(u64::MAX);
                return false;
            }
            Ok(()) => {}
            Err(error) => assert!(is_io_error(&error), "{error}"),
        }
        self.crash();
        self.assemble(true).unwrap();
        self.settle_model();
        true
    }

    pub fn has_power(&self) -> bool {
        self.disk.list(Path::new("/")).is_ok()
    }

    /// Writes a batch, cuts the power after a number of disk operations, and starts the array again. Checks that the
    /// array contains either the whole batch or none of it. Returns true if the power failed.
    pub fn write_with_cut(&mut self, batch: &BTreeMap<u64, u64>, operations: u64) -> bool {
        self.disk.cut_power_after(self.disk.operations() + operations);
        match self.write(batch) {
            Ok(()) if self.has_power() => {
                self.disk.cut_power_after(u64::MAX);
                return false;
            }
            Ok(()) => {}
            Err(error) => assert!(is_io_error(&error), "{error}"),
        }
        self.crash();
        self.assemble(true).unwrap();
        let is_new =
            |tested: &mut TestArray, (block, value): (&u64, &u64)| tested.value(*block).unwrap() == *value;
        let count = batch.iter().filter(|entry| is_new(self, *entry)).count();
        assert!(count == 0 || count == batch.len(), "{count} of {} blocks were written", batch.len());
        if count > 0 {
            batch.iter().for_each(|(block, value)| self.model[*block as usize] = *value);
        }
        true
    }

    /// Returns the value of a block. Panics if the block has content that was never written.
    pub fn value(&mut self, block: u64) -> Result<u64> {
        let mut buffer = vec![0; BLOCK];
        self.array().read(block, &mut buffer)?;
        let value = u64::from_le_bytes(buffer[..8].try_into().unwrap());
        assert!(buffer == content(value), "block {block} is a mixture");
        Ok(value)
    }

    /// Checks that every block has the value in the model.
    pub fn check(&mut self) {
        for block in 0..self.model.len() as u64 {
            assert_eq!(
                self.value(block).unwrap(),
                self.model[block as usize],
                "{} block {block}",
                self.level
            );
        }
    }

    /// Checks that each of these blocks either has the value in the model or cannot be read.
    pub fn check_never_wrong(&mut self) {
        for block in 0..self.model.len() as u64 {
            if let Ok(value) = self.value(block) {
                assert_eq!(value, self.model[block as usize], "{} block {block}", self.level);
            }
        }
    }

    /// Makes every further access to a file fail.
    pub fn fail_file(&mut self, path: &std::path::Path) {
        self.dead.push(path.to_owned());
        let name = path.to_str().unwrap();
        for target in [FaultTarget::Read, FaultTarget::Write, FaultTarget::Sync] {
            self.faults.inject(InjectedFault::new(target, FaultEffect::IoError).on_path(name).repeating());
        }
    }

    /// Removes a file from the list of files from which the array is assembled.
    pub fn forget(&mut self, path: &std::path::Path) {
        self.members.retain(|member| member != path);
    }

    /// Returns the offset of a row's block, which is the same on every member.
    pub fn offset(row: u64) -> u64 {
        MemberLayout::new(JOURNAL).block(row)
    }

    /// Returns the offset of a zone's records.
    pub fn records_offset(zone: u64) -> u64 {
        MemberLayout::new(JOURNAL).records(zone)
    }
}

/// Writes blocks from an owned buffer, as a transfer does. Then overwrites the buffer received in exchange.
pub fn write_transfer(store: &mut dyn BlockStore, first: u64, data: &[u8]) -> Result<()> {
    let mut buffer = copy_to_buffer(data);
    let result = store.write_buffer(first, &mut buffer);
    assert_eq!((buffer.len(), buffer.capacity()), (data.len(), data.len()));
    buffer.fill(0xEE);
    result
}

/// Returns true if an error comes from the disk rather than from wrong data.
pub fn is_io_error(error: &ArrayError) -> bool {
    matches!(error, ArrayError::Io { .. } | ArrayError::Stopped { .. } | ArrayError::Unrecoverable { .. })
}

/// Levels and numbers of members that tests use.
pub const SHAPES: [(RaidLevel, usize); 11] = [
    (RaidLevel::Raid0, 3),
    (RaidLevel::Mirror, 2),
    (RaidLevel::Mirror, 3),
    (RaidLevel::Raid10 { copies: 2 }, 4),
    (RaidLevel::Raid10 { copies: 3 }, 6),
    (RaidLevel::Raid5, 4),
    (RaidLevel::Raid6, 5),
    (RaidLevel::Raid6, 7),
    (RaidLevel::TripleParity, 6),
    (RaidLevel::RaidDp { prime: 17 }, 6),
    (RaidLevel::RaidDp { prime: 257 }, 5),
];
