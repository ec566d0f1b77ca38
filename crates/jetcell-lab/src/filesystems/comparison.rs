//! Runs turns until the differences are precise enough, then computes the results.

use std::path::PathBuf;
use std::time::Duration;

use jetcell_host::Evidence;
use jetcell_host::machine::DirectoryStorage;
use jetcell_workload::measurement::{Change, ConfidenceInterval, winner};
use serde::Serialize;

use super::rows::ComparedMetric;
use super::specification::FilesystemSpecification;

/// Version of the stored format, incremented whenever a field is removed without an alias for readers or changes its
/// meaning.
pub const SCHEMA: u32 = 1;

/// How to interpret the sign of a difference in a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SignConvention {
    /// A positive difference is better. In rows where neither direction is better, it means a larger figure.
    #[default]
    Better,
    /// A positive difference means a larger figure.
    Change,
}

/// A file system that a test skipped because this machine could not make it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SkippedFilesystem {
    /// Name of the file system.
    pub name: String,
    /// Requirement that this machine does not meet.
    pub reason: String,
}

/// Limits on the number of turns of a comparison. Each turn runs the load once on each file system.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct TurnLimits {
    /// Minimum number of turns, if there is enough time.
    pub fewest: usize,
    /// Maximum number of turns.
    pub most: usize,
    /// A confidence interval is precise enough at this half width, in percent of the first directory's transactional
    /// I/O.
    pub precision_percent: f64,
    /// Time after which no further turn starts. The first turn always runs.
    #[serde(skip)]
    pub longest: Duration,
}

/// A directory tested in a file system comparison.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TestedDirectory {
    /// Name of the directory in tables.
    pub name: String,
    /// Path as the user gave it.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub directory: PathBuf,
    /// File system and device that store the directory.
    pub storage: DirectoryStorage,
    /// Total size of the test's files after the last turn, in bytes.
    pub file_bytes: u64,
    /// Space used by these files, in bytes. If the test made the file system, this is how much its used space
    /// increased. Otherwise it is the number of bytes in allocated blocks; on btrfs, these do not reflect compression
    /// or additional copies.
    pub allocated_bytes: u64,
    /// Specification used to make the file system, if the test made it.
    pub made: Option<FilesystemSpecification>,
    /// Known facts about the storage's checksums and encryption, as remarks.
    pub remarks: Vec<String>,
}

/// Results for one metric in all tested directories.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MetricResult {
    /// The row.
    #[serde(flatten)]
    pub row: ComparedMetric,
    /// Figures for each directory, one per turn.
    pub turns: Vec<Vec<f64>>,
    /// Mean over the turns, for each directory.
    pub means: Vec<f64>,
    /// 95 % confidence interval of each mean. `None` if there was only one turn.
    pub intervals: Vec<Option<ConfidenceInterval>>,
    /// Difference between each directory and the first, with the sign defined by [`FilesystemComparison::signs`].
    pub differences: Vec<Option<Change>>,
    /// Index of the directory that is significantly better than every other directory.
    pub winner: Option<usize>,
}

/// Result of testing and comparing several directories.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FilesystemComparison {
    /// Version of the format, [`SCHEMA`].
    pub schema: u32,
    /// The program, its command line, the machine and the storage.
    #[serde(flatten)]
    pub evidence: Evidence,
    /// Heading that describes how the directories differ.
    pub title: &'static str,
    /// Meaning of the sign of the differences.
    pub signs: SignConvention,
    /// Limits on the number of turns.
    pub limits: TurnLimits,
    /// True if the confidence intervals became narrow enough.
    pub precise: bool,
    /// True if the time was up before the minimum number of turns.
    pub too_few_turns: bool,
    /// The tested directories. Each further directory is compared with the first.
    pub directories: Vec<TestedDirectory>,
    /// File systems that were requested but could not be made.
    pub skipped: Vec<SkippedFilesystem>,
    /// Results of the rows.
    pub rows: Vec<MetricResult>,
}

