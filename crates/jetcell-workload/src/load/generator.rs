//! The sequence of operations of a thread. It depends only on the seed and the thread number.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::profile::{Mix, Profile, RecordLayout, Skew};

/// The four operations of the mail load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoadOperationKind {
    /// Inserts a new record.
    Insert,
    /// Deletes a record.
    Delete,
    /// Changes a record.
    Replace,
    /// Reads and verifies a record.
    Read,
}

impl LoadOperationKind {
    /// All kinds. `kind as usize` is an index into arrays of this length.
    pub(crate) const ALL: [LoadOperationKind; 4] = [
        LoadOperationKind::Insert,
        LoadOperationKind::Delete,
        LoadOperationKind::Replace,
        LoadOperationKind::Read,
    ];

    /// Returns the name under which results list the kind.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            LoadOperationKind::Insert => "insert",
            LoadOperationKind::Delete => "delete",
            LoadOperationKind::Replace => "replace",
            LoadOperationKind::Read => "read",
        }
    }
}

/// An operation in the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoadOperation {
    /// Kind of the operation.
    pub(crate) kind: LoadOperationKind,
    /// Table number.
    pub(crate) table: u32,
    /// Position of the record in the key range, as a fraction of 2^64.
    pub(crate) point: u64,
    /// Whether the commit waits until the log is durable.
    pub(crate) durable: bool,
    /// Whether the record has long content.
    pub(crate) long: bool,
    /// Random number that makes the content unique.
    pub(crate) stamp: u64,
}

impl LoadOperation {
    /// Returns the key at this position of a key range that ends before `next_id`. Keys start at 1.
    pub(crate) fn id_below(&self, next_id: i64) -> i64 {
        let keys = u128::from(next_id.max(2).unsigned_abs() - 1);
        1 + ((keys * u128::from(self.point)) >> 64) as i64
    }
}

/// Returns the stamp of a record. The stamp is odd, so long content never starts with 0x18, which libesedb interprets
/// as compressed data.
pub(crate) fn stamp(random: u64) -> u64 {
    random | 1
}

/// An endless, repeatable sequence of operations.
pub(crate) struct OperationGenerator {
    random: ChaCha8Rng,
    mix: Mix,
    lazy_percent: u8,
    records: RecordLayout,
    skew: Skew,
    /// Table of the next insert.
    insert_table: u32,
}

impl OperationGenerator {
    /// Creates the sequence of one load thread.
    pub(crate) fn new(profile: &Profile, thread: usize) -> OperationGenerator {
        let mut random = ChaCha8Rng::seed_from_u64(profile.seed);
        random.set_stream(thread as u64 + 1);
        OperationGenerator {
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

    /// Returns the next operation.
    pub(crate) fn operation(&mut self) -> LoadOperation {
        let Mix { insert, delete, replace, .. } = self.mix;
        let draw = self.below(100) as u8;
        let kind = match draw {
            _ if draw < insert => LoadOperationKind::Insert,
            _ if draw < insert + delete => LoadOperationKind::Delete,
            _ if draw < insert + delete + replace => LoadOperationKind::Replace,
            _ => LoadOperationKind::Read,
        };
        let any_table = self.below(self.records.tables);
        // Inserts rotate over all tables, so the tables grow evenly. Each thread starts with a different table, so
        // threads seldom append to the same table.
        let mut table = any_table;
        if kind == LoadOperationKind::Insert {
            table = self.insert_table;
            self.insert_table = (table + 1) % self.records.tables;
        }
        LoadOperation {
            kind,
            table,
            point: self.skew.point(self.random.next_u64()),
            durable: self.below(100) >= u32::from(self.lazy_percent),
            long: self.below(100) < u32::from(self.records.long_percent),
            stamp: stamp(self.random.next_u64()),
        }
    }

    /// Returns the operation with another table and position, for a retry after it found no record. The result depends
    /// only on the operation and does not change the sequence. Attempts from 1 to the number of tables reach every
    /// table once.
    pub(crate) fn redraw(&self, operation: &LoadOperation, attempt: u32) -> LoadOperation {
        let mut random = ChaCha8Rng::seed_from_u64(operation.stamp);
        random.set_stream(u64::from(attempt));
        let point = self.skew.point(random.next_u64());
        LoadOperation { table: (operation.table + attempt) % self.records.tables, point, ..*operation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Options;

    fn profile(seed: u64) -> Profile {
        Options { dirs: vec!["d".into()], seed: Some(seed), ..Options::default() }.resolve().unwrap()
    }

    fn first(generator: &mut OperationGenerator, count: usize) -> Vec<LoadOperation> {
        (0..count).map(|_| generator.operation()).collect()
    }

    #[test]
    fn the_seed_decides_the_sequence() {
        let first_operations =
            |seed, thread| first(&mut OperationGenerator::new(&profile(seed), thread), 100);
        assert_eq!(first_operations(5, 2), first_operations(5, 2));
        assert_ne!(first_operations(5, 2), first_operations(6, 2));
        assert_ne!(first_operations(5, 2), first_operations(5, 3));
    }

    #[test]
    fn operation_shares_match_the_mix() {
        let operations = first(&mut OperationGenerator::new(&profile(1), 0), 100_000);
        let share = |test: &dyn Fn(&LoadOperation) -> bool| {
            operations.iter().filter(|o| test(o)).count() as f64 / 1000.0
        };
        for (kind, percent) in LoadOperationKind::ALL.into_iter().zip([40.0, 20.0, 5.0, 35.0]) {
            assert!((share(&|o| o.kind == kind) - percent).abs() < 0.6, "{kind:?}");
        }
        assert!((share(&|o| o.durable) - 30.0).abs() < 0.6);
    }

    #[test]
    fn inserts_rotate_over_all_tables() {
        let profile = profile(1);
        let inserts = |thread| {
            let mut operations = first(&mut OperationGenerator::new(&profile, thread), 100);
            operations.retain(|operation| operation.kind == LoadOperationKind::Insert);
            operations.iter().map(|operation| operation.table).collect::<Vec<_>>()
        };
        for thread in [0, 3, 9] {
            let expected = (thread as u32..).map(|table| table % profile.records.tables);
            assert!(inserts(thread).into_iter().eq(expected.take(inserts(thread).len())), "{thread}");
        }
    }

    #[test]
    fn a_redraw_tries_every_table_without_advancing_the_sequence() {
        let profile = profile(1);
        let (mut generator, mut other) =
            (OperationGenerator::new(&profile, 0), OperationGenerator::new(&profile, 0));
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
        let operation_at =
            |point| LoadOperation { point, ..first(&mut OperationGenerator::new(&profile(1), 0), 1)[0] };
        assert_eq!((operation_at(0).id_below(101), operation_at(u64::MAX).id_below(101)), (1, 100));
        assert_eq!((operation_at(u64::MAX).id_below(1), operation_at(u64::MAX).id_below(0)), (1, 1));
        assert_eq!(operation_at(u64::MAX).id_below(i64::MAX), i64::MAX - 1);
    }
}
