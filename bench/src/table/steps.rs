//! The steps of a round: what the rows need, in which order, and how each step is measured.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::rounds::{FREQUENT, ONE_CORE_SUFFIX, TableRounds};
use crate::device::{self, FioRun};
use crate::driver;
use crate::engines::ALL;
use crate::page_io;

// Names of steps. Those of engines are followed by a slash and the engine.
/// 8 threads, 1 update per transaction.
pub const MIX8: &str = "mix8";
/// [`MIX8`] without the delta store.
pub const MIX8_NO_DELTAS: &str = "mix8-no-deltas";
/// [`MIX8`] with torn-page protection.
pub const MIX8_PROTECTED: &str = "mix8-protected";
/// 4 threads, 16 updates per transaction.
pub const MIX4: &str = "mix4x16";
/// [`MIX4`] with torn-page protection.
pub const MIX4_PROTECTED: &str = "mix4x16-protected";
/// [`MIX4`] without preread.
pub const MIX4_NO_PREREAD: &str = "mix4x16-no-preread";
/// [`MIX4`] without preread and with torn-page protection.
pub const MIX4_NO_PREREAD_PROTECTED: &str = "mix4x16-no-preread-protected";
/// [`MIX4`] on RocksDB with MultiGet.
pub const MIX4_MULTIGET: &str = "mix4x16-multiget/rocksdb";
/// fio with the share of reads of [`MIX8`], and of its variants.
pub const FIO_MIX: &str = "fio-mix";
pub const FIO_MIX_NO_DELTAS: &str = "fio-mix-no-deltas";
pub const FIO_MIX_PROTECTED: &str = "fio-mix-protected";
/// Replay of closed generations by a passive copy.
pub const REPLAY: &str = "replay/jetcell";
/// A backup compared with a read without verification.
pub const BACKUP: &str = "backup/jetcell";
/// Maintenance compared with reads and writes of the same sizes.
pub const MAINTENANCE: &str = "maintenance/jetcell";
/// One writer of a log.
pub const SYNC: &str = "sync";

/// Queue depths of row 1.
pub const DEPTHS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Percent of reads in row 1: that of the mix.
const READ_PERCENT: u32 = 65;
/// Records per thread that the durable commits of row 8 replace: few, so that they are cached.
const HOT_RECORDS: &str = "20";

const JETCELL: &str = "jetcell";
/// Engines of row 20.
const BULK: [&str; 5] = [JETCELL, "wiredtiger", "rocksdb", "sqlite", "lmdb"];
const PROTECTED: &str = "--page-protection";
const NO_PREREAD: [&str; 2] = ["--batch-reads", "false"];

