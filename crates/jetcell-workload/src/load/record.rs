//! Content of the records of the load. The content depends only on the seed, the place and the key.
//!
//! ```text
//! content of a short or long column
//!  0        8        16                    len
//!  | stamp  | id     | noise ...           |     little-endian; the stream of noise is keyed by place, id and stamp
//! ```
//!
//! Content is incompressible and never repeats. Every byte can be verified from the content itself and the place from
//! which it was read. The verification fails for a record that is misplaced or damaged, or that contains parts of
//! several versions.

use std::fmt;

use crate::engine::LoadRow;
use crate::load::generator::{LoadOperation, LoadOperationKind, stamp};
use crate::load::stream::RandomStreamKey;
use crate::profile::{Profile, RecordLayout};

/// Returns the operation that adds record `id` when databases are filled. The operation depends only on the seed, the
/// place and the key. A resumed creation therefore has the same records as an uninterrupted one.
pub(crate) fn fill_operation(profile: &Profile, place: TableLocation, id: i64) -> LoadOperation {
    let mut random = key(place, id, profile.seed).extended(RecordColumn::FillProperties as u64).stream();
    let long = random.next_u64() % 100 < u64::from(profile.records.long_percent);
    let stamp = stamp(random.next_u64());
    LoadOperation {
        kind: LoadOperationKind::Insert,
        table: place.table,
        point: 0,
        durable: false,
        long,
        stamp,
    }
}

/// The database and table that hold a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableLocation {
    /// Index of the database in the plan, starting at 0.
    pub(crate) database: u32,
    /// Table number, starting at 0.
    pub(crate) table: u32,
}

/// Column of a record. The column is part of the key of its content.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RecordColumn {
    Thread,
    Short,
    Long,
    /// Not a column: selects the stream for the properties of a whole record when databases are filled.
    FillProperties,
}

/// Length of the stamp and id before the noise, in bytes.
const PREFIX_BYTES: usize = 16;

fn key(place: TableLocation, id: i64, stamp: u64) -> RandomStreamKey {
    let place = u64::from(place.database) << 32 | u64::from(place.table);
    RandomStreamKey::new(place).extended(id as u64).extended(stamp)
}

/// Replaces `bytes` with the content of a column.
fn set_content(
    bytes: &mut Vec<u8>,
    key: RandomStreamKey,
    id: i64,
    stamp: u64,
    column: RecordColumn,
    len: u32,
) {
    // The previous row usually had the same length, so the buffer does not have to be cleared.
    bytes.resize((len as usize).max(PREFIX_BYTES), 0);
    let (prefix, noise) = bytes.split_at_mut(PREFIX_BYTES);
    prefix[..8].copy_from_slice(&stamp.to_le_bytes());
    prefix[8..].copy_from_slice(&id.to_le_bytes());
    key.extended(column as u64).stream().fill(noise);
}

fn thread(key: RandomStreamKey) -> [u8; 16] {
    key.extended(RecordColumn::Thread as u64).stream().next_pair()
}

/// Returns the record that `operation` writes with the key `id`.
pub(crate) fn row(
    records: &RecordLayout,
    place: TableLocation,
    id: i64,
    operation: &LoadOperation,
) -> LoadRow {
    let mut row = LoadRow::default();
    set_row(&mut row, records, place, id, operation);
    row
}

/// Creates the same record as [`row()`], but reuses the memory of an existing row.
pub(crate) fn set_row(
    row: &mut LoadRow,
    records: &RecordLayout,
    place: TableLocation,
    id: i64,
    operation: &LoadOperation,
) {
    let stamp = operation.stamp;
    let key = key(place, id, stamp);
    row.id = id;
    row.thread.clear();
    row.thread.extend_from_slice(&thread(key));
    set_content(&mut row.short, key, id, stamp, RecordColumn::Short, records.short_bytes);
    if operation.long {
        set_content(row.long.get_or_insert_default(), key, id, stamp, RecordColumn::Long, records.long_bytes);
    } else {
        row.long = None;
    }
}

/// Verification error for a record whose content differs from what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContentMismatch {
    /// Place from which the record was read.
    pub(crate) place: TableLocation,
    /// Key of the record.
    pub(crate) id: i64,
    /// Description of the error.
    pub(crate) what: String,
}

impl fmt::Display for ContentMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ContentMismatch { place, id, what } = self;
        write!(f, "database {}, table {}, record {id}: {what}", place.database + 1, place.table + 1)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Verifies every byte of a record for the place from which it was read.
