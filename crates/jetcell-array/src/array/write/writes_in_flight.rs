//! Writes in flight: writes of free rows, and in-place writes of commits.

use std::collections::{BTreeSet, VecDeque};

use super::zone_encoding::{FreeRowWrite, ZoneWrite};
use super::zone_worker::ZoneWorker;
use crate::array::Array;
use crate::array::members::InFlightTransfers;
use crate::error::Result;
use crate::geometry::ZONE_ROWS;

/// Maximum number of bytes in flight.
const MAX_IN_FLIGHT_BYTES: usize = 48 << 20;

/// Maximum number of threads that compute parity.
const MAX_WORKERS: usize = 2;

/// A zone whose parity is computed before it is written.
struct ComputedZone {
    zone: u64,
    /// Device of each slot when the computation began.
    devices: Vec<usize>,
    computation: ZoneComputation,
}

enum ZoneComputation {
    /// The worker with this number computes the parity.
    Worker(usize),
    /// The caller has already computed the parity.
    Caller(ZoneWrite, Vec<FreeRowWrite>),
}

/// A write of rows in some zones.
struct RowWrite {
    zones: BTreeSet<u64>,
    /// Whether the write belongs to a commit. Any caller may read a commit's rows, whereas free rows are known only
    /// to their writer.
    is_commit: bool,
    transfers: InFlightTransfers,
}

/// Writes that have not completed, in the order in which they were started.
#[derive(Default)]
pub(in crate::array) struct RowWrites {
    writes: VecDeque<RowWrite>,
    bytes: usize,
    /// Zones that are to be written after `writes`. Each worker has at most one of them.
    computed: VecDeque<ComputedZone>,
    workers: Vec<ZoneWorker>,
}

impl RowWrites {
    fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.computed.is_empty()
    }

    /// Returns true if any of these zones is being written.
    fn overlaps(&self, zones: &BTreeSet<u64>) -> bool {
        self.computed.iter().any(|computed| zones.contains(&computed.zone))
            || self.writes.iter().any(|write| !write.zones.is_disjoint(zones))
    }

    /// Waits for all transfers, regardless of their result. Zones whose writes were not started are lost.
    pub fn wait(&mut self) {
        self.writes.drain(..).for_each(|write| drop(write.transfers.wait()));
    }
}

impl Array {
    /// Waits for all writes of rows.
    ///
    /// # Errors
    /// The array failed. No write is in flight then.
    pub fn finish_rows(&mut self) -> Result<()> {
        let mut result = Ok(());
        while !self.row_writes.is_empty() {
            result = result.and(self.finish_first_write());
        }
        result
    }

    /// Waits for the writes of rows in the zones of these blocks. The blocks can then be read.
    ///
    /// # Errors
    /// The array failed. No write is in flight then.
    pub fn finish_rows_of(&mut self, blocks: &[u64]) -> Result<()> {
        if self.row_writes.is_empty() {
            return Ok(());
        }
        let zone = |block: &u64| self.config.layout.locate(*block).0 / ZONE_ROWS;
        let zones = blocks.iter().map(zone).collect();
        self.finish_rows_in(&zones)
    }

    /// Waits for the commits that write zones of these blocks. The blocks can then be read.
    pub(in crate::array) fn finish_commits_of(&mut self, blocks: &[u64]) -> Result<()> {
        let zone = |block: &u64| self.config.layout.locate(*block).0 / ZONE_ROWS;
        let has_any = |write: &RowWrite| {
            write.is_commit && blocks.iter().any(|block| write.zones.contains(&zone(block)))
        };
        if self.row_writes.writes.iter().any(has_any) { self.finish_rows_of(blocks) } else { Ok(()) }
    }

    /// Waits for the writes of rows in these zones.
    pub(in crate::array) fn finish_rows_in(&mut self, zones: &BTreeSet<u64>) -> Result<()> {
        while self.row_writes.overlaps(zones) {
            if let Err(error) = self.finish_first_write() {
                return self.finish_rows().and(Err(error));
            }
        }
        Ok(())
    }

