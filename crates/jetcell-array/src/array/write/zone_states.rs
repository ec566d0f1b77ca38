//! States of zones whose writes have started: see the [drawing](super).

use std::collections::{BTreeSet, VecDeque};

use super::RowWriter;
use super::zone_worker::ZoneWorker;
use crate::array::members::InFlightTransfers;
use crate::array::rows::{FreeRowWrite, ZoneWrite};
use crate::error::Result;
use crate::geometry::ZONE_ROWS;

/// Maximum number of bytes in flight.
const MAX_IN_FLIGHT_BYTES: usize = 48 << 20;

/// Maximum number of threads that compute parity.
const MAX_WORKERS: usize = 2;

/// A zone whose parity is being computed before the zone is written.
pub(super) struct ComputedZone {
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

/// A write of rows in one or more zones.
pub(super) struct RowWrite {
    zones: BTreeSet<u64>,
    transfers: InFlightTransfers,
}

/// State of zones between the start of their write and its completion. Before that, an [`OpenZone`](super::OpenZone)
/// belongs to the layer that fills it, so a zone cannot be open and in flight at the same time.
pub(super) enum ZoneState {
    /// Parity and records are being computed. The members do not have any of the blocks yet.
    Computing(ComputedZone),
    /// Free rows are being written. Only their writer knows about them, so no other caller reads them.
    Writing(RowWrite),
    /// Rows of a commit are being written in place; the journal makes the commit durable. Any caller may read them.
    Committing(RowWrite),
}

impl ZoneState {
    fn is_computing(&self) -> bool {
        matches!(self, ZoneState::Computing(_))
    }

    /// Returns true if the state includes any of these zones.
    fn overlaps(&self, zones: &BTreeSet<u64>) -> bool {
        match self {
            ZoneState::Computing(computed) => zones.contains(&computed.zone),
            ZoneState::Writing(write) | ZoneState::Committing(write) => !write.zones.is_disjoint(zones),
        }
    }
}

/// Zones in flight, in the order in which their writes complete. Zones that are still being computed come last.
#[derive(Default)]
pub(super) struct ZonesInFlight {
    zones: VecDeque<ZoneState>,
    /// Number of bytes that are being written.
    bytes: usize,
    /// Each worker computes at most one zone.
    workers: Vec<ZoneWorker>,
}

impl ZonesInFlight {
    /// Returns the number of zones that are being written. This is also the index of the first zone that is still being
    /// computed.
    fn writing(&self) -> usize {
        self.zones.partition_point(|zone| !zone.is_computing())
    }

    /// Returns true if any of these zones is in flight.
    fn overlaps(&self, zones: &BTreeSet<u64>) -> bool {
        self.zones.iter().any(|state| state.overlaps(zones))
    }

    /// Returns a worker that is not computing a zone.
    fn idle_worker(&self) -> Option<usize> {
        let is_idle = |worker: &usize| {
            !self.zones.iter().any(|state| match state {
                ZoneState::Computing(computed) => {
                    matches!(computed.computation, ZoneComputation::Worker(with) if with == *worker)
                }
                _ => false,
            })
        };
        (0..self.workers.len()).find(is_idle)
    }

    /// Waits for all transfers, regardless of their result. Zones whose writes were not started are lost.
    pub fn wait(&mut self) {
        for state in self.zones.drain(..) {
            if let ZoneState::Writing(write) | ZoneState::Committing(write) = state {
                drop(write.transfers.wait());
            }
        }
    }
}

/// Returns the zones of these blocks.
fn zones_of(writer: &RowWriter, blocks: &[u64]) -> BTreeSet<u64> {
    let layout = writer.rows.members.layout();
    blocks.iter().map(|block| layout.locate(*block).0 / ZONE_ROWS).collect()
}

impl RowWriter {
    /// Waits for all writes of rows.
    ///
    /// # Errors
    /// Returns an error if the array failed. In that case, no write is in flight.
    pub fn finish_rows(&mut self) -> Result<()> {
        let mut result = Ok(());
        while !self.in_flight.zones.is_empty() {
            result = result.and(self.advance_first());
        }
        result
    }

    /// Waits for the writes of rows in the zones of these blocks. The blocks can then be read.
    ///
    /// # Errors
    /// Returns an error if the array failed. In that case, no write is in flight.
    pub fn finish_rows_of(&mut self, blocks: &[u64]) -> Result<()> {
        if self.in_flight.zones.is_empty() {
            return Ok(());
        }
        self.finish_rows_in(&zones_of(self, blocks))
    }

