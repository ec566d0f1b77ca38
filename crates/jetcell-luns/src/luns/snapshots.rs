//! Creates, lists, rolls back, clones and deletes LUNs and snapshots. Each change is one consistency point.

use jetcell_array::{ArrayRefusal, BLOCK, Result};

use super::LunVolume;
use super::block_map::{BlockPointer, walk};
use super::catalogue::{LunEntry, SnapshotEntry, check_blocks, check_name};

/// A LUN's name, size and snapshots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LunStatus {
    /// Name of the LUN.
    pub name: String,
    /// Size of the LUN in bytes, as clients see it.
    pub bytes: u64,
    /// Number of array bytes to which the current state of the LUN refers, including its map and shared blocks.
    pub used_bytes: u64,
    /// Snapshots of the LUN, oldest first.
    pub snapshots: Vec<SnapshotStatus>,
}

/// A snapshot's name and creation time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotStatus {
    /// Name of the snapshot.
    pub name: String,
    /// Creation time in seconds since 1970.
    pub created: u64,
}

impl LunVolume {
    /// Creates a LUN that reads as zeros and uses no space.
    ///
    /// # Errors
    /// Returns an error if the name or the size is invalid, or if the name is in use.
    pub fn create_lun(&mut self, name: &str, blocks: u64) -> Result<()> {
        check_blocks(blocks)?;
        self.add_lun(name, blocks, BlockPointer::HOLE, 0)
    }

    fn add_lun(&mut self, name: &str, blocks: u64, root: BlockPointer, floor: u64) -> Result<()> {
        check_name(name)?;
        if self.catalogue.find(name).is_some() {
            return Err(ArrayRefusal::LunExists(name.to_owned()).into());
        }
        self.consistency_point()?;
        let id = self.catalogue.next_lun;
        self.catalogue.next_lun += 1;
        let (name, snapshots) = (name.to_string(), vec![]);
        self.catalogue.luns.push(LunEntry { id, name, blocks, root, floor, snapshots });
        self.commit_catalogue()
    }

    /// Deletes a LUN together with its snapshots. Clones of the snapshots remain.
    ///
    /// # Errors
    /// Returns an error if there is no such LUN.
    pub fn delete_lun(&mut self, name: &str) -> Result<()> {
        let place = self.catalogue.index_of(name)?;
        self.consistency_point()?;
        self.catalogue.luns.remove(place);
        self.commit_catalogue()?;
        self.rebuild_allocator()
    }

    /// Returns the LUNs and their snapshots.
    ///
    /// # Errors
    /// Returns an error if a block map cannot be read.
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

    /// Returns the names of the LUNs, and their sizes in bytes.
    pub fn lun_sizes(&self) -> Vec<(String, u64)> {
        self.catalogue.luns.iter().map(|lun| (lun.name.clone(), lun.blocks * BLOCK as u64)).collect()
    }

    /// Creates a snapshot of the current state of a LUN. The snapshot uses no space until the LUN changes.
    ///
    /// # Errors
    /// Returns an error if there is no such LUN, or if the name is invalid or in use.
    pub fn create_snapshot(&mut self, lun: &str, name: &str, created: u64) -> Result<()> {
        check_name(name)?;
        let place = self.catalogue.index_of(lun)?;
        if self.snapshot(place, name).is_ok() {
            let (lun, name) = (lun.to_owned(), name.to_owned());
            return Err(ArrayRefusal::SnapshotExists { lun, name }.into());
        }
        self.consistency_point()?;
        let (sequence, root) = (self.catalogue.sequence, self.catalogue.luns[place].root);
        let snapshot = SnapshotEntry { name: name.into(), created, sequence, root };
        self.catalogue.luns[place].snapshots.push(snapshot);
        self.commit_catalogue()
    }

    /// Deletes a snapshot. Blocks to which only this snapshot referred become free.
    ///
    /// # Errors
    /// Returns an error if there is no such snapshot.
    pub fn delete_snapshot(&mut self, lun: &str, name: &str) -> Result<()> {
        let place = self.catalogue.index_of(lun)?;
        let snapshot = self.snapshot(place, name)?;
        self.consistency_point()?;
        self.catalogue.luns[place].snapshots.remove(snapshot);
        self.commit_catalogue()?;
        self.rebuild_allocator()
    }

    /// Makes a snapshot the current state of its LUN. Later writes are lost, unless another snapshot contains them.
    /// All snapshots remain.
    ///
    /// # Errors
    /// Returns an error if there is no such snapshot.
    pub fn roll_back(&mut self, lun: &str, name: &str) -> Result<()> {
        let place = self.catalogue.index_of(lun)?;
        let snapshot = self.snapshot(place, name)?;
        self.consistency_point()?;
        let entry = &mut self.catalogue.luns[place];
        entry.root = entry.snapshots[snapshot].root;
        self.commit_catalogue()?;
        self.rebuild_allocator()
    }

    /// Creates a LUN with the content of a snapshot. The LUN and the snapshot share blocks until one of them changes.
    ///
    /// # Errors
    /// Returns an error if there is no such snapshot, or if the new name is invalid or in use.
    pub fn clone_snapshot(&mut self, lun: &str, name: &str, clone: &str) -> Result<()> {
        let place = self.catalogue.index_of(lun)?;
        let snapshot = self.snapshot(place, name)?;
        let entry = &mut self.catalogue.luns[place];
        let SnapshotEntry { sequence, root, .. } = entry.snapshots[snapshot];
        let blocks = entry.blocks;
        // The LUN must not free blocks to which the clone refers, even after the snapshot is deleted.
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
        found.ok_or_else(|| ArrayRefusal::NoSnapshot { lun: lun.name.clone(), name: name.to_owned() }.into())
    }
}