    /// Tracks a write of free rows in these zones until it completes.
    pub(in crate::array) fn track_row_writes(
        &mut self,
        zones: BTreeSet<u64>,
        transfers: InFlightTransfers,
    ) -> Result<()> {
        self.add(RowWrite { zones, is_commit: false, transfers })
    }

    /// Tracks the in-place write of a commit until it completes.
    pub(in crate::array) fn track_commit_write(
        &mut self,
        zones: BTreeSet<u64>,
        transfers: InFlightTransfers,
    ) -> Result<()> {
        self.add(RowWrite { zones, is_commit: true, transfers })
    }

    fn add(&mut self, write: RowWrite) -> Result<()> {
        self.records.pin(&write.zones);
        self.row_writes.bytes += write.transfers.bytes;
        self.row_writes.writes.push_back(write);
        while self.row_writes.bytes > MAX_IN_FLIGHT_BYTES {
            self.finish_first_write()?;
        }
        Ok(())
    }

    fn finish_first_write(&mut self) -> Result<()> {
        let Some(RowWrite { zones, transfers, .. }) = self.row_writes.writes.pop_front() else {
            return self.start_first_computed();
        };
        self.row_writes.bytes -= transfers.bytes;
        self.records.unpin(&zones);
        self.finish_in_place_writes(transfers)
    }

    /// Starts to compute the parity of a zone from its rows. The zone is written when several later zones have been
    /// passed to this function, or when an operation waits for it.
    ///
    /// # Errors
    /// The array failed.
    pub(in crate::array) fn compute_zone(
        &mut self,
        devices: Vec<usize>,
        mut write: ZoneWrite,
        rows: Vec<FreeRowWrite>,
    ) -> Result<()> {
        let zone = write.zone();
        self.records.pin(&[zone].into());
        let by = match self.free_worker()? {
            Some(worker) => {
                self.row_writes.workers[worker].fill(write, self.row_encoder(), rows);
                ZoneComputation::Worker(worker)
            }
            None => {
                write.fill(&self.row_encoder(), &rows);
                ZoneComputation::Caller(write, rows)
            }
        };
        self.row_writes.computed.push_back(ComputedZone { zone, devices, computation: by });
        Ok(())
    }

    /// Returns an idle worker. If all workers are busy, the write of the oldest zone is started first. Returns `None`
    /// if the system cannot start a thread.
    fn free_worker(&mut self) -> Result<Option<usize>> {
        let RowWrites { computed, workers, .. } = &mut self.row_writes;
        if workers.len() < self.threads.min(MAX_WORKERS) {
            // If no thread can be started, the caller computes the parity, which takes longer.
            workers.extend(ZoneWorker::start());
        }
        if computed.len() >= workers.len() {
            self.start_first_computed()?;
        }
        let RowWrites { computed, workers, .. } = &self.row_writes;
        let is_free = |worker: &usize| {
            !computed.iter().any(
                |computed| matches!(computed.computation, ZoneComputation::Worker(with) if with == *worker),
            )
        };
        Ok((0..workers.len()).find(is_free))
    }

    /// Starts to write all zones whose parity was computed. The cached records then reflect these writes.
    pub(in crate::array) fn start_computed(&mut self) -> Result<()> {
        while !self.row_writes.computed.is_empty() {
            self.start_first_computed()?;
        }
        Ok(())
    }

    fn start_first_computed(&mut self) -> Result<()> {
        let Some(ComputedZone { zone, devices, computation: by }) = self.row_writes.computed.pop_front()
        else {
            return Ok(());
        };
        let (write, rows) = match by {
            ZoneComputation::Worker(worker) => self.row_writes.workers[worker].next_filled(),
            ZoneComputation::Caller(write, rows) => (write, rows),
        };
        let write = if self.device_per_slot().as_ref() == Some(&devices) {
            self.start_filled_writes(&devices, vec![write])
        } else {
            // A member failed or was replaced while the parity was computed.
            self.start_rows_in_any_state(&rows)?
        };
        self.recycle_rows(rows);
        self.track_row_writes([zone].into(), write)
    }
}

