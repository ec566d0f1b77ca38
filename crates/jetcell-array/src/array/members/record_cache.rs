//! Cache of the records of zones.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use jetcell_vfs::{IoBuffer, IoReason, TransferKind};

use super::MemberSet;
use super::transfers::{InFlightTransfers, TransferSegment};
use super::zone_generations::ZoneGenerations;
use crate::bytes::copy_to_buffer;
use crate::error::Result;
use crate::geometry::{BLOCK, ZONE_ROWS};
use crate::integrity::{BlockRecord, RECORD_BYTES, RecordSlot};
use crate::member::{Extents, MemberDevice};

/// Maximum number of cached record blocks.
const CAPACITY: usize = 4096;

/// Maximum number of retained read-aheads of records. There can be several, one for each sequential writer, and any of
/// these writers may have stopped.
const MAX_READS_AHEAD: usize = 8;

/// A cache of record blocks, indexed by device and zone. A cached block differs from the block on its member only while
/// an operation is writing it.
#[derive(Default)]
pub(crate) struct RecordCache {
    blocks: BTreeMap<(usize, u64), IoBuffer>,
    /// Keys of the cached blocks, in eviction order.
    order: VecDeque<(usize, u64)>,
    /// Zones whose new records are still being written, so the members do not have these records yet.
    pinned: BTreeSet<u64>,
    /// Read-aheads of records, in the order in which they were started. An operation loads records into the cache
    /// before it changes them, so a read-ahead is dropped when records of its zones are inserted or forgotten.
    reads_ahead: Vec<(Range<u64>, InFlightTransfers)>,
    /// Number of times that records were changed or forgotten.
    changes: u64,
    /// Rows that are treated as never written, regardless of the records on the members.
    hidden: Extents,
    /// Generations of zones, including zones whose records are not cached.
    generations: ZoneGenerations,
}

impl RecordCache {
    pub fn has(&self, device: usize, zone: u64) -> bool {
        self.blocks.contains_key(&(device, zone))
    }

    /// Returns the records of a zone if they are cached.
    pub fn block(&self, device: usize, zone: u64) -> Option<&[u8]> {
        self.blocks.get(&(device, zone)).map(|block| &block[..])
    }

    /// Removes and returns all read-aheads that include one of these zones.
    fn take_reads_ahead(&mut self, zones: &BTreeSet<u64>) -> Vec<InFlightTransfers> {
        let needed =
            self.reads_ahead.extract_if(.., |(ahead, _)| zones.range(ahead.clone()).next().is_some());
        needed.map(|(_, reads)| reads).collect()
    }

    /// Treats rows as never written from now on. Must be called before any records are cached.
    pub fn hide(&mut self, rows: Extents) {
        self.hidden = rows;
    }

    pub fn insert(&mut self, key: (usize, u64), mut block: IoBuffer) {
        self.drop_reads_ahead_of(key.1);
        if !self.hidden.is_empty() {
            let rows = (key.1 * ZONE_ROWS..(key.1 + 1) * ZONE_ROWS).filter(|row| self.hidden.contains(*row));
            rows.for_each(|row| block[MemberDevice::record_range(row)].fill(0));
        }
        if self.blocks.insert(key, block).is_none() {
            self.order.push_back(key);
        }
    }

    fn drop_reads_ahead_of(&mut self, zone: u64) {
        self.reads_ahead.retain(|(ahead, _)| !ahead.contains(&zone));
    }

    /// Returns the number of times that records were changed or forgotten. As long as this number stays the same,
    /// everything derived from records remains valid.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns a cached block for modification.
    pub fn block_mut(&mut self, key: (usize, u64)) -> Option<&mut [u8]> {
        self.changes += 1;
        self.generations.remove(key.1);
        self.blocks.get_mut(&key).map(|block| &mut block[..])
    }

