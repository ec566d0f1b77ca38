//! `samples.csv`: one line per interval and instance. The file is flushed after each interval, so if a run is killed,
//! the file contains all complete intervals.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

use jetcell_vfs::{OutputFile, UnfinishedFile, open_input};

use crate::measurement::io::IoRates;
use crate::measurement::sample::{InstanceSample, Sample, SamplePercentiles};

const HEADER: &str = "at_seconds,seconds,instance,operations_per_second,cache_used_bytes,page_fault_stalls,\
    database_reads_per_second,database_read_ms,database_read_bytes,\
    database_writes_per_second,database_write_ms,database_write_bytes,\
    log_reads_per_second,log_read_ms,log_read_bytes,log_writes_per_second,log_write_ms,log_write_bytes";

/// Columns that files written by older builds lack. Their values cover all instances and are repeated on each line of
/// an interval.
const PERCENTILES: [&str; 6] = [
    "database_read_p50_ms",
    "database_read_p95_ms",
    "database_read_p99_ms",
    "log_write_p50_ms",
    "log_write_p95_ms",
    "log_write_p99_ms",
];

fn header() -> String {
    format!("{HEADER},{}", PERCENTILES.join(","))
}

/// Writer for `samples.csv`.
pub struct SampleFile {
    file: BufWriter<OutputFile>,
    synced: bool,
}

impl SampleFile {
    /// Creates the file and writes the header.
    pub fn create(path: &Path) -> io::Result<SampleFile> {
        let mut file = BufWriter::new(OutputFile::create(path)?);
        writeln!(file, "{}", header())?;
        file.flush()?;
        Ok(SampleFile { file, synced: false })
    }

    /// Syncs the file after each sample. The samples then survive a machine crash.
    #[must_use]
    pub fn with_sync(self) -> SampleFile {
        SampleFile { synced: true, ..self }
    }

    /// Rewrites a file durably with the given samples, then appends to it. After a crash, the file has either the old
    /// content or the new content.
    pub fn continue_with(path: &Path, samples: &[Sample]) -> io::Result<SampleFile> {
        let mut file = BufWriter::new(UnfinishedFile::create(path)?);
        writeln!(file, "{}", header())?;
        samples.iter().try_for_each(|sample| write_sample(&mut file, sample))?;
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?.finish_open()?;
        Ok(SampleFile { file: BufWriter::new(file), synced: false })
    }

    /// Discards all samples. Another measurement can then replace them.
    pub fn clear(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_mut().set_len(0)?;
        self.file.seek(io::SeekFrom::Start(0))?;
        writeln!(self.file, "{}", header())?;
        self.file.flush()
    }

    /// Appends the lines of an interval.
    pub fn add(&mut self, sample: &Sample) -> io::Result<()> {
        write_sample(&mut self.file, sample)?;
        self.file.flush()?;
        if self.synced { self.file.get_ref().sync() } else { Ok(()) }
    }
}

fn write_sample(file: &mut impl Write, sample: &Sample) -> io::Result<()> {
    for (number, instance) in sample.instances.iter().enumerate() {
        write!(
            file,
            "{:.3},{:.3},{},{:.3},{},{}",
            sample.at_seconds,
            sample.seconds,
            number + 1,
            sample.operations_per_second,
            sample.cache_used_bytes,
            sample.page_fault_stalls
        )?;
        for rates in [instance.database_read, instance.database_write, instance.log_read, instance.log_write]
        {
            write!(file, ",{:.3},{:.3},{:.0}", rates.per_second, rates.average_ms, rates.average_bytes)?;
        }
        for SamplePercentiles { p50, p95, p99 } in [sample.database_reads, sample.log_writes] {
            write!(file, ",{p50:.3},{p95:.3},{p99:.3}")?;
        }
        writeln!(file)?;
    }
    Ok(())
}

/// Maximum number of bytes read from `samples.csv`. Even a 24-hour run with 3,000 instances and one sample per second
/// produces a smaller file.
const MAX_FILE_BYTES: u64 = 16 << 30;
/// Maximum number of instances in a file. No run has this many.
const MAX_INSTANCES: usize = 100_000;

