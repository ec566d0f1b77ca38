//! Runs all steps on all targets, interleaved. This code runs on the measuring thread.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use jetcell_host::Cancellation;
use jetcell_host::Evidence;
use jetcell_vfs::Clock;

use super::error::DriveTestError;
use super::load::{self, AccessPattern, DriveLoad};
use super::measurement::{StepContext, StepMeasurement};
use super::preconditioning::{MAX_ROUNDS, Preconditioning, WRITE_PASSES};
use super::progress::{TestStage, TransferredBytes};
use super::result::{DriveTest, DriveTestOptions, SCHEMA, StepResult, TestedTarget};
use super::step::{TestStep, steps};
use super::target::{TargetKind, TestTarget};

/// Note for devices, which are not completely written before the test.
const NOT_PREFILLED_NOTE: &str = "not written before the test; flash can answer reads of unwritten blocks without \
 reading them, unless the drive is preconditioned";
/// Smallest transfer size to try, in bytes.
const MIN_TRANSFER_BYTES: u64 = 512;

/// A drive test in progress.
pub(super) struct DriveTestRun<'r> {
    targets: &'r [TestTarget],
    /// Smallest transfer size for each target, in bytes.
    smallest: Vec<u64>,
    options: &'r DriveTestOptions,
    cancel: &'r Cancellation,
    clock: &'r Arc<dyn Clock>,
    /// Time by which the whole test must end.
    deadline: Option<Duration>,
    moved: TransferredBytes,
    tell: &'r mut dyn FnMut(TestStage),
    done: usize,
    total: usize,
    /// Number of bytes that preparations still have to write.
    unwritten: u64,
    /// Maximum number of preconditioning rounds that remain.
    rounds: usize,
    /// Write rate of the previous preparation, in bytes per second.
    rate: Option<f64>,
    /// Titles of steps that were skipped because no time was left.
    left_out: Vec<String>,
}

impl<'r> DriveTestRun<'r> {
    /// Creates a test. `deadline` is the time on `clock` by which the whole test must end.
    pub(super) fn new(
        targets: &'r [TestTarget],
        options: &'r DriveTestOptions,
        (clock, deadline): (&'r Arc<dyn Clock>, Option<Duration>),
        cancel: &'r Cancellation,
        moved: TransferredBytes,
        tell: &'r mut dyn FnMut(TestStage),
    ) -> DriveTestRun<'r> {
        let (smallest, left_out) = (vec![MIN_TRANSFER_BYTES; targets.len()], Vec::new());
        DriveTestRun {
            targets,
            smallest,
            options,
            cancel,
            clock,
            deadline,
            moved,
            tell,
            done: 0,
            total: 0,
            unwritten: 0,
            rounds: 0,
            rate: None,
            left_out,
        }
    }

    /// Runs the whole test.
    ///
    /// # Errors
    /// See [`super::test()`].
    pub(super) fn test(mut self, backend: &str) -> Result<DriveTest, DriveTestError> {
        let evidence = Evidence::collect(self.targets.iter().map(|target| target.path.as_path()));
        let (began_unix_ms, began) = (self.clock.unix_ms(), self.clock.monotonic());
        // A target's smallest transfer is not known until its file is filled, so the first count assumes
        // [`MIN_TRANSFER_BYTES`].
        let only = self.options.only.clone();
        let chosen = |step: &TestStep| only.is_empty() || only.contains(&step.name);
        self.count(&steps(MIN_TRANSFER_BYTES).into_iter().filter(chosen).collect::<Vec<_>>());
        let tested = self.prepare()?;
        self.smallest = tested.iter().map(|one| one.smallest_transfer).collect();
        let smallest_transfer = self.smallest.iter().copied().min().unwrap_or(MIN_TRANSFER_BYTES);
        let steps: Vec<TestStep> = steps(smallest_transfer).into_iter().filter(chosen).collect();
        self.count(&steps);
        let steps = steps.into_iter().map(|step| self.step(step)).collect::<Result<Vec<_>, _>>()?;
        Ok(DriveTest {
            schema: SCHEMA,
            evidence,
            began_unix_ms,
            seconds: (self.clock.monotonic() - began).as_secs_f64(),
            backend: backend.into(),
            smallest_transfer,
            options: self.options.clone(),
            targets: tested,
            steps: steps.into_iter().filter(|step| step.figures.iter().any(Option::is_some)).collect(),
            left_out: self.left_out,
        })
    }

