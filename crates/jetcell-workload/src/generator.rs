//! What the load does next and what its records contain, both decided by the seed alone.
//!
//! ```text
//! content of a short or long column
//!  0        8        16                    len
//!  | stamp  | id     | ChaCha8 stream ...  |     little-endian; the stream is keyed by place, id and stamp
//! ```
//!
//! Content is incompressible and never repeats, and every byte can be verified from the content itself plus the
//! place it was read from: a record that was lost, mixed up or damaged does not verify.

use std::fmt;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::engine::Row;
use crate::profile::{Mix, Profile, Records};
use crate::skew::Skew;

/// The four operations of the mail load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// A new record.
    Insert,
    /// A record removed.
    Delete,
    /// A record changed.
    Replace,
    /// A record read and verified.
    Read,
}

impl OperationKind {
    /// All kinds; `kind as usize` indexes tables of this length.
    pub const ALL: [OperationKind; 4] =
        [OperationKind::Insert, OperationKind::Delete, OperationKind::Replace, OperationKind::Read];

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            OperationKind::Insert => "insert",
            OperationKind::Delete => "delete",
            OperationKind::Replace => "replace",
            OperationKind::Read => "read",
        }
    }
}

/// One operation of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What to do.
    pub kind: OperationKind,
    /// On which table.
    pub table: u32,
    /// Which record: a point in the key range, as a fraction of 2^64.
    pub point: u64,
    /// Whether the commit waits for the log.
    pub durable: bool,
    /// Whether the record gets long content.
    pub long: bool,
    /// Makes the content unlike any other.
    pub stamp: u64,
}

impl Operation {
    /// The key at this point of a key range that ends before `next_id`; keys start at 1.
    pub fn id_below(&self, next_id: i64) -> i64 {
        let keys = u128::from(next_id.max(2).unsigned_abs() - 1);
        1 + ((keys * u128::from(self.point)) >> 64) as i64
    }
}

/// An endless, repeatable sequence of operations.
pub struct Generator {
    random: ChaCha8Rng,
    mix: Mix,
    lazy_percent: u8,
    records: Records,
    skew: Skew,
    /// Where the next insert goes.
    insert_table: u32,
}

impl Generator {
    /// The sequence of one load thread.
    pub fn new(profile: &Profile, thread: usize) -> Generator {
        let mut random = ChaCha8Rng::seed_from_u64(profile.seed);
        random.set_stream(thread as u64 + 1);
        Generator {
            random,
            mix: profile.mix,
            lazy_percent: profile.lazy_percent,
            records: profile.records,
            skew: profile.skew,
            insert_table: thread as u32 % profile.records.tables,
        }
    }

    fn below(&mut self, limit: u32) -> u32 {
        ((u64::from(self.random.next_u32()) * u64::from(limit)) >> 32) as u32
    }

    /// The next operation.
    pub fn operation(&mut self) -> Operation {
        let Mix { insert, delete, replace, .. } = self.mix;
        let draw = self.below(100) as u8;
        let kind = match draw {
            _ if draw < insert => OperationKind::Insert,
            _ if draw < insert + delete => OperationKind::Delete,
            _ if draw < insert + delete + replace => OperationKind::Replace,
            _ => OperationKind::Read,
        };
        let any_table = self.below(self.records.tables);
        // Inserts go round all tables, so that they grow alike; each thread begins at another one, so that threads
        // seldom append to the same.
        let mut table = any_table;
        if kind == OperationKind::Insert {
            table = self.insert_table;
            self.insert_table = (table + 1) % self.records.tables;
        }
        Operation {
            kind,
            table,
            point: self.skew.point(self.random.next_u64()),
            durable: self.below(100) >= u32::from(self.lazy_percent),
            long: self.below(100) < u32::from(self.records.long_percent),
            stamp: self.random.next_u64(),
        }
    }

    /// The same operation at another place, for one that had no record at its own. It depends on the operation alone and
    /// leaves the sequence as it is. As many attempts as there are tables go to each of them.
    pub fn redraw(&self, operation: &Operation, attempt: u32) -> Operation {
        let mut random = ChaCha8Rng::seed_from_u64(operation.stamp);
        random.set_stream(u64::from(attempt));
        let point = self.skew.point(random.next_u64());
        Operation { table: (operation.table + attempt) % self.records.tables, point, ..*operation }
    }
}

