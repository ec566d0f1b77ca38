//! Writes of rows: planned, journalled, and written in place.

use std::collections::{BTreeMap, BTreeSet};

use jetcell_sync::Arc;
use jetcell_vfs::{IoBuffer, IoReason};
use zerocopy::little_endian::U64;

use super::Array;
use super::transfers::{Piece, UnderWay, joined};
use crate::bytes::copy_of;
use crate::error::Result;
use crate::geometry::{BLOCK, MAX_DATA_COLUMNS, ZONE_ROWS};
use crate::integrity::{BlockRecord, CellState, RecordSlot, RowState};
use crate::member::{Image, JournalEntry, MemberId};

/// New content of a cell.
struct CellWrite {
    cell: usize,
    record: BlockRecord,
    block: Arc<IoBuffer>,
}

/// A row that nothing refers to, and its new content by column.
pub(crate) type FreeRow = (u64, Vec<Arc<IoBuffer>>);

/// Row, content of a cell, and the cells that are written of its row.
type DeviceWrites<'plan> = BTreeMap<usize, Vec<(u64, &'plan CellWrite, u64)>>;

/// Commits that a start writes in place again.
const REPLAYED_COMMITS: usize = 2;

/// Rows that are computed while others are written, at least.
const LEAST_ROWS: usize = ZONE_ROWS as usize;

/// Zones of which the array remembers that they were written last.
const RECENT_ZONES: usize = 16;

/// Splits rows, in ascending order, between zones: the records of a zone are one block, which is written once.
fn batches(rows: Vec<FreeRow>) -> Vec<Vec<FreeRow>> {
    let mut batches: Vec<Vec<FreeRow>> = vec![];
    for (row, columns) in rows {
        let ends = |batch: &Vec<FreeRow>| {
            batch.len() >= LEAST_ROWS
                && batch.last().is_some_and(|last| last.0 / ZONE_ROWS != row / ZONE_ROWS)
        };
        match batches.last_mut() {
            Some(batch) if !ends(batch) => batch.push((row, columns)),
            _ => batches.push(vec![(row, columns)]),
        }
    }
    batches
}

impl Array {
    /// Writes columns of rows from the staged blocks, all or none of them.
    pub(super) fn commit(&mut self, rows: &[(u64, Vec<(usize, u64)>)]) -> Result<()> {
        let planned = self.planned(rows)?;
        let by_device = self.by_device(&planned);
        let participants: Vec<MemberId> =
            by_device.keys().map(|device| self.devices[*device].member).collect();
        let mut journal = vec![];
        for (&device, writes) in &by_device {
            let image = |(_, write, cells): &(u64, &'_ CellWrite, u64)| JournalEntry {
                record: write.record,
                cells: U64::new(*cells),
            };
            let images: Vec<Image<'_>> =
                writes.iter().map(|write| Image { entry: image(write), block: &write.1.block }).collect();
            let (array, sequence) = (self.config.array, self.sequence);
            let (offset, buffer) = self.devices[device].journal_of(array, sequence, &participants, &images);
            journal.push(Piece { device, offset, buffer });
        }
        self.write_pieces(journal, IoReason::LogWrite)?;
        // With this commit's journal, the blocks of the commit before become durable in place.
        self.sync_members()?;
        if self.is_config_changed {
            // Members without their part of the journal must count as failed before anything is in place: otherwise a start after a
            // crash would take the commit for one that never began.
            self.save_config()?;
        }
        let writes = self.start_in_place(&by_device)?;
        self.finish_in_place(writes)?;
        self.sequence += 1;
        self.counters.commits += 1;
        self.replayable_rows.push_back(rows.iter().map(|(row, _)| *row).collect());
        if self.replayable_rows.len() > REPLAYED_COMMITS {
            self.replayable_rows.pop_front();
        }
        Ok(())
    }

