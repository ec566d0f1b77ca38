//! A volume that never overwrites blocks: a consistency point's blocks are written where whole stripes have the most
//! room, as in WAFL.
//!
//! A stripe has one block on each drive of a group. An *area* is 1024 stripes of a group. The volume fills the
//! emptiest area first, 64 stripes at a time. Consecutive blocks on a drive are written by one command. If a stripe
//! contains old blocks, computing parity requires reads: either of the old blocks, or of the locations that are
//! overwritten and of both parity blocks, whichever is fewer.

use std::collections::BTreeMap;

use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// Number of stripes in an area.
const AREA_STRIPES: usize = 1024;
/// Number of stripes that are written together.
const STRIPES_PER_WRITE: usize = 64;
const NO_BLOCK: u32 = u32::MAX;

/// A command that reads or writes consecutive blocks on a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveCommand {
    /// Drive number, counted across all groups.
    pub drive: usize,
    /// First stripe.
    pub stripe: usize,
    /// Number of blocks.
    pub blocks: usize,
    /// Whether the blocks are written.
    pub is_write: bool,
}

/// Consecutive blocks of a page that are stored on one data drive in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagePart {
    /// Group number.
    pub group: usize,
    /// Index of the data drive in the group.
    pub column: usize,
    /// First stripe.
    pub stripe: u64,
    /// Number of blocks.
    pub blocks: u64,
}

/// Counters for consistency points.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConsistencyPointCounters {
    /// Number of host writes.
    pub host_writes: u64,
    /// Number of host blocks, excluding those that were overwritten before the consistency point.
    pub blocks: u64,
    /// Number of write commands to drives.
    pub commands: u64,
    /// Number of blocks written to drives, including parity.
    pub disk_blocks: u64,
    /// Number of read commands for computing parity.
    pub reads: u64,
}

impl ConsistencyPointCounters {
    /// Returns the number of write commands to drives per host write.
    pub fn commands_per_host_write(&self) -> f64 {
        self.commands as f64 / self.host_writes.max(1) as f64
    }

    /// Returns the number of blocks written to drives per host block.
    pub fn blocks_per_host_block(&self) -> f64 {
        self.disk_blocks as f64 / self.blocks.max(1) as f64
    }

    /// Returns the number of read commands per host write.
    pub fn reads_per_host_write(&self) -> f64 {
        self.reads as f64 / self.host_writes.max(1) as f64
    }

    fn add(&mut self, other: &ConsistencyPointCounters) {
        self.host_writes += other.host_writes;
        self.blocks += other.blocks;
        self.commands += other.commands;
        self.disk_blocks += other.disk_blocks;
        self.reads += other.reads;
    }
}

#[derive(Clone)]
struct StripeGroup {
    first_drive: usize,
    data: usize,
    parities: usize,
    /// Logical block at each location, by stripe and data drive.
    content: Vec<u32>,
    /// Number of free locations in each area.
    free: Vec<usize>,
    /// Stripe at which writing continues.
    at: usize,
}

/// A simulated volume that never overwrites blocks.
#[derive(Clone)]
pub struct WriteAnywhereVolume {
    groups: Vec<StripeGroup>,
    /// Group and location of each logical block.
    locations: Vec<(u32, u32)>,
    blocks_of_page: u32,
    next_group: usize,
    rng: ChaCha8Rng,
}

impl WriteAnywhereVolume {
    /// Creates a volume with groups of (data, parity) drives and this many stripes. A fraction of it is filled in
    /// sequential order, as it would be after databases were created.
    pub fn new(
        groups: &[(usize, usize)],
        stripes: usize,
        fill: f64,
        blocks_of_page: u32,
        rng: ChaCha8Rng,
    ) -> WriteAnywhereVolume {
        let stripes = stripes / AREA_STRIPES * AREA_STRIPES;
        let mut first_drive = 0;
        let new = |(data, parities): &(usize, usize)| {
            let group = StripeGroup {
                first_drive,
                data: *data,
                parities: *parities,
                content: vec![NO_BLOCK; stripes * data],
                free: vec![AREA_STRIPES * data; stripes / AREA_STRIPES],
                at: 0,
            };
            first_drive += data + parities;
            group
        };
        let groups: Vec<StripeGroup> = groups.iter().map(new).collect();
        let room: usize = groups.iter().map(|group| group.content.len()).sum();
        let pages = (room as f64 * fill) as usize / blocks_of_page as usize;
        let place = vec![(NO_BLOCK, 0); pages * blocks_of_page as usize];
        let mut volume = WriteAnywhereVolume { groups, locations: place, blocks_of_page, next_group: 0, rng };
        let all: Vec<u32> = (0..volume.locations.len() as u32).collect();
        volume.write(&all, &mut |_| {});
        volume
    }

    /// Returns the number of pages in the load.
    pub fn pages(&self) -> u32 {
        self.locations.len() as u32 / self.blocks_of_page
    }

