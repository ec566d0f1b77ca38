//! Tests of every scan result, using generated files, torn writes with arbitrary missing sectors, and real logs.

use super::*;
use crate::LogTime;
use crate::log::header::LogHeader;
use crate::log::segment::finish;
use proptest::prelude::*;
use testkit::corpus::Corpus;

const SEGMENTS: u16 = 12;
const GENERATION: Generation = Generation(7);

/// A log file under construction.
struct LogFile(Vec<u8>);

impl LogFile {
    fn new() -> LogFile {
        LogFile(vec![0; usize::from(SEGMENTS) * SEGMENT_BYTES])
    }

    fn at(&mut self, index: u16) -> &mut [u8; SEGMENT_BYTES] {
        self.0[usize::from(index) * SEGMENT_BYTES..].first_chunk_mut().unwrap()
    }

    /// Writes a valid segment of `generation`. If `write` is 0, the reserved bytes remain zero, as in logs written by
    /// ESE.
    fn put(&mut self, index: u16, generation: Generation, write: u16) -> &mut LogFile {
        let segment = self.at(index);
        // The checksum is linear, so it could miss the loss of a sector with repetitive content. Use random content
        // instead.
        let mut random = 1 + u64::from(index) + (u64::from(generation.0) << 32);
        for byte in segment.iter_mut() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (random >> 56) as u8;
        }
        let position = LogPosition { generation, segment: index, offset: 0 };
        let write = if write == 0 { LogPosition::MIN } else { LogPosition { segment: write, ..position } };
        finish(segment, position, LogTime::NONE, write);
        self
    }

    fn foreign(&mut self, indexes: std::ops::RangeInclusive<u16>) -> &mut LogFile {
        indexes.for_each(|index| _ = self.put(index, GENERATION, 0));
        self
    }

    fn copy(&mut self, from: u16, to: u16) -> &mut LogFile {
        let segment = *self.at(from);
        *self.at(to) = segment;
        self
    }

    fn damage(&mut self, index: u16) -> &mut LogFile {
        self.at(index)[1024..1536]
            .iter_mut()
            .zip(1u32..)
            .for_each(|(byte, n)| *byte ^= (n * n * n / 5) as u8 | 1);
        self
    }

    fn scan(&mut self) -> Result<LogScan, ScanError> {
        scan_log(&mut self.0, GENERATION)
    }

    #[track_caller]
    fn fails(&mut self, segment: u16, reason: ScanErrorKind) {
        let fault = self.scan().unwrap_err();
        assert_eq!((fault.segment, fault.reason), (segment, reason), "{fault}");
    }

    #[track_caller]
    fn ends_after(&mut self, last: u16) -> LogScan {
        let scan = self.scan().unwrap();
        let sum =
            (1..=last).fold(0, |sum, index| sum ^ u64::from_le_bytes(*self.at(index).first_chunk().unwrap()));
        assert_eq!((scan.last, scan.accumulated), (last, sum));
        scan
    }
}

#[test]
fn a_log_ends_at_shadows_zeros_or_older_generation_segments() {
    assert!(LogFile::new().ends_after(0).repaired.is_empty());
    LogFile::new().foreign(1..=10).copy(10, 11).ends_after(10);
    LogFile::new().foreign(1..=3).ends_after(3);
    LogFile::new().foreign(1..=3).copy(3, 4).ends_after(3);
    let mut recycled = LogFile::new();
    (1..=10).for_each(|index| _ = recycled.put(index, Generation(5), 0));
    recycled.foreign(1..=3).ends_after(3);
    recycled.copy(3, 4).ends_after(3);
}

#[test]
fn a_flipped_bit_and_a_damaged_last_segment_are_corrected() {
    let mut flipped = LogFile::new();
    flipped.foreign(1..=3).at(2)[700] ^= 4;
    assert_eq!(flipped.ends_after(3).repaired, [2]);
    assert!(flipped.scan().unwrap().repaired.is_empty(), "repaired in place");
    let mut torn = LogFile::new();
    torn.foreign(1..=3).copy(3, 4).damage(3);
    assert_eq!(torn.ends_after(3).repaired, [3]);
    let shadow = *torn.at(4);
    assert_eq!(*torn.at(3), shadow);
}

#[test]
fn other_irregularities_in_ese_logs_are_reported_as_damage() {
    LogFile::new().foreign(1..=3).damage(2).fails(2, ScanErrorKind::Damaged);
    LogFile::new().foreign(1..=3).damage(3).fails(3, ScanErrorKind::Damaged);
    LogFile::new().foreign(1..=3).copy(3, 4).damage(3).damage(4).fails(3, ScanErrorKind::Damaged);
    LogFile::new().foreign(1..=2).foreign(4..=4).fails(4, ScanErrorKind::ValidAfterEnd);
    LogFile::new().foreign(1..=2).foreign(4..=4).damage(4).fails(4, ScanErrorKind::DamagedAfterEnd);
    let later = LogPosition::new(8, 3, 0);
    LogFile::new().foreign(1..=2).put(3, Generation(8), 0).fails(3, ScanErrorKind::LaterPosition(later));
}

