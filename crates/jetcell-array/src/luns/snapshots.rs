//! LUNs and their snapshots: made, listed, gone back to, cloned and deleted. Each is one consistency point.

use super::LunVolume;
use super::block_map::{Pointer, walk};
use super::catalogue::{LunEntry, SnapshotEntry, check_blocks, check_name};
use crate::error::{Refusal, Result};
use crate::geometry::BLOCK;

/// A LUN.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LunStatus {
    /// Its name.
    pub name: String,
    /// Bytes that clients see.
    pub bytes: u64,
    /// Bytes of the array that its present state refers to, with its map, and with what it shares.
    pub used_bytes: u64,
    /// Its snapshots, oldest first.
    pub snapshots: Vec<SnapshotStatus>,
}

/// A snapshot of a LUN.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotStatus {
    /// Its name.
    pub name: String,
    /// Seconds since 1970.
    pub created: u64,
}

impl LunVolume {
    /// Makes a LUN that reads as zeros and takes no room.
    ///
    /// # Errors
    /// The name or the size is not possible, or the name is in use.
    pub fn create_lun(&mut self, name: &str, blocks: u64) -> Result<()> {
        check_blocks(blocks)?;
        self.add_lun(name, blocks, Pointer::HOLE, 0)
    }

    fn add_lun(&mut self, name: &str, blocks: u64, root: Pointer, floor: u64) -> Result<()> {
        check_name(name)?;
        if self.catalogue.find(name).is_some() {
            return Err(Refusal::Parameter(format!("there is a LUN {name} already")).into());
        }
        self.consistency_point()?;
        let id = self.catalogue.next_lun;
        self.catalogue.next_lun += 1;
        let (name, snapshots) = (name.to_string(), vec![]);
        self.catalogue.luns.push(LunEntry { id, name, blocks, root, floor, snapshots });
        self.end_point()
    }

    /// Deletes a LUN with its snapshots. Clones of them stay.
    ///
    /// # Errors
    /// There is no such LUN.
    pub fn delete_lun(&mut self, name: &str) -> Result<()> {
        let place = self.catalogue.named(name)?;
        self.consistency_point()?;
        self.catalogue.luns.remove(place);
        self.end_point()?;
        self.sweep()
    }

    /// The LUNs with their snapshots.
    ///
    /// # Errors
    /// A block map cannot be read.
    pub fn luns(&mut self) -> Result<Vec<LunStatus>> {
        let mut luns = vec![];
        for lun in self.catalogue.luns.clone() {
            let mut used = 0;
            walk(&mut self.reader(), lun.root, lun.height(), &mut |_| {
                used += BLOCK as u64;
                true
            })?;
            let status = |snapshot: &SnapshotEntry| SnapshotStatus {
                name: snapshot.name.clone(),
                created: snapshot.created,
            };
            luns.push(LunStatus {
                name: lun.name.clone(),
                bytes: lun.blocks * BLOCK as u64,
                used_bytes: used,
                snapshots: lun.snapshots.iter().map(status).collect(),
            });
        }
        Ok(luns)
    }

    /// The names and sizes, in bytes, of the LUNs.
    pub fn lun_sizes(&self) -> Vec<(String, u64)> {
        self.catalogue.luns.iter().map(|lun| (lun.name.clone(), lun.blocks * BLOCK as u64)).collect()
    }

    /// Keeps the present state of a LUN. It takes no room until the LUN changes.
    ///
    /// # Errors
    /// There is no such LUN, or the name is not possible or in use.
    pub fn create_snapshot(&mut self, lun: &str, name: &str, created: u64) -> Result<()> {
        check_name(name)?;
        let place = self.catalogue.named(lun)?;
        if self.snapshot(place, name).is_ok() {
            return Err(Refusal::Parameter(format!("{lun} has a snapshot {name} already")).into());
        }
        self.consistency_point()?;
        let (sequence, root) = (self.catalogue.sequence, self.catalogue.luns[place].root);
        let snapshot = SnapshotEntry { name: name.into(), created, sequence, root };
        self.catalogue.luns[place].snapshots.push(snapshot);
        self.end_point()
    }

    /// Forgets a snapshot. Blocks that only it referred to are free afterwards.
    ///
    /// # Errors
    /// There is no such snapshot.
    pub fn delete_snapshot(&mut self, lun: &str, name: &str) -> Result<()> {
        let place = self.catalogue.named(lun)?;
        let snapshot = self.snapshot(place, name)?;
        self.consistency_point()?;
        self.catalogue.luns[place].snapshots.remove(snapshot);
        self.end_point()?;
        self.sweep()
    }

    /// Makes a snapshot the present state of its LUN. What was written since is lost, unless another snapshot has it; all snapshots stay.
    ///
    /// # Errors
    /// There is no such snapshot.
    pub fn roll_back(&mut self, lun: &str, name: &str) -> Result<()> {
        let place = self.catalogue.named(lun)?;
        let snapshot = self.snapshot(place, name)?;
        self.consistency_point()?;
        let entry = &mut self.catalogue.luns[place];
        entry.root = entry.snapshots[snapshot].root;
        self.end_point()?;
        self.sweep()
    }

    /// Makes a LUN whose content is that of a snapshot. Both share blocks until one of them changes.
    ///
    /// # Errors
    /// There is no such snapshot, or the new name is not possible or in use.
    pub fn clone_snapshot(&mut self, lun: &str, name: &str, clone: &str) -> Result<()> {
        let place = self.catalogue.named(lun)?;
        let snapshot = self.snapshot(place, name)?;
        let entry = &mut self.catalogue.luns[place];
        let SnapshotEntry { sequence, root, .. } = entry.snapshots[snapshot];
        let blocks = entry.blocks;
        // Also without the snapshot, the LUN must not free what the clone refers to.
        let floor = entry.floor;
        entry.floor = floor.max(sequence);
        let cloned = self.add_lun(clone, blocks, root, sequence);
        if cloned.is_err() {
            self.catalogue.luns[place].floor = floor;
        }
        cloned
    }

    fn snapshot(&self, place: usize, name: &str) -> Result<usize> {
        let lun = &self.catalogue.luns[place];
        let found = lun.snapshots.iter().position(|snapshot| snapshot.name == name);
        found.ok_or_else(|| Refusal::Parameter(format!("{} has no snapshot {name}", lun.name)).into())
    }
}