    /// Returns the location of a page: one part if the page's blocks are consecutive on a drive, otherwise several.
    pub fn locate(&self, page: u32) -> Vec<PagePart> {
        let first = (page * self.blocks_of_page) as usize;
        let mut parts: Vec<PagePart> = vec![];
        for (group, place) in &self.locations[first..first + self.blocks_of_page as usize] {
            let (group, data) = (*group as usize, self.groups[*group as usize].data);
            let (column, stripe) = (*place as usize % data, (*place as usize / data) as u64);
            match parts.last_mut() {
                Some(part)
                    if (part.group, part.column, part.stripe + part.blocks) == (group, column, stripe) =>
                {
                    part.blocks += 1;
                }
                _ => parts.push(PagePart { group, column, stripe, blocks: 1 }),
            }
        }
        parts
    }

    /// Overwrites random pages. Each consistency point contains `each` writes.
    pub fn age(&mut self, writes: u64, each: usize) -> ConsistencyPointCounters {
        let mut all = ConsistencyPointCounters::default();
        let mut left = writes;
        while left > 0 {
            let count = left.min(each as u64);
            let pages: Vec<u32> = (0..count).map(|_| self.rng.random_range(0..self.pages())).collect();
            all.add(&self.consistency_point(&pages, &mut |_| {}));
            left -= count;
        }
        all
    }

    /// Writes pages. Calls `report` for each drive command.
    pub fn consistency_point(
        &mut self,
        pages: &[u32],
        report: &mut dyn FnMut(DriveCommand),
    ) -> ConsistencyPointCounters {
        let mut distinct = pages.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let blocks: Vec<u32> = distinct
            .iter()
            .flat_map(|page| (0..self.blocks_of_page).map(move |block| (*page, block)))
            .map(|(page, block)| page * self.blocks_of_page + block)
            .collect();
        for block in &blocks {
            self.release(*block);
        }
        ConsistencyPointCounters { host_writes: pages.len() as u64, ..self.write(&blocks, report) }
    }

    fn release(&mut self, block: u32) {
        let (group, place) = self.locations[block as usize];
        let group = &mut self.groups[group as usize];
        group.content[place as usize] = NO_BLOCK;
        group.free[place as usize / group.data / AREA_STRIPES] += 1;
    }

    /// Assigns new locations to blocks that have none, and writes the blocks.
    fn write(&mut self, blocks: &[u32], report: &mut dyn FnMut(DriveCommand)) -> ConsistencyPointCounters {
        let mut written =
            ConsistencyPointCounters { blocks: blocks.len() as u64, ..ConsistencyPointCounters::default() };
        let mut rest = blocks;
        while !rest.is_empty() {
            let number = self.next_group;
            self.next_group = (self.next_group + 1) % self.groups.len();
            let group = &mut self.groups[number];
            let together = self.blocks_of_page as usize;
            let count = group.fill(rest, together, &mut written, report, &mut |block, place| {
                self.locations[block as usize] = (number as u32, place as u32);
            });
            rest = &rest[count..];
        }
        written
    }
}

impl StripeGroup {
    /// Fills the free locations of the next 64 stripes with blocks. A page's blocks are placed on one drive as long as
    /// there is room, and then on the next. Returns the number of blocks.
    fn fill(
        &mut self,
        blocks: &[u32],
        of_page: usize,
        written: &mut ConsistencyPointCounters,
        report: &mut dyn FnMut(DriveCommand),
        put: &mut dyn FnMut(u32, usize),
    ) -> usize {
        if self.at.is_multiple_of(AREA_STRIPES) || self.free[self.at / AREA_STRIPES] == 0 {
            let emptiest =
                (0..self.free.len()).max_by_key(|area| (self.free[*area], std::cmp::Reverse(*area)));
            self.at = emptiest.expect("a group has areas") * AREA_STRIPES;
        }
        let start = self.at;
        self.at = if (start + STRIPES_PER_WRITE).is_multiple_of(AREA_STRIPES) {
            0
        } else {
            start + STRIPES_PER_WRITE
        };
        let is_full = |group: &StripeGroup, place: usize| group.content[place] != NO_BLOCK;
        // Number of old blocks in each stripe. `new` marks the locations of new blocks.
        let mut kept = [0usize; STRIPES_PER_WRITE];
        let mut new = vec![[false; STRIPES_PER_WRITE]; self.data];
        let mut used = 0;
        let drives = 0..self.data;
        let rows = (0..STRIPES_PER_WRITE).step_by(of_page);
        for (row, drive) in rows.flat_map(|row| drives.clone().map(move |drive| (row, drive))) {
            let of_drive = &mut new[drive];
            for stripe in row..(row + of_page).min(STRIPES_PER_WRITE) {
                let place = (start + stripe) * self.data + drive;
                if is_full(self, place) {
                    kept[stripe] += 1;
                } else if let Some(block) = blocks.get(used) {
                    self.content[place] = *block;
                    self.free[place / self.data / AREA_STRIPES] -= 1;
                    put(*block, place);
                    of_drive[stripe] = true;
                    used += 1;
                }
            }
        }
        self.report(start, &kept, &new, written, report);
        used
    }