/// The operation that fills a database with record `id`: it depends on nothing but the seed and the place, so that an
/// interrupted creation is continued with the records that it would have had.
pub fn filling(profile: &Profile, place: Place, id: i64) -> Operation {
    let mut random = stream(place, id, profile.seed, Column::Filling);
    let long = random.next_u32() % 100 < u32::from(profile.records.long_percent);
    let stamp = random.next_u64();
    Operation { kind: OperationKind::Insert, table: place.table, point: 0, durable: false, long, stamp }
}

/// Where a record belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Database number in the plan, from 0.
    pub database: u32,
    /// Table number, from 0.
    pub table: u32,
}

/// Which column of a record; part of the key of its content.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Thread,
    Short,
    Long,
    /// None: what decides about the whole record when databases are filled.
    Filling,
}

/// Bytes of stamp and id in front of the stream.
const PREFIX: usize = 16;

fn stream(place: Place, id: i64, stamp: u64, column: Column) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..4].copy_from_slice(&place.database.to_le_bytes());
    key[4..8].copy_from_slice(&place.table.to_le_bytes());
    key[8..16].copy_from_slice(&id.to_le_bytes());
    key[16..24].copy_from_slice(&stamp.to_le_bytes());
    key[24] = column as u8;
    ChaCha8Rng::from_seed(key)
}

fn content(place: Place, id: i64, stamp: u64, column: Column, len: u32) -> Vec<u8> {
    let mut bytes = vec![0; (len as usize).max(PREFIX)];
    let (prefix, rest) = bytes.split_at_mut(PREFIX);
    prefix[..8].copy_from_slice(&stamp.to_le_bytes());
    prefix[8..].copy_from_slice(&id.to_le_bytes());
    stream(place, id, stamp, column).fill_bytes(rest);
    bytes
}

/// The record that `operation` writes under `id`.
pub fn row(records: &Records, place: Place, id: i64, operation: &Operation) -> Row {
    let mut thread = [0; 16];
    stream(place, id, operation.stamp, Column::Thread).fill_bytes(&mut thread);
    let column = |column, len| content(place, id, operation.stamp, column, len);
    Row {
        id,
        thread,
        short: column(Column::Short, records.short_bytes),
        long: operation.long.then(|| column(Column::Long, records.long_bytes)),
    }
}

/// Why a record is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongContent {
    /// Where it was read.
    pub place: Place,
    /// Its key.
    pub id: i64,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for WrongContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WrongContent { place, id, what } = self;
        write!(f, "database {}, table {}, record {id}: {what}", place.database + 1, place.table + 1)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Checks every byte of a record against the place it was read from.