    /// Sets a zone's cached records to those that are about to be written. Adds them to the cache if they were not
    /// cached.
    pub fn replace(&mut self, key: (usize, u64), records: &[u8]) {
        match self.block_mut(key) {
            Some(block) => block.copy_from_slice(records),
            None => self.insert(key, copy_to_buffer(records)),
        }
    }

    /// Returns the generation of the next write of a whole zone, or `None` if it must be derived from the records.
    pub fn next_generation(&self, zone: u64) -> Option<u64> {
        self.generations.next(zone)
    }

    /// Remembers that all records of a zone, which were just replaced, have the same generation.
    pub fn set_generation(&mut self, zone: u64, generation: u64) {
        self.generations.insert(zone, generation);
    }

    /// Forgets all generations. Called after a device was added, because there are then records on more devices.
    pub fn forget_generations(&mut self) {
        self.generations.clear();
    }

    /// Moves the records of zones to the end of the eviction order.
    fn refresh_zones(&mut self, zones: &Range<u64>) {
        let (kept, others) = self.order.drain(..).partition(|(_, zone)| zones.contains(zone));
        self.order = others;
        self.order.extend::<VecDeque<_>>(kept);
    }

    /// Pins the records of zones until they are released.
    pub fn pin(&mut self, zones: &BTreeSet<u64>) {
        self.pinned.extend(zones);
    }

    /// Unpins the records of zones after they have been written to the members.
    pub fn unpin(&mut self, zones: &BTreeSet<u64>) {
        self.pinned.retain(|zone| !zones.contains(zone));
    }

    /// Evicts the oldest blocks that are not pinned. Must only be called between operations, because an operation may
    /// have changed blocks that it has not written yet.
    pub fn trim(&mut self) {
        for _ in 0..self.order.len() {
            if self.blocks.len() <= CAPACITY {
                return;
            }
            let Some(oldest) = self.order.pop_front() else { return };
            if self.pinned.contains(&oldest.1) {
                self.order.push_back(oldest);
            } else {
                self.blocks.remove(&oldest);
            }
        }
    }

    /// Removes the records of a device from the cache.
    pub fn forget(&mut self, device: usize) {
        self.changes += 1;
        self.generations.clear();
        self.reads_ahead.clear();
        self.blocks.retain(|key, _| key.0 != device);
        self.order.retain(|key| key.0 != device);
    }

    /// Removes the records of a zone from the cache. They are read again when they are needed.
    pub fn forget_zone(&mut self, zone: u64) {
        self.changes += 1;
        self.generations.remove(zone);
        self.drop_reads_ahead_of(zone);
        self.blocks.retain(|key, _| key.1 != zone);
        self.order.retain(|key| key.1 != zone);
    }
}

impl MemberSet {
    /// Reads the records of all slots for these rows, unless they are cached. Read errors are ignored here and
    /// detected later.
    pub fn load_records_of_rows(&mut self, rows: impl Iterator<Item = u64>) {
        let zones: BTreeSet<u64> = rows.map(|row| row / ZONE_ROWS).collect();
        let ahead = self.records.take_reads_ahead(&zones);
        ahead.into_iter().for_each(|reads| self.insert_records(reads));
        let missing = self.start_records(&zones);
        self.insert_records(missing);
    }

    /// Starts to read the records of zones that will be needed next. Cached records of these zones are retained until
    /// they are needed. Otherwise, a writer that starts over might find them evicted, because they are the oldest in
    /// the cache.
    pub fn read_records_ahead(&mut self, zones: Range<u64>) {
        self.start_records_ahead(zones, |_, _| true);
    }

    /// Starts to read the records of zones that will be written whole, except for zones whose generation is known:
    /// their records are not needed.
    pub fn read_generations_ahead(&mut self, zones: Range<u64>) {
        self.start_records_ahead(zones, |records, zone| records.next_generation(zone).is_none());
    }

