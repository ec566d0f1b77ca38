//! Runs many random array histories: losses, damage, lost and misdirected writes, and power cuts, in any combination
//! that the level must tolerate. Every read must return the most recently written content.
//!
//! `JETCELL_ARRAY_HISTORIES` sets the number of histories, and `JETCELL_ARRAY_SEED` sets the first seed.

use std::collections::BTreeSet;

use rand::Rng;

use crate::geometry::{BLOCK, ZONE_ROWS};
use crate::test_array::{SHAPES, TestArray, ZONES, is_io_error};
use crate::{ArrayState, RaidLevel, Result};

/// An array whose damage never exceeds what its level tolerates.
struct ArrayHistory {
    tested: TestArray,
    /// Slots whose members have lost data or dropped writes since the last complete check.
    bad_slots: BTreeSet<usize>,
}

const STEPS: usize = 14;

impl ArrayHistory {
    fn new(seed: u64) -> ArrayHistory {
        let (level, members) = SHAPES[seed as usize % SHAPES.len()];
        ArrayHistory { tested: TestArray::new(level, members, seed), bad_slots: BTreeSet::new() }
    }

    fn run(&mut self) {
        for _ in 0..STEPS {
            match self.tested.rng.random_range(0..24) {
                0..6 => self.write(),
                6..9 => self.write_with_cut(),
                9..13 => self.damage(),
                13 if self.tested.rng.random_bool(0.3) => self.grow(),
                13 => self.read_some(),
                14 | 15 => self.maintain(),
                16 => self.replace(),
                17 => self.restart(),
                20 | 21 => self.write_run(),
                22 | 23 => self.write_run_with_cut(),
                _ => self.heal(),
            }
        }
        self.tested.check();
        self.tested.array().row_writer().check_generations();
        if !self.tested.unflushed.is_empty() {
            self.tested.crash();
            self.tested.assemble(true).unwrap();
            self.tested.settle_model();
            self.tested.check();
        }
    }

    /// Writes many rows, which may still be in flight during the next steps.
    fn write_run(&mut self) {
        let run = self.tested.random_run();
        self.tested.write_run(&run).unwrap();
        if self.tested.rng.random_bool(0.5) {
            self.tested.flush().unwrap();
        }
    }

    fn write_run_with_cut(&mut self) {
        let run = self.tested.random_run();
        let operations = self.tested.rng.random_range(0..200);
        self.tested.write_run_with_cut(&run, operations);
    }

    fn write(&mut self) {
        let batch = self.tested.random_batch();
        self.tested.write(&batch).unwrap();
    }

    fn write_with_cut(&mut self) {
        // The flush that follows is atomic only if it fits in the journal, so earlier writes are flushed first.
        self.tested.flush().unwrap();
        let batch = self.tested.random_batch();
        let operations = self.tested.rng.random_range(0..50);
        self.tested.write_with_cut(&batch, operations);
    }

    fn read_some(&mut self) {
        for _ in 0..20 {
            let block = self.tested.rng.random_range(0..self.tested.model.len());
            assert_eq!(self.tested.value(block as u64).unwrap(), self.tested.model[block]);
        }
    }

    /// Returns a slot that may be damaged, if the level tolerates one more damaged slot.
    fn victim(&mut self) -> Option<usize> {
        let slots = self.tested.array().layout().slots;
        let slot = self.tested.rng.random_range(0..slots);
        let mut bad: BTreeSet<usize> = self.bad_slots.clone();
        bad.extend(self.tested.array().members().lost_slots());
        bad.insert(slot);
        if !self.tested.array().members().tolerates_loss(&bad.iter().copied().collect::<Vec<_>>()) {
            return None;
        }
        self.bad_slots.insert(slot);
        Some(slot)
    }

    fn damage(&mut self) {
        let Some(slot) = self.victim() else { return };
        let status = self.tested.array().status().slots[slot].clone();
        let Some(path) = status.member.or(status.replacement) else { return };
        let TestArray { disk, rng, .. } = &mut self.tested;
        let row = rng.random_range(0..24);
        let sector = rng.random_range(0..8) * 512;
        match rng.random_range(0..6) {
            0 => disk.corrupt(&path, TestArray::offset(row) + sector, &[rng.random(); 512]).unwrap(),
            1 => {
                let zone = rng.random_range(0..ZONES);
                disk.corrupt(&path, TestArray::records_offset(zone) + sector, &[rng.random(); 512]).unwrap();
            }
            2 => {
                let metadata = TestArray::records_offset(0) / 512;
                let sector = rng.random_range(0..metadata) * 512;
                disk.corrupt(&path, sector, &[rng.random(); 512]).unwrap();
            }
            3 => disk.lose_writes(path.to_str().unwrap(), rng.random_range(1..12)),
            4 => self.misdirect(&path),
            _ => self.tested.fail_file(&path),
        }
    }

    /// Writes a batch, and then moves a block on this member to another location, as a misdirected write would.
    fn misdirect(&mut self, path: &std::path::Path) {
        let row = self.tested.rng.random_range(0..24);
        let offset = TestArray::offset(row) as usize;
        let before = self.tested.disk.contents(path).unwrap()[offset..offset + BLOCK].to_vec();
        self.write();
        let after = self.tested.disk.contents(path).unwrap()[offset..offset + BLOCK].to_vec();
        let elsewhere = TestArray::offset(self.tested.rng.random_range(0..ZONES * ZONE_ROWS));
        self.tested.disk.corrupt(path, TestArray::offset(row), &before).unwrap();
        self.tested.disk.corrupt(path, elsewhere, &after).unwrap();
    }

    fn restart(&mut self) {
        self.tested.flush().unwrap();
        self.tested.close();
        self.tested.reset();
        self.tested.assemble(true).unwrap();
    }

