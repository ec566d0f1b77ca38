//! Tests of the stream on a disk that loses power or is damaged.

use ese_format::log::header::LogHeader;
use ese_format::log::record::LogRecord;
use ese_format::{Generation, LogTime, Signature};
use jetcell_vfs::{CrashOptions, SimVfs, Vfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{batch, contents, create, names, options, read, record};
use crate::log::LogStream;
use crate::{Error, LogErrorKind, Result};

#[test]
fn a_log_keeps_durable_records_and_resumes_after_power_cut() {
    for seed in 0..60 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut disk = SimVfs::new();
        let mut log = create(disk.clone());
        let mut written: Vec<LogRecord> = Vec::new();
        for life in 0..4u64 {
            disk.cut_power_after(disk.operations() + random.random_range(0..120));
            // Number of records whose flush has returned. After a power cut, more records may survive, in order.
            let mut durable = written.len();
            for number in 0.. {
                let largest = if random.random_bool(0.1) { 9000 } else { 600 };
                let new: Vec<LogRecord> = (0..random.random_range(1..4))
                    .map(|part| {
                        record(seed << 40 | life << 32 | number << 4 | part, random.random_range(0..largest))
                    })
                    .collect();
                let Ok(appended) = log.append(&batch(&new)) else { break };
                written.extend(new);
                let done = match random.random_range(0..10) {
                    0..4 => log.flush(appended.end),
                    4 => log.step(),
                    5 if random.random_bool(0.2) => log.roll_over(),
                    _ => continue,
                };
                if done.is_err() {
                    break;
                }
                durable = written.len();
            }
            disk = if random.random_bool(0.2) {
                disk.process_kill()
            } else {
                disk.crash(seed ^ life << 20, CrashOptions::default())
            };
            let (found, tail) = read(&disk).unwrap_or_else(|e| panic!("seed {seed}, life {life}: {e}"));
            let found = contents(&found);
            assert!(found.len() >= durable, "seed {seed}, life {life}: {} of {durable}", found.len());
            assert!(
                written.len() >= found.len() && found.iter().zip(&written).all(|(a, b)| a == b),
                "seed {seed}"
            );
            written.truncate(found.len());
            log = LogStream::resume(options(disk.clone()), tail).unwrap();
        }
    }
}

/// Interrupts each operation of entering and naming a generation, with every possible outcome of the renames. Durable
/// records must survive, and the stream must continue from the records that are found, under the correct names.
#[test]
fn a_crash_during_log_rollover_loses_no_durable_record() {
    let (mut begun, mut half_named) = (0, 0);
    // Without retired files a new file is created; with retired files an old one is overwritten.
    for retired in [Generation(0), Generation(3)] {
        let run = |cut: Option<u64>| {
            let disk = SimVfs::new();
            let log = create(disk.clone());
            let mut durable = 0;
            let mut append = |number: u64| -> Result<()> {
                let end = log.append(&batch(&[record(number, 3000)]))?.end;
                log.flush(end)?;
                durable = number + 1;
                Ok(())
            };
            (0..40).for_each(|number| append(number).unwrap());
            log.name_generation().unwrap();
            log.truncate_below(retired).unwrap();
            let before = (log.tail().generation, disk.operations());
            disk.cut_power_after(cut.map_or(u64::MAX, |cut| before.1 + cut));
            let done = (40..60).try_for_each(|number| match number % 5 {
                0 => append(number).and_then(|()| log.step()),
                _ => append(number),
            });
            assert!(cut.is_some() || (done.is_ok() && log.tail().generation.0 >= before.0.0 + 2));
            (disk.clone(), durable, disk.operations() - before.1)
        };
        for cut in 0..run(None).2 {
            let (disk, durable, _) = run(Some(cut));
            for seed in 0..12 {
                let name = [0.0, 0.5, 1.0][seed as usize % 3];
                let options_of_crash = CrashOptions { lose_name: name, ..CrashOptions::default() };
                let disk = disk.crash(seed, options_of_crash);
                let context = format!("retired {retired:?}, cut {cut}, seed {seed}");
                let (found, tail) = read(&disk).unwrap_or_else(|e| panic!("{context}: {e}"));
                // The record that comes first depends on the number of generations that were overwritten.
                let number_of = |found: &LogRecord| (0..60).find(|&number| *found == record(number, 3000));
                let found = contents(&found);
                let first = number_of(&found[0]).unwrap();
                let end = first + found.len() as u64;
                assert!(
                    (first..end).zip(&found).all(|(number, found)| *found == record(number, 3000)),
                    "{context}"
                );
                assert!(end >= durable, "{context}: {end} of {durable}");
                begun += u32::from(tail.path == names().next());
                half_named +=
                    u32::from(tail.path == names().next() && !disk.exists(&names().current()).unwrap());
                let log = LogStream::resume(options(disk.clone()), tail).unwrap();
                let kept = disk.crash(seed, CrashOptions { lose_name: 1.0, ..CrashOptions::default() });
                assert!(
                    kept.exists(&names().current()).unwrap() || log.tail().generation.0 == 1,
                    "{context}"
                );
                let end = log.append(&batch(&[record(1000, 3000)])).unwrap().end;
                log.flush(end).unwrap();
                let after = contents(&read(&disk.crash(seed, CrashOptions::default())).unwrap().0);
                assert_eq!(after.len(), found.len() + 1, "{context}");
            }
        }
    }
    assert!(begun > 100 && half_named > 10, "{begun} logs found by their header, {half_named} alone");
}

