//! Determines which drives a host access involves if blocks are overwritten in place.

use std::collections::VecDeque;

use rand::Rng;

use crate::config::{SimulatedLayout, SimulatedLevel};
use crate::drive::DriveAccess;

/// The drive accesses in one phase of an operation, which can run concurrently.
pub type ConcurrentAccesses = Vec<(usize, DriveAccess)>;

/// A lost drive, and the spare on which it is rebuilt.
#[derive(Clone, Copy, Debug)]
struct LostDrive {
    drive: usize,
    spare: usize,
    /// End of the rebuilt range, which starts at the beginning of the drive.
    rebuilt: u64,
}

/// The drives in a simulated layout, arranged in consecutive groups. No group may lose more drives than its level
/// tolerates.
#[derive(Clone, Debug)]
pub struct DriveGroups {
    level: SimulatedLevel,
    /// The number of the first drive and the number of drives, for each group.
    groups: Vec<(usize, usize)>,
    lost: Vec<LostDrive>,
}

impl DriveGroups {
    /// Creates the groups of a layout, without lost drives.
    pub fn new(layout: &SimulatedLayout) -> DriveGroups {
        let mut first = 0;
        let groups = layout.groups.iter().map(|drives| {
            first += drives;
            (first - drives, *drives)
        });
        DriveGroups { level: layout.level, groups: groups.collect(), lost: vec![] }
    }

    /// Creates a single group. `first` is the number of its first drive.
    pub fn single_group(level: SimulatedLevel, first: usize, drives: usize) -> DriveGroups {
        DriveGroups { level, groups: vec![(first, drives)], lost: vec![] }
    }

    /// Marks the first drives of the first group as lost. They are rebuilt on spares, whose numbers start at `spare`.
    pub fn mark_lost(&mut self, count: usize, spare: usize) {
        let lost = |number| LostDrive { drive: self.groups[0].0 + number, spare: spare + number, rebuilt: 0 };
        self.lost = (0..count).map(lost).collect();
    }

    /// Marks all lost drives as rebuilt up to this offset.
    pub fn mark_rebuilt(&mut self, end: u64) {
        self.lost.iter_mut().for_each(|lost| lost.rebuilt = end);
    }

    /// Returns the number of groups.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Returns the number of data drives in a group.
    pub fn data_drives(&self, group: usize) -> usize {
        match self.level {
            SimulatedLevel::Raid10 => self.groups[group].1 / 2,
            level => self.groups[group].1 - level.parities(),
        }
    }

    /// Returns the drives of a row: data drives first, then parity drives. With mirrors, these are both copies of the
    /// first column, then both copies of the second column, and so on.
    pub fn row(&self, group: usize, row: u64) -> Vec<usize> {
        let (first, drives) = self.groups[group];
        let turn = match self.level {
            SimulatedLevel::Raid5 | SimulatedLevel::Raid6 => (row % drives as u64) as usize,
            SimulatedLevel::Raid10 | SimulatedLevel::RaidDp => 0,
        };
        (0..drives).map(|cell| first + (cell + turn) % drives).collect()
    }

    /// Returns the drive that has the content of `drive` at a position: the drive itself, or its spare if the
    /// position is already rebuilt.
    pub fn content_drive(&self, drive: usize, position: u64) -> Option<usize> {
        match self.lost.iter().find(|lost| lost.drive == drive) {
            Some(lost) => (position < lost.rebuilt).then_some(lost.spare),
            None => Some(drive),
        }
    }