    /// Returns the time that remains for the whole test, or `None` if it has no limit.
    fn remaining_time(&self) -> Option<Duration> {
        self.deadline.map(|end| end.saturating_sub(self.clock.monotonic()))
    }

    fn is_out_of_time(&self) -> bool {
        self.remaining_time().is_some_and(|left| left.is_zero())
    }

    /// Returns the maximum duration of the next measurement or round: the duration from the options, or an equal
    /// share of the remaining time if that is less.
    fn time(&self) -> Duration {
        let wanted = Duration::try_from_secs_f64(self.options.seconds).unwrap_or(Duration::from_secs(1));
        self.remaining_time().map_or(wanted, |left| wanted.min(left / self.parts().max(1)))
    }

    /// Returns the number of remaining measurements and rounds.
    fn parts(&self) -> u32 {
        u32::try_from(self.total.saturating_sub(self.done) + self.rounds).unwrap_or(u32::MAX)
    }

    fn count(&mut self, steps: &[TestStep]) {
        let fitting_targets = |step| (0..self.targets.len()).filter(|at| self.fits(step, *at)).count();
        self.total = steps.iter().map(fitting_targets).sum::<usize>() * self.options.repetitions.max(1);
    }

    fn fits(&self, step: &TestStep, at: usize) -> bool {
        let written = self.targets.get(at).is_some_and(TestTarget::is_written);
        (written || !step.writes()) && self.smallest.get(at).is_some_and(|smallest| step.size >= *smallest)
    }

    /// Reports the start of a stage. `writes` is the number of bytes that the stage writes, or `None` if the stage
    /// ends after a time.
    fn report_stage(&mut self, title: String, writes: Option<u64>) {
        let (time, parts) = (self.time(), self.parts());
        (self.tell)(TestStage {
            title,
            done: self.done,
            total: self.total,
            began: self.clock.monotonic(),
            moved: self.moved.bytes(),
            writes,
            unwritten: self.unwritten,
            rate: self.rate,
            longest: if writes.is_some() { Duration::ZERO } else { time },
            bounded: time.saturating_mul(parts),
        });
    }

    /// Returns true if the whole target is written before the test, which ensures that reads never hit a hole or
    /// compressible data. Devices are not filled: they have no holes, and filling a large disk takes a day.
    fn is_filled(target: &TestTarget) -> bool {
        matches!(target.kind, TargetKind::Directory | TargetKind::NewFile | TargetKind::OverwrittenFile)
    }

    fn is_preconditioned(&self, target: &TestTarget) -> bool {
        target.is_written() && self.options.precondition
    }

    fn prepare(&mut self) -> Result<Vec<TestedTarget>, DriveTestError> {
        let passes = |target: &TestTarget| {
            let conditioning = if self.is_preconditioned(target) { WRITE_PASSES } else { 0 };
            usize::from(Self::is_filled(target)) + conditioning
        };
        self.unwritten = self.targets.iter().map(|target| target.bytes * passes(target) as u64).sum();
        self.rounds =
            self.targets.iter().filter(|target| self.is_preconditioned(target)).count() * MAX_ROUNDS;
        let mut tested = Vec::new();
        for (number, target) in self.targets.iter().enumerate() {
            let mut one = TestedTarget::from_target(target);
            if Self::is_filled(target) {
                self.write_all(target, "fill", number)?;
                let synced = target.file.sync(jetcell_vfs::IoReason::Other);
                synced.map_err(failed(target, "fill"))?;
            }
            if self.is_preconditioned(target) {
                one.preconditioning = Some(self.precondition(target)?);
            } else if target.kind == TargetKind::ErasedDevice {
                one.notes.push(NOT_PREFILLED_NOTE.into());
            }
            self.check()?;
            one.smallest_transfer = target.file.smallest_transfer() as u64;
            tested.push(one);
        }
        Ok(tested)
    }

