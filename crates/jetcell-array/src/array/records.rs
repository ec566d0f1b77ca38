//! Records of zones in memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use jetcell_vfs::{IoBuffer, IoReason, TransferKind};

use super::Array;
use super::transfers::{Piece, UnderWay};
use super::zone_generations::ZoneGenerations;
use crate::bytes::copy_of;
use crate::error::Result;
use crate::geometry::{BLOCK, ZONE_ROWS};
use crate::integrity::{BlockRecord, RECORD, RecordSlot};
use crate::member::{Device, Extents};

/// Record blocks that are kept.
const CAPACITY: usize = 4096;

/// Reads ahead of records that are kept, at most: of several sequences, each of which may have ended.
const MOST_AHEAD: usize = 8;

/// Record blocks by device and zone. Newer than the members only while an operation writes them.
#[derive(Default)]
pub(crate) struct RecordCache {
    blocks: BTreeMap<(usize, u64), IoBuffer>,
    /// In the order in which they were read.
    order: VecDeque<(usize, u64)>,
    /// Zones whose records are being written: the members do not have them yet.
    held: BTreeSet<u64>,
    /// Records of zones that are being read before they are needed, in the order of the reads. All that changes records in memory has them
    /// there first, so these are dropped when others of these zones come, or are forgotten.
    ahead: Vec<(Range<u64>, UnderWay)>,
    /// How often records were changed or forgotten.
    changes: u64,
    /// Rows that count as never written, whatever members say.
    hidden: Extents,
    /// Also of zones whose records are not in memory.
    generations: ZoneGenerations,
}

impl RecordCache {
    pub fn has(&self, device: usize, zone: u64) -> bool {
        self.blocks.contains_key(&(device, zone))
    }

    /// The records of a zone, if they are in memory.
    pub fn block(&self, device: usize, zone: u64) -> Option<&[u8]> {
        self.blocks.get(&(device, zone)).map(|block| &block[..])
    }

    /// The records that are being read, of all reads that have one of these zones.
    fn take_ahead(&mut self, zones: &BTreeSet<u64>) -> Vec<UnderWay> {
        let needed = self.ahead.extract_if(.., |(ahead, _)| zones.range(ahead.clone()).next().is_some());
        needed.map(|(_, reads)| reads).collect()
    }

    /// Makes rows count as never written. No records may be in memory yet.
    pub fn hide(&mut self, rows: Extents) {
        self.hidden = rows;
    }

    pub fn insert(&mut self, key: (usize, u64), mut block: IoBuffer) {
        self.drop_ahead_of(key.1);
        if !self.hidden.is_empty() {
            let rows = (key.1 * ZONE_ROWS..(key.1 + 1) * ZONE_ROWS).filter(|row| self.hidden.contains(*row));
            rows.for_each(|row| block[Device::record_range(row)].fill(0));
        }
        if self.blocks.insert(key, block).is_none() {
            self.order.push_back(key);
        }
    }

    fn drop_ahead_of(&mut self, zone: u64) {
        self.ahead.retain(|(ahead, _)| !ahead.contains(&zone));
    }

    /// How often records were changed or forgotten. While it stays the same, what follows from records does, too.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// A block that is in memory, to change it.
    pub fn block_mut(&mut self, key: (usize, u64)) -> Option<&mut [u8]> {
        self.changes += 1;
        self.generations.remove(key.1);
        self.blocks.get_mut(&key).map(|block| &mut block[..])
    }

    /// Records of a zone that are about to be written. They are in memory from now on.
    pub fn replace(&mut self, key: (usize, u64), records: &[u8]) {
        match self.block_mut(key) {
            Some(block) => block.copy_from_slice(records),
            None => self.insert(key, copy_of(records)),
        }
    }

    /// The generation of the next write of a zone, all rows together. `None`: it follows from the records.
    pub fn next_generation(&self, zone: u64) -> Option<u64> {
        self.generations.next(zone)
    }

    /// Remembers that the records of a zone, which were replaced just now, have all the same generation.
    pub fn set_generation(&mut self, zone: u64, generation: u64) {
        self.generations.insert(zone, generation);
    }

    /// A device is added, so that records are in more places.
    pub fn forget_generations(&mut self) {
        self.generations.clear();
    }

    /// Makes the records of zones the last ones that are forgotten.
    fn keep_longest(&mut self, zones: &Range<u64>) {
        let (kept, others) = self.order.drain(..).partition(|(_, zone)| zones.contains(zone));
        self.order = others;
        self.order.extend::<VecDeque<_>>(kept);
    }

    /// Keeps the records of zones until they are released.
    pub fn hold(&mut self, zones: &BTreeSet<u64>) {
        self.held.extend(zones);
    }

    /// The members have the records of these zones.
    pub fn release(&mut self, zones: &BTreeSet<u64>) {
        self.held.retain(|zone| !zones.contains(zone));
    }