    /// Returns the accesses for reading a data column of a row.
    pub fn read(
        &self,
        cells: &[usize],
        column: usize,
        position: u64,
        bytes: u64,
        rng: &mut impl Rng,
    ) -> VecDeque<ConcurrentAccesses> {
        let home = |cell: usize| self.content_drive(cells[cell], position);
        let read = |drive: usize| (drive, DriveAccess { position, bytes, is_write: false });
        if self.level == SimulatedLevel::Raid10 {
            let first = rng.random_range(0..2);
            let copies = [2 * column + first, 2 * column + 1 - first];
            return [copies.into_iter().find_map(home).map(read).into_iter().collect()].into();
        }
        match home(column) {
            Some(drive) => [vec![read(drive)]].into(),
            None => [self.recovery(cells, column, position).into_iter().map(read).collect()].into(),
        }
    }

    /// Returns the drives from which a column can be recovered: as many of the row's other drives as there are data
    /// columns, data drives first.
    fn recovery(&self, cells: &[usize], column: usize, position: u64) -> Vec<usize> {
        let data = cells.len() - self.level.parities();
        let others = (0..cells.len()).filter(|cell| *cell != column);
        others.filter_map(|cell| self.content_drive(cells[cell], position)).take(data).collect()
    }

    /// Returns the accesses for writing a data column of a row: first the reads for computing parity, then the
    /// writes.
    pub fn write(
        &self,
        cells: &[usize],
        column: usize,
        position: u64,
        bytes: u64,
    ) -> VecDeque<ConcurrentAccesses> {
        let access = |is_write| move |drive: usize| (drive, DriveAccess { position, bytes, is_write });
        let home = |drive: &usize| self.content_drive(*drive, position);
        if self.level == SimulatedLevel::Raid10 {
            let copies = &cells[2 * column..2 * column + 2];
            return [copies.iter().filter_map(home).map(access(true)).collect()].into();
        }
        let data = cells.len() - self.level.parities();
        let target = home(&cells[column]);
        let parity: Vec<usize> = cells[data..].iter().filter_map(home).collect();
        let written: ConcurrentAccesses =
            target.into_iter().chain(parity.iter().copied()).map(access(true)).collect();
        if parity.is_empty() {
            return [written].into();
        }
        let other_data: Vec<usize> =
            (0..data).filter(|cell| *cell != column).filter_map(|cell| home(&cells[cell])).collect();
        let read: Vec<usize> = match target {
            Some(target) => std::iter::once(target).chain(parity).collect(),
            // Parity is computed from all other data columns. If a second drive is lost, parity is needed for this as
            // well.
            None if other_data.len() == data - 1 => other_data,
            None => self.recovery(cells, column, position),
        };
        [read.into_iter().map(access(false)).collect(), written].into()
    }

