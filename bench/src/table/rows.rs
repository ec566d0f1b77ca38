//! The rows of the table: which figures of which steps they compare, and their goals.

use serde_json::Value;

use super::measurements::{
    FigureFn, Measurements, cpu_seconds, durable_p99, median, number_at_path, operation_rate,
    write_amplification,
};
use super::steps::{
    BACKUP, DEPTHS, FIO_MIX, FIO_MIX_NO_DELTAS, FIO_MIX_PROTECTED, MAINTENANCE, MIX4, MIX4_MULTIGET,
    MIX4_NO_PREREAD, MIX4_NO_PREREAD_PROTECTED, MIX4_PROTECTED, MIX8, MIX8_NO_DELTAS, MIX8_PROTECTED, REPLAY,
    SYNC,
};
use crate::engines::ALL;

/// One line of the table.
pub struct TableLine {
    pub row: String,
    pub what: String,
    pub ours: Option<f64>,
    /// Empty if the goal is for our figure itself.
    pub peer_name: String,
    pub peer: Option<f64>,
    /// Our figure itself if there is no peer.
    pub ratio: Option<f64>,
    pub goal: RatioGoal,
    /// Digits after the point of the figures.
    pub digits: usize,
    pub quiet: bool,
}

/// Goal for a ratio, or for a figure without a peer.
#[derive(Clone, Copy)]
pub enum RatioGoal {
    AtLeast(f64),
    AtMost(f64),
    /// The line is for comparison only.
    Absent,
}

use RatioGoal::{Absent, AtLeast, AtMost};

impl RatioGoal {
    /// Whether a value meets the goal; `None` if there is no goal.
    pub fn is_met(self, value: f64) -> Option<bool> {
        match self {
            AtLeast(goal) => Some(value >= goal),
            AtMost(goal) => Some(value <= goal),
            Absent => None,
        }
    }
}

fn database_iops(value: &Value) -> Option<f64> {
    let transfers = number_at_path(value, "/transfers/reads")? + number_at_path(value, "/transfers/writes")?;
    Some(transfers / number_at_path(value, "/used/seconds")?)
}

fn durable_rate(value: &Value) -> Option<f64> {
    Some(number_at_path(value, "/durable")? / number_at_path(value, "/used/seconds")?)
}

fn load_rate(value: &Value) -> Option<f64> {
    Some(number_at_path(value, "/logical")? / number_at_path(value, "/used/seconds")? / 1e6)
}

fn redo_rate(value: &Value) -> Option<f64> {
    Some(number_at_path(value, "/updates")? / number_at_path(value, "/seconds")?)
}

fn iops(value: &Value) -> Option<f64> {
    number_at_path(value, "/iops")
}

fn megabytes(value: &Value) -> Option<f64> {
    Some(number_at_path(value, "/bytes_per_second")? / 1e6)
}

/// Builds the lines of one row.
struct RowBuilder<'a> {
    measurements: &'a Measurements,
    number: u8,
}

/// The lines of a row.
pub fn lines(measurements: &Measurements, number: u8) -> Vec<TableLine> {
    let row = RowBuilder { measurements, number };
    match number {
        1 => row.page_io(),
        2 => row.database_io(),
        3 => row.mix8(MIX8, "operations/s, 8 threads, 1 update", [AtLeast(2.0), AtLeast(1.3)]),
        4 => row.mix4(MIX4, "operations/s, 4 threads, 16 updates", [AtLeast(2.0), AtLeast(0.85)]),
        5 => vec![row.against_wiredtiger("CPU s per 10,000 operations", cpu_seconds, AtMost(0.5), 2)],
        6 => {
            vec![row.against_wiredtiger(
                "bytes written per logical byte",
                write_amplification,
                AtMost(0.85),
                1,
            )]
        }
        7 => vec![row.latency("p99 of a durable transaction, µs", MIX8, FIO_MIX, AtMost(3.0))],
        8 => row.commits(),
        9 => row.load(),
        10 => row.verification(),
        11 => row.redo(),
        12 => {
            let seconds: FigureFn = |value| number_at_path(value, "/seconds");
            vec![row.absolute("open at 20 MiB depth, s", ("open/jetcell", seconds), AtMost(1.0), 2)]
        }
        13 => row.file_size(),
        14 => row.torn_page_protection(),
        15 => row.no_preread(),
        16 => {
            let theirs: (&str, FigureFn) = (MIX4_MULTIGET, operation_rate);
            let what = "operations/s, 4 threads, 16 updates, reads in advance";
            let ours: (&str, FigureFn) = (&ours(MIX4), operation_rate);
            vec![row.compare(what, ours, ("RocksDB MultiGet", theirs), Absent, 0)]
        }
        17 => row.replay(),
        18 => row.backup(),
        19 => row.maintenance(),
        20 => row.bulk_load(),
        _ => Vec::new(),
    }
}