    /// Forgets the oldest blocks that are not held. Called between operations, as an operation may have changed blocks that it still has
    /// to write.
    pub fn trim(&mut self) {
        for _ in 0..self.order.len() {
            if self.blocks.len() <= CAPACITY {
                return;
            }
            let Some(oldest) = self.order.pop_front() else { return };
            if self.held.contains(&oldest.1) {
                self.order.push_back(oldest);
            } else {
                self.blocks.remove(&oldest);
            }
        }
    }

    /// Forgets the records of a device.
    pub fn forget(&mut self, device: usize) {
        self.changes += 1;
        self.generations.clear();
        self.ahead.clear();
        self.blocks.retain(|key, _| key.0 != device);
        self.order.retain(|key| key.0 != device);
    }

    /// Forgets the records of a zone, so that they are read again.
    pub fn forget_zone(&mut self, zone: u64) {
        self.changes += 1;
        self.generations.remove(zone);
        self.drop_ahead_of(zone);
        self.blocks.retain(|key, _| key.1 != zone);
        self.order.retain(|key| key.1 != zone);
    }
}

impl Array {
    /// Reads the records of all slots for these rows, as far as they are not in memory. What cannot be read is found later.
    pub(crate) fn load_records_of_rows(&mut self, rows: impl Iterator<Item = u64>) {
        let zones: BTreeSet<u64> = rows.map(|row| row / ZONE_ROWS).collect();
        let ahead = self.records.take_ahead(&zones);
        ahead.into_iter().for_each(|reads| self.insert_records(reads));
        let missing = self.start_records(&zones);
        self.insert_records(missing);
    }

    /// Starts to read the records of zones that will be needed next. Those that are in memory stay there until then: a writer who begins
    /// again needs next what was read longest ago.
    pub(super) fn read_records_ahead(&mut self, zones: Range<u64>) {
        self.start_records_ahead(zones, |_, _| true);
    }

    /// The same for zones that will be written whole: their records are not needed if their generation is known.
    pub(super) fn read_generations_ahead(&mut self, zones: Range<u64>) {
        self.start_records_ahead(zones, |records, zone| records.next_generation(zone).is_none());
    }

    fn start_records_ahead(&mut self, zones: Range<u64>, is_needed: impl Fn(&RecordCache, u64) -> bool) {
        if !zones.clone().any(|zone| is_needed(&self.records, zone)) {
            return;
        }
        self.records.keep_longest(&zones);
        let devices = self.devices_with_records();
        let mut missing = zones.start..zones.end.min(self.config.layout.zones());
        // A writer that needs the first zone of a read waits for all of it, so zones that are known are no part of it.
        let is_missing =
            |array: &Array, zone| is_needed(&array.records, zone) && !array.is_known(&devices, zone);
        while !missing.is_empty() && !is_missing(self, missing.start) {
            missing.start += 1;
        }
        let reads = missing.clone().filter(|zone| is_needed(&self.records, *zone)).collect();
        let reads = self.start_records(&reads);
        if reads.bytes > 0 {
            let surplus = (self.records.ahead.len() + 1).saturating_sub(MOST_AHEAD);
            self.records.ahead.drain(..surplus);
            self.records.ahead.push((missing, reads));
        }
    }

    fn devices_with_records(&self) -> BTreeSet<usize> {
        (0..self.config.slots.len()).flat_map(|slot| self.targets(slot)).collect()
    }

    /// Whether the records of a zone are in memory, and say that none of its rows was ever written.
    pub(super) fn is_zone_new(&self, zone: u64) -> bool {
        let is_new = |device| self.records.block(device, zone).is_some_and(|block| *block == [0; BLOCK]);
        self.devices_with_records().into_iter().all(is_new)
    }

    /// Whether the records of a zone are in memory, or are being read ahead.
    fn is_known(&self, devices: &BTreeSet<usize>, zone: u64) -> bool {
        self.records.ahead.iter().any(|(ahead, _)| ahead.contains(&zone))
            || devices.iter().all(|device| self.records.has(*device, zone))
    }

    fn start_records(&mut self, zones: &BTreeSet<u64>) -> UnderWay {
        let devices = self.devices_with_records();
        let mut pieces = vec![];
        for zone in zones.iter().copied() {
            for device in devices.iter().copied().filter(|device| !self.records.has(*device, zone)) {
                let offset = self.devices[device].layout.records(zone);
                pieces.push(Piece { device, offset, buffer: IoBuffer::zeroed(BLOCK) });
            }
        }
        self.start_transfers(TransferKind::Read, pieces, IoReason::Other)
    }

    fn insert_records(&mut self, reads: UnderWay) {
        for (piece, result) in reads.wait() {
            if result.is_ok() {
                let zone = self.devices[piece.device].layout.zone_of(piece.offset);
                self.records.insert((piece.device, zone), piece.buffer);
            }
        }
    }

    /// Reads the records of a zone, unless they are in memory.
    fn load_records(&mut self, device: usize, zone: u64) -> Result<()> {
        let key = (device, zone);
        if !self.records.blocks.contains_key(&key) {
            let mut block = IoBuffer::zeroed(BLOCK);
            self.read_member(device, self.devices[device].layout.records(zone), &mut block)?;
            self.records.insert(key, block);
        }
        Ok(())
    }