/// Reads `samples.csv`. Columns are found by name, and unknown columns are ignored. An incomplete last line, left by
/// a killed run, is also ignored.
///
/// # Errors
/// The file cannot be read, or a line is invalid. The error contains the line number.
pub fn read_samples(path: &Path) -> io::Result<Vec<Sample>> {
    let wrong = |number: usize, what: &str| {
        io::Error::new(io::ErrorKind::InvalidData, format!("line {number}: {what}"))
    };
    let mut lines = BufReader::new(open_input(path)?.take(MAX_FILE_BYTES));
    let mut line = String::new();
    lines.read_line(&mut line)?;
    let names: Vec<String> = line.trim_end().split(',').map(str::to_string).collect();
    let column = |name: &str| names.iter().position(|known| known == name);
    if let Some(missing) = HEADER.split(',').find(|name| column(name).is_none()) {
        return Err(wrong(1, &format!("column {missing} is missing")));
    }
    let known: Vec<&str> = HEADER.split(',').chain(PERCENTILES).collect();
    let columns: Vec<usize> = known.into_iter().filter_map(column).collect();
    let with_percentiles = PERCENTILES.iter().all(|name| column(name).is_some());
    let mut samples: Vec<Sample> = Vec::new();
    for number in 2.. {
        line.clear();
        if lines.read_line(&mut line)? == 0 || !line.ends_with('\n') {
            break;
        }
        let fields: Vec<&str> = line.trim_end().split(',').collect();
        let parsed: Option<Vec<f64>> = columns
            .iter()
            .map(|at| fields.get(*at)?.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0))
            .collect();
        let Some(values) = parsed.filter(|_| fields.len() == names.len()) else {
            return Err(wrong(number, "the numbers do not match the header"));
        };
        let [at_seconds, seconds, instance, operations, cache, stalls, rates @ ..] = values.as_slice() else {
            return Err(wrong(number, "too few columns"));
        };
        let io = |kind: usize| {
            let value = |column: usize| rates.get(kind * 3 + column).copied().unwrap_or(0.0);
            IoRates { per_second: value(0), average_ms: value(1), average_bytes: value(2) }
        };
        let instance_io =
            InstanceSample { database_read: io(0), database_write: io(1), log_read: io(2), log_write: io(3) };
        let percentiles = |kind: usize| {
            let value = |column: usize| rates.get(12 + kind * 3 + column).copied().unwrap_or(0.0);
            if with_percentiles {
                SamplePercentiles { p50: value(0), p95: value(1), p99: value(2) }
            } else {
                SamplePercentiles::default()
            }
        };
        if *instance == 1.0 {
            samples.push(Sample {
                at_seconds: *at_seconds,
                seconds: *seconds,
                operations_per_second: *operations,
                cache_used_bytes: *cache as u64,
                page_fault_stalls: *stalls as u64,
                instances: Vec::new(),
                database_reads: percentiles(0),
                log_writes: percentiles(1),
            });
        }
        match samples.last_mut() {
            Some(sample)
                if *instance == (sample.instances.len() + 1) as f64
                    && sample.instances.len() < MAX_INSTANCES =>
            {
                sample.instances.push(instance_io);
            }
            _ => return Err(wrong(number, "instances are out of order")),
        }
    }
    // A run that was killed while writing an interval leaves lines for only some of the instances.
    let complete = samples.first().map_or(0, |sample| sample.instances.len());
    if samples.last().is_some_and(|last| last.instances.len() < complete) {
        samples.pop();
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_interval_is_flushed_to_the_file() {
        let read = IoRates { per_second: 0.5, average_bytes: 32768.0, average_ms: 4.0 };
        let write = IoRates { per_second: 0.5, average_bytes: 65536.0, average_ms: 2.0 };
        let instance =
            InstanceSample { database_read: read, database_write: write, ..InstanceSample::default() };
        let sample = Sample {
            at_seconds: 2.0,
            seconds: 2.0,
            operations_per_second: 15.0,
            page_fault_stalls: 3,
            instances: vec![instance],
            ..Sample::default()
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("samples.csv");
        let mut file = SampleFile::create(&path).unwrap();
        file.add(&sample).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0].split(',').count(), lines[1].split(',').count());
        assert!(lines[1].starts_with("2.000,2.000,1,15.000,0,3,0.500,4.000,32768,0.500,2.000,65536,"));
    }

    #[test]
    fn samples_read_back_and_an_incomplete_line_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("samples.csv");
        let rates = IoRates { per_second: 2.5, average_bytes: 4096.0, average_ms: 1.25 };
        let instance = InstanceSample { database_read: rates, log_write: rates, ..InstanceSample::default() };
        let sample = |at: f64| Sample {
            at_seconds: at,
            seconds: 1.0,
            operations_per_second: 7.5,
            cache_used_bytes: 1 << 20,
            page_fault_stalls: 2,
            instances: vec![instance; 2],
            database_reads: SamplePercentiles { p50: 1.0, p95: 2.5, p99: 12.125 },
            log_writes: SamplePercentiles { p50: 0.5, p95: 0.75, p99: 3.0 },
        };
        let mut file = SampleFile::create(&path).unwrap();
        file.add(&sample(1.0)).unwrap();
        file.clear().unwrap();
        assert_eq!(read_samples(&path).unwrap(), []);
        file.add(&sample(1.0)).unwrap();
        file.add(&sample(2.0)).unwrap();
        assert_eq!(read_samples(&path).unwrap(), [sample(1.0), sample(2.0)]);

        // Files written by older builds have no percentiles.
        let text = std::fs::read_to_string(&path).unwrap();
        let older = |line: &str| line.split(',').take(18).collect::<Vec<_>>().join(",") + "\n";
        std::fs::write(&path, text.lines().map(older).collect::<String>()).unwrap();
        let none = SamplePercentiles::default();
        let bare = |at| Sample { database_reads: none, log_writes: none, ..sample(at) };
        assert_eq!(read_samples(&path).unwrap(), [bare(1.0), bare(2.0)]);
        std::fs::write(&path, text).unwrap();

        let whole = std::fs::read(&path).unwrap();
        for cut in [whole.len() - 1, whole.len() - 60] {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert_eq!(read_samples(&path).unwrap(), [sample(1.0)], "cut at {cut}");
        }
        for garbage in [
            "",
            "a,b\n1,2\n",
            "\u{0}\u{1}",
            &format!("{HEADER}\nx\n"),
            &format!("{HEADER}\n{}\n", "1,".repeat(17) + "1e999"),
        ] {
            std::fs::write(&path, garbage).unwrap();
            assert!(read_samples(&path).is_err(), "{garbage:?}");
        }
    }
}