pub fn verify(place: Place, row: &Row) -> Result<(), WrongContent> {
    let wrong = |what: String| Err(WrongContent { place, id: row.id, what });
    let Some(stamp) = word(&row.short, 0) else { return wrong("short column is cut off".into()) };
    for (name, column, bytes) in
        [("short", Column::Short, Some(&row.short)), ("long", Column::Long, row.long.as_ref())]
    {
        let Some(bytes) = bytes else { continue };
        if word(bytes, 0) != Some(stamp) {
            return wrong(format!("{name} column is from another version of the record"));
        }
        if word(bytes, 8) != Some(row.id as u64) {
            return wrong(format!("{name} column belongs to another record"));
        }
        if *bytes != content(place, row.id, stamp, column, bytes.len() as u32) {
            return wrong(format!("{name} column is damaged"));
        }
    }
    let mut thread = [0; 16];
    stream(place, row.id, stamp, Column::Thread).fill_bytes(&mut thread);
    if thread != row.thread { wrong("index column is damaged".into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Options;

    fn profile(seed: u64) -> Profile {
        Options { dirs: vec!["d".into()], seed: Some(seed), ..Options::default() }.resolve().unwrap()
    }

    fn first(generator: &mut Generator, count: usize) -> Vec<Operation> {
        (0..count).map(|_| generator.operation()).collect()
    }

    #[test]
    fn the_seed_decides_the_sequence() {
        let of = |seed, thread| first(&mut Generator::new(&profile(seed), thread), 100);
        assert_eq!(of(5, 2), of(5, 2));
        assert_ne!(of(5, 2), of(6, 2));
        assert_ne!(of(5, 2), of(5, 3));
    }

    #[test]
    fn shares_match_the_mix() {
        let operations = first(&mut Generator::new(&profile(1), 0), 100_000);
        let share =
            |test: &dyn Fn(&Operation) -> bool| operations.iter().filter(|o| test(o)).count() as f64 / 1000.0;
        for (kind, percent) in OperationKind::ALL.into_iter().zip([40.0, 20.0, 5.0, 35.0]) {
            assert!((share(&|o| o.kind == kind) - percent).abs() < 0.6, "{kind:?}");
        }
        assert!((share(&|o| o.durable) - 30.0).abs() < 0.6);
    }

    #[test]
    fn inserts_go_round_all_tables() {
        let profile = profile(1);
        let inserts = |thread| {
            let mut operations = first(&mut Generator::new(&profile, thread), 100);
            operations.retain(|operation| operation.kind == OperationKind::Insert);
            operations.iter().map(|operation| operation.table).collect::<Vec<_>>()
        };
        for thread in [0, 3, 9] {
            let expected = (thread as u32..).map(|table| table % profile.records.tables);
            assert!(inserts(thread).into_iter().eq(expected.take(inserts(thread).len())), "{thread}");
        }
    }

    #[test]
    fn a_redraw_tries_every_table_and_keeps_the_sequence() {
        let profile = profile(1);
        let (mut generator, mut other) = (Generator::new(&profile, 0), Generator::new(&profile, 0));
        let operation = generator.operation();
        let tables: std::collections::BTreeSet<u32> =
            (1..=profile.records.tables).map(|attempt| generator.redraw(&operation, attempt).table).collect();
        assert_eq!(tables.len() as u32, profile.records.tables);
        assert_eq!(generator.redraw(&operation, 2), generator.redraw(&operation, 2));
        assert_ne!(generator.redraw(&operation, 1).point, generator.redraw(&operation, 2).point);
        other.operation();
        assert_eq!(generator.operation(), other.operation());
    }

    #[test]
    fn points_cover_the_key_range() {
        let at = |point| Operation { point, ..first(&mut Generator::new(&profile(1), 0), 1)[0] };
        assert_eq!((at(0).id_below(101), at(u64::MAX).id_below(101)), (1, 100));
        assert_eq!((at(u64::MAX).id_below(1), at(u64::MAX).id_below(0)), (1, 1));
        assert_eq!(at(u64::MAX).id_below(i64::MAX), i64::MAX - 1);
    }

    #[test]
    fn content_verifies_and_any_change_is_noticed() {
        let place = Place { database: 1, table: 3 };
        let operation = Operation { long: true, ..Generator::new(&profile(1), 0).operation() };
        let good = row(&Records::default(), place, 42, &operation);
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
        assert!(verify(Place { database: 0, ..place }, &good).is_err());
        assert!(verify(place, &Row { id: 43, ..good.clone() }).is_err());
        assert!(verify(place, &Row { short: vec![], ..good.clone() }).is_err());

        let newer =
            row(&Records::default(), place, 42, &Operation { stamp: operation.stamp + 1, ..operation });
        let mixed = Row { long: newer.long, ..good };
        assert_eq!(
            verify(place, &mixed).unwrap_err().what,
            "long column is from another version of the record"
        );
    }

    #[test]
    fn seed_and_place_decide_what_fills() {
        let place = Place { database: 1, table: 2 };
        let stamp = |seed, place, id| filling(&profile(seed), place, id).stamp;
        assert_eq!(stamp(1, place, 7), stamp(1, place, 7));
        let others = [
            stamp(2, place, 7),
            stamp(1, place, 8),
            stamp(1, Place { table: 3, ..place }, 7),
            stamp(1, Place { database: 0, ..place }, 7),
        ];
        assert!(others.iter().all(|other| *other != stamp(1, place, 7)));
        let mut half = profile(1);
        half.records.long_percent = 50;
        let long = (1..=2000).filter(|id| filling(&half, place, *id).long).count();
        assert!((900..1100).contains(&long), "{long}");
    }

    #[test]
    fn content_does_not_compress_or_repeat() {
        let mut bytes: Vec<u8> = Vec::new();
        let place = Place { database: 0, table: 0 };
        for id in 1..200 {
            let row = row(&Records::default(), place, id, &filling(&profile(1), place, id));
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