#[cfg(test)]
mod tests {
    use jetcell_vfs::{FaultEffect, FaultTarget, InjectedFault, IoReason, OpenMode, Vfs};

    use super::*;
    use crate::RaidLevel;
    use crate::array::ZoneBuffer;
    use crate::geometry::BLOCK;
    use crate::shared_block::SharedBlock;
    use crate::test_array::{TestArray, content};

    const MEMBERS: usize = 5;

    fn rows(zone: u64) -> std::ops::Range<u64> {
        zone * ZONE_ROWS..(zone + 1) * ZONE_ROWS
    }

    /// Returns all blocks of a zone.
    fn blocks(tested: &mut TestArray, zone: u64) -> Vec<u64> {
        let layout = *tested.array().layout();
        rows(zone)
            .flat_map(|row| (0..layout.data_columns()).map(move |column| layout.block_at(row, column)))
            .collect()
    }

    /// Returns a zone in which each block's value is its number.
    fn full_zone(tested: &mut TestArray, zone: u64) -> ZoneBuffer {
        let blocks = blocks(tested, zone);
        let mut open = tested.array().start_zone_buffer(rows(zone).collect()).unwrap();
        for block in blocks {
            open.put(block, SharedBlock::copy_from(&content(block)));
        }
        open
    }

    fn start_zone(tested: &mut TestArray, zone: u64) {
        let open = full_zone(tested, zone);
        tested.array().start_open_zone(open).unwrap();
    }

    fn assert_written(tested: &mut TestArray, zone: u64) {
        for block in blocks(tested, zone) {
            tested.array().finish_rows_of(&[block]).unwrap();
            assert_eq!(tested.value(block).unwrap(), block);
        }
    }

    #[test]
    fn reading_blocks_from_a_pending_zone_writes_the_zone() {
        let mut tested = TestArray::with_zones(RaidLevel::Raid6, MEMBERS, 1, 4);
        (1..4).for_each(|zone| start_zone(&mut tested, zone));
        assert_written(&mut tested, 3);
        assert!(tested.array().row_writes.is_empty());
        assert_written(&mut tested, 1);
        assert!(tested.array().scrub().unwrap().is_clean());
    }

    #[test]
    fn zones_are_counted_as_written_during_parity_computation() {
        let mut tested = TestArray::with_zones(RaidLevel::Raid6, MEMBERS, 1, 4);
        (1..3).for_each(|zone| start_zone(&mut tested, zone));
        let all = tested.array().layout().blocks();
        let runs = tested.array().written_runs(0..all).unwrap();
        let of_zone = all / 4;
        assert_eq!(runs, [(of_zone, false), (2 * of_zone, true), (of_zone, false)]);
        tested.array().finish_rows().unwrap();
    }

    #[test]
    fn a_zone_skips_members_that_failed_during_parity_computation() {
        let mut tested = TestArray::with_zones(RaidLevel::Raid6, MEMBERS, 1, 4);
        let (first, second) = (full_zone(&mut tested, 1), full_zone(&mut tested, 2));
        let failing = tested.members[2].clone();
        let fault =
            InjectedFault::new(FaultTarget::Write, FaultEffect::IoError).on_path(failing.to_str().unwrap());
        tested.array().start_open_zone(first).unwrap();
        tested.faults.inject(fault);
        tested.array().start_open_zone(second).unwrap();
        tested.array().finish_rows().unwrap();
        assert_eq!(tested.faults.fired_count(), 1);
        let second_zone = TestArray::records_offset(2) as usize..TestArray::records_offset(3) as usize;
        for member in &tested.members {
            let is_written =
                tested.disk.contents(member).unwrap()[second_zone.clone()].iter().any(|byte| *byte != 0);
            assert_eq!(is_written, *member != failing, "{}", member.display());
        }
        (1..3).for_each(|zone| assert_written(&mut tested, zone));
    }