    /// Makes sure that no start writes these rows again from the journal.
    fn end_replay_of(&mut self, rows: &[FreeRow]) -> Result<()> {
        let is_in_journal = |(row, _): &FreeRow| self.replayable_rows.iter().any(|of| of.contains(row));
        if !rows.iter().any(is_in_journal) {
            return Ok(());
        }
        self.sync_members()?;
        self.config.journal_floor = self.sequence;
        self.replayable_rows.clear();
        self.save_config()
    }

    /// Writes whole rows in place, without the journal, and without a sync. After a crash each of them may hold anything and may be
    /// inconsistent: nothing may refer to their blocks before a sync, and [`Array::clear_rows`] must follow a crash.
    ///
    /// The members write some rows while the parity of the next ones is computed.
    pub(crate) fn write_free_rows(&mut self, rows: Vec<FreeRow>) -> Result<()> {
        self.check_writable()?;
        self.end_replay_of(&rows)?;
        let mut under_way = None;
        let mut written = Ok(());
        for batch in batches(rows) {
            self.counters.blocks_written +=
                batch.iter().map(|(_, columns)| columns.len() as u64).sum::<u64>();
            written = match self.start_free_rows(batch) {
                Ok(started) => {
                    under_way.replace(started).map_or(Ok(()), |before| self.finish_in_place(before))
                }
                Err(error) => Err(error),
            };
            if written.is_err() {
                break;
            }
        }
        // After an error as well: no write may be under way when this returns.
        let last = under_way.map_or(Ok(()), |last| self.finish_in_place(last));
        written.and(last)
    }

    fn start_free_rows(&mut self, rows: Vec<FreeRow>) -> Result<UnderWay> {
        let mut staged = vec![];
        for (row, columns) in rows {
            let blocks: Vec<u64> =
                (0..columns.len()).map(|column| self.config.layout.block_at(row, column)).collect();
            self.staged.extend(blocks.iter().copied().zip(columns));
            staged.push((row, blocks.into_iter().enumerate().collect::<Vec<_>>()));
        }
        let started = self.planned(&staged).and_then(|planned| {
            let by_device = self.by_device(&planned);
            self.start_in_place(&by_device)
        });
        for (_, block) in staged.iter().flat_map(|(_, columns)| columns) {
            self.staged.remove(block);
        }
        started
    }

    /// Writes zeros to all blocks of rows, whatever state the rows are in. Durable when this returns.
    pub(crate) fn clear_rows(&mut self, rows: &[u64]) -> Result<()> {
        let zeros = vec![0; BLOCK];
        for row in rows {
            let has_state = |cell: &CellState| !matches!(cell, CellState::Empty | CellState::Missing);
            if self.row_state(*row).cells.iter().any(has_state) {
                for column in 0..self.config.layout.data_columns() {
                    self.write(self.config.layout.block_at(*row, column), &zeros)?;
                }
            }
            self.records.trim();
        }
        self.flush()
    }

    fn planned(&mut self, rows: &[(u64, Vec<(usize, u64)>)]) -> Result<Vec<(u64, Vec<CellWrite>)>> {
        self.records.trim();
        self.load_records_of_rows(rows.iter().map(|(row, _)| *row));
        rows.iter().map(|(row, columns)| Ok((*row, self.plan(*row, columns)?))).collect()
    }

