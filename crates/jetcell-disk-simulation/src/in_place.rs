//! Which drives an access of the host touches, where blocks are overwritten in place.

use std::collections::VecDeque;

use rand::Rng;

use crate::config::{Layout, Level};
use crate::drive::Access;

/// Accesses of drives that can run at the same time.
pub type Phase = Vec<(usize, Access)>;

/// Drives of a layout, in groups one after the other. At most one of them is lost.
#[derive(Clone, Debug)]
pub struct Groups {
    level: Level,
    /// First drive and number of drives of each group.
    groups: Vec<(usize, usize)>,
    lost: Option<usize>,
}

impl Groups {
    /// The groups of a layout. `lost` is the number of a drive, counted over all groups.
    pub fn new(layout: &Layout, lost: Option<usize>) -> Groups {
        let mut first = 0;
        let groups = layout.groups.iter().map(|drives| {
            first += drives;
            (first - drives, *drives)
        });
        Groups { level: layout.level, groups: groups.collect(), lost }
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Data drives of a group.
    pub fn data_drives(&self, group: usize) -> usize {
        match self.level {
            Level::Raid10 => self.groups[group].1 / 2,
            level => self.groups[group].1 - level.parities(),
        }
    }

    /// The drives of a row: data, then parity; with mirrors, both copies of the first column, then of the second.
    pub fn row(&self, group: usize, row: u64) -> Vec<usize> {
        let (first, drives) = self.groups[group];
        let turn = match self.level {
            Level::Raid5 | Level::Raid6 => (row % drives as u64) as usize,
            Level::Raid10 | Level::RaidDp => 0,
        };
        (0..drives).map(|cell| first + (cell + turn) % drives).collect()
    }

    /// Whether a drive is there.
    pub fn has(&self, drive: usize) -> bool {
        self.lost != Some(drive)
    }

    /// Reads a data column of a row.
    pub fn read(
        &self,
        cells: &[usize],
        column: usize,
        position: u64,
        bytes: u64,
        rng: &mut impl Rng,
    ) -> VecDeque<Phase> {
        let read = |drive: usize| (drive, Access { position, bytes, is_write: false });
        if self.level == Level::Raid10 {
            let copies = [cells[2 * column], cells[2 * column + 1]];
            let first = copies[rng.random_range(0..2)];
            let drive = if self.has(first) { first } else { copies[0] + copies[1] - first };
            return [vec![read(drive)]].into();
        }
        if self.has(cells[column]) {
            return [vec![read(cells[column])]].into();
        }
        // The other data columns and one parity block.
        let data = cells.len() - self.level.parities();
        [(0..=data).filter(|cell| *cell != column).map(|cell| read(cells[cell])).collect()].into()
    }

    /// Writes a data column of a row: reads what parity needs, then writes.
    pub fn write(&self, cells: &[usize], column: usize, position: u64, bytes: u64) -> VecDeque<Phase> {
        let access = |is_write| move |drive: usize| (drive, Access { position, bytes, is_write });
        let there = |drive: &usize| self.has(*drive);
        if self.level == Level::Raid10 {
            let copies = cells[2 * column..2 * column + 2].iter().copied();
            return [copies.filter(there).map(access(true)).collect()].into();
        }
        let data = cells.len() - self.level.parities();
        let target = cells[column];
        let parity: Vec<usize> = cells[data..].iter().copied().filter(there).collect();
        let written: Phase =
            std::iter::once(target).filter(there).chain(parity.iter().copied()).map(access(true)).collect();
        if parity.is_empty() {
            return [written].into();
        }
        let read: Phase = if self.has(target) {
            std::iter::once(target).chain(parity).map(access(false)).collect()
        } else {
            // Parity comes from all other data columns.
            (0..data).filter(|cell| *cell != column).map(|cell| access(false)(cells[cell])).collect()
        };
        [read, written].into()
    }

    /// Rebuilds a piece of the lost drive on `spare`.
    pub fn rebuild(&self, lost: usize, spare: usize, position: u64, bytes: u64) -> VecDeque<Phase> {
        let group = self.groups.iter().find(|(first, drives)| (*first..first + drives).contains(&lost));
        let (first, drives) = *group.expect("the lost drive is in a group");
        let read = |drive: usize| (drive, Access { position, bytes, is_write: false });
        let sources: Phase = match self.level {
            Level::Raid10 => vec![read(first + ((lost - first) ^ 1))],
            level => {
                // Data and row parity: the second parity is not needed.
                let needed = drives - level.parities();
                (first..first + drives).filter(|drive| *drive != lost).take(needed).map(read).collect()
            }
        };
        [sources, vec![(spare, Access { position, bytes, is_write: true })]].into()
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn layout(level: Level, drives: usize) -> Layout {
        Layout { name: "x".into(), level, groups: vec![drives], write_anywhere: None }
    }

    /// Mean accesses of drives for a read and a small write, over all rows and columns.
    fn costs(level: Level, drives: usize, lost: Option<usize>) -> (f64, f64) {
        let groups = Groups::new(&layout(level, drives), lost);
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let (mut reads, mut writes, mut count) = (0, 0, 0);
        for row in 0..drives as u64 {
            let cells = groups.row(0, row);
            for column in 0..groups.data_drives(0) {
                let accesses = |phases: VecDeque<Phase>| phases.iter().map(Vec::len).sum::<usize>();
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
            (Level::Raid10, 2, 2.0),
            (Level::Raid5, 9, 4.0),
            (Level::Raid6, 9, 6.0),
            (Level::RaidDp, 16, 6.0),
        ] {
            assert_eq!(costs(level, drives, None), (1.0, cost), "{level:?}");
        }
    }

    #[test]
    fn with_a_drive_lost_the_costs_are_those_of_the_formulas() {
        let close =
            |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        for drives in [5usize, 9, 16] {
            let n = drives as f64;
            let (read, write) = costs(Level::Raid5, drives, Some(0));
            close(read, 2.0 * (n - 1.0) / n);
            close(write, (5.0 * n - 8.0) / n);
            let (read, write) = costs(Level::Raid6, drives, Some(3));
            close(read, (2.0 * n - 3.0) / n);
            close(write, (7.0 * n - 11.0) / n);
        }
        assert_eq!(costs(Level::Raid10, 2, Some(1)), (1.0, 1.0));
    }
}