#[test]
fn a_lost_acknowledged_write_is_reported() {
    let disk = SimVfs::new();
    let log = create(disk.clone());
    let append = |number| {
        let end = log.append(&batch(&[record(number, 5000)])).unwrap().end;
        log.flush(end).unwrap();
    };
    append(1);
    disk.lose_writes("/log", 1);
    append(2);
    assert_eq!(read(&disk).unwrap().0.len(), 1, "nothing tells yet");
    append(3);
    let error = read(&disk).unwrap_err();
    assert!(error.to_string().contains("acknowledged"), "{error}");
}

#[test]
fn damaged_missing_and_foreign_logs_have_different_errors() {
    let disk = SimVfs::new();
    let log = create(disk.clone());
    for number in 0..100 {
        log.append(&batch(&[record(number, 3000)])).unwrap();
        log.step().unwrap();
    }
    assert!(read(&disk).is_ok());
    let second = names().archived(Generation(2));
    let damaged = disk.clone_disk();
    damaged.corrupt(&second, 4096 * 5 + 600, &[1, 2, 3, 4, 5, 6]).unwrap();
    assert!(
        matches!(read(&damaged), Err(Error::Log { path, fault: LogErrorKind::Damaged(_), .. }) if path == second)
    );
    let gap = disk.clone_disk();
    gap.remove(&second).unwrap();
    assert!(matches!(read(&gap), Err(Error::LogMissing { generation: Generation(2), .. })));
    let foreign = disk.clone_disk();
    let bytes = disk.contents(&second).unwrap();
    let header =
        LogHeader { signature: Signature::new(8, LogTime::NONE), ..LogHeader::decode(&bytes).unwrap() };
    foreign.corrupt(&second, 0, &header.encode()).unwrap();
    let error = read(&foreign).unwrap_err();
    assert!(matches!(error, Error::Log { fault: LogErrorKind::OtherStream, .. }), "{error}");
    let flipped = disk.clone_disk();
    flipped.flip_bit(&second, 8 * (4096 * 5 + 600)).unwrap();
    assert_eq!(read(&flipped).unwrap().0.len(), 100, "one flipped bit is put right");
}

#[test]
fn a_torn_last_segment_is_restored_from_the_shadow_segment() {
    let disk = SimVfs::new();
    let log = create(disk.clone());
    for number in 0..3 {
        let end = log.append(&batch(&[record(number, 100)])).unwrap().end;
        log.flush(end).unwrap();
    }
    disk.corrupt(&names().current(), 3 * 4096 + 512, &[7; 511]).unwrap();
    let (found, tail) = read(&disk).unwrap();
    assert_eq!((found.len(), tail.next_segment), (3, 4));
    LogStream::resume(options(disk.clone()), tail).unwrap();
    let (found, tail) = read(&disk).unwrap();
    assert!(found.len() == 3 && tail.repaired.is_empty());
}
