//! A stress test that can be resumed. Its state is stored in two files in the first database's directory. The files
//! exist from just before the load starts until the test ends. `--resume` continues a test that was interrupted
//! because the program or the machine crashed.

mod state_files;

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::measurement::{InstanceIo, LoadTally, Measurement, PageDamageCounts, Sample};
use crate::plan;
use crate::profile::{DatabaseSource, Options, Profile, TestKind};
use crate::result::TestPart;
use crate::start_error::StartError;
use crate::state_file::{StateFile, absolute, with_absolute_paths};

pub(crate) use state_files::StateFiles;

/// Name of the file that holds a complete state, in the first database's directory.
pub(crate) const STATE_FILE_NAME: &str = "jetcell-stress.json";

/// Version of the file format.
const VERSION: u32 = 2;

/// The size limit leaves room for the histograms of a thousand databases.
const STATE_FILE: StateFile = StateFile {
    name: STATE_FILE_NAME,
    max_bytes: 1 << 30,
    advice: "remove it and start a new test with --open",
};

/// The stored state of a stress test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EnduranceState {
    version: u32,
    /// Time at which this complete state was stored, in nanoseconds since 1970. Later increments identify the state
    /// by this number.
    #[serde(default)]
    number: u64,
    profile: Profile,
    /// Directory for the results.
    pub(crate) output: PathBuf,
    /// Parts of the test, separated by interruptions. The last part is still running or was interrupted.
    pub(crate) parts: Vec<TestPart>,
    /// Measured time in seconds.
    pub(crate) seconds: f64,
    io: Vec<InstanceIo>,
    tally: LoadTally,
    stalls: u64,
    #[serde(default)]
    damage: PageDamageCounts,
    #[serde(skip)]
    samples: Vec<Sample>,
}

/// Adds the options of the interrupted stress test or database creation if `--resume` is set. Otherwise returns the
/// options unchanged.
pub fn with_interrupted_options(options: Options, test: TestKind) -> Result<Options, StartError> {
    let first = options.dirs.first().filter(|_| options.resume == Some(true) && test == TestKind::Stress);
    let interrupted = first.map(|first| EnduranceState::options(first)).transpose()?.flatten();
    match interrupted {
        Some(of_test) => Ok(options.over(of_test)),
        None => plan::with_interrupted_options(options),
    }
}

impl EnduranceState {
    /// Creates the state of a new test.
    pub(crate) fn new(profile: &Profile, output: &Path) -> EnduranceState {
        EnduranceState {
            version: VERSION,
            number: 0,
            profile: with_absolute_paths(profile),
            output: absolute(output),
            parts: Vec::new(),
            seconds: 0.0,
            io: Vec::new(),
            tally: LoadTally::default(),
            stalls: 0,
            damage: PageDamageCounts::default(),
            samples: Vec::new(),
        }
    }

    /// Reads the state of an interrupted test from `dir`. Returns `None` if there is no such state.
    fn read(dir: &Path) -> Result<Option<EnduranceState>, StartError> {
        match STATE_FILE.read::<EnduranceState>(dir)? {
            Some(test) if test.version != VERSION => {
                let path = dir.join(STATE_FILE_NAME);
                Err(StartError::OtherVersion { path, advice: STATE_FILE.advice })
            }
            test => test.map(|test| state_files::with_increments(test, dir)).transpose(),
        }
    }

    /// Finds the interrupted stress test that this profile asks to resume, if any. Returns an error if the directory
    /// contains an interrupted test but the profile does not resume or replace it.
    pub(crate) fn find_interrupted(profile: &Profile) -> Result<Option<EnduranceState>, StartError> {
        let Some(first) = profile.dirs.first().filter(|_| profile.test == TestKind::Stress) else {
            return Ok(None);
        };
        match (EnduranceState::read(first)?, profile.source) {
            (Some(test), DatabaseSource::Resume) => Ok(Some(test)),
            (None, _) | (_, DatabaseSource::Replace) => Ok(None),
            (Some(test), _) => Err(StartError::InterruptedStressTest {
                dir: first.clone(),
                seconds: test.seconds,
                duration: test.profile.duration,
            }),
        }
    }

    /// Returns the options of an interrupted test, which spares the user from repeating them. Returns `None` if there
    /// is no such test.
    pub(crate) fn options(dir: &Path) -> Result<Option<Options>, StartError> {
        let Some(test) = EnduranceState::read(dir)? else { return Ok(None) };
        let output = Some(test.output.clone());
        Ok(Some(Options { open: None, force: None, resume: Some(true), output, ..test.profile.to_options() }))
    }

    /// Adds the samples of the previous parts. Samples taken after the state was stored are dropped.
    pub(crate) fn with_samples(self, samples: Vec<Sample>) -> EnduranceState {
        let samples = samples.into_iter().filter(|sample| sample.at_seconds <= self.seconds + 1e-3).collect();
        EnduranceState { samples, ..self }
    }

    /// Returns the damage to pages that was detected in the previous parts.
    pub(crate) fn damage(&self) -> PageDamageCounts {
        self.damage.clone()
    }

    /// Returns the samples of the previous parts.
    pub(crate) fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Returns the complete measurement: the previous parts plus the running part.
    pub(crate) fn with_previous_parts(&self, mut part: Measurement) -> Measurement {
        let of_part = std::mem::take(&mut part.samples);
        let samples = self.samples.iter().cloned().chain(of_part).collect();
        Measurement { samples, ..self.with_previous_totals(part) }
    }

    /// Like [`EnduranceState::with_previous_parts`], but without samples.
    pub(crate) fn with_previous_totals(&self, part: Measurement) -> Measurement {
        let mut io = part.io;
        add_io(&mut io, &self.io);
        let mut tally = self.tally.clone();
        tally.add(&part.tally);
        let mut cache = part.cache;
        cache.stalls = cache.stalls.saturating_add(self.stalls);
        let mut damage = self.damage.clone();
        damage.add(&part.damage);
        Measurement { seconds: part.seconds + self.seconds, io, tally, cache, damage, ..part }
    }

    /// Returns the totals of the previous parts.
    pub(crate) fn previous_totals(&self) -> Measurement {
        self.with_previous_totals(Measurement::default())
    }

    /// Returns the state to store after a measurement. `whole` includes the previous parts.
    pub(crate) fn state_after(&self, whole: &Measurement, parts: Vec<TestPart>) -> EnduranceState {
        EnduranceState {
            version: self.version,
            number: 0,
            profile: self.profile.clone(),
            output: self.output.clone(),
            parts,
            seconds: whole.seconds,
            io: whole.io.clone(),
            tally: whole.tally.clone(),
            stalls: whole.cache.stalls,
            damage: whole.damage.clone(),
            samples: Vec::new(),
        }
    }

    /// Removes the state files at the end of the test.
    pub(crate) fn remove_files(dir: &Path) -> io::Result<()> {
        STATE_FILE.remove(dir)?;
        state_files::remove(dir)
    }
}

/// Adds the I/O counters in `more` to those in `io`, instance by instance.
fn add_io(io: &mut Vec<InstanceIo>, more: &[InstanceIo]) {
    io.resize_with(io.len().max(more.len()), InstanceIo::default);
    io.iter_mut().zip(more).for_each(|(io, more)| io.add(more));
}