    fn start_records_ahead(&mut self, zones: Range<u64>, is_needed: impl Fn(&RecordCache, u64) -> bool) {
        if !zones.clone().any(|zone| is_needed(&self.records, zone)) {
            return;
        }
        self.records.refresh_zones(&zones);
        let devices = self.devices_with_records();
        let mut missing = zones.start..zones.end.min(self.config.layout.zones());
        // A writer that needs the first zone of a read waits for the entire read, so zones at the beginning are skipped
        // if their records are already known.
        let is_missing = |members: &MemberSet, zone| {
            is_needed(&members.records, zone) && !members.is_known(&devices, zone)
        };
        while !missing.is_empty() && !is_missing(self, missing.start) {
            missing.start += 1;
        }
        let reads = missing.clone().filter(|zone| is_needed(&self.records, *zone)).collect();
        let reads = self.start_records(&reads);
        if reads.bytes > 0 {
            let surplus = (self.records.reads_ahead.len() + 1).saturating_sub(MAX_READS_AHEAD);
            self.records.reads_ahead.drain(..surplus);
            self.records.reads_ahead.push((missing, reads));
        }
    }

    fn devices_with_records(&self) -> BTreeSet<usize> {
        (0..self.config.slots.len()).flat_map(|slot| self.targets(slot)).collect()
    }

    /// Returns true if the records of a zone are cached and show that its rows were never written.
    pub fn is_zone_new(&self, zone: u64) -> bool {
        let is_new = |device| self.records.block(device, zone).is_some_and(|block| *block == [0; BLOCK]);
        self.devices_with_records().into_iter().all(is_new)
    }

    /// Returns true if the records of a zone are cached or are being read ahead.
    fn is_known(&self, devices: &BTreeSet<usize>, zone: u64) -> bool {
        self.records.reads_ahead.iter().any(|(ahead, _)| ahead.contains(&zone))
            || devices.iter().all(|device| self.records.has(*device, zone))
    }

    fn start_records(&mut self, zones: &BTreeSet<u64>) -> InFlightTransfers {
        let devices = self.devices_with_records();
        let mut pieces = vec![];
        for zone in zones.iter().copied() {
            for device in devices.iter().copied().filter(|device| !self.records.has(*device, zone)) {
                let offset = self.devices[device].layout.records(zone);
                pieces.push(TransferSegment { device, offset, buffer: IoBuffer::zeroed(BLOCK) });
            }
        }
        self.start_transfers(TransferKind::Read, pieces, IoReason::Other)
    }

    fn insert_records(&mut self, reads: InFlightTransfers) {
        for (piece, result) in reads.wait() {
            if result.is_ok() {
                let zone = self.devices[piece.device].layout.zone_of(piece.offset);
                self.records.insert((piece.device, zone), piece.buffer);
            }
        }
    }

    /// Reads the records of a zone, unless they are cached.
    fn load_records(&mut self, device: usize, zone: u64) -> Result<()> {
        let key = (device, zone);
        if !self.records.blocks.contains_key(&key) {
            let mut block = IoBuffer::zeroed(BLOCK);
            self.read_member(device, self.devices[device].layout.records(zone), &mut block)?;
            self.records.insert(key, block);
        }
        Ok(())
    }

    /// Returns the record of a cell on a device.
    pub fn record(&mut self, device: usize, row: u64, cell: usize) -> RecordSlot {
        let zone = row / ZONE_ROWS;
        if self.load_records(device, zone).is_err() {
            self.counters.read_errors += 1;
            return RecordSlot::Damaged;
        }
        let bytes = &self.records.blocks[&(device, zone)][MemberDevice::record_range(row)];
        let bytes: &[u8; RECORD_BYTES] = bytes.try_into().expect("a record has its fixed length");
        BlockRecord::decode(bytes, self.config.array, row, self.config.layout.stored_cell(cell))
    }