/// Published replay of ESE with a cold cache: seconds for a log of 1 MiB. From a report of Jetstress 2013.
const ESE_SECONDS_PER_MIB: f64 = 2.9;

/// The step of our engine.
fn ours(step: &str) -> String {
    format!("{step}/jetcell")
}

impl RowBuilder<'_> {
    /// A line that compares two steps.
    fn compare(
        &self,
        what: &str,
        ours: (&str, FigureFn),
        (peer_name, theirs): (&str, (&str, FigureFn)),
        goal: RatioGoal,
        digits: usize,
    ) -> TableLine {
        let all = self.measurements;
        TableLine {
            row: self.number.to_string(),
            what: what.to_string(),
            ours: all.figure(ours.0, ours.1),
            peer_name: peer_name.to_string(),
            peer: all.figure(theirs.0, theirs.1),
            ratio: all.ratio(ours, theirs),
            goal,
            digits,
            quiet: all.is_quiet(&[ours.0, theirs.0]),
        }
    }

    /// A line with a goal for the figure itself.
    fn absolute(&self, what: &str, ours: (&str, FigureFn), goal: RatioGoal, digits: usize) -> TableLine {
        let value = self.measurements.figure(ours.0, ours.1);
        TableLine {
            row: self.number.to_string(),
            what: what.to_string(),
            ours: value,
            peer_name: String::new(),
            peer: None,
            ratio: value,
            goal,
            digits,
            quiet: self.measurements.is_quiet(&[ours.0]),
        }
    }

    fn page_io(&self) -> Vec<TableLine> {
        let line = |depth: &u32| {
            let (ours, fio) = (format!("io/{depth}"), format!("fio/{depth}"));
            let what = format!("page I/O/s, depth {depth}");
            self.compare(&what, (&ours, iops), ("fio", (&fio, iops)), AtLeast(0.95), 0)
        };
        DEPTHS.iter().map(line).collect()
    }

    fn database_io(&self) -> Vec<TableLine> {
        let line = |store: &str, mix: &str, fio: &str| {
            let what = format!("database I/O/s, delta store {store}");
            self.compare(&what, (&ours(mix), database_iops), ("fio", (fio, iops)), AtLeast(0.75), 0)
        };
        vec![line("off", MIX8_NO_DELTAS, FIO_MIX_NO_DELTAS), line("on", MIX8, FIO_MIX)]
    }

    /// Operations of 8 threads against WiredTiger and the best peer.
    fn mix8(&self, step: &str, what: &str, [wiredtiger, best]: [RatioGoal; 2]) -> Vec<TableLine> {
        let ours = ours(step);
        let ours: (&str, FigureFn) = (&ours, operation_rate);
        let peers = ALL.iter().filter(|name| **name != "jetcell");
        let rate = |name: &&&str| self.measurements.figure(&format!("{MIX8}/{name}"), operation_rate);
        let fastest = peers.filter_map(|name| Some((rate(&name)?, *name))).max_by(|a, b| a.0.total_cmp(&b.0));
        let name = fastest.map_or("none", |(_, name)| name);
        let (peer, label) = (format!("{MIX8}/{name}"), format!("best: {name}"));
        let theirs = format!("{MIX8}/wiredtiger");
        vec![
            self.compare(what, ours, ("WiredTiger", (&theirs, operation_rate)), wiredtiger, 0),
            self.compare(what, ours, (&label, (&peer, operation_rate)), best, 0),
        ]
    }

    /// Operations of 4 threads against WiredTiger and RocksDB.
    fn mix4(&self, step: &str, what: &str, [wiredtiger, rocksdb]: [RatioGoal; 2]) -> Vec<TableLine> {
        let ours = ours(step);
        let line = |label: &str, name: &str, goal| {
            let theirs = format!("{MIX4}/{name}");
            self.compare(what, (&ours, operation_rate), (label, (&theirs, operation_rate)), goal, 0)
        };
        vec![line("WiredTiger", "wiredtiger", wiredtiger), line("RocksDB", "rocksdb", rocksdb)]
    }

    /// A figure of the mix of 8 threads against WiredTiger.
    fn against_wiredtiger(&self, what: &str, figure: FigureFn, goal: RatioGoal, digits: usize) -> TableLine {
        let theirs = format!("{MIX8}/wiredtiger");
        self.compare(what, (&ours(MIX8), figure), ("WiredTiger", (&theirs, figure)), goal, digits)
    }

    /// p99 of durable transactions. The baseline is a sum of two steps: a read of fio and a synced log write.
    fn latency(&self, what: &str, mix: &str, fio: &str, goal: RatioGoal) -> TableLine {
        let (all, step) = (self.measurements, ours(mix));
        let samples = all.samples(&step);
        let baseline = |round: u32| {
            let find =
                |step: &str, path: &str| number_at_path(&all.sample_in_round(step, round)?.value, path);
            Some(find(fio, "/read_p99_us")? + find(SYNC, "/us/p99")?)
        };
        let ratios =
            samples.iter().filter_map(|sample| Some(durable_p99(&sample.value)? / baseline(sample.round)?));
        TableLine {
            row: self.number.to_string(),
            what: what.to_string(),
            ours: all.figure(&step, durable_p99),
            peer_name: "fio read + fdatasync".to_string(),
            peer: median(samples.iter().filter_map(|sample| baseline(sample.round)).collect()),
            ratio: median(ratios.collect()),
            goal,
            digits: 0,
            quiet: all.is_quiet(&[&step, fio, SYNC]),
        }
    }

    fn commits(&self) -> Vec<TableLine> {
        let one_writer: (&str, FigureFn) = (SYNC, |value| number_at_path(value, "/per_second"));
        let ours: (&str, FigureFn) = ("commits/jetcell", durable_rate);
        vec![self.compare("durable commits/s, cached", ours, ("one writer", one_writer), AtLeast(4.0), 0)]
    }

    fn bulk_load(&self) -> Vec<TableLine> {
        let line = |(label, engine, goal): (&str, &str, RatioGoal)| {
            let ours: (&str, FigureFn) = ("bulk/jetcell", load_rate);
            let theirs = format!("bulk/{engine}");
            let what = "bulk load in key order, MB/s";
            self.compare(what, ours, (label, (&theirs, load_rate)), goal, 0)
        };
        let peers = [
            ("WiredTiger, bulk cursor", "wiredtiger", AtLeast(1.0)),
            ("RocksDB, SST ingestion", "rocksdb", AtLeast(1.0)),
            // Their pages have no checksums.
            ("SQLite, one transaction", "sqlite", Absent),
            ("LMDB, append", "lmdb", Absent),
        ];
        peers.map(line).into()
    }

    fn load(&self) -> Vec<TableLine> {
        let line = |label: &str, theirs: &str, goal| {
            let ours: (&str, FigureFn) = ("load/jetcell", load_rate);
            self.compare("load in key order, MB/s", ours, (label, (theirs, load_rate)), goal, 0)
        };
        vec![
            line("WiredTiger", "load/wiredtiger", AtLeast(1.3)),
            line("RocksDB", "load/rocksdb", AtLeast(1.0)),
        ]
    }

    fn verification(&self) -> Vec<TableLine> {
        let gigabytes: FigureFn = |value| Some(number_at_path(value, "/bytes_per_second")? / 1e9);
        let check: (&str, FigureFn) = ("check", megabytes);
        vec![
            self.compare("verification, MB/s", check, ("fio", ("fio-check", megabytes)), AtLeast(0.95), 0),
            self.absolute("checksums, one core, GB/s", ("checksum", gigabytes), AtLeast(8.0), 1),
        ]
    }

    fn redo(&self) -> Vec<TableLine> {
        let ours: (&str, FigureFn) = ("redo/jetcell", redo_rate);
        let theirs: (&str, FigureFn) = ("redo/wiredtiger", redo_rate);
        vec![self.compare("redo, records/s", ours, ("WiredTiger", theirs), AtLeast(6.0), 0)]
    }

    /// Against a published figure, which was not measured in this run.
    fn replay(&self) -> Vec<TableLine> {
        let rate: FigureFn = |value| {
            Some(number_at_path(value, "/log_bytes")? / 1048576.0 / number_at_path(value, "/seconds")?)
        };
        let ours = self.measurements.figure(REPLAY, rate);
        let published = 1.0 / ESE_SECONDS_PER_MIB;
        vec![TableLine {
            row: self.number.to_string(),
            what: "replay of closed logs, MiB/s".to_string(),
            ours,
            peer_name: "ESE (published)".to_string(),
            peer: Some(published),
            ratio: ours.map(|ours| ours / published),
            goal: AtLeast(20.0),
            digits: 1,
            quiet: self.measurements.is_quiet(&[REPLAY]),
        }]
    }

    fn backup(&self) -> Vec<TableLine> {
        let verified: FigureFn = |value| Some(number_at_path(value, "/backup_bytes_per_second")? / 1e6);
        let raw: FigureFn = |value| Some(number_at_path(value, "/raw_bytes_per_second")? / 1e6);
        let summed: FigureFn = |value| Some(number_at_path(value, "/summed_bytes_per_second")? / 1e6);
        let line = |peer_name: &str, peer: FigureFn, goal| {
            let (ours, peer) =
                (self.measurements.figure(BACKUP, verified), self.measurements.figure(BACKUP, peer));
            TableLine {
                row: self.number.to_string(),
                what: "backup, every page verified, MB/s".to_string(),
                ours,
                peer_name: peer_name.to_string(),
                peer,
                ratio: ours.zip(peer).map(|(ours, peer)| ours / peer),
                goal,
                digits: 0,
                quiet: self.measurements.is_quiet(&[BACKUP]),
            }
        };
        vec![
            line("read without verification", raw, AtLeast(0.95)),
            line("read that adds up the bytes", summed, Absent),
        ]
    }

    fn maintenance(&self) -> Vec<TableLine> {
        let line = |what: &str, ours: FigureFn, peer_name: &str, peer: FigureFn, goal| {
            let (ours, peer) =
                (self.measurements.figure(MAINTENANCE, ours), self.measurements.figure(MAINTENANCE, peer));
            TableLine {
                row: self.number.to_string(),
                what: what.to_string(),
                ours,
                peer_name: peer_name.to_string(),
                peer,
                ratio: ours.zip(peer).map(|(ours, peer)| ours / peer),
                goal,
                digits: 0,
                quiet: self.measurements.is_quiet(&[MAINTENANCE]),
            }
        };
        let scan: FigureFn = |value| Some(number_at_path(value, "/scan_bytes_per_second")? / 1e6);
        let raw: FigureFn = |value| Some(number_at_path(value, "/raw_bytes_per_second")? / 1e6);
        let zeroing: FigureFn = |value| Some(number_at_path(value, "/zeroing/bytes_per_second")? / 1e6);
        let writes: FigureFn = |value| Some(number_at_path(value, "/zeroing/raw_bytes_per_second")? / 1e6);
        let limited: FigureFn = |value| Some(number_at_path(value, "/limited/Ok/bytes_per_second")? / 1e6);
        let limited_writes: FigureFn =
            |value| Some(number_at_path(value, "/limited/Ok/raw_bytes_per_second")? / 1e6);
        let in_turn: FigureFn = |value| Some(number_at_path(value, "/in_turn_bytes_per_second")? / 1e6);
        let together: FigureFn = |value| Some(number_at_path(value, "/together_bytes_per_second")? / 1e6);
        let scan_percent: FigureFn = |value| Some(number_at_path(value, "/scan_processors")? * 100.0);
        let zero_percent: FigureFn = |value| Some(number_at_path(value, "/zeroing/processors")? * 100.0);
        let scattered: FigureFn = |value| number_at_path(value, "/key_order/scattered/rows_per_second");
        let laid_out: FigureFn = |value| number_at_path(value, "/key_order/laid_out/rows_per_second");
        let few: FigureFn = |value| number_at_path(value, "/key_order/limited/Ok/0");
        let few_laid_out: FigureFn = |value| number_at_path(value, "/key_order/limited/Ok/1");
        vec![
            line("checksum scan, MB/s", scan, "read without verification", raw, AtLeast(0.95)),
            self.absolute("checksum scan, % of a processor", (MAINTENANCE, scan_percent), Absent, 0),
            line("zeroing, MB/s written", zeroing, "writes of the same size", writes, Absent),
            line(
                "zeroing, disk limited to 500 MB/s",
                limited,
                "writes of the same size",
                limited_writes,
                AtLeast(0.8),
            ),
            self.absolute("zeroing, % of a processor", (MAINTENANCE, zero_percent), Absent, 0),
            line("scan of two databases in turn, MB/s", in_turn, "both at once", together, Absent),
            line("rows/s in key order, laid out", laid_out, "before layout", scattered, Absent),
            line("the same, disk limited to 300 reads/s", few_laid_out, "before layout", few, Absent),
        ]
    }

    fn file_size(&self) -> Vec<TableLine> {
        let loaded: FigureFn =
            |value| Some(number_at_path(value, "/largest_file")? / number_at_path(value, "/logical")?);
        let mixed: FigureFn =
            |value| Some(number_at_path(value, "/largest_file")? / number_at_path(value, "/live")?);
        vec![
            self.absolute("file per live byte, loaded", ("load/jetcell", loaded), AtMost(1.08), 3),
            self.absolute("file per live byte, after the mix", (&ours(MIX8), mixed), AtMost(1.35), 3),
        ]
    }

    fn torn_page_protection(&self) -> Vec<TableLine> {
        let mut lines = self.mix8(MIX8_PROTECTED, "row 3, torn-page protection", [Absent, Absent]);
        lines.extend(self.mix4(MIX4_PROTECTED, "row 4, torn-page protection", [Absent, Absent]));
        let (ours, theirs) = (ours(MIX8_PROTECTED), format!("{MIX8}/wiredtiger"));
        let written: FigureFn = write_amplification;
        let what = "row 6, torn-page protection";
        lines.push(self.compare(what, (&ours, written), ("WiredTiger", (&theirs, written)), Absent, 1));
        lines.push(self.latency("row 7, torn-page protection", MIX8_PROTECTED, FIO_MIX_PROTECTED, Absent));
        lines
    }

    fn no_preread(&self) -> Vec<TableLine> {
        let mut lines = self.mix4(MIX4_NO_PREREAD, "row 4, no preread", [Absent, Absent]);
        let what = "row 4, no preread, torn-page protection";
        lines.extend(self.mix4(MIX4_NO_PREREAD_PROTECTED, what, [Absent, Absent]));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_compare_in_the_right_direction() {
        assert_eq!(AtLeast(2.0).is_met(2.0), Some(true));
        assert_eq!(AtLeast(2.0).is_met(1.9), Some(false));
        assert_eq!(AtMost(0.5).is_met(0.5), Some(true));
        assert_eq!(AtMost(0.5).is_met(0.6), Some(false));
        assert_eq!(Absent.is_met(0.6), None);
    }
}