    /// Runs some steps of a rebuild or scrub, possibly with a power cut.
    fn maintain(&mut self) {
        let cut = self.tested.rng.random_bool(0.5);
        let is_scrub = self.tested.rng.random_bool(0.5);
        if cut {
            let operations = self.tested.disk.operations() + self.tested.rng.random_range(0..60);
            self.tested.disk.cut_power_after(operations);
        }
        let array = self.tested.array();
        array.set_zones_per_save(1);
        let mut report = Default::default();
        let mut step = |_| -> Result<()> {
            if is_scrub {
                array.scrub_zones(1, &mut report).map(drop)
            } else {
                array.rebuild_rows(ZONE_ROWS).map(drop)
            }
        };
        let result = (0..3).try_for_each(&mut step);
        let is_good = report.unrecoverable.is_empty() && report.parity_mismatches.is_empty();
        // After the power cut, every read fails.
        assert!(cut || is_good, "{report:?}");
        match result {
            Ok(()) if self.tested.has_power() => self.tested.disk.cut_power_after(u64::MAX),
            result => {
                assert!(cut && result.as_ref().err().is_none_or(is_io_error), "{result:?}");
                self.tested.crash();
                self.tested.assemble(true).unwrap();
                self.tested.settle_model();
            }
        }
    }

    /// Adds a data column if the level permits it.
    fn grow(&mut self) {
        let level = self.tested.level;
        let added = if let RaidLevel::Raid10 { copies } = level { copies } else { 1 };
        let slots = self.tested.array().layout().slots + added;
        if level == RaidLevel::Mirror || !level.member_counts().any(|count| count == slots) {
            return;
        }
        let files: Vec<_> = (0..added).map(|_| self.tested.new_file()).collect();
        self.tested.array().grow(&files, false).unwrap();
        self.tested.unflushed.clear();
        self.tested.members.extend(files);
        let blocks = self.tested.array().layout().blocks();
        self.tested.model.resize(blocks as usize, 0);
    }

    /// Adds a replacement for a bad slot.
    fn replace(&mut self) {
        let Some(slot) = self.bad_slots.first().copied() else { return };
        let slots = self.tested.array().status().slots;
        if slots[slot].replacement.is_none() {
            let file = self.tested.new_file();
            self.tested.array().replace(slot, &file, false).unwrap();
            self.tested.members.push(file);
        }
    }

    /// Replaces and rebuilds dead members, and checks everything. No slot is bad afterwards.
    fn heal(&mut self) {
        self.restart();
        for slot in self.tested.array().members().lost_slots() {
            if self.tested.array().status().slots[slot].replacement.is_none() {
                let file = self.tested.new_file();
                self.tested.array().replace(slot, &file, false).unwrap();
            }
        }
        self.tested.rebuild();
        let report = self.tested.array().scrub().unwrap();
        assert!(report.unrecoverable.is_empty() && report.parity_mismatches.is_empty(), "{report:?}");
        assert!(self.tested.array().scrub().unwrap().is_clean());
        assert_eq!(self.tested.array().status().state, ArrayState::Optimal);
        self.bad_slots.clear();
    }
}

pub fn environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Runs the history for a seed. Returns the number of new rows that it wrote without the journal, and the number of
/// rows that were cleared at startup.
pub fn run(seed: u64) -> [u64; 2] {
    let mut history = ArrayHistory::new(seed);
    history.run();
    [history.tested.new_rows, history.tested.rows_cleared]
}

#[test]
fn tolerated_failure_histories_never_fail_or_return_wrong_data() {
    let first = environment("JETCELL_ARRAY_SEED", 1);
    let (count, mut done) = (environment("JETCELL_ARRAY_HISTORIES", 2200), [0; 2]);
    for seed in first..first + count {
        let Ok(of_one) = std::panic::catch_unwind(|| run(seed)) else {
            panic!("JETCELL_ARRAY_SEED={seed} JETCELL_ARRAY_HISTORIES=1");
        };
        done = [done[0] + of_one[0], done[1] + of_one[1]];
    }
    let [new_rows, cleared] = done;
    println!("{count} histories: {new_rows} new rows without the journal, {cleared} rows cleared");
    assert!(count < 1000 || new_rows > 20 * count && cleared > count, "{done:?}");
}

/// Regression test: after a power cut, parity of two commits was in place, one member was lost, and another member
/// had lost its part of the journal. The content of the lost member could only be recovered from the parity in the
/// journal.
#[test]
fn regression_history_that_once_lost_a_block_reads_the_block() {
    run(103_022);
}

#[test]
fn reads_past_the_tolerated_failures_fail_or_are_correct() {
    for seed in 0..environment("JETCELL_ARRAY_HISTORIES", 300) {
        let mut history = ArrayHistory::new(seed);
        for _ in 0..4 {
            history.write();
        }
        let (level, slots) = (history.tested.level, history.tested.array().layout().slots);
        history.tested.restart();
        // In the same rows, one more member is damaged than the level can recover.
        let count = level.tolerance(slots) + 1;
        let first = if matches!(level, RaidLevel::Raid10 { .. }) {
            0
        } else {
            history.tested.rng.random_range(0..slots)
        };
        for slot in (first..first + count).map(|slot| slot % slots) {
            let path = history.tested.members[slot].clone();
            for row in 0..24 {
                history.tested.disk.corrupt(&path, TestArray::offset(row) + 7, &[0x99; 30]).unwrap();
            }
        }
        history.tested.check_never_wrong();
        history.tested.refresh_members();
        history.tested.reset();
        if history.tested.assemble(true).is_ok() {
            history.tested.check_never_wrong();
        }
    }
}