    /// Waits for the commits that write zones of these blocks. The blocks can then be read.
    pub(super) fn finish_commits_of(&mut self, blocks: &[u64]) -> Result<()> {
        let commits = |state: &ZoneState| {
            matches!(state, ZoneState::Committing(_)) && state.overlaps(&zones_of(self, blocks))
        };
        if self.in_flight.zones.iter().any(commits) { self.finish_rows_of(blocks) } else { Ok(()) }
    }

    /// Waits for the writes of rows in these zones.
    pub(super) fn finish_rows_in(&mut self, zones: &BTreeSet<u64>) -> Result<()> {
        while self.in_flight.overlaps(zones) {
            if let Err(error) = self.advance_first() {
                return self.finish_rows().and(Err(error));
            }
        }
        Ok(())
    }

    /// Tracks a write of rows in these zones until it completes.
    pub(super) fn track(
        &mut self,
        state: fn(RowWrite) -> ZoneState,
        zones: BTreeSet<u64>,
        transfers: InFlightTransfers,
    ) -> Result<()> {
        self.rows.members.records.pin(&zones);
        self.in_flight.bytes += transfers.bytes;
        let place = self.in_flight.writing();
        self.in_flight.zones.insert(place, state(RowWrite { zones, transfers }));
        while self.in_flight.bytes > MAX_IN_FLIGHT_BYTES {
            self.advance_first()?;
        }
        Ok(())
    }

    /// Moves the first zone to its next state: starts the write of a computed zone, or waits for a write to complete.
    fn advance_first(&mut self) -> Result<()> {
        match self.in_flight.zones.pop_front() {
            None => Ok(()),
            Some(ZoneState::Computing(computed)) => self.start_computed_zone(computed),
            Some(ZoneState::Writing(write) | ZoneState::Committing(write)) => {
                self.in_flight.bytes -= write.transfers.bytes;
                self.rows.members.records.unpin(&write.zones);
                self.finish_in_place_writes(write.transfers)
            }
        }
    }

    /// Starts to compute the parity of a zone from its rows. The zone is written when several later zones have been
    /// passed to this function, or when an operation waits for it.
    ///
    /// # Errors
    /// Returns an error if the array failed.
    pub(super) fn compute_zone(
        &mut self,
        devices: Vec<usize>,
        mut write: ZoneWrite,
        rows: Vec<FreeRowWrite>,
    ) -> Result<()> {
        let zone = write.zone();
        self.rows.members.records.pin(&[zone].into());
        let computation = match self.free_worker()? {
            Some(worker) => {
                self.in_flight.workers[worker].fill(write, self.rows.row_encoder(), rows);
                ZoneComputation::Worker(worker)
            }
            None => {
                write.fill(&self.rows.row_encoder(), &rows);
                ZoneComputation::Caller(write, rows)
            }
        };
        let computed = ComputedZone { zone, devices, computation };
        self.in_flight.zones.push_back(ZoneState::Computing(computed));
        Ok(())
    }

    /// Returns an idle worker. If all workers are busy, the write of the oldest zone is started first. Returns `None`
    /// if the system cannot start a thread.
    fn free_worker(&mut self) -> Result<Option<usize>> {
        let ZonesInFlight { zones, workers, .. } = &mut self.in_flight;
        if workers.len() < self.threads.min(MAX_WORKERS) {
            // If no thread can be started, the caller computes the parity, which takes longer.
            workers.extend(ZoneWorker::start());
        }
        if zones.iter().filter(|state| state.is_computing()).count() >= workers.len() {
            self.start_first_computed()?;
        }
        Ok(self.in_flight.idle_worker())
    }

    /// Starts to write all zones whose parity was computed. The cached records then reflect these writes.
    pub(crate) fn start_computed(&mut self) -> Result<()> {
        while self.in_flight.zones.back().is_some_and(ZoneState::is_computing) {
            self.start_first_computed()?;
        }
        Ok(())
    }

    fn start_first_computed(&mut self) -> Result<()> {
        match self.in_flight.zones.remove(self.in_flight.writing()) {
            Some(ZoneState::Computing(computed)) => self.start_computed_zone(computed),
            _ => Ok(()),
        }
    }

    fn start_computed_zone(&mut self, computed: ComputedZone) -> Result<()> {
        let ComputedZone { zone, devices, computation } = computed;
        let (write, rows) = match computation {
            ZoneComputation::Worker(worker) => self.in_flight.workers[worker].next_filled(),
            ZoneComputation::Caller(write, rows) => (write, rows),
        };
        let write = if self.rows.device_per_slot().as_ref() == Some(&devices) {
            self.start_filled_writes(&devices, vec![write])
        } else {
            // A member failed or was replaced while the parity was computed.
            self.start_rows_in_any_state(&rows)?
        };
        let blocks = rows.into_iter().flat_map(|(_, columns)| columns);
        self.rows.members.buffers.recycle_blocks(blocks);
        self.track(ZoneState::Writing, [zone].into(), write)
    }
}

#[cfg(test)]
mod tests {
    use jetcell_vfs::{FaultEffect, FaultTarget, InjectedFault, IoReason, OpenMode, Vfs};

