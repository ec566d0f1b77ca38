//! Runs random operations on a LUN volume, with power cuts at any time, rebuilds, scrubs, and members that fail, are
//! replaced, corrupt bytes, or lose, misdirect or tear writes. Flushed writes must survive, snapshots must never
//! change, and the array must stay consistent.
//!
//! `JETCELL_LUN_HISTORIES` sets the number of histories, and `JETCELL_LUN_SEED` sets the first seed.

mod history_counters;
mod log_damage;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jetcell_array::{
    Array, ArrayError, ArrayRefusal, ArrayState, AssembleOptions, BLOCK, BlockStore, RaidLevel, Result,
    ScrubReport, ZONE_ROWS,
};
use jetcell_sync::Arc;
use jetcell_vfs::{
    CrashOptions, FaultEffect, FaultTarget, FaultVfs, InjectedFault, IoReason, OpenMode, SimVfs, Vfs,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub use self::history_counters::HistoryCounters;
use super::LunVolume;
use super::tests::{JOURNAL, disk, log, members, values, write};
use crate::test_blocks::{content, environment, member_bytes};

const BLOCKS: u64 = 250;
/// Maximum number of data and map blocks that a history needs.
const ROOM: u64 = 3000;
const ZONES: u64 = ROOM / (64 * 3) + 4;
const STEPS: usize = 36;
const SHAPES: [(RaidLevel, usize); 4] = [
    (RaidLevel::Raid6, 5),
    (RaidLevel::RaidDp { prime: 17 }, 6),
    (RaidLevel::Raid5, 4),
    (RaidLevel::Raid10 { copies: 2 }, 6),
];

type BlockValues = Vec<u64>;

#[derive(Clone)]
struct LunModel {
    /// Values that reads must return now.
    now: BlockValues,
    /// Values at the last flush. `since` has the values that were written to blocks afterwards.
    durable: BlockValues,
    since: BTreeMap<usize, Vec<u64>>,
    snapshots: BTreeMap<String, BlockValues>,
}

impl LunModel {
    fn new(now: BlockValues) -> LunModel {
        LunModel { durable: now.clone(), now, since: BTreeMap::new(), snapshots: BTreeMap::new() }
    }

    fn set(&mut self, index: usize, value: u64) {
        self.now[index] = value;
        self.since.entry(index).or_default().push(value);
    }

    fn assert_durable(&mut self) {
        self.durable = self.now.clone();
        self.since.clear();
    }
}

struct LunHistory {
    disk: SimVfs,
    faults: Arc<FaultVfs>,
    /// Files from which the array is assembled.
    members: Vec<PathBuf>,
    /// Files on which every access fails.
    dead: Vec<PathBuf>,
    files: usize,
    volume: Option<LunVolume>,
    luns: BTreeMap<String, LunModel>,
    rng: ChaCha8Rng,
    /// Slots whose members have lost data or dropped writes since the last complete check.
    bad_slots: BTreeSet<usize>,
    /// Whether the power fails in this step.
    is_cut: bool,
    counters: HistoryCounters,
}

impl LunHistory {
    fn new(seed: u64) -> LunHistory {
        let (level, count) = SHAPES[seed as usize % SHAPES.len()];
        let disk = disk(level, count, ZONES);
        let mut history = LunHistory {
            faults: Arc::new(FaultVfs::new(Arc::new(disk.clone()))),
            members: members(count),
            dead: vec![],
            files: count,
            volume: None,
            luns: BTreeMap::new(),
            rng: ChaCha8Rng::seed_from_u64(seed),
            disk,
            bad_slots: BTreeSet::new(),
            is_cut: false,
            counters: HistoryCounters::default(),
        };
        history.start().unwrap();
        history
    }

    fn start(&mut self) -> Result<()> {
        let options = AssembleOptions { force: true, ..AssembleOptions::default() };
        let array = Array::assemble(self.faults.clone(), &self.members, options)?;
        self.volume = Some(LunVolume::start(array, &log(&self.disk))?);
        self.array().set_zones_per_save(1);
        Ok(())
    }

    fn array(&mut self) -> &mut Array {
        self.volume().array()
    }

    fn volume(&mut self) -> &mut LunVolume {
        self.volume.as_mut().unwrap()
    }

    fn any_lun(&mut self) -> Option<String> {
        let index = self.rng.random_range(0..self.luns.len().max(1));
        self.luns.keys().nth(index).cloned()
    }

    fn any_snapshot(&mut self, lun: &str) -> Option<String> {
        let snapshots = &self.luns[lun].snapshots;
        let index = self.rng.random_range(0..snapshots.len().max(1));
        snapshots.keys().nth(index).cloned()
    }

    fn run(&mut self) {
        for _ in 0..STEPS {
            self.is_cut = self.rng.random_bool(0.15);
            if self.is_cut {
                let operations = self.disk.operations() + self.rng.random_range(0..60);
                self.disk.cut_power_after(operations);
            }
            match self.step() {
                Ok(()) if !self.is_cut => {}
                Ok(()) => self.crash(),
                Err(error) => {
                    assert!(self.is_cut, "{error}");
                    self.crash();
                }
            }
        }
        self.is_cut = false;
        self.check_space();
        self.crash();
        let report = self.array().scrub().unwrap();
        assert!(report.unrecoverable.is_empty() && report.parity_mismatches.is_empty(), "{report:?}");
        self.restart().unwrap();
        self.check();
    }

    fn step(&mut self) -> Result<()> {
        let name = format!("l{}", self.rng.random_range(0..3));
        match self.rng.random_range(0..24) {
            0..6 => self.write(),
            6 => self.trim(),
            7 | 8 => self.flush(),
            9 => {
                self.volume().consistency_point()?;
                self.all_durable();
                Ok(())
            }
            10 if !self.luns.contains_key(&name) => {
                // After a power cut, `adopt` determines whether the LUN exists.
                self.volume().create_lun(&name, BLOCKS)?;
                self.all_durable();
                self.luns.insert(name, LunModel::new(vec![0; BLOCKS as usize]));
                Ok(())
            }
            10 | 11 => self.snapshot(),
            12 => self.roll_back_or_clone(),
            13 => self.delete(),
            14 => {
                self.volume().clean_step()?;
                self.all_durable();
                Ok(())
            }
            15 => self.take_member_out(),
            16..19 => self.damage(),
            19 | 20 => self.maintain(),
            21 => self.replace(),
            23 => self.write_without_flush(),
            _ => self.heal(),
        }
    }

    fn all_durable(&mut self) {
        self.luns.values_mut().for_each(LunModel::assert_durable);
    }

    fn write(&mut self) -> Result<()> {
        let Some(lun) = self.any_lun() else { return Ok(()) };
        let first = self.rng.random_range(0..BLOCKS);
        let count = self.rng.random_range(1..40).min(BLOCKS - first);
        let data: Vec<u64> = (0..count).map(|_| self.rng.random::<u64>() | 1).collect();
        let model = self.luns.get_mut(&lun).unwrap();
        for (index, value) in (first..).zip(&data) {
            model.set(index as usize, *value);
        }
        write(self.volume(), &lun, first, &data)
    }

    /// Writes to a LUN several times without a flush.
    fn write_without_flush(&mut self) -> Result<()> {
        let Some(lun) = self.any_lun() else { return Ok(()) };
        for _ in 0..self.rng.random_range(2..5) {
            for first in (0..BLOCKS).step_by(25) {
                let data: Vec<u64> = (0..25).map(|_| self.rng.random::<u64>() | 1).collect();
                let model = self.luns.get_mut(&lun).unwrap();
                (first..).zip(&data).for_each(|(index, value)| model.set(index as usize, *value));
                write(self.volume(), &lun, first, &data)?;
            }
        }
        self.counters.write_through += usize::from(!self.volume().next.write_through.is_empty());
        self.counters.open_zones += usize::from(self.volume().next.open_zone().is_some());
        Ok(())
    }

    fn trim(&mut self) -> Result<()> {
        let Some(lun) = self.any_lun() else { return Ok(()) };
        let first = self.rng.random_range(0..BLOCKS);
        let end = (first + self.rng.random_range(1..60)).min(BLOCKS);
        let model = self.luns.get_mut(&lun).unwrap();
        (first..end).for_each(|index| model.set(index as usize, 0));
        self.volume().lun(&lun)?.zero_blocks(first..end)
    }

    fn flush(&mut self) -> Result<()> {
        self.volume().flush()?;
        self.all_durable();
        Ok(())
    }

    fn snapshot(&mut self) -> Result<()> {
        let Some(lun) = self.any_lun() else { return Ok(()) };
        let name = format!("s{}", self.rng.random_range(0..3));
        if self.luns[&lun].snapshots.contains_key(&name) {
            return Ok(());
        }
        let model = self.luns.get_mut(&lun).unwrap();
        let now = model.now.clone();
        // If the power fails, the snapshot either has this content or does not exist.
        model.snapshots.insert(name.clone(), now);
        self.volume().create_snapshot(&lun, &name, 0)?;
        self.all_durable();
        Ok(())
    }

    fn roll_back_or_clone(&mut self) -> Result<()> {
        let Some(lun) = self.any_lun() else { return Ok(()) };
        let Some(snapshot) = self.any_snapshot(&lun) else { return Ok(()) };
        let kept = self.luns[&lun].snapshots[&snapshot].clone();
        if self.rng.random_bool(0.5) {
            let model = self.luns.get_mut(&lun).unwrap();
            kept.iter().enumerate().for_each(|(index, value)| model.set(index, *value));
            self.volume().roll_back(&lun, &snapshot)?;
            self.all_durable();
            return Ok(());
        }
        let clone = format!("c{}", self.rng.random_range(0..2));
        if self.luns.contains_key(&clone) {
            return Ok(());
        }
        self.luns.insert(clone.clone(), LunModel::new(kept));
        self.volume().clone_snapshot(&lun, &snapshot, &clone)?;
        self.all_durable();
        Ok(())
    }

    fn delete(&mut self) -> Result<()> {
        let Some(lun) = self.any_lun() else { return Ok(()) };
        match self.any_snapshot(&lun) {
            Some(snapshot) => {
                self.volume().delete_snapshot(&lun, &snapshot)?;
                self.luns.get_mut(&lun).unwrap().snapshots.remove(&snapshot);
            }
            None => {
                self.volume().delete_lun(&lun)?;
                self.luns.remove(&lun);
            }
        }
        self.all_durable();
        Ok(())
    }

    /// Returns the slots for which no member has all blocks.
    fn lost_slots(&mut self) -> Vec<usize> {
        let slots = self.array().status().slots;
        (0..slots.len()).filter(|slot| slots[*slot].member.is_none()).collect()
    }

    /// Returns a slot that may be damaged, if the level tolerates one more damaged slot.
    fn victim(&mut self) -> Option<usize> {
        let slots = self.array().layout().slots;
        let slot = self.rng.random_range(0..slots);
        let mut bad = self.bad_slots.clone();
        bad.extend(self.lost_slots());
        bad.insert(slot);
        if !self.array().layout().tolerates_loss(&bad.into_iter().collect::<Vec<_>>()) {
            return None;
        }
        self.bad_slots.insert(slot);
        Some(slot)
    }

    /// Damages a member: it fails, corrupts bytes, or loses, misdirects or tears writes.
    fn damage(&mut self) -> Result<()> {
        let Some(slot) = self.victim() else { return Ok(()) };
        let status = self.array().status().slots[slot].clone();
        let Some(path) = status.member.or(status.replacement) else { return Ok(()) };
        self.counters.damaged += 1;
        let name = path.to_str().unwrap();
        match self.rng.random_range(0..6) {
            0 | 1 => {
                let first = member_bytes(JOURNAL, 0) / 512;
                let end = member_bytes(JOURNAL, ZONES * ZONE_ROWS) / 512;
                let sector = self.rng.random_range(first..end) * 512;
                self.disk.corrupt(&path, sector, &[self.rng.random(); 512]).unwrap();
            }
            2 => self.disk.lose_writes(name, self.rng.random_range(1..8)),
            3 => {
                let torn = FaultEffect::TornUnnoticed(self.rng.random_range(1..8) * 512);
                let fault = InjectedFault::new(FaultTarget::Write, torn).on_path(name);
                self.faults.inject(fault.after_operations(self.rng.random_range(0..6)));
            }
            4 => self.misdirect(&path)?,
            _ => {
                self.dead.push(path.clone());
                for target in [FaultTarget::Read, FaultTarget::Write, FaultTarget::Sync] {
                    self.faults
                        .inject(InjectedFault::new(target, FaultEffect::IoError).on_path(name).repeating());
                }
            }
        }
        Ok(())
    }

    /// Moves a block that a consistency point wrote to this member to another location, to simulate a misdirected
    /// write.
    fn misdirect(&mut self, path: &Path) -> Result<()> {
        let first = member_bytes(JOURNAL, 0) as usize / BLOCK;
        let before = self.disk.contents(path).unwrap();
        self.write()?;
        self.volume().consistency_point()?;
        self.all_durable();
        let after = self.disk.contents(path).unwrap();
        let block = |content: &[u8], index: usize| content[index * BLOCK..(index + 1) * BLOCK].to_vec();
        let blocks = before.len() / BLOCK;
        let changed: Vec<usize> =
            (first..blocks).filter(|index| block(&before, *index) != block(&after, *index)).collect();
        if let Some(place) = changed.get(self.rng.random_range(0..changed.len().max(1))) {
            let elsewhere = self.rng.random_range(first..blocks);
            self.disk.corrupt(path, (place * BLOCK) as u64, &block(&before, *place)).unwrap();
            self.disk.corrupt(path, (elsewhere * BLOCK) as u64, &block(&after, *place)).unwrap();
        }
        Ok(())
    }

    /// Removes a member if the level tolerates it.
    fn take_member_out(&mut self) -> Result<()> {
        let Some(slot) = self.victim() else { return Ok(()) };
        let status = self.array().status().slots[slot].clone();
        if status.member.is_some() || status.replacement.is_some() { self.array().fail(slot) } else { Ok(()) }
    }

    /// Creates an empty, durable file of the right size. Returns `None` if the power failed.
    fn new_file(&mut self) -> Option<PathBuf> {
        let path = PathBuf::from(format!("/m/{}", self.files));
        self.files += 1;
        let file = self.disk.open(&path, OpenMode::CreateNew).ok()?;
        file.grow(member_bytes(JOURNAL, ZONES * ZONE_ROWS)).ok()?;
        file.sync(IoReason::Other).ok()?;
        self.disk.sync_directory("/m".as_ref()).ok()?;
        Some(path)
    }

    /// Adds a replacement for a bad slot.
    fn replace(&mut self) -> Result<()> {
        let lost = self.lost_slots();
        let bad = self.bad_slots.iter().copied().chain(lost).next();
        if let Some(slot) = bad { self.replace_slot(slot) } else { Ok(()) }
    }

    fn replace_slot(&mut self, slot: usize) -> Result<()> {
        if self.array().status().slots[slot].replacement.is_some() {
            return Ok(());
        }
        let Some(file) = self.new_file() else { return Ok(()) };
        self.members.push(file.clone());
        self.array().replace(slot, &file, false)
    }

    /// Runs some steps of a rebuild or scrub.
    fn maintain(&mut self) -> Result<()> {
        let is_scrub = self.rng.random_bool(0.5);
        for _ in 0..self.rng.random_range(1..ZONES) {
            if is_scrub {
                let mut report = ScrubReport::default();
                self.array().scrub_zones(1, &mut report)?;
                let is_good = report.unrecoverable.is_empty() && report.parity_mismatches.is_empty();
                // After the power cut, every read fails.
                assert!(self.is_cut || is_good, "{report:?}");
                self.counters.scrubbed += 1;
            } else {
                let before = self.array().rebuild_progress();
                let progress = self.array().rebuild_rows(ZONE_ROWS)?;
                assert!(self.is_cut || progress.rows_lost == 0);
                self.counters.rebuilt += progress.zones_since(&before) as usize;
            }
        }
        Ok(())
    }

    /// Replaces and rebuilds lost members, and checks everything. No slot is bad afterwards.
    fn heal(&mut self) -> Result<()> {
        self.restart()?;
        for slot in self.lost_slots() {
            self.replace_slot(slot)?;
        }
        while !self.array().rebuild_rows(ZONE_ROWS)?.is_complete() {}
        let report = self.array().scrub()?;
        let is_clean = self.array().scrub()?.is_clean();
        if !self.is_cut {
            assert!(report.unrecoverable.is_empty() && report.parity_mismatches.is_empty(), "{report:?}");
            assert!(is_clean);
            assert_eq!(self.array().status().state, ArrayState::Optimal);
            self.bad_slots.clear();
            self.counters.healed += 1;
        }
        Ok(())
    }

    /// Shuts the volume down and starts it again. Pending write faults are discarded.
    fn restart(&mut self) -> Result<()> {
        self.volume.take().unwrap().close()?;
        self.all_durable();
        if !self.is_cut {
            self.disk = self.disk.clone_disk();
            self.faults = Arc::new(FaultVfs::new(Arc::new(self.disk.clone())));
            self.members.retain(|member| !self.dead.contains(member));
        }
        self.start()
    }

    /// Cuts the power and starts the volume again.
    fn crash(&mut self) {
        self.counters.cuts += 1;
        self.volume = None;
        let seed = self.rng.random();
        self.disk = self.disk.crash(seed, CrashOptions::default());
        self.faults = Arc::new(FaultVfs::new(Arc::new(self.disk.clone())));
        self.members.retain(|member| !self.dead.contains(member));
        if self.rng.random_bool(0.5) {
            self.damage_log();
        }
        self.start().unwrap();
        self.adopt();
        self.check();
    }

    /// Checks that the state after a power cut is one of the permitted states, and copies it into the model.
    fn adopt(&mut self) {
        let found = self.volume().luns().unwrap();
        let names: Vec<String> = found.iter().map(|lun| lun.name.clone()).collect();
        self.luns.retain(|name, _| names.contains(name));
        for lun in found {
            // The interrupted step created this LUN, so it is empty.
            let model =
                self.luns.entry(lun.name.clone()).or_insert_with(|| LunModel::new(vec![0; BLOCKS as usize]));
            let names: Vec<&String> = lun.snapshots.iter().map(|snapshot| &snapshot.name).collect();
            model.snapshots.retain(|name, _| names.contains(&name));
            assert_eq!(model.snapshots.len(), names.len());
            let values = values(self.volume.as_mut().unwrap(), &lun.name);
            for (index, value) in values.iter().enumerate() {
                let may_be = model.since.get(&index).is_some_and(|since| since.contains(value));
                assert!(*value == model.durable[index] || may_be, "{} block {index}: {value:x}", lun.name);
            }
            model.now = values;
            model.assert_durable();
        }
    }

    /// Checks that LUNs and snapshots have the content of the model.
    fn check(&mut self) {
        self.volume().array.row_writer().check_generations();
        for (name, model) in self.luns.clone() {
            assert!(values(self.volume(), &name) == model.now, "{name}");
        }
        let Some(lun) = self.any_lun() else { return };
        let Some(snapshot) = self.any_snapshot(&lun) else { return };
        self.volume().clone_snapshot(&lun, &snapshot, "look").unwrap();
        assert!(values(self.volume(), "look") == self.luns[&lun].snapshots[&snapshot], "{lun} {snapshot}");
        self.volume().delete_lun("look").unwrap();
    }

    /// Checks that no block to which a map refers is marked as free.
    fn check_space(&mut self) {
        let volume = self.volume();
        let blocks = volume.array.layout().blocks();
        let before: Vec<bool> = (0..blocks).map(|block| volume.space.is_used(block)).collect();
        volume.rebuild_allocator().unwrap();
        for block in 0..blocks {
            assert!(before[block as usize] || !volume.space.is_used(block), "block {block}");
        }
    }
}

/// Runs the history for a seed.
pub fn run(seed: u64) -> HistoryCounters {
    let mut history = LunHistory::new(seed);
    history.run();
    history.counters
}

#[test]
fn flushed_data_and_snapshots_survive_tolerated_failures() {
    let first = environment("JETCELL_LUN_SEED", 1);
    let mut done = HistoryCounters::default();
    for seed in first..first + environment("JETCELL_LUN_HISTORIES", 120) {
        let run = std::panic::catch_unwind(|| run(seed));
        done += run.unwrap_or_else(|_| panic!("JETCELL_LUN_SEED={seed} JETCELL_LUN_HISTORIES=1"));
    }
    println!("{done:?}");
    assert!(done.cuts > 0 && done.write_through > 0 && done.open_zones > 0);
    assert!(done.logs_refused > 0 && done.logs_intact > done.logs_damaged / 2);
}

#[test]
fn volumes_past_the_tolerated_failures_never_return_wrong_data() {
    for seed in 0..12 {
        let (level, count) = SHAPES[seed as usize % SHAPES.len()];
        let mut history = LunHistory::new(seed);
        history.volume().create_lun("a", BLOCKS).unwrap();
        history.luns.insert("a".into(), LunModel::new(vec![0; BLOCKS as usize]));
        for _ in 0..5 {
            history.write().unwrap();
            history.volume().consistency_point().unwrap();
        }
        let expected = history.luns["a"].now.clone();
        let never_wrong = |history: &mut LunHistory| {
            for (index, value) in expected.iter().enumerate() {
                let mut block = [0; BLOCK];
                let volume = history.volume.as_mut().unwrap();
                let read =
                    volume.lun("a").and_then(|mut lun| lun.read_blocks(&[index as u64], &mut [&mut block]));
                // Blocks written after the members failed are only in memory.
                let may_be = [*value, history.luns["a"].now[index]];
                let is_right = may_be.iter().any(|value| block[..] == content(*value));
                assert!(read.is_err() || is_right, "{level} block {index}");
            }
        };
        history.restart().unwrap();
        // In RAID 10, these are the members of one mirror.
        for slot in 0..=level.tolerance(count) {
            let path = history.members[slot].clone();
            history.dead.push(path.clone());
            for target in [FaultTarget::Read, FaultTarget::Write, FaultTarget::Sync] {
                let fault = InjectedFault::new(target, FaultEffect::IoError).on_path(path.to_str().unwrap());
                history.faults.inject(fault.repeating());
            }
        }
        never_wrong(&mut history);
        history.write().unwrap();
        assert!(history.volume().consistency_point().is_err(), "{level}");
        never_wrong(&mut history);
        history.volume = None;
        history.disk = history.disk.process_kill();
        history.faults = Arc::new(FaultVfs::new(Arc::new(history.disk.clone())));
        history.members.retain(|member| !history.dead.contains(member));
        let refused = history.start();
        assert!(
            matches!(refused, Err(ArrayError::Refused(ArrayRefusal::TooManyMissing { .. }))),
            "{level}: {refused:?}"
        );
    }
}
