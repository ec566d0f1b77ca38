//! Measures what fragmentation costs on a drive. A contiguous and a scattered copy of the same database are read by a
//! scan and by a backup, and used under the mail load.

use jetcell_input::Unit;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Instant;

use jetcell_input::number::{MIB, decimal, signed};
use jetcell_vfs::{File, IoBuffer, IoReason, OpenMode, RealOptions, RealVfs, Vfs};
use jetcell_workload::fragmentation::Fragmentation;
use jetcell_workload::measurement::{BetterDirection, Change};
use serde::Serialize;

use crate::filesystems::{ComparedMetric, FilesystemComparison, ROWS, row};

/// Size of each read by the scan or the backup, in bytes.
const READ_BYTES: u64 = 256 << 10;
/// Number of reads that a backup keeps in flight.
const BACKUP_DEPTH: u64 = 8;
/// Rows of the mail load, followed by the two rates from [`read_rates`].
pub const EXPERIMENT_ROWS: [ComparedMetric; ROWS.len() + 2] = {
    let mut rows =
        [row("scan_mib_per_sec", "Scan", Unit::MebibytesPerSecond, BetterDirection::Higher); ROWS.len() + 2];
    let mut at = 0;
    while at < ROWS.len() {
        rows[at] = ROWS[at];
        at += 1;
    }
    rows[ROWS.len() + 1] =
        row("backup_mib_per_sec", "Backup", Unit::MebibytesPerSecond, BetterDirection::Higher);
    rows
};

/// Result of a defragmentation experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DefragmentationExperiment {
    /// Version of the stored format, incremented whenever a field is removed or changes its meaning.
    pub schema: u32,
    /// Size of the scattered file's fragments, in bytes.
    pub piece_bytes: u64,
    /// Advice on whether to defragment such a file on this drive, if the differences permit an answer.
    pub answer: String,
    /// Fragmentation of the contiguous and the scattered database before the first measured turn.
    pub files: Vec<Fragmentation>,
    /// Results for both files, in the rows of [`EXPERIMENT_ROWS`]. A positive difference means that the scattered
    /// file is better.
    pub comparison: FilesystemComparison,
}

impl DefragmentationExperiment {
    /// Creates the result, deriving the answer from the differences.
    pub fn new(
        piece_bytes: u64,
        files: Vec<Fragmentation>,
        comparison: FilesystemComparison,
    ) -> DefragmentationExperiment {
        let answer = answer(&comparison);
        DefragmentationExperiment { schema: 1, piece_bytes, answer, files, comparison }
    }
}

/// Derives the answer from the differences. A difference within the noise counts as no difference, but the answer
/// states its upper bound.
fn answer(comparison: &FilesystemComparison) -> String {
    let find_difference = |name: &str| -> Option<Change> {
        let row = comparison.rows.iter().find(|row| row.row.name == name)?;
        row.differences.get(1).copied().flatten().filter(|found| found.half_width.is_some())
    };
    let names = ["achieved_transactional_iops", "scan_mib_per_sec", "backup_mib_per_sec"];
    let [Some(load), Some(scan), Some(backup)] = names.map(find_difference) else {
        return "One turn is not conclusive: noise could explain every difference. Repeat the experiment \
         with more turns."
            .into();
    };
    let is_slower = |found: &Change| found.significant && found.percent < 0.0;
    let shown = |found: &Change| {
        format!("{} % ± {} %", signed(found.percent), decimal(found.half_width.unwrap_or_default(), 1))
    };
    let verdict = match (is_slower(&load), is_slower(&scan), is_slower(&backup)) {
        (true, ..) => "Yes: the mail load is slower on the scattered file.",
        (false, true, true) => "Not for the mail load. A scan and a backup are slower on the scattered file.",
        (false, true, false) => "Not for the mail load. A scan is slower on the scattered file.",
        (false, false, true) => "Not for the mail load. A backup is slower on the scattered file.",
        (false, false, false) => "No: nothing is measurably slower on the scattered file.",
    };
    let differences = format!(
        "Scattered file relative to the contiguous file (95 % confidence, positive is faster): \
         transactional I/O {}, scan {}, backup {}.",
        shown(&load),
        shown(&scan),
        shown(&backup)
    );
    let slowest = load.percent - load.half_width.unwrap_or_default();
    if is_slower(&load) || slowest >= 0.0 {
        format!("{verdict} {differences}")
    } else {
        format!(
            "{verdict} {differences} A loss of up to {:.1} % for the mail load is not excluded; more turns \
             narrow the interval.",
            -slowest
        )
    }
}