    /// Changes the cached record of a cell on a device. [`MemberSet::write_records`] writes it to the device.
    pub fn put_record(&mut self, device: usize, row: u64, record: RecordSlot) -> Result<()> {
        let zone = row / ZONE_ROWS;
        if let Err(error) = self.load_records(device, zone) {
            if self.code.tolerance() == 0 {
                // Without redundancy, the zone's other records cannot be recovered from another member.
                return Err(error);
            }
            // Unreadable records are marked as damaged. The other members have enough information to recover them.
            let mut block = IoBuffer::zeroed(BLOCK);
            block.fill(0xFF);
            self.records.insert((device, zone), block);
        }
        let block = self.records.block_mut((device, zone)).expect("just loaded");
        let place = &mut block[MemberDevice::record_range(row)];
        match record {
            RecordSlot::Empty => place.fill(0),
            RecordSlot::Damaged => place.fill(0xFF),
            RecordSlot::Written(record) => place.copy_from_slice(zerocopy::IntoBytes::as_bytes(&record)),
        }
        Ok(())
    }

    /// Returns a zone's records for a device, as they should be stored on the member.
    pub fn record_block(&mut self, device: usize, zone: u64) -> Result<&[u8]> {
        self.load_records(device, zone)?;
        Ok(&self.records.blocks[&(device, zone)])
    }

    /// Writes the records of a zone to a device.
    pub fn write_records(&mut self, device: usize, zone: u64) -> Result<()> {
        self.load_records(device, zone)?;
        let offset = self.devices[device].layout.records(zone);
        self.count_transfer(TransferKind::Write, device, offset, BLOCK);
        let block = &self.records.blocks[&(device, zone)];
        self.devices[device].write(offset, block, IoReason::Other)
    }
}

#[cfg(any(test, feature = "testing"))]
impl RecordCache {
    /// Returns the zones whose generation is remembered.
    pub fn zones_with_generation(&self) -> Vec<u64> {
        self.generations.zones().collect()
    }

    /// Removes the records of a zone from the cache, like an eviction.
    pub fn evict(&mut self, zone: u64) {
        self.blocks.retain(|key, _| key.1 != zone);
        self.order.retain(|key| key.1 != zone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refreshed_records_are_not_evicted_before_others() {
        let mut cache = RecordCache::default();
        (0..CAPACITY as u64).for_each(|zone| cache.insert((0, zone), IoBuffer::zeroed(BLOCK)));
        cache.refresh_zones(&(2..4));
        (0..CAPACITY as u64 - 2).for_each(|zone| cache.insert((1, zone), IoBuffer::zeroed(BLOCK)));
        cache.trim();
        let is_kept = |cache: &RecordCache| [1, 2, 3, 4].map(|zone| cache.has(0, zone));
        assert_eq!((cache.blocks.len(), is_kept(&cache)), (CAPACITY, [false, true, true, false]));
        assert_eq!(cache.order.len(), CAPACITY);
    }

    #[test]
    fn pinned_records_stay_and_the_oldest_unpinned_records_are_evicted() {
        let mut cache = RecordCache::default();
        let zones = CAPACITY as u64 + 10;
        (0..zones).for_each(|zone| cache.insert((0, zone), IoBuffer::zeroed(BLOCK)));
        cache.pin(&[0, 3].into());
        cache.trim();
        let is_kept = |cache: &RecordCache| [0, 1, 3, 11, 12].map(|zone| cache.has(0, zone));
        assert_eq!((cache.blocks.len(), is_kept(&cache)), (CAPACITY, [true, false, true, false, true]));
        cache.unpin(&[0].into());
        (zones..2 * zones).for_each(|zone| cache.insert((0, zone), IoBuffer::zeroed(BLOCK)));
        cache.trim();
        assert_eq!((cache.blocks.len(), is_kept(&cache)), (CAPACITY, [false, false, true, false, false]));
        // Pinned records alone may exceed the capacity.
        cache.pin(&(0..2 * zones).collect());
        (0..CAPACITY as u64).for_each(|zone| cache.insert((1, zone), IoBuffer::zeroed(BLOCK)));
        cache.trim();
        assert_eq!(cache.blocks.len(), 2 * CAPACITY);
    }
}
