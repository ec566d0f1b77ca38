//! The records and the mix: which keys exist, which operation is next, and which bytes it writes.
//!
//! An id names a record. Its key is splitmix64 of the id, big endian, so ids in sequence give random keys. Each
//! session owns its records: those that it got at the start and those that it inserted. Sessions never conflict on a
//! record.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::store::{RecordKey, StoreStatement};

/// Shortest value.
const MIN_VALUE_LEN: u64 = 200;
/// Lengths from the shortest to the longest, 1848.
const VALUE_LEN_COUNT: u64 = 1649;
/// Mean bytes of a record: key and value.
pub const MEAN_RECORD_BYTES: u64 = 8 + MIN_VALUE_LEN + VALUE_LEN_COUNT / 2;
/// Percent of operations that are inserts, deletes and replaces. The rest are reads.
const INSERTS: u64 = 40;
const DELETES: u64 = 20;
const REPLACES: u64 = 5;

/// A fast random generator with 64 bits of state. Its bytes do not compress.
#[derive(Clone)]
pub struct FastRandom(u64);

impl FastRandom {
    /// Streams of different seeds are unrelated.
    pub fn new(seed: u64) -> FastRandom {
        FastRandom(mix(seed ^ 0x6A09_E667_F3BC_C909))
    }

    /// The next word.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix_state(self.0)
    }

    /// A number below `limit`.
    pub fn next_below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }
}

/// splitmix64 of a number, a bijection.
pub fn mix(number: u64) -> u64 {
    mix_state(number.wrapping_add(0x9E37_79B9_7F4A_7C15))
}

fn mix_state(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Key of an id.
pub fn key_of(id: u32) -> RecordKey {
    mix(u64::from(id)).to_be_bytes()
}

/// A record that exists: its id and the length of its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiveRecord {
    id: u32,
    len: u16,
}

impl LiveRecord {
    /// Returns the key of the record.
    pub fn key(self) -> RecordKey {
        key_of(self.id)
    }

    /// Bytes of key and value.
    pub fn bytes(self) -> u64 {
        size_of::<RecordKey>() as u64 + u64::from(self.len)
    }

    /// Whether `value` is a value that was written for this record.
    pub fn is_value(self, value: &[u8]) -> bool {
        value.len() == usize::from(self.len) && value.starts_with(&self.id.to_le_bytes())
    }
}