/// Reads a file sequentially with direct I/O and returns two rates in MiB/s: one with a single 256 KiB read at a
/// time, like the checksum scan, and one with eight reads in flight, like a backup.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn read_rates(path: &Path) -> io::Result<[f64; 2]> {
    let files = RealVfs::new(RealOptions::default())?;
    let file = files.open(path, OpenMode::Read)?;
    let len = file.len()?;
    let rate = |depth: u64| {
        let began = Instant::now();
        thread::scope(|scope| {
            let readers: Vec<_> = (0..depth)
                .map(|first| {
                    scope.spawn({
                        let file = &*file;
                        move || read_every(file, len, first, depth)
                    })
                })
                .collect();
            readers.into_iter().try_for_each(|reader| {
                reader.join().unwrap_or_else(|_| Err(io::Error::other("a reader panicked")))
            })
        })?;
        Ok::<_, io::Error>(len as f64 / MIB / began.elapsed().as_secs_f64())
    };
    Ok([rate(1)?, rate(BACKUP_DEPTH)?])
}

/// Reads every `step`th block, starting with block number `first`.
fn read_every(file: &dyn File, len: u64, first: u64, step: u64) -> io::Result<()> {
    let mut buffer = IoBuffer::zeroed(READ_BYTES as usize);
    for offset in (first * READ_BYTES..len).step_by((step * READ_BYTES) as usize) {
        buffer.resize((len - offset).min(READ_BYTES) as usize);
        file.read_at(offset, &mut buffer, IoReason::Other)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jetcell_host::machine::DirectoryStorage;

    use super::*;
    use crate::filesystems::{TestedDirectory, TurnLimits, compare};

    #[test]
    fn experiment_rows_are_the_load_rows_plus_scan_and_backup() {
        let names: Vec<&str> = EXPERIMENT_ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names[..ROWS.len()], ROWS.map(|row| row.name));
        assert_eq!(names[ROWS.len()..], ["scan_mib_per_sec", "backup_mib_per_sec"]);
    }

    #[test]
    fn the_answer_uses_significant_differences() {
        let directory = |name: &str| TestedDirectory {
            name: name.into(),
            directory: name.into(),
            storage: DirectoryStorage { directory: name.into(), mount: None, device: None, array: None },
            file_bytes: 1,
            allocated_bytes: 1,
            made: None,
            remarks: Vec::new(),
        };
        let answer_of = |turns: usize, load: f64, scan: f64, backup: f64| {
            let limits =
                TurnLimits { fewest: turns, most: turns, precision_percent: 2.0, longest: Duration::MAX };
            let measure = &mut |at: usize, turn: usize| {
                // The turns vary by 1 % in both directions.
                let noise = [1.0, 0.99, 1.01, 1.0][turn] * 100.0;
                let figure = |row: &ComparedMetric| match (at, row.name) {
                    (0, _) => 100.0,
                    (_, "achieved_transactional_iops") => noise * load,
                    (_, "scan_mib_per_sec") => noise * scan,
                    (_, "backup_mib_per_sec") => noise * backup,
                    _ => noise,
                };
                Ok::<_, ()>(EXPERIMENT_ROWS.iter().map(figure).collect())
            };
            let directories = ["contiguous", "scattered"].map(directory).into();
            let rows = ("Fragmentation", &EXPERIMENT_ROWS[..]);
            let comparison = compare(rows, directories, limits, measure, &|| Duration::ZERO).unwrap();
            DefragmentationExperiment::new(64 << 10, Vec::new(), comparison).answer
        };
        assert!(answer_of(4, 0.5, 0.5, 1.0).starts_with("Yes: the mail load is slower"));
        let typical = answer_of(4, 1.0, 0.55, 0.98);
        assert!(typical.starts_with("Not for the mail load. A scan and a backup are slower"), "{typical}");
        assert!(typical.contains("transactional I/O 0.0 % ± 1.3 %, scan -45.0 % ± 0.7 %"), "{typical}");
        assert!(
            typical.ends_with(
                "of up to 1.3 % for the mail load is not excluded; more turns narrow the interval."
            ),
            "{typical}"
        );
        assert!(answer_of(4, 1.0, 0.9, 1.0).contains("A scan is slower"));
        assert!(answer_of(4, 1.0, 1.0, 0.9).contains("A backup is slower"));
        let none = answer_of(4, 1.2, 1.0, 1.0);
        assert!(
            none.starts_with("No: nothing is measurably slower on the scattered file")
                && !none.contains("not excluded"),
            "{none}"
        );
        assert!(answer_of(1, 0.5, 0.5, 0.5).starts_with("One turn is not conclusive"));
    }

    #[test]
    fn a_file_is_read_to_the_end() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = directory.path().join("a.edb");
        std::fs::write(&path, vec![7; (3 << 20) + 8192]).unwrap();
        let rates = read_rates(&path).unwrap();
        assert!(rates.iter().all(|rate| rate.is_finite() && *rate > 0.0), "{rates:?}");
        assert!(read_rates(&directory.path().join("none")).is_err());
    }
}
