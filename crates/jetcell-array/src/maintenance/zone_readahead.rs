//! Processes rows zone by zone. While one zone is being processed, the blocks of the next zone are read.

use std::ops::Range;

use crate::array::{InFlightTransfers, LoadMeter, RowStore};
use crate::geometry::ZONE_ROWS;
use crate::integrity::RowState;

/// The rows of one zone, with their states.
pub(super) type ZoneStates = Vec<(u64, RowState)>;

/// Function that returns which cells of a row are needed.
type NeededCells<'n> = Box<dyn Fn(&mut RowStore, u64, &RowState) -> Vec<usize> + 'n>;

/// A sequence of zones that always reads one zone ahead.
pub(super) struct ZoneReadahead<'n> {
    /// Rows that have not been read yet.
    rest: Range<u64>,
    needed_cells: NeededCells<'n>,
    load: LoadMeter,
    in_flight: Option<(ZoneStates, InFlightTransfers)>,
}

impl<'n> ZoneReadahead<'n> {
    /// Starts to read the needed cells of rows, which must be in ascending order. The sequence ends early if an
    /// operation of `load` is waiting.
    pub fn new(
        store: &mut RowStore,
        load: &LoadMeter,
        rows: Range<u64>,
        needed: impl Fn(&mut RowStore, u64, &RowState) -> Vec<usize> + 'n,
    ) -> ZoneReadahead<'n> {
        let needed_cells: NeededCells<'n> = Box::new(needed);
        store.members.load_records_of_rows(rows.clone());
        let mut ahead = ZoneReadahead { rest: rows, needed_cells, load: load.clone(), in_flight: None };
        ahead.in_flight = ahead.start(store);
        ahead
    }

    fn start(&mut self, store: &mut RowStore) -> Option<(ZoneStates, InFlightTransfers)> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.end.min((self.rest.start / ZONE_ROWS + 1) * ZONE_ROWS);
        let mut states = vec![];
        let mut places = vec![];
        for row in self.rest.start..end {
            let state = store.row_state(row);
            let cells = (self.needed_cells)(store, row, &state);
            places.extend(store.block_locations(row, &state, &cells));
            states.push((row, state));
        }
        self.rest.start = end;
        Some((states, store.start_fetch(places)))
    }

    /// Returns the rows of the next zone. Their blocks remain in memory until the next call. Returns `None` after the
    /// current zone if an operation of the load is waiting for the array. The time that a zone takes is known only
    /// afterwards, because empty zones take almost no time.
    pub fn next(&mut self, store: &mut RowStore) -> Option<ZoneStates> {
        let (states, reads) = self.in_flight.take()?;
        if self.load.operations_in_progress() > 0 {
            self.rest.end = self.rest.start;
        }
        self.in_flight = self.start(store);
        store.finish_fetch(reads);
        Some(states)
    }

    /// Returns the end of the rows that were read.
    pub fn end_of_read_rows(&self) -> u64 {
        self.rest.start
    }
}
