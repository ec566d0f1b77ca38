//! Row writes through the journal: they are planned, journalled, and then written in place.

use std::collections::{BTreeMap, BTreeSet};

use jetcell_vfs::IoReason;
use zerocopy::little_endian::U64;

use super::RowWriter;
use super::zone_states::ZoneState;
use crate::array::members::{InFlightTransfers, TransferSegment, join_writes};
use crate::array::rows::{CellWrite, NewColumns};
use crate::bytes::copy_to_buffer;
use crate::error::Result;
use crate::geometry::ZONE_ROWS;
use crate::integrity::RecordSlot;
use crate::member::{JournalEntry, JournalImage, MemberId};

/// Writes grouped by device. Each consists of a row, a cell write, and a mask of all cells written in that row.
pub(super) type DeviceWrites<'plan> = BTreeMap<usize, Vec<(u64, &'plan CellWrite, u64)>>;

/// Number of commits that are written in place again at startup after a crash.
const REPLAYED_COMMITS: usize = 2;

/// Number of recently written zones that the array remembers.
const RECENT_ZONES: usize = 16;

impl RowWriter {
    /// Writes columns of rows atomically. When this returns, the new content survives a crash, and the in-place
    /// writes are in flight. The next commit waits for them.
    pub(super) fn commit(&mut self, rows: &[(u64, NewColumns)]) -> Result<()> {
        debug_assert!(rows.iter().all(|(row, _)| !self.rows.members.config.open_rows.contains(*row)));
        let zones: BTreeSet<u64> = rows.iter().map(|(row, _)| row / ZONE_ROWS).collect();
        self.finish_rows_in(&zones)?;
        self.rows.members.note_written(rows.iter().map(|(row, _)| *row));
        let planned = self.rows.plan_rows(rows)?;
        let by_device = self.group_by_device(&planned);
        let members = &mut self.rows.members;
        let participants: Vec<MemberId> =
            by_device.keys().map(|device| members.devices[*device].member).collect();
        let mut journal = vec![];
        for (&device, writes) in &by_device {
            let image = |(_, write, cells): &(u64, &'_ CellWrite, u64)| JournalEntry {
                record: write.record,
                cells: U64::new(*cells),
            };
            let images: Vec<JournalImage<'_>> = writes
                .iter()
                .map(|write| JournalImage { entry: image(write), block: &write.1.block })
                .collect();
            let (offset, buffer) = members.encode_journal(device, self.sequence, &participants, &images);
            journal.push(TransferSegment { device, offset, buffer });
        }
        members.write_segments(journal, IoReason::LogWrite)?;
        // This sync covers the journal of this commit, and also the previous commit's blocks, whose in-place writes
        // have completed.
        self.sync_members()?;
        // Members whose part of the journal could not be written must be recorded as failed before anything is
        // written in place. Otherwise, startup after a crash would assume that the commit never began.
        self.rows.members.save_changes()?;
        let writes = self.start_in_place_writes(&by_device)?;
        self.sequence += 1;
        self.rows.members.counters.commits += 1;
        self.replayable_rows.push_back(rows.iter().map(|(row, _)| *row).collect());
        if self.replayable_rows.len() > REPLAYED_COMMITS {
            self.replayable_rows.pop_front();
        }
        self.track(ZoneState::Committing, zones, writes)
    }

    /// Groups the planned writes by device. Each write comes with its row, and with the mask of all written cells in
    /// the row.
    pub(super) fn group_by_device<'plan>(
        &self,
        planned: &'plan [(u64, Vec<CellWrite>)],
    ) -> DeviceWrites<'plan> {
        let mut by_device = DeviceWrites::new();
        for (row, writes) in planned {
            let cells = writes.iter().fold(0, |cells, write| cells | 1 << write.cell);
            for write in writes {
                let members = &self.rows.members;
                for device in members.targets(members.layout().slot(*row, write.cell)) {
                    by_device.entry(device).or_default().push((*row, write, cells));
                }
            }
        }
        by_device
    }

    pub(super) fn start_in_place_writes(
        &mut self,
        by_device: &DeviceWrites<'_>,
    ) -> Result<InFlightTransfers> {
        let mut pieces = vec![];
        for (&device, writes) in by_device {
            if self.rows.members.devices[device].failed {
                continue;
            }
            match self.in_place_segments(device, writes) {
                Ok(of_device) => pieces.extend(of_device),
                Err(error) => self.rows.members.handle_write_result(device, Err(error))?,
            }
        }
        self.remember_recent_zones(by_device.values().flatten().map(|(row, ..)| row / ZONE_ROWS).collect());
        Ok(self.rows.members.start_writes(pieces, IoReason::Other))
    }

    /// Remembers these zones as the most recently written ones.
    pub(super) fn remember_recent_zones(&mut self, zones: BTreeSet<u64>) {
        for zone in zones {
            self.recent_zones.retain(|recent| *recent != zone);
            self.recent_zones.push_back(zone);
        }
        while self.recent_zones.len() > RECENT_ZONES {
            self.recent_zones.pop_front();
        }
    }

    pub(in crate::array) fn finish_in_place_writes(&mut self, writes: InFlightTransfers) -> Result<()> {
        self.rows.members.finish_writes(writes)?;
        self.rows.members.save_changes()
    }

    /// Returns the transfers that write a commit's blocks and record blocks in place on a device.
    fn in_place_segments(
        &mut self,
        device: usize,
        writes: &[(u64, &CellWrite, u64)],
    ) -> Result<Vec<TransferSegment>> {
        let members = &mut self.rows.members;
        for (row, write, _) in writes {
            members.put_record(device, *row, RecordSlot::Written(write.record))?;
        }
        let layout = members.devices[device].layout;
        let zones: BTreeSet<u64> = writes.iter().map(|(row, ..)| row / ZONE_ROWS).collect();
        let mut records = vec![];
        for zone in zones {
            records.push((layout.records(zone), copy_to_buffer(members.record_block(device, zone)?)));
        }
        let blocks = writes.iter().map(|(row, write, _)| (layout.block(*row), &write.block[..]));
        let records = records.iter().map(|(offset, block)| (*offset, &block[..]));
        Ok(join_writes(&mut members.buffers, device, blocks.chain(records).collect()))
    }
}
