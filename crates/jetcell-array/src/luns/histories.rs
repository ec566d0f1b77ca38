//! Random work on a volume of LUNs, with power cuts, restarts, and members that are lost, change bytes or lose writes: what was flushed is
//! there, snapshots never change, and the array below is sound.
//!
//! `JETCELL_LUN_HISTORIES` sets the number of histories, `JETCELL_LUN_SEED` the first seed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jetcell_vfs::{CrashOptions, SimVfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::LunVolume;
use super::tests::{JOURNAL, disk, members, start, values, write};
use crate::geometry::ZONE_ROWS;
use crate::member::MemberLayout;
use crate::{BlockStore, Level, Result};

const BLOCKS: u64 = 250;
/// Blocks of data and maps that the work of a history needs at most.
const ROOM: u64 = 3000;
const STEPS: usize = 30;
const SHAPES: [(Level, usize); 4] = [
    (Level::Raid6, 5),
    (Level::RaidDp { prime: 17 }, 6),
    (Level::Raid5, 4),
    (Level::Raid10 { copies: 2 }, 6),
];

type Values = Vec<u64>;

#[derive(Clone)]
struct LunModel {
    /// What reads must return.
    now: Values,
    /// What was durable last, and the values that blocks had since.
    durable: Values,
    since: BTreeMap<usize, Vec<u64>>,
    snapshots: BTreeMap<String, Values>,
}

impl LunModel {
    fn new(now: Values) -> LunModel {
        LunModel { durable: now.clone(), now, since: BTreeMap::new(), snapshots: BTreeMap::new() }
    }

    fn set(&mut self, index: usize, value: u64) {
        self.now[index] = value;
        self.since.entry(index).or_default().push(value);
    }

    fn is_durable(&mut self) {
        self.durable = self.now.clone();
        self.since.clear();
    }
}

struct History {
    disk: SimVfs,
    members: Vec<PathBuf>,
    volume: Option<LunVolume>,
    luns: BTreeMap<String, LunModel>,
    rng: ChaCha8Rng,
    /// Further members that may be lost or damaged.
    bears: usize,
    /// The member that is damaged, if one is.
    victim: Option<PathBuf>,
    cuts: usize,
}

