//! Filling replacements: of members that failed, from the other members; of members that are still there, by copying.
//!
//! Zones that miss the most members come first, because the next loss would hurt them most; then those that were written last;
//! then the others in ascending order. What is finished is in the superblocks, so that a rebuild goes on after a restart.

use std::ops::Range;

use jetcell_vfs::{IoBuffer, IoReason};

use crate::array::{Array, BegunZone, Piece, Target, UnderWay};
use crate::bytes::copy_of;
use crate::error::{ArrayError, Result};
use crate::geometry::{BLOCK, ZONE_ROWS};
use crate::integrity::{CellState, RecordSlot, RowState};
use crate::member::Extents;

/// Ranges of finished zones per slot up to which zones that were written last are preferred.
const MOST_RANGES: usize = 16;

/// Bytes of all members that a step of a rebuild or scrub reads, and zones.
const MOST_BYTES: u64 = 64 << 20;
const MOST_ZONES: u64 = 16;

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

/// What a replacement gets of a row.
struct Filled {
    device: usize,
    row: u64,
    record: RecordSlot,
    block: IoBuffer,
}

impl Array {
    /// Rebuilds or copies one zone.
    pub fn rebuild_step(&mut self) -> Result<RebuildProgress> {
        self.rebuild_rows(ZONE_ROWS)
    }