#[test]
fn a_lost_segment_is_damage_except_in_the_last_write() {
    let mut log = LogFile::new();
    log.put(1, GENERATION, 1).put(2, GENERATION, 1).put(3, GENERATION, 3).put(4, GENERATION, 3);
    log.ends_after(4);
    let mut lost = LogFile(log.0.clone());
    lost.at(2).fill(0);
    lost.fails(2, ScanErrorKind::LostWrite);
    LogFile(log.0.clone()).damage(1).fails(1, ScanErrorKind::LostWrite);
    assert!(LogFile(log.0.clone()).damage(3).ends_after(2).torn);
    assert!(LogFile(log.0.clone()).damage(4).ends_after(3).torn);
}

#[test]
fn arbitrary_bytes_do_not_cause_a_panic() {
    proptest!(|(bytes in proptest::collection::vec(any::<u8>(), 0..9000))| {
        let _ = scan_log(&mut bytes.clone(), GENERATION);
    });
}

proptest! {
    /// Any sectors of a multi-segment write and its shadow may be missing. Earlier writes must survive.
    #[test]
    fn a_torn_write_is_never_reported_as_damage(
        durable in 0u16..5, written in 1u16..6, recycled: bool, survivors in proptest::collection::vec(any::<bool>(), 48),
    ) {
        let mut log = LogFile::new();
        if recycled {
            (1..SEGMENTS - 1).for_each(|index| _ = log.put(index, Generation(3), 1));
        }
        (1..=durable).for_each(|index| _ = log.put(index, GENERATION, 1));
        if durable > 0 {
            log.copy(durable, durable + 1);
        }
        let mut after = LogFile(log.0.clone());
        let end = durable + written;
        (durable + 1..=end).for_each(|index| _ = after.put(index, GENERATION, durable + 1));
        after.copy(end, end + 1);
        let start = usize::from(durable + 1) * SEGMENT_BYTES;
        for (sector, survives) in survivors.iter().take(usize::from(written + 1) * 8).enumerate() {
            let place = start + sector * 512..start + (sector + 1) * 512;
            if *survives {
                log.0[place.clone()].copy_from_slice(&after.0[place]);
            }
        }
        let scan = log.scan().unwrap();
        prop_assert!((durable..=end).contains(&scan.last));
        let kept = SEGMENT_BYTES..usize::from(scan.last + 1) * SEGMENT_BYTES;
        prop_assert!(log.0[kept.clone()] == after.0[kept]);
    }
}

#[test]
fn real_logs_end_at_documented_positions_and_form_a_chain() {
    let Some(corpus) = Corpus::locate() else { return };
    let scan = |name: &str| {
        let stored = std::fs::File::open(corpus.root().join(format!("logsets/{name}.zst"))).unwrap();
        let mut bytes = zstd::decode_all(stored).unwrap();
        let header = LogHeader::decode(&bytes).unwrap();
        assert_eq!(header.encode(), bytes[..SEGMENT_BYTES], "{name}: header survives a round trip");
        let scan = scan_log(&mut bytes, header.generation).unwrap();
        assert!(scan.repaired.is_empty() && !scan.torn && !scan.marked, "{name}");
        (header, scan)
    };
    let sets: [&[(&str, u32, u16)]; 2] = [
        &[
            ("srum-server2022/a/SRU00001.log", 1, 14),
            ("srum-server2022/b/SRUtmp.log", 2, 14),
            ("srum-server2022/b/SRU00003.log", 3, 14),
            ("srum-server2022/b/SRU00004.log", 4, 14),
            ("srum-server2022/b/SRU.log", 5, 6),
        ],
        &[
            ("srum-win11-dirty/SRU00059.log", 0x59, 14),
            ("srum-win11-dirty/SRU0005A.log", 0x5a, 14),
            ("srum-win11-dirty/SRU0005B.log", 0x5b, 14),
            ("srum-win11-dirty/SRU.log", 0x5c, 9),
        ],
    ];
    for set in sets {
        let mut previous: Option<(LogHeader, LogScan)> = None;
        for &(name, generation, last) in set {
            let (header, scan) = scan(name);
            assert_eq!((header.generation.0, scan.last), (generation, last), "{name}");
            if let Some((before, sum)) = previous {
                assert_eq!(header.signature, before.signature, "{name}");
                assert_eq!(header.previous_created, before.created, "{name}");
                assert_eq!(header.previous_checksum, sum.accumulated, "{name}");
            }
            previous = Some((header, scan));
        }
    }
    assert_eq!(scan("srum-server2022/a/SRU.log").1.last, 2);
}
