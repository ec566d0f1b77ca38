//! Filling replacements: of members that failed, from the other members; of members that are still there, by copying.
//!
//! Zones that miss the most members come first, because the next loss would hurt them most; then those that were written last;
//! then the others in ascending order. What is finished is in the superblocks, so that a rebuild goes on after a restart.

use jetcell_vfs::IoBuffer;

use crate::array::Array;
use crate::error::{ArrayError, Result};
use crate::geometry::{BLOCK, ZONE_ROWS};
use crate::integrity::RecordSlot;
use crate::member::Extents;

/// Ranges of finished zones per slot up to which zones that were written last are preferred.
const MOST_RANGES: usize = 16;

/// How far the rebuild is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RebuildProgress {
    /// Zones of replacements that are finished.
    pub zones_done: u64,
    /// Zones of all replacements.
    pub zones: u64,
    /// Rows of this step of which too many blocks were lost. They stay lost; reading them fails.
    pub rows_lost: u64,
}

impl RebuildProgress {
    /// Whether nothing is left to do.
    pub fn is_complete(&self) -> bool {
        self.zones_done == self.zones
    }

    /// Zones that were finished since an earlier state of the same rebuild.
    pub fn zones_since(&self, earlier: &RebuildProgress) -> u64 {
        match self.zones == earlier.zones {
            true => self.zones_done.saturating_sub(earlier.zones_done),
            // A member that is complete is no replacement any more, so its zones are not counted after that.
            false => (earlier.zones - earlier.zones_done).saturating_sub(self.zones - self.zones_done),
        }
    }
}

impl Array {
    /// Rebuilds or copies one zone.
    pub fn rebuild_step(&mut self) -> Result<RebuildProgress> {
        self.check_writable()?;
        let mut rows_lost = 0;
        if let Some(zone) = self.next_zone() {
            self.records.trim();
            rows_lost = self.rebuild_zone(zone)?;
            self.zones_since_note += 1;
            self.promote()?;
            if self.zones_since_note >= self.zones_per_note {
                self.save_config()?;
                self.zones_since_note = 0;
            }
        }
        if self.is_config_changed {
            self.save_config()?;
        }
        Ok(RebuildProgress { rows_lost, ..self.rebuild_progress() })
    }

    /// How far the rebuild is.
    pub fn rebuild_progress(&self) -> RebuildProgress {
        let slots = self.config.slots.iter().filter(|slot| slot.replacement != 0);
        let (count, zones_done) =
            slots.fold((0, 0), |(count, done), slot| (count + 1, done + slot.rebuilt.len()));
        RebuildProgress { zones_done, zones: count * self.config.layout.zones(), rows_lost: 0 }
    }

    /// Notes the progress in the superblocks after every so many zones, instead of 64.
    pub fn set_zones_per_note(&mut self, zones: u64) {
        self.zones_per_note = zones.max(1);
    }

    /// The zone that is to be rebuilt next.
    pub(crate) fn next_zone(&self) -> Option<u64> {
        let zones = self.config.layout.zones();
        let slots = &self.config.slots;
        let is_open =
            |zone: u64| slots.iter().any(|slot| slot.replacement != 0 && !slot.rebuilt.contains(zone));
        let missing = |zone: u64| {
            slots
                .iter()
                .filter(|slot| self.device_of(slot.member).is_none() && !slot.rebuilt.contains(zone))
                .count()
        };
        // The number of missing members changes only where a range of finished zones begins or ends.
        let edges =
            slots.iter().flat_map(|slot| slot.rebuilt.ranges()).flat_map(|range| [range.start, range.end]);
        let edges: Vec<u64> = edges.chain([0]).collect();
        let rebuilding = slots.iter().filter(|slot| slot.replacement != 0);
        let gaps = rebuilding.flat_map(|slot| edges.iter().map(|edge| slot.rebuilt.next_gap(*edge)));
        let is_whole = slots.iter().all(|slot| slot.rebuilt.ranges().len() < MOST_RANGES);
        let recent = self.recent_zones.iter().copied().filter(|_| is_whole);
        let recency =
            |zone: &u64| self.recent_zones.iter().position(|recent| recent == zone).filter(|_| is_whole);
        let candidates = gaps.chain(recent).filter(|zone| *zone < zones && is_open(*zone));
        candidates.max_by_key(|zone| (missing(*zone), recency(zone), std::cmp::Reverse(*zone)))
    }