    /// Writes the whole target. Fails if the test's time limit is reached first, because the remainder would consist
    /// of holes.
    fn write_all(&mut self, target: &TestTarget, step: &str, number: usize) -> Result<(), DriveTestError> {
        self.report_stage(format!("{}: {step}", target.name), Some(target.bytes));
        let load = DriveLoad {
            region: 0..target.bytes,
            access: AccessPattern::OnePass,
            size: 1 << 20,
            depth: 4,
            reads_percent: 0,
            time: self.remaining_time().unwrap_or(Duration::MAX),
            seed: self.options.seed.wrapping_add(number as u64),
            moved: self.moved.clone(),
        };
        let written = load::run(&target.file, &target.clock, &load, self.cancel);
        let written = written.map_err(failed(target, step))?;
        self.check()?;
        if written.bytes < target.bytes / load.size * load.size {
            let longest = self.options.longest().unwrap_or_default();
            return Err(DriveTestError::TooLong { target: target.name.clone(), step: step.into(), longest });
        }
        self.unwritten = self.unwritten.saturating_sub(target.bytes);
        self.rate = Some(written.bytes as f64 / written.elapsed.as_secs_f64()).filter(|rate| *rate > 0.0);
        Ok(())
    }

    fn precondition(&mut self, target: &TestTarget) -> Result<Preconditioning, DriveTestError> {
        for pass in 0..WRITE_PASSES {
            self.write_all(target, &format!("precondition, pass {} of {WRITE_PASSES}", pass + 1), pass)?;
        }
        let (cancel, moved) = (self.cancel, self.moved.clone());
        let bench = bench(target, self.options, cancel, &moved, Duration::ZERO, self.options.seed);
        let later = self.rounds.saturating_sub(MAX_ROUNDS);
        let found = Preconditioning::run(&bench, |number| {
            self.rounds = later + MAX_ROUNDS - number;
            let title = format!("{}: precondition, round {} of {MAX_ROUNDS}", target.name, number + 1);
            self.report_stage(title, None);
            (!self.is_out_of_time()).then(|| self.time())
        });
        self.rounds = later;
        found.map_err(failed(target, "precondition"))
    }

    fn step(&mut self, step: TestStep) -> Result<StepResult, DriveTestError> {
        let mut measured: Vec<Vec<StepMeasurement>> = self.targets.iter().map(|_| Vec::new()).collect();
        for repetition in 0..self.options.repetitions.max(1) {
            if self.is_out_of_time() {
                if repetition == 0 {
                    self.left_out.push(step.title.clone());
                }
                break;
            }
            for at in target_order(self.targets.len(), repetition) {
                let (Some(target), Some(place)) = (self.targets.get(at), measured.get_mut(at)) else {
                    continue;
                };
                if !self.fits(&step, at) {
                    continue;
                }
                self.report_stage(format!("{}: {}", target.name, step.title), None);
                // All targets use the same seed, and therefore the same offsets.
                let seed = self.options.seed.wrapping_add(1 + repetition as u64);
                let bench = bench(target, self.options, self.cancel, &self.moved, self.time(), seed);
                place.push(StepMeasurement::run(&step, &bench).map_err(failed(target, &step.title))?);
                self.done += 1;
                self.check()?;
            }
        }
        Ok(StepResult::from_repetitions(step, measured))
    }

    fn check(&self) -> Result<(), DriveTestError> {
        if self.cancel.is_cancelled() { Err(DriveTestError::Cancelled) } else { Ok(()) }
    }
}

/// Returns the order in which a repetition visits the targets: A B, then B A, then A B, …
fn target_order(targets: usize, repetition: usize) -> Vec<usize> {
    let forward = 0..targets;
    if repetition.is_multiple_of(2) { forward.collect() } else { forward.rev().collect() }
}

fn bench<'t>(
    target: &'t TestTarget,
    options: &DriveTestOptions,
    cancel: &'t Cancellation,
    moved: &'t TransferredBytes,
    time: Duration,
    seed: u64,
) -> StepContext<'t> {
    let (file, clock): (&Arc<_>, &Arc<dyn Clock>) = (&target.file, &target.clock);
    let DriveTestOptions { zones, end_sync, .. } = *options;
    StepContext { file, clock, bytes: target.bytes, cancel, moved, zones, time, end_sync, seed }
}

fn failed(target: &TestTarget, step: &str) -> impl FnOnce(io::Error) -> DriveTestError {
    let (target, step) = (target.name.clone(), step.to_string());
    move |error| DriveTestError::Transfer { target, step, error }
}
