//! Fills replacements. Failed members are rebuilt from the other members, and working members are copied.
//!
//! Zones with the most missing members come first, because another failure would affect them most. Recently written
//! zones follow, and then the others in ascending order. The progress is stored in the superblocks, so a rebuild
//! resumes after a restart.

use std::ops::Range;

use jetcell_vfs::{IoBuffer, IoReason};

use super::zone_readahead::ZoneReadahead;
use crate::array::{
    InFlightTransfers, LoadMeter, PartialZoneRebuild, RebuildTarget, RowStore, RowWriter, TransferSegment,
    join_writes,
};
use crate::bytes::copy_to_buffer;
use crate::error::{ArrayError, Result};
use crate::geometry::ZONE_ROWS;
use crate::integrity::{CellState, RecordSlot, RowState};
use crate::member::{ArrayConfig, SlotConfig};

/// Maximum number of ranges of finished zones per slot. If a slot has more ranges, recently written zones are not
/// preferred.
const MAX_RANGES: usize = 16;

/// Progress of a rebuild or copy of an array member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RebuildProgress {
    /// Number of zones that the replacements have finished.
    pub zones_done: u64,
    /// Total number of zones on all replacements.
    pub zones: u64,
    /// Number of rows in this step in which too many blocks were lost. These rows remain lost, and reading them
    /// fails.
    pub rows_lost: u64,
}

impl RebuildProgress {
    pub(super) fn new(config: &ArrayConfig) -> RebuildProgress {
        let slots = config.slots.iter().filter(|slot| slot.replacement != 0);
        let (count, zones_done) =
            slots.fold((0, 0), |(count, done), slot| (count + 1, done + slot.rebuilt.len()));
        RebuildProgress { zones_done, zones: count * config.layout.zones(), rows_lost: 0 }
    }

    /// Returns true if all zones are finished.
    pub fn is_complete(&self) -> bool {
        self.zones_done == self.zones
    }

    /// Returns the number of zones finished since an earlier state of the same rebuild.
    pub fn zones_since(&self, earlier: &RebuildProgress) -> u64 {
        if self.zones == earlier.zones {
            self.zones_done.saturating_sub(earlier.zones_done)
        } else {
            // When a replacement is complete, it becomes a member, and its zones are no longer counted.
            (earlier.zones - earlier.zones_done).saturating_sub(self.zones - self.zones_done)
        }
    }
}

/// Content and record of a cell that is written to a replacement.
struct RebuiltCell {
    device: usize,
    row: u64,
    record: RecordSlot,
    block: IoBuffer,
}

/// A rebuild of lost members, or a copy of working ones.
pub(super) struct MemberRebuild<'a>(pub &'a mut RowWriter);