    /// Returns the accesses for rebuilding a piece of the lost drives on their spares.
    pub fn rebuild(&self, position: u64, bytes: u64) -> VecDeque<ConcurrentAccesses> {
        let (first, drives) = self.groups[0];
        let read = |drive: usize| (drive, DriveAccess { position, bytes, is_write: false });
        let is_lost = |drive: usize| self.lost.iter().any(|lost| lost.drive == drive);
        let sources: ConcurrentAccesses = match self.level {
            SimulatedLevel::Raid10 => {
                self.lost.iter().map(|lost| read(first + ((lost.drive - first) ^ 1))).collect()
            }
            // To rebuild a single lost drive, only data and row parity are needed.
            level => {
                let needed = drives - level.parities();
                (first..first + drives).filter(|drive| !is_lost(*drive)).take(needed).map(read).collect()
            }
        };
        let write = |lost: &LostDrive| (lost.spare, DriveAccess { position, bytes, is_write: true });
        [sources, self.lost.iter().map(write).collect()].into()
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn layout(level: SimulatedLevel, drives: usize) -> SimulatedLayout {
        SimulatedLayout { name: "x".into(), level, groups: vec![drives], write_anywhere: None }
    }

    /// Returns the mean number of drive accesses for a read and for a small write. The means are over all rows and
    /// columns.
    fn costs(level: SimulatedLevel, drives: usize, lost: usize) -> (f64, f64) {
        let mut groups = DriveGroups::new(&layout(level, drives));
        groups.mark_lost(lost, drives);
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let (mut reads, mut writes, mut count) = (0, 0, 0);
        for row in 0..drives as u64 {
            let cells = groups.row(0, row);
            for column in 0..groups.data_drives(0) {
                let accesses =
                    |phases: VecDeque<ConcurrentAccesses>| phases.iter().map(Vec::len).sum::<usize>();
                reads += accesses(groups.read(&cells, column, 0, 4096, &mut rng));
                writes += accesses(groups.write(&cells, column, 0, 4096));
                count += 1;
            }
        }
        (reads as f64 / f64::from(count), writes as f64 / f64::from(count))
    }

    #[test]
    fn small_writes_cost_two_four_and_six_accesses() {
        for (level, drives, cost) in [
            (SimulatedLevel::Raid10, 2, 2.0),
            (SimulatedLevel::Raid5, 9, 4.0),
            (SimulatedLevel::Raid6, 9, 6.0),
            (SimulatedLevel::RaidDp, 16, 6.0),
        ] {
            assert_eq!(costs(level, drives, 0), (1.0, cost), "{level:?}");
        }
    }

    #[test]
    fn costs_with_one_failed_drive_match_the_formulas() {
        let close =
            |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        for drives in [5usize, 9, 16] {
            let n = drives as f64;
            let (read, write) = costs(SimulatedLevel::Raid5, drives, 1);
            close(read, 2.0 * (n - 1.0) / n);
            close(write, (5.0 * n - 8.0) / n);
            let (read, write) = costs(SimulatedLevel::Raid6, drives, 1);
            close(read, (2.0 * n - 3.0) / n);
            close(write, (7.0 * n - 11.0) / n);
        }
        assert_eq!(costs(SimulatedLevel::Raid10, 2, 1), (1.0, 1.0));
    }

    #[test]
    fn double_degraded_reads_take_one_read_per_data_drive() {
        for drives in [6usize, 9, 16] {
            let (n, data) = (drives as f64, drives as f64 - 2.0);
            let (read, _) = costs(SimulatedLevel::Raid6, drives, 2);
            // Each column is on a lost drive in two of n rows.
            let expected = 1.0 + 2.0 / n * (data - 1.0);
            assert!((read - expected).abs() < 1e-9, "{read} {expected}");
            // Parity drives are fixed, so the two lost drives are data drives in all rows.
            let (read, write) = costs(SimulatedLevel::RaidDp, drives, 2);
            assert!((read - (1.0 + 2.0 / data * (data - 1.0))).abs() < 1e-9, "{read}");
            // Writes to the other columns take six accesses. A write to a lost column takes two parity writes, and
            // reads of all remaining drives.
            assert!((write - (6.0 * (data - 2.0) + 2.0 * (data + 2.0)) / data).abs() < 1e-9, "{write}");
        }
    }

    #[test]
    fn a_rebuild_reads_only_required_blocks_and_uses_results_immediately() {
        let mut groups = DriveGroups::new(&layout(SimulatedLevel::RaidDp, 16));
        groups.mark_lost(2, 16);
        let phases = groups.rebuild(0, 4096);
        assert_eq!(phases.iter().map(Vec::len).collect::<Vec<_>>(), [14, 2]);
        groups.mark_rebuilt(4096);
        assert_eq!(
            [groups.content_drive(1, 0), groups.content_drive(1, 4096), groups.content_drive(2, 4096)],
            [Some(17), None, Some(2)]
        );
        let cells = groups.row(0, 0);
        let phases = groups.write(&cells, 0, 0, 4096);
        assert_eq!(phases[1].iter().map(|(drive, _)| *drive).collect::<Vec<_>>(), [16, 14, 15]);
        groups.mark_lost(1, 16);
        assert_eq!(groups.rebuild(0, 4096).iter().map(Vec::len).collect::<Vec<_>>(), [14, 1]);
    }
}
