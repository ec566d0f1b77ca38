//! Tests that records with valid checksums but damaged contents lead to an error or to an arbitrary page, but never
//! to a panic.

use ese_format::LogPosition;
use ese_format::log::record::{LogRecord, kinds};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use testkit::corpus::Corpus;

use super::redo_fixture::RedoFixture;
use super::windows_logs::server2022;
use crate::log::PositionedRecord;

/// Returns the index of a random byte that is not part of a page number. Changing a page number could make the file
/// grow without limit.
fn place(rng: &mut ChaCha8Rng, bytes: &[u8]) -> Option<usize> {
    let fields = match bytes[0] {
        kinds::Split2 => 68,
        kinds::CreateSingleExtentFdp | kinds::CreateMultiExtentFdp => return None,
        kinds::ConvertFdp2 => 52,
        kinds::Insert | kinds::Replace | kinds::FlagDelete | kinds::Delete | kinds::SetExternalHeader => 44,
        _ => return None,
    };
    // The first range contains transaction, level, line and flags; the second contains the fields and the payload.
    let ranges = [24..32, fields..bytes.len()];
    let range = ranges[rng.random_range(0..2)].clone();
    (!range.is_empty()).then(|| rng.random_range(range))
}

fn damage(rng: &mut ChaCha8Rng, records: &mut Vec<PositionedRecord>) {
    for _ in 0..rng.random_range(1..4) {
        let at = rng.random_range(0..records.len() - 1);
        match rng.random_range(0..10) {
            0 => drop(records.remove(at)),
            1 => records.swap(at, at + 1),
            2 => records.insert(at, records[at].clone()),
            _ => {
                let mut bytes = records[at].bytes.clone();
                if let Some(place) = place(rng, &bytes) {
                    bytes[place] = rng.random();
                }
                if LogRecord::decode(&bytes).is_ok_and(|(_, len)| len == bytes.len()) {
                    records[at].bytes = bytes;
                }
            }
        }
    }
}

#[test]
fn damaged_records_cause_no_panic() {
    let Some(corpus) = Corpus::locate() else { return };
    let whole = server2022(&corpus, LogPosition::new(1, 1, 0));
    let (mut refused, mut rng) = (0, ChaCha8Rng::seed_from_u64(20));
    for _ in 0..60 {
        let mut records = whole.clone();
        damage(&mut rng, &mut records);
        refused += u32::from(RedoFixture::new(200).replay_stored(records).is_err());
    }
    assert!((5..60).contains(&refused), "{refused}");
}