    /// Fills a zone on all replacements that lack it. Returns the rows that cannot be recovered.
    fn rebuild_zone(&mut self, zone: u64) -> Result<u64> {
        let mut lost = 0;
        let lacks = |array: &Array, slot: usize| {
            let config = &array.config.slots[slot];
            array
                .device_of(config.replacement)
                .filter(|_| !config.rebuilt.contains(zone))
                .map(|device| (slot, device))
        };
        let all: Vec<(usize, usize)> =
            (0..self.config.slots.len()).filter_map(|slot| lacks(self, slot)).collect();
        for row in zone * ZONE_ROWS..(zone + 1) * ZONE_ROWS {
            lost += u64::from(!self.rebuild_row(row, &all)?);
        }
        for (slot, device) in all {
            if self.devices[device].failed {
                continue;
            }
            let result = self.write_records(device, zone).and_then(|()| self.devices[device].sync());
            self.note_write(device, result)?;
            if !self.devices[device].failed {
                self.config.slots[slot].rebuilt.insert(zone..zone + 1);
            }
        }
        Ok(lost)
    }

    /// Fills a row on replacements. Returns whether all of it was found.
    fn rebuild_row(&mut self, row: u64, targets: &[(usize, usize)]) -> Result<bool> {
        let state = self.row_state(row);
        let mut found: Vec<Option<IoBuffer>> = vec![];
        for (slot, _) in targets {
            let cell = self.config.layout.cell(row, *slot);
            found.push(self.read_cell(row, cell, &state));
        }
        if found.iter().any(Option::is_none) {
            let whole = match self.whole_row(row, &state) {
                Ok(whole) => Some(whole),
                Err(ArrayError::Unrecoverable { .. } | ArrayError::Inconsistent { .. }) => None,
                Err(error) => return Err(error),
            };
            if let Some(whole) = whole {
                for ((slot, _), found) in targets.iter().zip(&mut found) {
                    let mut block = IoBuffer::zeroed(BLOCK);
                    block.copy_from_slice(&whole.cells[self.config.layout.cell(row, *slot)]);
                    *found = Some(block);
                }
                // Other blocks of the row that turned out damaged use up parity that the next loss may need.
                self.repair(row, &state, &whole)?;
            }
        }
        let is_whole = found.iter().all(Option::is_some);
        for ((slot, device), block) in targets.iter().zip(found) {
            if self.devices[*device].failed {
                continue;
            }
            let cell = self.config.layout.cell(row, *slot);
            let result = match block {
                Some(block) => {
                    let record = self.right_record(row, cell, &state, &block);
                    self.write_cell(*device, row, record, &block)
                }
                None => self.put_record(*device, row, RecordSlot::Damaged),
            };
            self.note_write(*device, result)?;
        }
        Ok(is_whole)
    }

    /// Makes replacements that have all zones the members of their slots: all in one configuration, so that no start finds some that
    /// are complete and no members.
    fn promote(&mut self) -> Result<()> {
        let zones = self.config.layout.zones();
        let mut replaced = vec![];
        for slot in 0..self.config.slots.len() {
            let config = &self.config.slots[slot];
            if config.replacement == 0 || config.rebuilt.len() < zones {
                continue;
            }
            replaced.push(self.device_of(config.member));
            self.config.slots[slot].member = config.replacement;
            self.config.slots[slot].replacement = 0;
            self.config.slots[slot].rebuilt = Extents::default();
        }
        if !replaced.is_empty() {
            self.save_config()?;
        }
        for old in replaced.into_iter().flatten() {
            // Stale from now on.
            self.devices[old].failed = true;
            self.records.forget(old);
        }
        Ok(())
    }
}