    /// Rebuilds or copies up to so many rows that follow each other, of one zone or of several whole zones. All members work on them at
    /// the same time, and each zone is one transfer of a member. If an operation of the load waits, this ends with the zone that was begun.
    pub fn rebuild_rows(&mut self, most: u64) -> Result<RebuildProgress> {
        self.check_writable()?;
        let mut rows_lost = 0;
        if let Some((rows, targets)) = self.next_rows(most.clamp(1, self.most_rows())) {
            self.records.trim();
            let (end, lost) = self.maintain(|array| array.rebuild(rows.clone(), &targets))?;
            rows_lost = lost;
            self.note_rebuilt(rows.start..end, targets)?;
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

    /// Rows whose blocks may be in memory at once.
    pub(super) fn most_rows(&self) -> u64 {
        let zones = MOST_BYTES / (self.config.layout.slots * BLOCK) as u64 / ZONE_ROWS;
        zones.clamp(1, MOST_ZONES) * ZONE_ROWS
    }

    /// The rows that are to be rebuilt next, and the devices that get them.
    fn next_rows(&self, most: u64) -> Option<(Range<u64>, Vec<Target>)> {
        let is_current = |begun: &&BegunZone| {
            let targets = self.targets_of(begun.zone);
            !targets.is_empty() && begun.targets == targets
        };
        if let Some(begun) = self.begun_zone.as_ref().filter(is_current) {
            let end = (begun.zone + 1) * ZONE_ROWS;
            return Some((begun.next_row..end.min(begun.next_row + most), begun.targets.clone()));
        }
        let zone = self.next_zone()?;
        let targets = self.targets_of(zone);
        let mut end = zone + 1;
        // Zones that follow and are as urgent.
        while end < self.config.layout.zones()
            && (end + 1 - zone) * ZONE_ROWS <= most
            && self.missing_in(end) == self.missing_in(zone)
            && self.targets_of(end) == targets
        {
            end += 1;
        }
        let start = zone * ZONE_ROWS;
        Some((start..(end * ZONE_ROWS).min(start + most), targets))
    }

    /// The replacements that lack a zone.
    fn targets_of(&self, zone: u64) -> Vec<Target> {
        let lacks = |slot: usize| {
            let config = &self.config.slots[slot];
            let device = self.device_of(config.replacement).filter(|_| !config.rebuilt.contains(zone))?;
            Some((slot, device))
        };
        (0..self.config.slots.len()).filter_map(lacks).collect()
    }

    /// Slots of which no member has a zone.
    fn missing_in(&self, zone: u64) -> usize {
        let slots = self.config.slots.iter();
        slots.filter(|slot| self.device_of(slot.member).is_none() && !slot.rebuilt.contains(zone)).count()
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
        candidates.max_by_key(|zone| (self.missing_in(*zone), recency(zone), std::cmp::Reverse(*zone)))
    }

    /// Fills rows of replacements. Returns the end of these rows, and how many cannot be recovered. Members read the next zone while one
    /// is computed and the one before is written.
    fn rebuild(&mut self, rows: Range<u64>, targets: &[Target]) -> Result<(u64, u64)> {
        let mut lost = 0;
        let mut ahead = self.zones_ahead(rows, |array, row, state| {
            let of_slot = |(slot, _): &Target| array.config.layout.cell(row, *slot);
            let cells: Vec<usize> = targets.iter().map(of_slot).collect();
            let has = |array: &mut Array, cell: usize| {
                state.cells[cell] == CellState::Empty || array.has_source(row, cell, state)
            };
            let are_there = cells.iter().all(|cell| has(array, *cell));
            if are_there { cells } else { array.cells_with(&cells) }
        });
        let mut under_way = None;
        let mut written = Ok(());
        while let Some(states) = ahead.next(self) {
            written = self.start_filling(&states, targets, &mut lost).and_then(|started| {
                under_way.replace(started).map_or(Ok(()), |before| self.finish_writes(before))
            });
            if written.is_err() {
                break;
            }
        }
        // After an error as well: no write may be under way when this returns.
        let last = under_way.map_or(Ok(()), |last| self.finish_writes(last));
        written.and(last).map(|()| (ahead.reached(), lost))
    }

    /// Recovers rows of a zone whose blocks were fetched, and starts to write them to the replacements, together with their records.
    fn start_filling(
        &mut self,
        states: &[(u64, RowState)],
        targets: &[Target],
        lost: &mut u64,
    ) -> Result<UnderWay> {
        let mut filled = vec![];
        for (row, state) in states {
            *lost += u64::from(!self.recover_row(*row, state, targets, &mut filled)?);
        }
        let zone = states[0].0 / ZONE_ROWS;
        let mut pieces = vec![];
        for (_, device) in targets {
            if self.devices[*device].failed {
                continue;
            }
            match self.pieces_of(*device, zone, &filled) {
                Ok(of_device) => pieces.extend(of_device),
                Err(error) => self.note_write(*device, Err(error))?,
            }
        }
        Ok(self.start_writes(pieces, IoReason::Other))
    }

    /// Blocks of a zone for a replacement, with the records of the zone.
    fn pieces_of(&mut self, device: usize, zone: u64, filled: &[Filled]) -> Result<Vec<Piece>> {
        let layout = self.devices[device].layout;
        let mut writes: Vec<(u64, &[u8])> = vec![];
        for filled in filled.iter().filter(|filled| filled.device == device) {
            self.put_record(device, filled.row, filled.record)?;
            if matches!(filled.record, RecordSlot::Written(_)) {
                writes.push((layout.block(filled.row), &filled.block));
            }
        }
        let records = copy_of(self.record_block(device, zone)?);
        writes.push((layout.records(zone), &records));
        Ok(self.joined(device, writes))
    }

    /// Finds what replacements get of a row. Returns whether all of it was found.
    fn recover_row(
        &mut self,
        row: u64,
        state: &RowState,
        targets: &[Target],
        filled: &mut Vec<Filled>,
    ) -> Result<bool> {
        let cells: Vec<usize> = targets.iter().map(|(slot, _)| self.config.layout.cell(row, *slot)).collect();
        let mut found: Vec<Option<IoBuffer>> =
            cells.iter().map(|cell| self.read_cell(row, *cell, state)).collect();
        if found.iter().any(Option::is_none) {
            let whole = match self.whole_row(row, state, &cells) {
                Ok(whole) => Some(whole),
                Err(ArrayError::Unrecoverable { .. } | ArrayError::Inconsistent { .. }) => None,
                Err(error) => return Err(error),
            };
            if let Some(mut whole) = whole {
                // Other blocks of the row that turned out damaged use up parity that the next loss may need.
                self.repair(row, state, &whole)?;
                for (cell, found) in cells.iter().zip(&mut found) {
                    *found = Some(std::mem::replace(&mut whole.cells[*cell], IoBuffer::zeroed(0)));
                }
            }
        }
        let is_whole = found.iter().all(Option::is_some);
        for (((_, device), cell), block) in targets.iter().zip(cells).zip(found) {
            let (record, block) = match block {
                Some(block) => (self.right_record(row, cell, state, &block), block),
                None => (RecordSlot::Damaged, IoBuffer::zeroed(0)),
            };
            filled.push(Filled { device: *device, row, record, block });
        }
        Ok(is_whole)
    }

    /// Notes that replacements have rows. Zones that are complete are made durable first.
    fn note_rebuilt(&mut self, rows: Range<u64>, targets: Vec<Target>) -> Result<()> {
        let zone = rows.start / ZONE_ROWS;
        if !rows.end.is_multiple_of(ZONE_ROWS) {
            self.begun_zone = Some(BegunZone { zone, next_row: rows.end, targets });
            return Ok(());
        }
        self.begun_zone = None;
        let zones = zone..rows.end / ZONE_ROWS;
        for (slot, device) in targets {
            if self.devices[device].failed {
                continue;
            }
            let result = self.devices[device].sync();
            self.note_write(device, result)?;
            if !self.devices[device].failed {
                self.config.slots[slot].rebuilt.insert(zones.clone());
            }
        }
        self.zones_since_note += zones.end - zones.start;
        Ok(())
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