impl History {
    fn new(seed: u64) -> History {
        let (level, count) = SHAPES[seed as usize % SHAPES.len()];
        let disk = disk(level, count, ROOM / (64 * 3) + 4);
        let bears = level.tolerance(count);
        let mut history = History {
            members: members(count),
            volume: None,
            luns: BTreeMap::new(),
            rng: ChaCha8Rng::seed_from_u64(seed),
            disk,
            bears,
            victim: None,
            cuts: 0,
        };
        history.volume = Some(start(&history.disk, &history.members).unwrap());
        history
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
            let cut = self.rng.random_bool(0.15);
            if cut {
                let operations = self.disk.operations() + self.rng.random_range(0..60);
                self.disk.stop_after(operations);
            }
            let result = self.step();
            match result {
                Ok(()) if !cut => {}
                Ok(()) => self.crash(),
                Err(error) => {
                    assert!(cut, "{error}");
                    self.crash();
                }
            }
        }
        self.check_space();
        self.crash();
        let report = self.volume().array().scrub().unwrap();
        assert!(report.unrecoverable.is_empty() && report.disagreements.is_empty(), "{report:?}");
        self.volume.take().unwrap().close().unwrap();
        self.volume = Some(start(&self.disk, &self.members).unwrap());
        self.check();
    }

    fn step(&mut self) -> Result<()> {
        let name = format!("l{}", self.rng.random_range(0..3));
        match self.rng.random_range(0..18) {
            0..6 => self.write(),
            6 => self.trim(),
            7 | 8 => self.flush(),
            9 => {
                self.volume().consistency_point()?;
                self.all_durable();
                Ok(())
            }
            10 if !self.luns.contains_key(&name) => {
                // Whether it is there after a cut is found out by looking.
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
            15 => self.lose_member(),
            _ => {
                self.damage();
                Ok(())
            }
        }
    }

    fn all_durable(&mut self) {
        self.luns.values_mut().for_each(LunModel::is_durable);
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
        // If the power fails, the snapshot is there with this content, or not at all.
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

    /// A member changes bytes or loses writes, if the level bears it.
    fn damage(&mut self) {
        if self.victim.is_none() && self.bears > 0 {
            self.bears -= 1;
            let member = self.rng.random_range(0..self.members.len());
            self.victim = Some(self.members[member].clone());
        }
        let Some(victim) = self.victim.clone() else { return };
        if self.rng.random_bool(0.5) {
            self.disk.lose_writes(victim.to_str().unwrap(), self.rng.random_range(1..8));
        } else {
            let first = MemberLayout::new(JOURNAL).bytes_for(0) / 512;
            let end = MemberLayout::new(JOURNAL).bytes_for(4 * ZONE_ROWS) / 512;
            let sector = self.rng.random_range(first..end) * 512;
            self.disk.corrupt(&victim, sector, &[self.rng.random(); 512]).unwrap();
        }
    }

    /// A member is taken out, if the level bears it.
    fn lose_member(&mut self) -> Result<()> {
        if self.bears == 0 || self.rng.random_bool(0.7) {
            return Ok(());
        }
        self.bears -= 1;
        let member = self.rng.random_range(0..self.members.len());
        let path = self.members[member].clone();
        if self.victim.as_ref() == Some(&path) {
            // Another one may be damaged from now on.
            self.victim = None;
            self.bears += 1;
        }
        let slots = self.volume().array().status().slots;
        let slot = slots.iter().position(|slot| slot.member.as_ref() == Some(&path)).unwrap();
        // From now on it may be stale.
        self.members.remove(member);
        self.volume().array().fail(slot)
    }

    /// The power fails, and the volume starts again.
    fn crash(&mut self) {
        self.cuts += 1;
        self.volume = None;
        let seed = self.rng.random();
        self.disk = self.disk.crash(seed, CrashOptions::default());
        self.volume = Some(start(&self.disk, &self.members).unwrap());
        self.adopt();
        self.check();
    }

    /// What the volume holds after a cut must be a state that it may have. From now on it is the one of the model.
    fn adopt(&mut self) {
        let found = self.volume().luns().unwrap();
        let names: Vec<String> = found.iter().map(|lun| lun.name.clone()).collect();
        self.luns.retain(|name, _| names.contains(name));
        for lun in found {
            // Made by the step that was cut: it is empty.
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
            model.is_durable();
        }
    }

    /// LUNs and snapshots have the content of the model.
    fn check(&mut self) {
        for (name, model) in self.luns.clone() {
            assert!(values(self.volume(), &name) == model.now, "{name}");
        }
        let Some(lun) = self.any_lun() else { return };
        let Some(snapshot) = self.any_snapshot(&lun) else { return };
        self.volume().clone_snapshot(&lun, &snapshot, "look").unwrap();
        assert!(values(self.volume(), "look") == self.luns[&lun].snapshots[&snapshot], "{lun} {snapshot}");
        self.volume().delete_lun("look").unwrap();
    }

    /// No block that a map refers to counts as free.
    fn check_space(&mut self) {
        let volume = self.volume();
        let blocks = volume.array.layout().blocks();
        let before: Vec<bool> = (0..blocks).map(|block| volume.space.is_used(block)).collect();
        volume.sweep().unwrap();
        for block in 0..blocks {
            assert!(before[block as usize] || !volume.space.is_used(block), "block {block}");
        }
    }
}

fn environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn what_was_flushed_survives_power_cuts_and_snapshots_never_change() {
    let first = environment("JETCELL_LUN_SEED", 1);
    let mut cuts = 0;
    for seed in first..first + environment("JETCELL_LUN_HISTORIES", 120) {
        let run = std::panic::catch_unwind(|| {
            let mut history = History::new(seed);
            history.run();
            history.cuts
        });
        cuts += run.unwrap_or_else(|_| panic!("JETCELL_LUN_SEED={seed} JETCELL_LUN_HISTORIES=1"));
    }
    assert!(cuts > 0);
}