    /// The record of a cell on a device.
    pub(crate) fn record(&mut self, device: usize, row: u64, cell: usize) -> RecordSlot {
        let zone = row / ZONE_ROWS;
        if self.load_records(device, zone).is_err() {
            self.counters.read_errors += 1;
            return RecordSlot::Damaged;
        }
        let bytes = &self.records.blocks[&(device, zone)][Device::record_range(row)];
        let bytes: &[u8; RECORD] = bytes.try_into().expect("a record has its fixed length");
        BlockRecord::decode(bytes, self.config.array, row, self.config.layout.stored_cell(cell))
    }

    /// Changes the record of a cell on a device, in memory; see [`Array::write_records`].
    pub(crate) fn put_record(&mut self, device: usize, row: u64, record: RecordSlot) -> Result<()> {
        let zone = row / ZONE_ROWS;
        if let Err(error) = self.load_records(device, zone) {
            if self.code.tolerance() == 0 {
                // The other records of the zone exist only there.
                return Err(error);
            }
            // What could not be read is damaged from now on; the other members have what it takes to recover it.
            let mut block = IoBuffer::zeroed(BLOCK);
            block.fill(0xFF);
            self.records.insert((device, zone), block);
        }
        let block = self.records.block_mut((device, zone)).expect("just loaded");
        let place = &mut block[Device::record_range(row)];
        match record {
            RecordSlot::Empty => place.fill(0),
            RecordSlot::Damaged => place.fill(0xFF),
            RecordSlot::Written(record) => place.copy_from_slice(zerocopy::IntoBytes::as_bytes(&record)),
        }
        Ok(())
    }

    /// The records of a zone as they must be on a device.
    pub(crate) fn record_block(&mut self, device: usize, zone: u64) -> Result<&[u8]> {
        self.load_records(device, zone)?;
        Ok(&self.records.blocks[&(device, zone)])
    }

    /// Writes the records of a zone to a device.
    pub(crate) fn write_records(&mut self, device: usize, zone: u64) -> Result<()> {
        self.load_records(device, zone)?;
        let offset = self.devices[device].layout.records(zone);
        self.count_transfer(TransferKind::Write, device, offset, BLOCK);
        let block = &self.records.blocks[&(device, zone)];
        self.devices[device].write(offset, block, IoReason::Other)
    }
}

#[cfg(test)]
impl Array {
    /// Generations that are remembered fit the records that the members have.
    pub(crate) fn check_generations(&mut self) {
        self.finish_rows().unwrap();
        let zones: Vec<u64> = self.records.generations.zones().collect();
        for zone in zones {
            let next = self.records.next_generation(zone).unwrap();
            self.records.evict(zone);
            self.load_records_of_rows([zone * ZONE_ROWS].into_iter());
            for row in zone * ZONE_ROWS..(zone + 1) * ZONE_ROWS {
                assert!(self.row_state(row).allows(next), "zone {zone}, row {row}: {next}");
            }
        }
    }
}

#[cfg(test)]
impl RecordCache {
    /// Takes the records of a zone out of memory, because others need the room.
    pub fn evict(&mut self, zone: u64) {
        self.blocks.retain(|key, _| key.1 != zone);
        self.order.retain(|key| key.1 != zone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_are_needed_next_are_not_forgotten_before() {
        let mut cache = RecordCache::default();
        (0..CAPACITY as u64).for_each(|zone| cache.insert((0, zone), IoBuffer::zeroed(BLOCK)));
        cache.keep_longest(&(2..4));
        (0..CAPACITY as u64 - 2).for_each(|zone| cache.insert((1, zone), IoBuffer::zeroed(BLOCK)));
        cache.trim();
        let is_kept = |cache: &RecordCache| [1, 2, 3, 4].map(|zone| cache.has(0, zone));
        assert_eq!((cache.blocks.len(), is_kept(&cache)), (CAPACITY, [false, true, true, false]));
        assert_eq!(cache.order.len(), CAPACITY);
    }

    #[test]
    fn held_records_stay_and_the_oldest_others_go() {
        let mut cache = RecordCache::default();
        let zones = CAPACITY as u64 + 10;
        (0..zones).for_each(|zone| cache.insert((0, zone), IoBuffer::zeroed(BLOCK)));
        cache.hold(&[0, 3].into());
        cache.trim();
        let is_kept = |cache: &RecordCache| [0, 1, 3, 11, 12].map(|zone| cache.has(0, zone));
        assert_eq!((cache.blocks.len(), is_kept(&cache)), (CAPACITY, [true, false, true, false, true]));
        cache.release(&[0].into());
        (zones..2 * zones).for_each(|zone| cache.insert((0, zone), IoBuffer::zeroed(BLOCK)));
        cache.trim();
        assert_eq!((cache.blocks.len(), is_kept(&cache)), (CAPACITY, [false, false, true, false, false]));
        // Held ones alone may be too many.
        cache.hold(&(0..2 * zones).collect());
        (0..CAPACITY as u64).for_each(|zone| cache.insert((1, zone), IoBuffer::zeroed(BLOCK)));
        cache.trim();
        assert_eq!(cache.blocks.len(), 2 * CAPACITY);
    }
}
