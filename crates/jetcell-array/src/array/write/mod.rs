//! Writes: staged, committed through the journal, or written in place as whole rows.
//!
//! The states of a written block, with the types that represent them:
//!
//! ```text
//!             write                                       layer with its own space, such as LUNs
//!               │                                             │                       │
//!               v         writer reaches a zone               v                       │
//!   ┌──── staged blocks ──────────────────────────────> open zone                     │
//!   │     (Staging) <──────────────────────────────── (OpenZone)                      │
//!   │           │        any operation except a write       │                         │
//!   │           │                                           │ full                    │ whole rows
//!   │ flush     │ staged new rows                           v                         │
//!   │           │                                  ZoneState::Computing               │
//!   v           │                                           │ parity and records      │
//! journal       │                                           v                         │
//!   │ synced    └──────────────────────────────────> ZoneState::Writing <─────────────┘
//!   v                                                       │ transfers complete
//! ZoneState::Committing ──────> on the members <────────────┘
//!                                      │ sync
//!                                      v
//!                                   durable
//! ```
//!
//! | state | visible to | after a crash |
//! | --- | --- | --- |
//! | staged, open zone | reads of the array, from memory | lost |
//! | computing, writing | no reads until the write completes; reads wait for it | any content; [open rows](staging::open_rows) are cleared, other layers clear theirs |
//! | committing | reads wait until the write completes | replayed from the journal |
//!
//! A zone only moves forward, except that an open zone may be closed. If a write fails, the member fails, and the zone
//! moves on. The records of zones in flight are pinned in memory, because the members do not have them yet.

mod commit;
mod free_rows;
mod open_zone;
mod staging;
mod zone_states;
mod zone_worker;

use std::collections::{BTreeSet, VecDeque};

use jetcell_sync::thread;

use self::zone_states::ZonesInFlight;
use super::rows::RowStore;
use crate::error::Result;

pub use self::open_zone::OpenZone;
pub(in crate::array) use self::staging::Staging;

/// Maximum number of threads that compute rows.
const MAX_THREADS: usize = 8;

/// Writes of rows: commits through the journal, whole rows in place, and the writes in flight.
///
/// Layers that manage the space of an array themselves write free rows through it; see [`Array::row_writer`].
///
/// [`Array::row_writer`]: crate::Array::row_writer
pub struct RowWriter {
    pub(crate) rows: RowStore,
    in_flight: ZonesInFlight,
    /// Number of threads that compute concurrently.
    threads: usize,
    /// Number of the next commit.
    pub(crate) sequence: u64,
    /// Rows of the commits that startup after a crash would replay.
    replayable_rows: VecDeque<BTreeSet<u64>>,
    /// Zones written by the last commits, with the most recent zone last.
    pub(crate) recent_zones: VecDeque<u64>,
}

impl RowWriter {
    /// Creates a writer of rows. `sequence` is the number of the next commit.
    pub(crate) fn new(rows: RowStore, sequence: u64) -> RowWriter {
        RowWriter {
            rows,
            in_flight: ZonesInFlight::default(),
            threads: thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS),
            sequence,
            replayable_rows: VecDeque::new(),
            recent_zones: VecDeque::new(),
        }
    }

    /// Makes all previous writes to the members durable. Members that fail to sync are removed from the array.
    pub fn sync_members(&mut self) -> Result<()> {
        self.finish_rows()?;
        self.rows.members.sync_devices()
    }
}

impl Drop for RowWriter {
    /// Waits for the writes in flight, because the members are unlocked afterwards and others may use them.
    fn drop(&mut self) {
        self.in_flight.wait();
    }
}

#[cfg(any(test, feature = "testing"))]
impl RowWriter {
    /// Checks that remembered generations match the records on the members.
    ///
    /// # Panics
    /// Panics if generations and records do not match, or if the array failed.
    pub fn check_generations(&mut self) {
        use crate::geometry::ZONE_ROWS;

        self.finish_rows().unwrap();
        for zone in self.rows.members.records.zones_with_generation() {
            let next = self.rows.members.records.next_generation(zone).unwrap();
            self.rows.members.records.evict(zone);
            self.rows.members.load_records_of_rows([zone * ZONE_ROWS].into_iter());
            for row in zone * ZONE_ROWS..(zone + 1) * ZONE_ROWS {
                assert!(self.rows.row_state(row).allows(next), "zone {zone}, row {row}: {next}");
            }
        }
    }
}