    fn report(
        &self,
        start: usize,
        kept: &[usize; STRIPES_PER_WRITE],
        new: &[[bool; STRIPES_PER_WRITE]],
        written: &mut ConsistencyPointCounters,
        report: &mut dyn FnMut(DriveCommand),
    ) {
        let touched: [bool; STRIPES_PER_WRITE] =
            std::array::from_fn(|stripe| new.iter().any(|drive| drive[stripe]));
        let mut read: BTreeMap<usize, [bool; STRIPES_PER_WRITE]> = BTreeMap::new();
        for stripe in (0..STRIPES_PER_WRITE).filter(|stripe| touched[*stripe] && kept[*stripe] > 0) {
            let fresh = new.iter().filter(|drive| drive[stripe]).count();
            let replaces = fresh + self.parities < kept[stripe];
            for (drive, written) in new.iter().enumerate() {
                if written[stripe] == replaces {
                    read.entry(drive).or_insert([false; STRIPES_PER_WRITE])[stripe] = true;
                }
            }
            for parity in (0..self.parities).filter(|_| replaces) {
                read.entry(self.data + parity).or_insert([false; STRIPES_PER_WRITE])[stripe] = true;
            }
        }
        for (drive, stripes) in &read {
            for (stripe, blocks) in runs(stripes) {
                written.reads += 1;
                report(DriveCommand {
                    drive: self.first_drive + drive,
                    stripe: start + stripe,
                    blocks,
                    is_write: false,
                });
            }
        }
        let parity = std::iter::repeat_n(&touched, self.parities);
        for (drive, stripes) in new.iter().chain(parity).enumerate() {
            for (stripe, blocks) in runs(stripes) {
                written.commands += 1;
                written.disk_blocks += blocks as u64;
                report(DriveCommand {
                    drive: self.first_drive + drive,
                    stripe: start + stripe,
                    blocks,
                    is_write: true,
                });
            }
        }
    }
}

/// Returns the start and length of each run of marked locations.
fn runs(marked: &[bool; STRIPES_PER_WRITE]) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = vec![];
    for place in (0..STRIPES_PER_WRITE).filter(|place| marked[*place]) {
        match found.last_mut() {
            Some((start, blocks)) if *start + *blocks == place => *blocks += 1,
            _ => found.push((place, 1)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn volume(fill: f64) -> WriteAnywhereVolume {
        WriteAnywhereVolume::new(
            &[(14, 2), (14, 2)],
            16 * AREA_STRIPES,
            fill,
            2,
            ChaCha8Rng::seed_from_u64(3),
        )
    }

    #[test]
    fn an_empty_volume_writes_whole_stripes_and_few_commands() {
        let mut volume = volume(0.05);
        let written = volume.age(3584, 3584);
        // With 14+2 drives, 16 blocks are written for 14 data blocks, in runs of 64.
        assert!((written.blocks_per_host_block() - 16.0 / 14.0).abs() < 0.02, "{written:?}");
        assert!(written.commands_per_host_write() < 0.1 && written.reads == 0, "{written:?}");
    }

    #[test]
    fn pages_have_unique_locations_and_free_blocks_are_counted() {
        let mut volume = volume(0.8);
        volume.age(20_000, 1000);
        let mut seen = std::collections::BTreeSet::new();
        for (block, (group, place)) in volume.locations.iter().enumerate() {
            assert!(seen.insert((*group, *place)));
            assert_eq!(volume.groups[*group as usize].content[*place as usize], block as u32);
        }
        for group in &volume.groups {
            let free = |area: usize| {
                group.content[area * AREA_STRIPES * group.data..(area + 1) * AREA_STRIPES * group.data]
                    .iter()
                    .filter(|block| **block == NO_BLOCK)
                    .count()
            };
            assert!((0..group.free.len()).all(|area| group.free[area] == free(area)));
        }
    }

    #[test]
    fn commands_per_host_write_grow_with_utilization() {
        let costs: Vec<f64> = [0.3, 0.6, 0.9]
            .map(|fill| {
                let mut volume = volume(fill);
                let pages = u64::from(volume.pages());
                volume.age(2 * pages, 2000);
                volume.age(pages / 2, 2000).commands_per_host_write()
            })
            .into();
        assert!(costs.is_sorted() && costs[0] < 0.2 && costs[2] > 5.0 * costs[0], "{costs:?}");
    }

    #[test]
    fn new_volumes_spread_unsplit_pages_over_all_data_drives() {
        let mut volume = volume(0.3);
        volume.age(2000, 500);
        let parts: Vec<Vec<PagePart>> = (0..volume.pages()).map(|page| volume.locate(page)).collect();
        let split = parts.iter().filter(|parts| parts.len() > 1).count();
        assert!(split * 50 < parts.len(), "{split} of {}", parts.len());
        for column in 0..14 {
            let here = parts.iter().filter(|parts| parts[0].column == column).count();
            assert!((here as f64 * 14.0 / parts.len() as f64 - 1.0).abs() < 0.1, "{column}: {here}");
        }
    }

    #[test]
    fn runs_are_extracted_from_marked_stripes() {
        let marked: [bool; STRIPES_PER_WRITE] =
            std::array::from_fn(|place| [0, 1, 5, 62, 63].contains(&place));
        assert_eq!(runs(&marked), [(0, 2), (5, 1), (62, 2)]);
    }
}