/// Measures directories in interleaved turns and compares them. `measure` runs one directory in one turn and returns
/// a figure for each row. The first row determines whether the differences are precise enough. `elapsed` returns the
/// time since the start.
///
/// # Errors
/// Returns the error of the first run that fails.
pub fn compare<E>(
    (title, rows): (&'static str, &[ComparedMetric]),
    directories: Vec<TestedDirectory>,
    limits: TurnLimits,
    measure: &mut dyn FnMut(usize, usize) -> Result<Vec<f64>, E>,
    elapsed: &dyn Fn() -> Duration,
) -> Result<FilesystemComparison, E> {
    let mut measured: Vec<Vec<Vec<f64>>> = vec![Vec::new(); directories.len()];
    let (mut precise, mut turns) = (false, 0);
    for turn in 0..limits.most.max(1) {
        let enough = precise && turn >= limits.fewest;
        if turn > 0 && (enough || elapsed() >= limits.longest) {
            break;
        }
        turns = turn + 1;
        let forward = 0..directories.len();
        let order: Vec<usize> =
            if turn.is_multiple_of(2) { forward.collect() } else { forward.rev().collect() };
        for at in order {
            let figures = measure(at, turn)?;
            if let Some(place) = measured.get_mut(at) {
                place.push(figures);
            }
        }
        precise = is_precise(&column(&measured, 0), limits.precision_percent);
    }
    let result = |(at, row): (usize, &ComparedMetric)| MetricResult::new(*row, column(&measured, at));
    let rows = rows.iter().enumerate().map(result).collect();
    // The storage of the directories is added by `complete_directories`, after the turns.
    let evidence = Evidence::collect(std::iter::empty());
    let (signs, skipped) = (SignConvention::Better, Vec::new());
    let too_few_turns = turns < limits.fewest;
    Ok(FilesystemComparison {
        schema: SCHEMA,
        evidence,
        title,
        signs,
        limits,
        precise,
        too_few_turns,
        directories,
        skipped,
        rows,
    })
}

impl FilesystemComparison {
    /// Converts the differences to [`SignConvention::Change`].
    #[must_use]
    pub fn with_signs_of_change(mut self) -> FilesystemComparison {
        if self.signs == SignConvention::Better {
            for row in &mut self.rows {
                let better = row.row.better;
                let differences = row.differences.iter_mut().flatten();
                // `signed_change` is its own inverse.
                differences
                    .for_each(|difference| difference.percent = better.signed_change(difference.percent));
            }
        }
        FilesystemComparison { signs: SignConvention::Change, ..self }
    }
}

/// Returns the figures for a row, one per turn, for each directory.
fn column(measured: &[Vec<Vec<f64>>], row: usize) -> Vec<Vec<f64>> {
    let row_figures =
        |turns: &Vec<Vec<f64>>| turns.iter().filter_map(|figures| figures.get(row).copied()).collect();
    measured.iter().map(row_figures).collect()
}

fn is_precise(turns: &[Vec<f64>], percent: f64) -> bool {
    let Some((base, others)) = turns.split_first() else { return false };
    let narrow = |other: &Vec<f64>| {
        let half = Change::paired(base, other).and_then(|change| change.half_width);
        half.is_some_and(|half| half <= percent)
    };
    others.iter().all(narrow)
}

impl MetricResult {
    fn new(row: ComparedMetric, turns: Vec<Vec<f64>>) -> MetricResult {
        let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let base = turns.first().cloned().unwrap_or_default();
        let difference = |(at, values): (usize, &Vec<f64>)| {
            let change = Change::paired(&base, values).filter(|_| at > 0)?;
            Some(change.improvement(row.better))
        };
        MetricResult {
            row,
            means: turns.iter().map(mean).collect(),
            intervals: turns.iter().map(|values| ConfidenceInterval::from_values(values)).collect(),
            differences: turns.iter().enumerate().map(difference).collect(),
            winner: winner(row.better, &turns),
            turns,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::rows::ROWS;
    use super::*;

    const FILE_SYSTEMS: (&str, &[ComparedMetric]) = ("File systems", &ROWS);

    fn directory(name: &str) -> TestedDirectory {
        let storage = DirectoryStorage { directory: name.into(), mount: None, device: None, array: None };
        let (name, directory) = (name.into(), name.into());
        let (made, remarks) = (None, Vec::new());
        TestedDirectory { name, directory, storage, file_bytes: 0, allocated_bytes: 0, made, remarks }
    }

    fn limits(fewest: usize, most: usize) -> TurnLimits {
        TurnLimits { fewest, most, precision_percent: 2.0, longest: Duration::from_secs(3600) }
    }

    /// Returns a directory's figures for one turn, on a machine that slows down from turn to turn. The other rows are
    /// ten times the IOPS.
    fn run(iops: f64, turn: usize) -> Vec<f64> {
        let drift = 1.0 - 0.01 * turn as f64;
        let mut figures = vec![iops * drift * 10.0; 14];
        figures[0] = iops * drift;
        figures
    }

    #[test]
    fn turns_alternate_until_the_difference_is_precise() {
        let mut order = Vec::new();
        let measure = &mut |at: usize, turn: usize| {
            order.push(at);
            Ok::<_, ()>(run([100.0, 120.0][at], turn))
        };
        let two = || vec![directory("a"), directory("b")];
        let found = compare(FILE_SYSTEMS, two(), limits(2, 10), measure, &|| Duration::ZERO).unwrap();
        assert_eq!(order[..4], [0, 1, 1, 0]);
        let iops = &found.rows[0];
        let difference = iops.differences[1].unwrap();
        assert!(
            found.precise && order.len() < 20 && (difference.percent - 20.0).abs() < 0.1,
            "{difference:?}"
        );
        assert_eq!((iops.winner, iops.differences[0]), (Some(1), None));
        // Higher latency and CPU time are worse; for byte counts, neither direction is better.
        let signs: Vec<f64> =
            found.rows.iter().map(|row| row.differences[1].unwrap().percent.signum()).collect();
        assert_eq!(signs, [1.0, -1.0, -1.0, 1.0, 1.0, 1.0, 1.0, -1.0, -1.0, 1.0, 1.0, 1.0, 1.0, -1.0]);
        assert_eq!((found.rows[1].winner, found.rows[5].winner), (Some(0), None));
        let changes = found.with_signs_of_change().with_signs_of_change();
        assert!(changes.rows.iter().all(|row| row.differences[1].unwrap().percent > 19.0));
        assert_eq!((changes.rows[1].winner, changes.signs), (Some(0), SignConvention::Change));
    }

    #[test]
    fn noise_stops_at_the_limit_without_a_winner() {
        let noisy =
            |at: usize, turn: usize| Ok::<_, ()>(vec![100.0 + [7.0, -9.0, 5.0][(at * 2 + turn) % 3]; 14]);
        let two = || vec![directory("a"), directory("b")];
        let found = compare(FILE_SYSTEMS, two(), limits(2, 6), &mut { noisy }, &|| Duration::ZERO).unwrap();
        assert_eq!((found.precise, found.rows[0].turns[1].len(), found.rows[0].winner), (false, 6, None));
        let clock = Cell::new(0);
        let elapsed = || {
            clock.set(clock.get() + 1);
            Duration::from_secs(clock.get() * 1500)
        };
        let found = compare(FILE_SYSTEMS, two(), limits(2, 100), &mut { noisy }, &elapsed).unwrap();
        assert_eq!((found.rows[0].turns[0].len(), found.too_few_turns), (3, false));
        // The time limit applies even before the minimum number of turns is reached, but at least one turn runs.
        let over = |seconds| move || Duration::from_secs(seconds);
        let found = compare(FILE_SYSTEMS, two(), limits(5, 100), &mut { noisy }, &over(3600)).unwrap();
        assert_eq!((found.rows[0].turns[1].len(), found.too_few_turns), (1, true));
        let one = compare(FILE_SYSTEMS, two(), limits(1, 1), &mut { noisy }, &|| Duration::ZERO).unwrap();
        assert_eq!((one.rows[0].intervals[0], one.rows[0].differences[1].unwrap().half_width), (None, None));
        assert_eq!(
            compare(FILE_SYSTEMS, two(), limits(1, 1), &mut |_, _| Err("no"), &|| Duration::ZERO)
                .unwrap_err(),
            "no"
        );
    }
}
