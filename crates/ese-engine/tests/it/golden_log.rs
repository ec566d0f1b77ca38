//! Compares the transfers of a log stream and its reader for fixed work with the files in `tests/golden`, as in
//! [`golden`](super::golden).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ese_engine::internals::log::{LogNames, LogReader, LogStream, LogStreamOptions, LogTail, RecordBatch};
use ese_format::log::record::{LogRecord, Trace};
use ese_format::{Generation, LogPosition, LogTime, Signature};
use jetcell_sync::Arc;
use jetcell_vfs::{CrashOptions, FileStem, SimVfs, Vfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::trace::TracedVfs;

/// A log stream that runs on a traced disk.
struct TracedLog {
    options: LogStreamOptions,
    traced: TracedVfs,
    log: LogStream,
    rng: ChaCha8Rng,
    /// Start and end positions of the records, in order.
    places: Vec<(LogPosition, LogPosition)>,
    /// Whether a reader needs the logs.
    keeps_logs: bool,
    text: String,
}

impl TracedLog {
    fn new(change: impl FnOnce(&mut LogStreamOptions)) -> TracedLog {
        let traced = TracedVfs::new(SimVfs::new());
        traced.create_directory(Path::new("/log")).unwrap();
        let mut options = LogStreamOptions {
            vfs: Arc::new(traced.clone()),
            names: LogNames::new(Path::new("/log"), FileStem::E00),
            file_size: 64 << 10,
            page_size: 4096,
            circular: false,
            retained_files: 4,
            copy_lag_limit: 1000,
            waypoint_latency: 0,
            accept_lost_logs: false,
            begin_generation: false,
        };
        change(&mut options);
        let log = LogStream::create(options.clone(), Signature::new(7, LogTime::NONE)).unwrap();
        TracedLog {
            options,
            traced,
            log,
            rng: ChaCha8Rng::seed_from_u64(3),
            places: Vec::new(),
            keeps_logs: false,
            text: String::new(),
        }
    }

    /// Appends one to three records. Most are short; some are longer than a segment.
    fn append(&mut self) {
        let mut batch = RecordBatch::new();
        for _ in 0..self.rng.random_range(1..4) {
            let longest = [40, 300, 3000, 15_000][self.rng.random_range(0..40_usize).saturating_sub(36)];
            let mut text = vec![0; self.rng.random_range(0..longest)];
            self.rng.fill(&mut text[..]);
            batch.push(&LogRecord::Trace(Trace { procid: 1, text }));
        }
        assert!(!batch.is_empty());
        let appended = match self.rng.random_range(0..5) {
            0 => self.log.append_privileged(&batch).unwrap(),
            _ => self.log.append(&batch).unwrap(),
        };
        self.places.push((appended.start, appended.end));
    }

    fn step(&mut self) {
        let (log, tail) = (&self.log, self.log.tail());
        match self.rng.random_range(0..100) {
            0..60 => self.append(),
            60..70 => log.commit(tail).unwrap(),
            70..74 => {
                let (_, end) = self.places[self.rng.random_range(0..self.places.len())];
                self.log.flush(end).unwrap();
            }
            74..78 => log.request_flush(tail),
            78..82 => log.write_full().unwrap(),
            82..88 => assert!(log.prepare_files().unwrap()),
            88..92 => log.step().unwrap(),
            92 => log.roll_over().unwrap(),
            93 if !self.keeps_logs => {
                let back = self.rng.random_range(0..8);
                log.truncate_below(Generation(tail.generation.0.saturating_sub(back))).unwrap();
            }
            93..97 => {
                let waits = [log.wait_for_segments(Duration::ZERO), log.wait_for_file_work(Duration::ZERO)];
                let _ = writeln!(self.text, "work: {waits:?}");
            }
            _ => {
                let _ = writeln!(self.text, "tail {tail:?}, durable {:?}", log.durable());
            }
        }
    }

    /// Reads the log from a position on. The trace shows the files that were read before each record.
    fn read(&self, reader: &LogReader, from: LogPosition) -> LogTail {
        let tail = reader.read_from(from, |record| {
            self.traced.mark(&format!("{:?} to {:?}", record.start, record.end), &record.bytes);
            Ok(())
        });
        tail.unwrap()
    }

    /// Cuts the power or kills the process. Then reads the log, continues it, and reads parts of it again.
    fn crash(&mut self, power: bool) {
        let _ = writeln!(self.text, "{:?}", self.log.counters());
        let disk = if power {
            self.traced.disk().crash(5, CrashOptions::default())
        } else {
            self.traced.disk().process_kill()
        };
        self.traced = self.traced.on(disk);
        self.options.vfs = Arc::new(self.traced.clone());
        let reader = LogReader::open(self.options.vfs.clone(), self.options.names.clone()).unwrap().unwrap();
        let (oldest, newest) = reader.range();
        let from = Generation(oldest.0 + (newest.0 - oldest.0) / 3);
        let middle = LogPosition { generation: from, segment: 5, offset: 0 };
        self.read(&reader, middle);
        let tail = self.read(&reader, LogPosition { generation: oldest, segment: 1, offset: 0 });
        let _ = writeln!(
            self.text,
            "read {oldest:?} to {newest:?}, next segment {}, repaired {}",
            tail.next_segment,
            tail.repaired.len()
        );
        self.places.retain(|(start, end)| start.generation >= oldest && *end <= end_of(&tail));
        reader.pin_tail(&tail).unwrap();
        self.log = LogStream::resume(self.options.clone(), tail).unwrap();
        self.keeps_logs = true;
        (0..20).for_each(|_| self.step());
        self.keeps_logs = false;
        reader
            .read_to_pinned_tail(middle, |record| {
                self.traced.mark(&format!("again {:?}", record.start), &record.bytes);
                Ok(())
            })
            .unwrap();
        for (start, end) in self.places.iter().filter(|(start, _)| start.generation < newest).step_by(7) {
            // If several records were appended together, this is the first one.
            let record = reader.read_record(*start, *end).unwrap();
            self.traced.mark("single", &record);
        }
    }

    fn end(mut self, name: &str) {
        self.log.close().unwrap();
        let _ = writeln!(self.text, "{:?}", self.log.counters());
        let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        testkit::golden::compare(&golden, &(self.text + &self.traced.text()));
    }
}

fn end_of(tail: &LogTail) -> LogPosition {
    LogPosition { generation: tail.header.generation, segment: tail.next_segment, offset: 0 }
}

#[test]
fn a_log_that_crashes_and_continues() {
    let mut work = TracedLog::new(|_| ());
    work.append();
    for round in 0..6 {
        (0..250).for_each(|_| work.step());
        work.crash(round % 2 == 0);
    }
    work.end("log.txt");
}

#[test]
fn a_circular_log_with_larger_files() {
    let mut work = TracedLog::new(|options| {
        options.circular = true;
        options.file_size = 256 << 10;
        options.retained_files = 2;
        options.waypoint_latency = 2;
        options.begin_generation = true;
    });
    work.append();
    for _ in 0..3 {
        (0..1500).for_each(|_| work.step());
        work.crash(false);
    }
    work.end("log-circular.txt");
}