impl TableRounds<'_> {
    /// Runs one round of all steps that the rows need. A failed step is noted, and the other steps continue.
    pub fn round(&mut self, rows: &[u8]) {
        self.round += 1;
        let any = |wanted: &[u8]| rows.iter().any(|row| wanted.contains(row));
        if any(&[1]) {
            self.page_io();
        }
        for engine in FREQUENT {
            let size_only = engine == JETCELL && any(&[13]);
            if self.is_measured(engine) && (any(&[9]) || size_only) {
                self.step(&format!("load/{engine}"), |rounds| rounds.load(engine));
            }
        }
        for engine in if any(&[20]) { &BULK[..] } else { &[] } {
            if self.is_measured(engine) {
                self.step(&format!("bulk/{engine}"), |rounds| rounds.bulk_load(engine));
            }
        }
        if any(&[10]) {
            self.verification();
        }
        self.mixes_of_8(rows);
        if any(&[7, 8, 14]) {
            self.step(SYNC, |rounds| rounds.sync());
        }
        if any(&[8]) && self.is_measured(JETCELL) {
            self.step("commits/jetcell", |rounds| {
                rounds.mix(JETCELL, 8, 1, &["--durable-percent", "100", "--hot-records", HOT_RECORDS])
            });
        }
        self.mixes_of_4(rows);
        if any(&[3]) && self.is_measured(JETCELL) {
            self.scaling();
        }
        if any(&[2]) && self.is_measured(JETCELL) {
            let step = format!("{MIX8_NO_DELTAS}/jetcell");
            self.step(&step, |rounds| rounds.mix(JETCELL, 8, 1, &["--no-delta-store"]));
            self.step(FIO_MIX_NO_DELTAS, |rounds| rounds.fio_mix(&step));
        }
        for engine in if any(&[11]) { &["jetcell", "wiredtiger"][..] } else { &[] } {
            if self.is_measured(engine) {
                self.step(&format!("redo/{engine}"), |rounds| rounds.redo(engine, false));
            }
        }
        if any(&[12]) && self.is_measured(JETCELL) {
            self.step("open/jetcell", |rounds| rounds.redo(JETCELL, true));
        }
        if any(&[18]) && self.is_measured(JETCELL) {
            self.step(BACKUP, TableRounds::backup);
        }
        if any(&[19]) && self.is_measured(JETCELL) {
            self.step(MAINTENANCE, TableRounds::maintenance);
        }
        if any(&[17]) && self.is_measured(JETCELL) {
            self.step(REPLAY, TableRounds::replay);
        }
    }

    /// The mixes of 8 threads with one update per transaction.
    fn mixes_of_8(&mut self, rows: &[u8]) {
        let any = |wanted: &[u8]| rows.iter().any(|row| wanted.contains(row));
        let engines: &[&str] = match () {
            () if any(&[3, 14]) => &ALL,
            () if any(&[5, 6]) => &["jetcell", "wiredtiger"],
            () if any(&[2, 7, 13]) => &["jetcell"],
            () => &[],
        };
        for engine in engines {
            if self.is_measured(engine) {
                self.step(&format!("{MIX8}/{engine}"), |rounds| rounds.mix(engine, 8, 1, &[]));
            }
            if *engine != JETCELL || !self.is_measured(JETCELL) {
                continue;
            }
            if any(&[2, 7]) {
                self.step(FIO_MIX, |rounds| rounds.fio_mix(&format!("{MIX8}/jetcell")));
            }
            if any(&[14]) {
                let step = format!("{MIX8_PROTECTED}/jetcell");
                self.step(&step, |rounds| rounds.mix(JETCELL, 8, 1, &[PROTECTED]));
                self.step(FIO_MIX_PROTECTED, |rounds| rounds.fio_mix(&step));
            }
        }
    }

    /// The mixes of 4 threads with 16 updates per transaction.
    fn mixes_of_4(&mut self, rows: &[u8]) {
        let any = |wanted: &[u8]| rows.iter().any(|row| wanted.contains(row));
        for engine in if any(&[4, 14, 15, 16]) { &FREQUENT[..] } else { &[] } {
            if self.is_measured(engine) {
                self.step(&format!("{MIX4}/{engine}"), |rounds| rounds.mix(engine, 4, 16, &[]));
            }
        }
        let [flag, value] = NO_PREREAD;
        let variants: [(u8, &str, &[&str]); 3] = [
            (14, MIX4_PROTECTED, &[PROTECTED]),
            (15, MIX4_NO_PREREAD, &NO_PREREAD),
            (15, MIX4_NO_PREREAD_PROTECTED, &[flag, value, PROTECTED]),
        ];
        for (row, name, options) in variants {
            if any(&[row]) && self.is_measured(JETCELL) {
                self.step(&format!("{name}/jetcell"), |rounds| rounds.mix(JETCELL, 4, 16, options));
            }
        }
        if any(&[16]) && self.is_measured("rocksdb") {
            self.step(MIX4_MULTIGET, |rounds| rounds.mix("rocksdb", 4, 16, &["--batch-reads", "true"]));
        }
    }

    /// One processor against all. The runs follow each other on the same store, because the history of a store
    /// changes the work.
    fn scaling(&mut self) {
        self.step("one-core/jetcell", |rounds| rounds.mix(JETCELL, 8, 1, &[ONE_CORE_SUFFIX]));
        self.step("all-cores/jetcell", |rounds| rounds.mix(JETCELL, 8, 1, &[]));
        let lazy = ["--durable-percent", "0", "--hot-records", HOT_RECORDS, ONE_CORE_SUFFIX];
        self.step("one-core-hot/jetcell", |rounds| rounds.mix(JETCELL, 8, 1, &lazy));
        self.step("all-cores-hot/jetcell", |rounds| rounds.mix(JETCELL, 8, 1, &lazy[..4]));
    }

    /// Row 1: pages of our engine and fio at several queue depths.
    fn page_io(&mut self) {
        let (ours, theirs) = (self.store_path("pages.dat"), self.store_path("fio.dat"));
        let bytes = self.measurements.size_mib << 20;
        let prepared = page_io::prepare(&ours, bytes)
            .and_then(|()| device::prepare(&theirs, bytes))
            .and_then(|()| [&ours, &theirs].into_iter().try_for_each(|file| device::warm(file)));
        if let Err(error) = prepared {
            self.record_failure("io", &error);
            return;
        }
        for depth in DEPTHS {
            self.step(&format!("io/{depth}"), |rounds| {
                let time = Duration::from_secs_f64(rounds.baseline_seconds());
                Ok(serde_json::to_value(page_io::run(&ours, depth, READ_PERCENT.into(), time)?)?)
            });
            self.step(&format!("fio/{depth}"), |rounds| {
                let fio = FioRun {
                    file: &theirs,
                    pattern: "randrw",
                    block: 32 << 10,
                    depth,
                    read_percent: READ_PERCENT.into(),
                    seconds: rounds.baseline_seconds(),
                    warm_up: 0.0,
                };
                Ok(serde_json::to_value(fio.run()?)?)
            });
        }
        // The stores of the next rows need the space.
        let _ = fs::remove_file(ours);
    }

    /// fio with the share of reads that our engine had in this round's mix.
    fn fio_mix(&mut self, mix: &str) -> Result<Value> {
        let last = self.measurements.samples(mix).last();
        let transfers =
            &last.context("the jetcell engine does not have a result for this mix")?.value["transfers"];
        let count = |name: &str| transfers[name].as_f64().unwrap_or(0.0);
        let read_percent = 100.0 * count("reads") / (count("reads") + count("writes")).max(1.0);
        let file = self.store_path("fio.dat");
        device::prepare(&file, self.measurements.size_mib << 20)?;
        let fio = FioRun {
            file: &file,
            pattern: "randrw",
            block: 32 << 10,
            depth: 8,
            read_percent,
            seconds: self.baseline_seconds(),
            warm_up: driver::warm_up(Duration::from_secs_f64(self.seconds())).as_secs_f64(),
        };
        Ok(serde_json::to_value(fio.run()?)?)
    }

    fn sync(&mut self) -> Result<Value> {
        let time = Duration::from_secs_f64(self.baseline_seconds());
        Ok(serde_json::to_value(device::sync_rate(&self.store_path("sync.dat"), time)?)?)
    }

    /// Row 10: `jetcell check` and fio on the same file, and checksums in memory.
    fn verification(&mut self) {
        let database = self.store_path("jetcell/records.edb");
        if !self.is_filled(JETCELL) && self.is_measured(JETCELL) {
            self.step("load/jetcell", |rounds| rounds.load(JETCELL));
        }
        if let Err(error) = device::warm(&database) {
            self.record_failure("check", &error);
            return;
        }
        self.step("check", |rounds| {
            let bytes = fs::metadata(&database).with_context(|| database.display().to_string())?.len();
            let start = Instant::now();
            let mut checked = 0;
            // As long as fio reads. fio starts again at the end of the file, too.
            while checked == 0 || start.elapsed().as_secs_f64() < rounds.baseline_seconds() {
                let output = Command::new(&rounds.args.jetcell)
                    .arg("check")
                    .arg(&database)
                    .output()
                    .with_context(|| rounds.args.jetcell.display().to_string())?;
                if !output.status.success() {
                    bail!("jetcell check: {}", String::from_utf8_lossy(&output.stdout).trim());
                }
                checked += bytes;
            }
            Ok(json!({ "bytes_per_second": checked as f64 / start.elapsed().as_secs_f64() }))
        });
        self.step("fio-check", |rounds| {
            let fio = FioRun {
                file: &database,
                pattern: "read",
                block: 256 << 10,
                depth: 4,
                read_percent: 100.0,
                seconds: rounds.baseline_seconds(),
                warm_up: 0.0,
            };
            Ok(serde_json::to_value(fio.run()?)?)
        });
        self.step("checksum", |rounds| {
            let time = Duration::from_secs_f64(rounds.baseline_seconds());
            Ok(serde_json::to_value(page_io::checksum(time)?)?)
        });
    }

    fn load(&mut self, engine: &str) -> Result<Value> {
        self.make_room(engine)?;
        self.child(engine, &["load"], &[])
    }

    /// Row 20. The store stays for the rows that follow.
    fn bulk_load(&mut self, engine: &str) -> Result<Value> {
        self.make_room(engine)?;
        self.child(engine, &["load"], &["--bulk"])
    }

    fn mix(&mut self, engine: &str, threads: u32, updates: u32, more: &[&str]) -> Result<Value> {
        if !self.is_filled(engine) {
            self.make_room(engine)?;
        }
        let [threads, updates, seconds] =
            [threads.to_string(), updates.to_string(), self.seconds().to_string()];
        let seed = self.round.to_string();
        let mut command = vec!["run", "--json", "--threads", &threads, "--updates-per-txn", &updates];
        command.extend(["--seconds", &seconds, "--seed", &seed]);
        self.child(engine, &command, more)
    }

    /// Kills a process during its work and opens its store. `short`: the log that a restart reads is limited to 20
    /// MiB; otherwise redo repeats everything since a checkpoint.
    fn redo(&mut self, engine: &str, short: bool) -> Result<Value> {
        if !self.is_filled(engine) {
            self.load(engine)?;
        }
        let depth = if short { "20" } else { "4096" };
        let updates = if self.args.quick { "10000" } else { "60000" };
        let mut command = vec!["crash", "--threads", "4", "--updates-per-txn", "16", "--updates", updates];
        if short {
            command.push("--no-checkpoint");
        }
        command.extend(["--checkpoint-depth-mib", depth]);
        let crashed = self.child(engine, &command, &[])?;
        let mut opened = self.child(engine, &["recover", "--checkpoint-depth-mib", depth], &[])?;
        opened["updates"] = crashed["updates"].clone();
        Ok(opened)
    }

    /// Row 18: the closed store is read.
    fn backup(&mut self) -> Result<Value> {
        if !self.is_filled(JETCELL) {
            self.load(JETCELL)?;
        }
        self.child(JETCELL, &["backup"], &[])
    }

    /// Row 19: a store that was just loaded is scanned and zeroed.
    fn maintenance(&mut self) -> Result<Value> {
        self.load(JETCELL)?;
        self.child(JETCELL, &["maintenance"], &[])
    }

    /// Row 17: updates in the store, and their replay on a copy.
    fn replay(&mut self) -> Result<Value> {
        if !self.is_filled(JETCELL) {
            self.load(JETCELL)?;
        }
        let updates = if self.args.quick { "10000" } else { "60000" };
        self.child(
            JETCELL,
            &["replay", "--threads", "4", "--updates-per-txn", "16", "--updates", updates],
            &[],
        )
    }
}