    /// Which device gets which writes: by row and place in the plan, with all cells that are written of the row.
    fn by_device<'plan>(&self, planned: &'plan [(u64, Vec<CellWrite>)]) -> DeviceWrites<'plan> {
        let mut by_device = DeviceWrites::new();
        for (row, writes) in planned {
            let cells = writes.iter().fold(0, |cells, write| cells | 1 << write.cell);
            for write in writes {
                for device in self.targets(self.config.layout.slot(*row, write.cell)) {
                    by_device.entry(device).or_default().push((*row, write, cells));
                }
            }
        }
        by_device
    }

    fn start_in_place(&mut self, by_device: &DeviceWrites<'_>) -> Result<UnderWay> {
        let mut pieces = vec![];
        for (&device, writes) in by_device {
            if self.devices[device].failed {
                continue;
            }
            match self.pieces_in_place(device, writes) {
                Ok(of_device) => pieces.extend(of_device),
                Err(error) => self.note_write(device, Err(error))?,
            }
        }
        let zones: BTreeSet<u64> = by_device.values().flatten().map(|(row, ..)| row / ZONE_ROWS).collect();
        for zone in zones {
            self.recent_zones.retain(|recent| *recent != zone);
            self.recent_zones.push_back(zone);
        }
        while self.recent_zones.len() > RECENT_ZONES {
            self.recent_zones.pop_front();
        }
        Ok(self.start_writes(pieces, IoReason::Other))
    }

    fn finish_in_place(&mut self, writes: UnderWay) -> Result<()> {
        self.finish_writes(writes)?;
        if self.is_config_changed { self.save_config() } else { Ok(()) }
    }

    /// Blocks and records of a device as they are after the commit.
    fn pieces_in_place(&mut self, device: usize, writes: &[(u64, &CellWrite, u64)]) -> Result<Vec<Piece>> {
        for (row, write, _) in writes {
            self.put_record(device, *row, RecordSlot::Written(write.record))?;
        }
        let layout = self.devices[device].layout;
        let zones: BTreeSet<u64> = writes.iter().map(|(row, ..)| row / ZONE_ROWS).collect();
        let mut records = vec![];
        for zone in zones {
            records.push((layout.records(zone), copy_of(self.record_block(device, zone)?)));
        }
        let blocks = writes.iter().map(|(row, write, _)| (layout.block(*row), &write.block[..]));
        let records = records.iter().map(|(offset, block)| (*offset, &block[..]));
        Ok(joined(&mut self.buffers, device, blocks.chain(records).collect()))
    }

    /// The new content of all cells that a write of some columns changes.
    fn plan(&mut self, row: u64, columns: &[(usize, u64)]) -> Result<Vec<CellWrite>> {
        let state = self.row_state(row);
        let new: BTreeMap<usize, Arc<IoBuffer>> =
            columns.iter().map(|(column, block)| (*column, self.staged[block].clone())).collect();
        let cells = state.cells.len();
        let data = self.code.data_columns(cells);
        let copies = self.code.copies();
        let generation = state.next_generation();
        let mut tags = state.tags;
        new.keys().for_each(|column| tags[*column] = generation as u8);
        let (array, layout) = (self.config.array, self.config.layout);
        let record = |cell: usize, tags: [u8; MAX_DATA_COLUMNS], block: &[u8]| {
            BlockRecord::new(array, row, layout.stored_cell(cell), generation, tags, block)
        };
        // The checksums first: they read one block after the other, as memory is read fastest, and parity finds all in the cache.
        let mut writes = vec![];
        for (column, block) in &new {
            let lost: Vec<usize> = (column * copies..(column + 1) * copies)
                .filter(|cell| self.targets(self.config.layout.slot(row, *cell)).next().is_none())
                .collect();
            if self.code.parities() == 0 && lost.len() == copies {
                return Err(self.unrecoverable(row, &lost));
            }
            for cell in column * copies..(column + 1) * copies {
                writes.push(CellWrite {
                    cell,
                    record: record(cell, Default::default(), block),
                    block: block.clone(),
                });
            }
        }
        let parity =
            if self.code.parities() == 0 { vec![] } else { self.new_parity(row, &state, &new, data)? };
        for (index, block) in parity.into_iter().enumerate() {
            if let Some(block) = block {
                writes.push(CellWrite {
                    cell: data + index,
                    record: record(data + index, tags, &block),
                    block: Arc::new(block),
                });
            }
        }
        Ok(writes)
    }

    /// The new parity of a row, by the cheapest way that its blocks permit. Parity without a member is left out.
    fn new_parity(
        &mut self,
        row: u64,
        state: &RowState,
        new: &BTreeMap<usize, Arc<IoBuffer>>,
        data: usize,
    ) -> Result<Vec<Option<IoBuffer>>> {
        let parities = self.code.parities();
        if new.len() == data {
            let columns: Vec<&[u8]> = new.values().map(|block| &block[..]).collect();
            let mut parity: Vec<IoBuffer> = (0..parities).map(|_| IoBuffer::zeroed(BLOCK)).collect();
            let mut targets: Vec<&mut [u8]> = parity.iter_mut().map(|block| &mut block[..]).collect();
            self.code.encode(&self.kernel, &columns, &mut targets);
            self.counters.full_row_writes += 1;
            return Ok(parity.into_iter().map(Some).collect());
        }
        // Transfers: read-modify-write reads and writes the columns and the parity, reconstruct-write touches each cell once.
        let is_change_cheaper = 2 * (new.len() + parities) <= data + parities;
        if is_change_cheaper && let Some(parity) = self.changed_parity(row, state, new, data) {
            self.counters.read_modify_writes += 1;
            return Ok(parity);
        }
        let mut cells = match self.other_columns(row, state, new, data) {
            Some(cells) => cells,
            None => self.whole_row(row, state)?.cells,
        };
        for (column, block) in new {
            cells[*column].copy_from_slice(block);
        }
        cells.resize_with(data + parities, || IoBuffer::zeroed(BLOCK));
        let lost: Vec<usize> = (data..data + parities).collect();
        let mut targets: Vec<&mut [u8]> = cells.iter_mut().map(|cell| &mut cell[..]).collect();
        self.code.recover(&self.kernel, &mut targets, &lost);
        self.counters.reconstruct_writes += 1;
        Ok(cells.split_off(data).into_iter().map(Some).collect())
    }

    /// Parity by its old content and the changes. `None` if a block that this needs is not right.
    fn changed_parity(
        &mut self,
        row: u64,
        state: &RowState,
        new: &BTreeMap<usize, Arc<IoBuffer>>,
        data: usize,
    ) -> Option<Vec<Option<IoBuffer>>> {
        let mut parity = vec![];
        for cell in data..data + self.code.parities() {
            match state.cells[cell] {
                CellState::Missing => parity.push(None),
                _ => parity.push(Some(self.read_cell(row, cell, state)?)),
            }
        }
        for (column, block) in new {
            let mut delta = self.read_cell(row, *column, state)?;
            self.kernel.xor_into(&mut delta, &[&block[..]]);
            let mut blocks: Vec<&mut [u8]> = parity
                .iter_mut()
                .map(|block| block.as_mut().map_or(&mut [][..], |block| &mut block[..]))
                .collect();
            self.code.update(&self.kernel, *column, &delta, &mut blocks);
        }
        Some(parity)
    }

    /// The data columns that are not written anew, with room for those that are. `None` if one of them is not right.
    fn other_columns(
        &mut self,
        row: u64,
        state: &RowState,
        new: &BTreeMap<usize, Arc<IoBuffer>>,
        data: usize,
    ) -> Option<Vec<IoBuffer>> {
        let column = |column| {
            if new.contains_key(&column) {
                return Some(IoBuffer::zeroed(BLOCK));
            }
            self.read_cell(row, column, state)
        };
        (0..data).map(column).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_of_rows_share_no_zone_and_are_not_too_small() {
        let rows: Vec<u64> = (10..200).chain([300, 700, 701]).chain(1000..1100).collect();
        let batches = batches(rows.iter().map(|row| (*row, vec![])).collect());
        let found: Vec<Vec<u64>> =
            batches.iter().map(|batch| batch.iter().map(|(row, _)| *row).collect()).collect();
        assert_eq!(found.concat(), rows);
        assert!(found.len() > 2 && found[..found.len() - 1].iter().all(|batch| batch.len() >= LEAST_ROWS));
        let zones = |batch: &Vec<u64>| batch.iter().map(|row| row / ZONE_ROWS).collect::<BTreeSet<u64>>();
        assert!(found.windows(2).all(|pair| zones(&pair[0]).is_disjoint(&zones(&pair[1]))));
    }
}