pub(crate) fn verify(place: TableLocation, row: &LoadRow) -> Result<(), ContentMismatch> {
    let wrong = |what: String| Err(ContentMismatch { place, id: row.id, what });
    let Some(stamp) = word(&row.short, 0) else { return wrong("short column is truncated".into()) };
    let key = key(place, row.id, stamp);
    for (name, column, bytes) in
        [("short", RecordColumn::Short, Some(&row.short)), ("long", RecordColumn::Long, row.long.as_ref())]
    {
        let Some(bytes) = bytes else { continue };
        if word(bytes, 0) != Some(stamp) {
            return wrong(format!("{name} column is from another version of the record"));
        }
        if word(bytes, 8) != Some(row.id as u64) {
            return wrong(format!("{name} column belongs to another record"));
        }
        let mut expected = Vec::new();
        set_content(&mut expected, key, row.id, stamp, column, bytes.len() as u32);
        if *bytes != expected {
            return wrong(format!("{name} column is damaged"));
        }
    }
    if row.thread != thread(key) { wrong("index column is damaged".into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::generator::OperationGenerator;
    use crate::profile::Options;

    fn profile(seed: u64) -> Profile {
        Options { dirs: vec!["d".into()], seed: Some(seed), ..Options::default() }.resolve().unwrap()
    }

    #[test]
    fn content_verifies_and_any_change_is_detected() {
        let place = TableLocation { database: 1, table: 3 };
        let operation = LoadOperation { long: true, ..OperationGenerator::new(&profile(1), 0).operation() };
        let good = row(&RecordLayout::default(), place, 42, &operation);
        assert_eq!((good.short.len(), good.long.as_ref().unwrap().len()), (200, 2000));
        assert_eq!(verify(place, &good), Ok(()));

        for byte in 0..200 {
            let mut bad = good.clone();
            bad.short[byte] ^= 0x10;
            assert!(verify(place, &bad).is_err(), "short byte {byte}");
        }
        let mut bad = good.clone();
        bad.long.as_mut().unwrap()[1999] ^= 1;
        assert_eq!(verify(place, &bad).unwrap_err().what, "long column is damaged");
        let mut bad = good.clone();
        bad.thread[0] ^= 1;
        assert!(verify(place, &bad).is_err());
        assert!(verify(TableLocation { database: 0, ..place }, &good).is_err());
        assert!(verify(place, &LoadRow { id: 43, ..good.clone() }).is_err());
        assert!(verify(place, &LoadRow { short: vec![], ..good.clone() }).is_err());

        let newer = row(
            &RecordLayout::default(),
            place,
            42,
            &LoadOperation { stamp: operation.stamp + 1, ..operation },
        );
        let mixed = LoadRow { long: newer.long, ..good };
        assert_eq!(
            verify(place, &mixed).unwrap_err().what,
            "long column is from another version of the record"
        );
    }

    #[test]
    fn fill_content_depends_on_seed_and_location() {
        let place = TableLocation { database: 1, table: 2 };
        let stamp = |seed, place, id| fill_operation(&profile(seed), place, id).stamp;
        assert_eq!(stamp(1, place, 7), stamp(1, place, 7));
        let others = [
            stamp(2, place, 7),
            stamp(1, place, 8),
            stamp(1, TableLocation { table: 3, ..place }, 7),
            stamp(1, TableLocation { database: 0, ..place }, 7),
        ];
        assert!(others.iter().all(|other| *other != stamp(1, place, 7)));
        let mut half = profile(1);
        half.records.long_percent = 50;
        let long = (1..=2000).filter(|id| fill_operation(&half, place, *id).long).count();
        assert!((900..1100).contains(&long), "{long}");
    }

    #[test]
    fn content_does_not_compress_or_repeat() {
        let mut bytes: Vec<u8> = Vec::new();
        let place = TableLocation { database: 0, table: 0 };
        for id in 1..200 {
            let row = row(&RecordLayout::default(), place, id, &fill_operation(&profile(1), place, id));
            bytes.extend(row.short.iter().chain(row.long.iter().flatten()));
        }
        let mut counts = [0u32; 256];
        bytes.iter().for_each(|b| counts[usize::from(*b)] += 1);
        let entropy: f64 = counts
            .iter()
            .filter(|count| **count > 0)
            .map(|count| f64::from(*count) / bytes.len() as f64)
            .map(|p| -p * p.log2())
            .sum();
        assert!(entropy > 7.98, "{entropy} bits per byte");
    }
}