/// A value of random length for an id: the id, then bytes that do not compress.
pub fn value(random: &mut FastRandom, id: u32) -> (LiveRecord, Vec<u8>) {
    let len = (MIN_VALUE_LEN + random.next_below(VALUE_LEN_COUNT)) as usize;
    let mut value = Vec::with_capacity(len + 8);
    while value.len() < len {
        value.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    value.truncate(len);
    value[..4].copy_from_slice(&id.to_le_bytes());
    (LiveRecord { id, len: len as u16 }, value)
}

/// All records of a closed store.
#[derive(Default, Debug, PartialEq)]
pub struct StoreRecords {
    /// Records that exist.
    pub live: Vec<LiveRecord>,
    /// The first id that was never used.
    pub next: u32,
}

impl StoreRecords {
    /// Bytes of all keys and values.
    pub fn bytes(&self) -> u64 {
        self.live.iter().map(|one| one.bytes()).sum()
    }

    /// Divides the records among sessions.
    pub fn partition(self, sessions: u32, seed: u64) -> Vec<SessionRecords> {
        let new = |number| SessionRecords {
            live: Vec::with_capacity(self.live.len() / sessions as usize * 5 / 4),
            next: self.next + number,
            step: sessions,
            random: FastRandom::new(seed ^ mix(u64::from(number))),
            changed: Vec::new(),
        };
        let mut parts: Vec<SessionRecords> = (0..sessions).map(new).collect();
        for (at, one) in self.live.into_iter().enumerate() {
            parts[at % sessions as usize].live.push(one);
        }
        parts
    }

    /// Puts the records of all sessions together.
    pub fn merge(parts: Vec<SessionRecords>) -> StoreRecords {
        let next = parts.iter().map(|records| records.next).max().unwrap_or(0);
        StoreRecords { live: parts.into_iter().flat_map(|records| records.live).collect(), next }
    }

    /// Writes the list of records next to the store.
    pub fn save(&self, path: &Path) -> Result<()> {
        let mut bytes = self.next.to_le_bytes().to_vec();
        bytes.reserve(self.live.len() * 6);
        for one in &self.live {
            bytes.extend_from_slice(&one.id.to_le_bytes());
            bytes.extend_from_slice(&one.len.to_le_bytes());
        }
        fs::write(path, bytes).with_context(|| path.display().to_string())
    }

    /// Reads a list that [`StoreRecords::save`] wrote.
    pub fn read(path: &Path) -> Result<StoreRecords> {
        let bytes = fs::read(path).with_context(|| path.display().to_string())?;
        let Some((next, rest)) = bytes.split_first_chunk::<4>() else { bail!("{} is empty", path.display()) };
        let (entries, []) = rest.as_chunks::<6>() else { bail!("{} is truncated", path.display()) };
        let live = entries.iter().map(|[a, b, c, d, e, f]| LiveRecord {
            id: u32::from_le_bytes([*a, *b, *c, *d]),
            len: u16::from_le_bytes([*e, *f]),
        });
        Ok(StoreRecords { live: live.collect(), next: u32::from_le_bytes(*next) })
    }
}

/// The records that one session owns, and its stream of operations.
pub struct SessionRecords {
    live: Vec<LiveRecord>,
    next: u32,
    step: u32,
    random: FastRandom,
    /// Ids that the current transaction has inserted or replaced. The transaction does not touch them again: some
    /// engines cannot read their write batches before the commit, and all engines must get the same work.
    changed: Vec<u32>,
}

/// The next operation.
pub enum DrawnOperation {
    /// An update.
    Update(StoreStatement),
    /// A read of this record.
    Read(LiveRecord),
}

impl SessionRecords {
    /// Draws the next operation of the mail mix. The list of records changes as if the operation had been executed.
    pub fn draw(&mut self) -> DrawnOperation {
        let dice = self.random.next_below(100);
        let Some(at) = self.pick(self.live.len()).filter(|_| dice >= INSERTS) else {
            return DrawnOperation::Update(self.insert());
        };
        let one = self.live[at];
        if dice < INSERTS + DELETES {
            self.live.swap_remove(at);
            return DrawnOperation::Update(StoreStatement::Delete(one.key()));
        }
        if dice < INSERTS + DELETES + REPLACES {
            return DrawnOperation::Update(self.replace(at));
        }
        DrawnOperation::Read(one)
    }

    /// Draws a replace of one of the first `count` records.
    pub fn draw_hot(&mut self, count: usize) -> StoreStatement {
        match self.pick(count.min(self.live.len())) {
            Some(at) => self.replace(at),
            None => self.insert(),
        }
    }

    /// Starts a new transaction.
    pub fn begin(&mut self) {
        self.changed.clear();
    }

    /// Picks one of the first `count` records at random. `None`: the transaction has changed nearly all of them.
    fn pick(&mut self, count: usize) -> Option<usize> {
        let attempts = if count == 0 { 0 } else { 100 };
        (0..attempts).find_map(|_| {
            let at = self.random.next_below(count as u64) as usize;
            (!self.changed.contains(&self.live[at].id)).then_some(at)
        })
    }

    fn replace(&mut self, at: usize) -> StoreStatement {
        let (new, value) = value(&mut self.random, self.live[at].id);
        self.live[at] = new;
        self.changed.push(new.id);
        StoreStatement::Replace(new.key(), value)
    }

    fn insert(&mut self) -> StoreStatement {
        let (new, value) = value(&mut self.random, self.next);
        self.next += self.step;
        self.live.push(new);
        self.changed.push(new.id);
        StoreStatement::Insert(new.key(), value)
    }

    /// Returns true in `percent` of all calls.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.random.next_below(100) < percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_splitmix64() {
        // The first outputs of the published generator for seed 0.
        assert_eq!(key_of(0), 0xE220_A839_7B1D_CDAFu64.to_be_bytes());
        assert_eq!(FastRandom(0).next_u64(), 0xE220_A839_7B1D_CDAF);
    }

    #[test]
    fn values_contain_the_record_key_and_match_configured_lengths() {
        let mut random = FastRandom::new(7);
        let lens: Vec<usize> = (0..20_000).map(|id| value(&mut random, id).1.len()).collect();
        assert_eq!((lens.iter().min(), lens.iter().max()), (Some(&200), Some(&1848)));
        let mean = lens.iter().sum::<usize>() / lens.len();
        assert!((1014..1034).contains(&mean), "{mean}");
        let (live, value) = value(&mut random, 9);
        assert!(live.is_value(&value) && !LiveRecord { id: 8, ..live }.is_value(&value));
    }

    #[test]
    fn sessions_own_disjoint_records_covering_the_whole_range() {
        let mut random = FastRandom::new(1);
        let live = (0..1000).map(|id| value(&mut random, id).0).collect();
        let mut parts = StoreRecords { live, next: 1000 }.partition(3, 5);
        for records in &mut parts {
            for _ in 0..100 {
                records.begin();
                let keys = (0..10).filter_map(|_| match records.draw() {
                    DrawnOperation::Update(operation) => Some(*operation.key()),
                    DrawnOperation::Read(_) => None,
                });
                let mut keys: Vec<RecordKey> = keys.collect();
                let count = keys.len();
                keys.sort_unstable();
                keys.dedup();
                assert_eq!(keys.len(), count, "a transaction changes each record at most once");
            }
        }
        let records = StoreRecords::merge(parts);
        let mut ids: Vec<u32> = records.live.iter().map(|one| one.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), records.live.len(), "ids are unique");
        assert!(ids.iter().all(|id| *id < records.next));
        let path = std::env::temp_dir().join(format!("jetcell-bench-{}", std::process::id()));
        records.save(&path).unwrap();
        assert_eq!(StoreRecords::read(&path).unwrap(), records);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn the_mix_has_the_configured_percentages() {
        let mut random = FastRandom::new(1);
        let live = (0..50_000).map(|id| value(&mut random, id).0).collect();
        let records = &mut StoreRecords { live, next: 50_000 }.partition(1, 5)[0];
        let mut counts = [0; 4];
        for _ in 0..100_000 {
            records.begin();
            let kind = match records.draw() {
                DrawnOperation::Update(StoreStatement::Insert(..)) => 0,
                DrawnOperation::Update(StoreStatement::Delete(_)) => 1,
                DrawnOperation::Update(_) => 2,
                DrawnOperation::Read(_) => 3,
            };
            counts[kind] += 1;
        }
        for (count, percent) in counts.iter().zip([40, 20, 5, 35]) {
            assert!((count / 100 - percent * 10i32).abs() < 10, "{counts:?}");
        }
    }
}