    use super::*;
    use crate::RaidLevel;
    use crate::array::OpenZone;
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
    fn full_zone(tested: &mut TestArray, zone: u64) -> OpenZone {
        let blocks = blocks(tested, zone);
        let mut open = tested.array().row_writer().open_zone(rows(zone).collect()).unwrap();
        for block in blocks {
            open.put(block, SharedBlock::copy_from(&content(block)));
        }
        open
    }

    fn start_zone(tested: &mut TestArray, zone: u64) {
        let open = full_zone(tested, zone);
        tested.array().row_writer().start_zone(open).unwrap();
    }

    fn assert_written(tested: &mut TestArray, zone: u64) {
        for block in blocks(tested, zone) {
            tested.array().row_writer().finish_rows_of(&[block]).unwrap();
            assert_eq!(tested.value(block).unwrap(), block);
        }
    }

    #[test]
    fn reading_blocks_from_a_pending_zone_writes_the_zone() {
        let mut tested = TestArray::with_zones(RaidLevel::Raid6, MEMBERS, 1, 4);
        (1..4).for_each(|zone| start_zone(&mut tested, zone));
        assert_written(&mut tested, 3);
        assert!(tested.array().row_writer().in_flight.zones.is_empty());
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
        tested.array().row_writer().finish_rows().unwrap();
    }

    #[test]
    fn a_zone_skips_members_that_failed_during_parity_computation() {
        let mut tested = TestArray::with_zones(RaidLevel::Raid6, MEMBERS, 1, 4);
        let (first, second) = (full_zone(&mut tested, 1), full_zone(&mut tested, 2));
        let failing = tested.members[2].clone();
        let fault =
            InjectedFault::new(FaultTarget::Write, FaultEffect::IoError).on_path(failing.to_str().unwrap());
        tested.array().row_writer().start_zone(first).unwrap();
        tested.faults.inject(fault);
        tested.array().row_writer().start_zone(second).unwrap();
        tested.array().row_writer().finish_rows().unwrap();
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

    /// Writes a zone whose records were evicted. Returns the number of member reads that this write requires.
    fn reads_of_write(tested: &mut TestArray, zone: u64) -> u64 {
        tested.array().members_mut().records.evict(zone);
        let reads = |tested: &mut TestArray| tested.array().counters().members.total().reads;
        let before = reads(tested);
        start_zone(tested, zone);
        tested.array().row_writer().start_computed().unwrap();
        // Until the members have the new records, the old ones must not be read.
        let has_records = |device| tested.array.as_ref().unwrap().members().records.has(device, zone);
        assert!((0..MEMBERS).all(has_records));
        tested.array().row_writer().finish_rows().unwrap();
        reads(tested) - before
    }

    #[test]
    fn a_zone_is_rewritten_without_reading_old_records() {
        let members = MEMBERS as u64;
        // Zone 1 is the last zone. Otherwise, records of later zones would be read ahead and counted.
        let mut tested = TestArray::with_zones(RaidLevel::Raid6, MEMBERS, 1, 2);
        let block = blocks(&mut tested, 1)[5];
        assert_eq!([reads_of_write(&mut tested, 1), reads_of_write(&mut tested, 1)], [members, 0]);
        tested.array().row_writer().check_generations();
        // One of the zone's rows now has a later generation than the others.
        tested.write(&[(block, 77)].into()).unwrap();
        assert_eq!([reads_of_write(&mut tested, 1), reads_of_write(&mut tested, 1)], [members, 0]);
        tested.array().row_writer().check_generations();
        tested.array().scrub().unwrap();
        assert_eq!([reads_of_write(&mut tested, 1), reads_of_write(&mut tested, 1)], [members, 0]);
        assert_written(&mut tested, 1);
        tested.assemble(false).unwrap();
        assert_eq!([reads_of_write(&mut tested, 1), reads_of_write(&mut tested, 1)], [members, 0]);
        tested.array().fail(2).unwrap();
        assert_eq!(tested.array().members().records.next_generation(1), None);
        assert_written(&mut tested, 1);
    }

    #[test]
    fn a_lost_zone_write_is_found_without_reading_old_records() {
        let mut tested = TestArray::with_zones(RaidLevel::Raid6, MEMBERS, 1, 2);
        reads_of_write(&mut tested, 1);
        let before = tested.disk.contents(&tested.members[3]).unwrap();
        assert_eq!(reads_of_write(&mut tested, 1), 0);
        tested.close();
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