impl MemberRebuild<'_> {
    fn config(&self) -> &ArrayConfig {
        &self.0.rows.members.config
    }

    /// Returns the rows to rebuild next, and the devices on which they are rebuilt.
    pub fn next_rows(&self, most: u64) -> Option<(Range<u64>, Vec<RebuildTarget>)> {
        let is_current = |begun: &&PartialZoneRebuild| {
            let targets = self.targets_of(begun.zone);
            !targets.is_empty() && begun.targets == targets
        };
        if let Some(begun) = self.0.rows.members.partial_rebuild.as_ref().filter(is_current) {
            let end = (begun.zone + 1) * ZONE_ROWS;
            return Some((begun.next_row..end.min(begun.next_row + most), begun.targets.clone()));
        }
        let zone = self.next_zone()?;
        let targets = self.targets_of(zone);
        let mut end = zone + 1;
        // Subsequent zones with the same priority are included.
        while end < self.config().layout.zones()
            && (end + 1 - zone) * ZONE_ROWS <= most
            && self.missing_in(end) == self.missing_in(zone)
            && self.targets_of(end) == targets
        {
            end += 1;
        }
        let start = zone * ZONE_ROWS;
        Some((start..(end * ZONE_ROWS).min(start + most), targets))
    }

    /// Returns the replacements that lack a zone.
    fn targets_of(&self, zone: u64) -> Vec<RebuildTarget> {
        let lacks = |slot: usize| {
            let config = &self.config().slots[slot];
            let device = self
                .0
                .rows
                .members
                .device_of(config.replacement)
                .filter(|_| !config.rebuilt.contains(zone))?;
            Some((slot, device))
        };
        (0..self.config().slots.len()).filter_map(lacks).collect()
    }

    /// Returns the number of slots without a member that has this zone.
    fn missing_in(&self, zone: u64) -> usize {
        let slots = self.config().slots.iter();
        slots
            .filter(|slot| {
                self.0.rows.members.device_of(slot.member).is_none() && !slot.rebuilt.contains(zone)
            })
            .count()
    }

    /// Returns the zone to rebuild next.
    pub fn next_zone(&self) -> Option<u64> {
        let zones = self.config().layout.zones();
        let slots = &self.config().slots;
        let is_open =
            |zone: u64| slots.iter().any(|slot| slot.replacement != 0 && !slot.rebuilt.contains(zone));
        // The number of missing members changes only at the edges of the ranges of finished zones.
        let edges =
            slots.iter().flat_map(|slot| slot.rebuilt.ranges()).flat_map(|range| [range.start, range.end]);
        let edges: Vec<u64> = edges.chain([0]).collect();
        let rebuilding = slots.iter().filter(|slot| slot.replacement != 0);
        let gaps = rebuilding.flat_map(|slot| edges.iter().map(|edge| slot.rebuilt.next_gap(*edge)));
        let is_whole = slots.iter().all(|slot| slot.rebuilt.ranges().len() < MAX_RANGES);
        let recent = self.0.recent_zones.iter().copied().filter(|_| is_whole);
        let recency =
            |zone: &u64| self.0.recent_zones.iter().position(|recent| recent == zone).filter(|_| is_whole);
        let candidates = gaps.chain(recent).filter(|zone| *zone < zones && is_open(*zone));
        candidates.max_by_key(|zone| (self.missing_in(*zone), recency(zone), std::cmp::Reverse(*zone)))
    }

    /// Recovers the blocks of `rows`, and writes them to the replacement members. Returns the end of the written rows,
    /// and the number of rows that cannot be recovered. While a zone is computed, the next zone is read and the
    /// previous one is written.
    pub fn run(
        &mut self,
        load: &LoadMeter,
        rows: Range<u64>,
        targets: &[RebuildTarget],
    ) -> Result<(u64, u64)> {
        let mut lost = 0;
        let mut ahead = ZoneReadahead::new(&mut self.0.rows, load, rows, |store, row, state| {
            let of_slot = |(slot, _): &RebuildTarget| store.members.layout().cell(row, *slot);
            let cells: Vec<usize> = targets.iter().map(of_slot).collect();
            let is_available = |store: &mut RowStore, cell: usize| {
                state.cells[cell] == CellState::Empty || store.has_source(row, cell, state)
            };
            let are_there = cells.iter().all(|cell| is_available(store, *cell));
            if are_there { cells } else { store.recovery_group(&cells) }
        });
        let mut under_way = None;
        let mut written = Ok(());
        while let Some(states) = ahead.next(&mut self.0.rows) {
            written = self.start_rebuild_writes(&states, targets, &mut lost).and_then(|started| {
                under_way.replace(started).map_or(Ok(()), |before| self.0.rows.members.finish_writes(before))
            });
            if written.is_err() {
                break;
            }
        }
        // The last writes are finished even after an error, because none may be in flight when this function returns.
        let last = under_way.map_or(Ok(()), |last| self.0.rows.members.finish_writes(last));
        written.and(last).map(|()| (ahead.end_of_read_rows(), lost))
    }

    /// Recovers rows of a zone whose blocks were fetched, and starts to write these rows to the replacements together
    /// with their records.
    fn start_rebuild_writes(
        &mut self,
        states: &[(u64, RowState)],
        targets: &[RebuildTarget],
        lost: &mut u64,
    ) -> Result<InFlightTransfers> {
        let mut filled = vec![];
        for (row, state) in states {
            *lost += u64::from(!self.recover_row(*row, state, targets, &mut filled)?);
        }
        let zone = states[0].0 / ZONE_ROWS;
        let mut pieces = vec![];
        for (_, device) in targets {
            if self.0.rows.members.devices[*device].failed {
                continue;
            }
            match self.rebuild_segments(*device, zone, &filled) {
                Ok(of_device) => pieces.extend(of_device),
                Err(error) => self.0.rows.members.handle_write_result(*device, Err(error))?,
            }
        }
        Ok(self.0.rows.members.start_writes(pieces, IoReason::Other))
    }

    /// Returns the transfers that write a zone's blocks and records to a replacement.
    fn rebuild_segments(
        &mut self,
        device: usize,
        zone: u64,
        filled: &[RebuiltCell],
    ) -> Result<Vec<TransferSegment>> {
        let members = &mut self.0.rows.members;
        let layout = members.devices[device].layout;
        let mut writes: Vec<(u64, &[u8])> = vec![];
        for filled in filled.iter().filter(|filled| filled.device == device) {
            members.put_record(device, filled.row, filled.record)?;
            if matches!(filled.record, RecordSlot::Written(_)) {
                writes.push((layout.block(filled.row), &filled.block));
            }
        }
        let records = copy_to_buffer(members.record_block(device, zone)?);
        writes.push((layout.records(zone), &records));
        Ok(join_writes(&mut members.buffers, device, writes))
    }

    /// Determines the content of a row for the replacements. Returns true if all of the content could be read or
    /// recovered.
    fn recover_row(
        &mut self,
        row: u64,
        state: &RowState,
        targets: &[RebuildTarget],
        filled: &mut Vec<RebuiltCell>,
    ) -> Result<bool> {
        let rows = &mut self.0.rows;
        let layout = *rows.members.layout();
        let cells: Vec<usize> = targets.iter().map(|(slot, _)| layout.cell(row, *slot)).collect();
        let mut found: Vec<Option<IoBuffer>> =
            cells.iter().map(|cell| rows.read_cell(row, *cell, state)).collect();
        if found.iter().any(Option::is_none) {
            let whole = match rows.whole_row(row, state, &cells) {
                Ok(whole) => Some(whole),
                Err(ArrayError::Unrecoverable { .. } | ArrayError::Inconsistent { .. }) => None,
                Err(error) => return Err(error),
            };
            if let Some(mut whole) = whole {
                // Other blocks of the row may turn out to be damaged. They use up parity that may be needed after the
                // next failure, so they are repaired.
                self.0.repair(row, state, &whole)?;
                for (cell, found) in cells.iter().zip(&mut found) {
                    *found = Some(std::mem::replace(&mut whole.cells[*cell], IoBuffer::zeroed(0)));
                }
            }
        }
        let is_whole = found.iter().all(Option::is_some);
        if !is_whole {
            self.0.remember_lost_cells(row, state);
        }
        for (((_, device), cell), block) in targets.iter().zip(cells).zip(found) {
            let (record, block) = match block {
                Some(block) => (self.0.rows.expected_record(row, cell, state, &block), block),
                None => (RecordSlot::Damaged, IoBuffer::zeroed(0)),
            };
            filled.push(RebuiltCell { device: *device, row, record, block });
        }
        Ok(is_whole)
    }

    /// Marks rows of replacements as rebuilt. Complete zones are made durable first. Returns the number of these zones.
    pub fn mark_rebuilt(&mut self, rows: Range<u64>, targets: Vec<RebuildTarget>) -> Result<u64> {
        let members = &mut self.0.rows.members;
        let zone = rows.start / ZONE_ROWS;
        if !rows.end.is_multiple_of(ZONE_ROWS) {
            members.partial_rebuild = Some(PartialZoneRebuild { zone, next_row: rows.end, targets });
            return Ok(0);
        }
        members.partial_rebuild = None;
        let zones = zone..rows.end / ZONE_ROWS;
        for (slot, device) in targets {
            if members.devices[device].failed {
                continue;
            }
            members.sync_device(device)?;
            if !members.devices[device].failed {
                members.config.slots[slot].rebuilt.insert(zones.clone());
            }
        }
        Ok(zones.end - zones.start)
    }

    /// Promotes replacements that have all zones to members of their slots. All of them are promoted in the same
    /// configuration, so startup never finds replacements that are complete but not promoted.
    pub fn promote(&mut self) -> Result<()> {
        let members = &mut self.0.rows.members;
        let zones = members.layout().zones();
        let is_complete = |slot: &SlotConfig| slot.replacement != 0 && slot.rebuilt.len() >= zones;
        let slots = &members.config.slots;
        let complete: Vec<usize> = (0..slots.len()).filter(|slot| is_complete(&slots[*slot])).collect();
        if complete.is_empty() {
            return Ok(());
        }
        let replaced: Vec<Option<usize>> =
            complete.into_iter().map(|slot| members.promote_replacement(slot)).collect();
        members.save_config()?;
        replaced.into_iter().flatten().for_each(|old| members.retire_device(old));
        Ok(())
    }
}