    #[test]
    fn blocks_staged_after_a_zone_are_not_overwritten() {
        let mut tested = TestArray::with_zones(RaidLevel::Raid6, MEMBERS, 1, 4);
        start_zone(&mut tested, 1);
        // While a member is being rebuilt, the zone is written by the general method.
        let file = tested.new_file();
        tested.array().replace(1, &file, false).unwrap();
        let block = blocks(&mut tested, 1)[5];
        tested.write(&[(block, 77)].into()).unwrap();
        assert_eq!(tested.value(block).unwrap(), 77);
    }

    /// Writes a zone whose records were evicted. Returns the number of member reads that this write takes.
    fn reads_of_write(tested: &mut TestArray, zone: u64) -> u64 {
        tested.array().records.evict(zone);
        let reads = |tested: &mut TestArray| tested.array().counters().members.total().reads;
        let before = reads(tested);
        start_zone(tested, zone);
        tested.array().start_computed().unwrap();
        // Until the members have the new records, the old ones must not be read.
        let has_records = |device| tested.array.as_ref().unwrap().records.has(device, zone);
        assert!((0..MEMBERS).all(has_records));
        tested.array().finish_rows().unwrap();
        reads(tested) - before
    }

    #[test]
    fn a_zone_is_rewritten_without_reading_old_records() {
        let members = MEMBERS as u64;
        // Zone 1 is the last zone. Otherwise, records of later zones would be read ahead and counted.
        let mut tested = TestArray::with_zones(RaidLevel::Raid6, MEMBERS, 1, 2);
        let block = blocks(&mut tested, 1)[5];
        assert_eq!([reads_of_write(&mut tested, 1), reads_of_write(&mut tested, 1)], [members, 0]);
        tested.array().check_generations();
        // One of the zone's rows now has a later generation than the others.
        tested.write(&[(block, 77)].into()).unwrap();
        assert_eq!([reads_of_write(&mut tested, 1), reads_of_write(&mut tested, 1)], [members, 0]);
        tested.array().check_generations();
        tested.array().scrub().unwrap();
        assert_eq!([reads_of_write(&mut tested, 1), reads_of_write(&mut tested, 1)], [members, 0]);
        assert_written(&mut tested, 1);
        tested.assemble(false).unwrap();
        assert_eq!([reads_of_write(&mut tested, 1), reads_of_write(&mut tested, 1)], [members, 0]);
        tested.array().fail(2).unwrap();
        assert_eq!(tested.array().records.next_generation(1), None);
        assert_written(&mut tested, 1);
    }

    #[test]
    fn a_lost_zone_write_is_found_without_reading_old_records() {
        let mut tested = TestArray::with_zones(RaidLevel::Raid6, MEMBERS, 1, 2);
        reads_of_write(&mut tested, 1);
        let before = tested.disk.contents(&tested.members[3]).unwrap();
        assert_eq!(reads_of_write(&mut tested, 1), 0);
        tested.array.take().unwrap().close().unwrap();
        let zone = TestArray::records_offset(1) as usize..TestArray::records_offset(2) as usize;
        let file = tested.disk.open(&tested.members[3], OpenMode::Write).unwrap();
        file.write_at(zone.start as u64, &before[zone], IoReason::Other).unwrap();
        tested.assemble(false).unwrap();
        assert_written(&mut tested, 1);
        let counters = tested.array().counters();
        assert!(counters.stale_blocks > 0 && counters.checksum_errors == 0, "{counters:?}");
    }

    #[test]
    fn a_zone_not_yet_started_is_lost_with_the_array() {
        let mut tested = TestArray::with_zones(RaidLevel::Raid6, MEMBERS, 1, 4);
        start_zone(&mut tested, 1);
        tested.array = None;
        let is_zero = |member: &std::path::PathBuf| {
            tested.disk.contents(member).unwrap()[TestArray::offset(ZONE_ROWS) as usize..][..BLOCK]
                == [0; BLOCK]
        };
        assert!(tested.members.iter().all(is_zero));
    }
}
