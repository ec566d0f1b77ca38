//! Records of zones in memory.

use std::collections::{BTreeMap, VecDeque};

use jetcell_vfs::{IoBuffer, IoReason, TransferKind};

use super::Array;
use crate::error::Result;
use crate::geometry::{BLOCK, ZONE_ROWS};
use crate::integrity::{BlockRecord, RECORD, RecordSlot};
use crate::member::Device;

/// Record blocks that are kept.
const CAPACITY: usize = 4096;

/// Record blocks by device and zone. Never newer than the members: changes are written through.
#[derive(Default)]
pub(crate) struct RecordCache {
    blocks: BTreeMap<(usize, u64), IoBuffer>,
    /// In the order in which they were read.
    order: VecDeque<(usize, u64)>,
}

impl RecordCache {
    pub fn has(&self, device: usize, zone: u64) -> bool {
        self.blocks.contains_key(&(device, zone))
    }

    pub fn insert(&mut self, key: (usize, u64), block: IoBuffer) {
        if self.blocks.insert(key, block).is_none() {
            self.order.push_back(key);
        }
    }

    /// Forgets the oldest blocks. Called between operations, as an operation may have changed blocks that it still has to write.
    pub fn trim(&mut self) {
        while self.blocks.len() > CAPACITY {
            let Some(oldest) = self.order.pop_front() else { return };
            self.blocks.remove(&oldest);
        }
    }

    /// Forgets the records of a device.
    pub fn forget(&mut self, device: usize) {
        self.blocks.retain(|key, _| key.0 != device);
        self.order.retain(|key| key.0 != device);
    }

    /// Forgets the records of a zone, so that they are read again.
    pub fn forget_zone(&mut self, zone: u64) {
        self.blocks.retain(|key, _| key.1 != zone);
        self.order.retain(|key| key.1 != zone);
    }
}

impl Array {
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
        let block = self.records.blocks.get_mut(&(device, zone)).expect("just loaded");
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
