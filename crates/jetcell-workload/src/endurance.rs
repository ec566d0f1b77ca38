//! A stress test that can be continued: what it has measured so far is kept in two files beside the first database, from
//! before its load until its end. `--resume` continues a test that a crash of the program or of the machine interrupted.

mod state_files;

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::kept_file::{KeptFile, absolute, with_absolute_paths};
use crate::measurement::{InstanceIo, Measurement, Sample, Tally};
use crate::plan;
use crate::profile::{Options, Profile, Source, TestKind};
use crate::refusal::{Refusal, refuse};
use crate::result::Part;

pub(crate) use state_files::StateFiles;

/// Name of the file with a whole state, in the directory of the first database.
const FILE: &str = "jetcell-stress.json";

/// Version of the layout below.
const VERSION: u32 = 2;

/// The histograms of a thousand databases are smaller than this.
const KEPT: KeptFile =
    KeptFile { name: FILE, largest: 1 << 30, advice: "remove it and begin a new test with --open" };

/// A stress test so far.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Endurance {
    version: u32,
    /// Nanoseconds since 1970 at which this state was stored whole: what later increments name.
    #[serde(default)]
    number: u64,
    profile: Profile,
    /// Directory of the results.
    pub(crate) output: PathBuf,
    /// The parts between interruptions; the last one is running or was interrupted.
    pub(crate) parts: Vec<Part>,
    /// Length of the measured time in seconds.
    pub(crate) seconds: f64,
    io: Vec<InstanceIo>,
    tally: Tally,
    stalls: u64,
    #[serde(skip)]
    samples: Vec<Sample>,
}

/// With `--resume`, adds the options of what was interrupted: a stress test, or a creation of databases. Otherwise changes
/// nothing.
pub fn remember(options: Options, test: TestKind) -> Result<Options, Refusal> {
    let first = options.dirs.first().filter(|_| options.resume == Some(true) && test == TestKind::Stress);
    let interrupted = first.map(|first| Endurance::options(first)).transpose()?.flatten();
    match interrupted {
        Some(of_test) => Ok(options.over(of_test)),
        None => plan::remember(options),
    }
}

impl Endurance {
    /// A test that begins now.
    pub(crate) fn begin(profile: &Profile, output: &Path) -> Endurance {
        Endurance {
            version: VERSION,
            number: 0,
            profile: with_absolute_paths(profile),
            output: absolute(output),
            parts: Vec::new(),
            seconds: 0.0,
            io: Vec::new(),
            tally: Tally::default(),
            stalls: 0,
            samples: Vec::new(),
        }
    }

    /// Reads the test that was interrupted in this directory; `None` if there is none.
    fn read(dir: &Path) -> Result<Option<Endurance>, Refusal> {
        match KEPT.read::<Endurance>(dir)? {
            Some(test) if test.version != VERSION => {
                refuse(format!("{} is of another version: {}", dir.join(FILE).display(), KEPT.advice))
            }
            test => test.map(|test| state_files::with_increments(test, dir)).transpose(),
        }
    }

    /// The interrupted test that a run of this profile continues. Refuses other stress tests there.
    pub(crate) fn find(profile: &Profile) -> Result<Option<Endurance>, Refusal> {
        let Some(first) = profile.dirs.first().filter(|_| profile.test == TestKind::Stress) else {
            return Ok(None);
        };
        match (Endurance::read(first)?, profile.source) {
            (Some(test), Source::Resume) => Ok(Some(test)),
            (None, _) | (_, Source::Replace) => Ok(None),
            (Some(test), _) => refuse(format!(
                "{}: a stress test was interrupted after {:.0} s of {}: --resume continues it, or remove {FILE} there",
                first.display(),
                test.seconds,
                test.profile.duration
            )),
        }
    }

    /// The options of an interrupted test, which the user need not give again; `None` if there is no such test.
    pub(crate) fn options(dir: &Path) -> Result<Option<Options>, Refusal> {
        let Some(test) = Endurance::read(dir)? else { return Ok(None) };
        let output = Some(test.output.clone());
        Ok(Some(Options { open: None, force: None, resume: Some(true), output, ..test.profile.to_options() }))
    }

    /// Takes over the samples of the parts before. Those behind the stored state were written after it.
    pub(crate) fn with_samples(self, samples: Vec<Sample>) -> Endurance {
        let samples = samples.into_iter().filter(|sample| sample.at_seconds <= self.seconds + 1e-3).collect();
        Endurance { samples, ..self }
    }

    /// The samples of the parts before.
    pub(crate) fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The whole measurement: that of the parts before, and that of the part that is running.
    pub(crate) fn joined(&self, mut part: Measurement) -> Measurement {
        let of_part = std::mem::take(&mut part.samples);
        let samples = self.samples.iter().cloned().chain(of_part).collect();
        Measurement { samples, ..self.joined_totals(part) }
    }

    /// The same without samples.
    pub(crate) fn joined_totals(&self, part: Measurement) -> Measurement {
        let mut io = part.io;
        add_io(&mut io, &self.io);
        let mut tally = self.tally.clone();
        tally.add(&part.tally);
        let mut cache = part.cache;
        cache.stalls = cache.stalls.saturating_add(self.stalls);
        Measurement { seconds: part.seconds + self.seconds, io, tally, cache, ..part }
    }

    /// The totals of the parts before.
    pub(crate) fn totals(&self) -> Measurement {
        self.joined_totals(Measurement::default())
    }

    /// The state after a measurement, the parts before included, as it is stored.
    pub(crate) fn after(&self, whole: &Measurement, parts: Vec<Part>) -> Endurance {
        Endurance {
            version: self.version,
            number: 0,
            profile: self.profile.clone(),
            output: self.output.clone(),
            parts,
            seconds: whole.seconds,
            io: whole.io.clone(),
            tally: whole.tally.clone(),
            stalls: whole.cache.stalls,
            samples: Vec::new(),
        }
    }

    /// Removes the files: the test has ended.
    pub(crate) fn end(dir: &Path) -> io::Result<()> {
        KEPT.remove(dir)?;
        state_files::remove(dir)
    }
}

/// Adds the I/O of each instance.
fn add_io(io: &mut Vec<InstanceIo>, more: &[InstanceIo]) {
    io.resize_with(io.len().max(more.len()), InstanceIo::default);
    io.iter_mut().zip(more).for_each(|(io, more)| io.add(more));
}
