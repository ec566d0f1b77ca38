//! Writes of free rows that have not ended.

use std::collections::{BTreeSet, VecDeque};

use super::Array;
use super::transfers::UnderWay;
use super::zone_worker::ZoneWorker;
use super::zone_write::{Content, ZoneWrite};
use crate::error::Result;
use crate::geometry::ZONE_ROWS;

/// Bytes of writes that may be under way.
const MOST_UNDER_WAY: usize = 48 << 20;

/// A zone whose parity is computed before it is written.
struct Computed {
    zone: u64,
    /// The device of each slot when this began.
    devices: Vec<usize>,
    /// `None`: the worker has it.
    write: Option<ZoneWrite>,
}

/// Writes of free rows that have not ended, in the order in which they were started.
#[derive(Default)]
pub(super) struct RowWrites {
    /// With their zones.
    writes: VecDeque<(BTreeSet<u64>, UnderWay)>,
    bytes: usize,
    /// Behind the others.
    computed: Option<Computed>,
    worker: Option<ZoneWorker>,
}

impl RowWrites {
    fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.computed.is_none()
    }

    /// Whether one of these zones is being written.
    fn has_any(&self, zones: &BTreeSet<u64>) -> bool {
        self.computed.as_ref().is_some_and(|computed| zones.contains(&computed.zone))
            || self.writes.iter().any(|(under_way, _)| !under_way.is_disjoint(zones))
    }

    /// Waits for all transfers, whatever becomes of them. What was not started is lost.
    pub fn wait(&mut self) {
        self.writes.drain(..).for_each(|(_, write)| drop(write.wait()));
    }
}

impl Array {
    /// Waits for the writes of free rows.
    ///
    /// # Errors
    /// The array failed. No write is under way then.
    pub(crate) fn finish_free_rows(&mut self) -> Result<()> {
        let mut result = Ok(());
        while !self.row_writes.is_empty() {
            result = result.and(self.finish_first_write());
        }
        result
    }

    /// Waits for the writes of free rows after which these blocks can be read.
    ///
    /// # Errors
    /// The array failed. No write is under way then.
    pub(crate) fn finish_free_rows_of(&mut self, blocks: &[u64]) -> Result<()> {
        if self.row_writes.is_empty() {
            return Ok(());
        }
        let zone = |block: &u64| self.config.layout.locate(*block).0 / ZONE_ROWS;
        let zones = blocks.iter().map(zone).collect();
        self.finish_rows_in(&zones)
    }

    /// Waits for the writes of free rows in these zones.
    pub(super) fn finish_rows_in(&mut self, zones: &BTreeSet<u64>) -> Result<()> {
        while self.row_writes.has_any(zones) {
            if let Err(error) = self.finish_first_write() {
                return self.finish_free_rows().and(Err(error));
            }
        }
        Ok(())
    }

    /// Remembers a write of free rows of these zones until it ends.
    pub(super) fn add_under_way(&mut self, zones: BTreeSet<u64>, write: UnderWay) -> Result<()> {
        self.records.hold(&zones);
        self.row_writes.bytes += write.bytes;
        self.row_writes.writes.push_back((zones, write));
        while self.row_writes.bytes > MOST_UNDER_WAY {
            self.finish_first_write()?;
        }
        Ok(())
    }

    fn finish_first_write(&mut self) -> Result<()> {
        let Some((zones, write)) = self.row_writes.writes.pop_front() else { return self.start_computed() };
        self.row_writes.bytes -= write.bytes;
        self.records.release(&zones);
        self.finish_in_place(write)
    }

    /// Starts to compute the parity of a zone. It is written when the next one has come as far, or is waited for.
    ///
    /// # Errors
    /// The array failed.
    pub(super) fn compute_zone(
        &mut self,
        devices: Vec<usize>,
        mut write: ZoneWrite,
        content: Content<'static>,
    ) -> Result<()> {
        self.start_computed()?;
        let (zone, coding) = (write.zone(), self.coding());
        self.records.hold(&[zone].into());
        if self.row_writes.worker.is_none() {
            // Without the thread, it takes longer.
            self.row_writes.worker = ZoneWorker::start().ok();
        }
        let write = match &self.row_writes.worker {
            Some(worker) => {
                worker.fill(write, coding, content);
                None
            }
            None => {
                write.fill(&coding, &content);
                Some(write)
            }
        };
        self.row_writes.computed = Some(Computed { zone, devices, write });
        Ok(())
    }

    /// Starts to write the zone whose parity was computed.
    fn start_computed(&mut self) -> Result<()> {
        let Some(Computed { zone, devices, write }) = self.row_writes.computed.take() else { return Ok(()) };
        let of_worker = || self.row_writes.worker.as_ref().expect("it has the zone").next_filled();
        let write = write.unwrap_or_else(of_worker);
        let write = if self.sole_devices().as_ref() == Some(&devices) {
            self.start_filled(&devices, vec![write])
        } else {
            // A write before it has failed.
            self.start_in_any_state(&write.copied_rows(&self.config.layout))?
        };
        self.add_under_way([zone].into(), write)
    }
}
