//! A whole test: all steps on all targets, in turns.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use jetcell_vfs::{Cancel, Clock};
use jetcell_workload::machine::Machine;

use super::load::{self, Access, Load};
use super::measurement::{Bench, Measurement};
use super::preconditioning::{MOST_ROUNDS, PASSES, Preconditioning};
use super::result::{DriveTest, Options, SCHEMA, StepResult, TestedTarget};
use super::step::{Step, steps};
use super::target::{Target, TargetKind};

/// Said of devices that are not written as a whole before the test.
const UNFILLED: &str = "not written before the test; flash answers reads of what was never written without reading it, unless it is \
     preconditioned";
/// The smallest transfer that is tried.
const SECTOR: u64 = 512;

/// Where a test is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// What is done now.
    pub title: String,
    /// Measurements that are over.
    pub done: usize,
    /// All measurements.
    pub total: usize,
    /// The rest takes no longer than this, apart from preparations.
    pub at_most: Duration,
}

/// Why a test has no result.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    /// A transfer failed.
    #[error("{target}: {step}: {error}")]
    Transfer {
        /// Name of the target.
        target: String,
        /// What was done.
        step: String,
        /// What the system said.
        error: io::Error,
    },
    /// It was asked to end.
    #[error("stopped; there is no result of a part of a test")]
    Cancelled,
}

/// Tests targets. All of them have names of their own afterwards.
///
/// # Errors
/// A transfer fails, or `cancel` ends the test.
pub fn test(
    targets: &mut [Target],
    backend: &str,
    options: &Options,
    cancel: &Cancel,
    tell: &mut dyn FnMut(Progress),
) -> Result<DriveTest, TestError> {
    name_apart(targets);
    let machine = Machine::examine(targets.iter().map(|target| target.path.as_path()));
    let Some(clock) = targets.first().map(|target| target.clock.clone()) else {
        return Err(TestError::Cancelled);
    };
    let (began_unix_ms, began) = (clock.unix_ms(), clock.monotonic());
    let smallest = vec![SECTOR; targets.len()];
    let mut run = Run { targets, smallest, options, cancel, tell, done: 0, total: 0 };
    // What a device can do is known when its file is filled.
    let chosen = |step: &Step| options.only.is_empty() || options.only.contains(&step.name);
    run.count(&steps(SECTOR).into_iter().filter(chosen).collect::<Vec<_>>());
    let tested = run.prepare()?;
    run.smallest = tested.iter().map(|one| one.smallest_transfer).collect();
    let smallest_transfer = run.smallest.iter().copied().min().unwrap_or(SECTOR);
    let steps: Vec<Step> = steps(smallest_transfer).into_iter().filter(chosen).collect();
    run.count(&steps);
    let steps = steps.into_iter().map(|step| run.step(step)).collect::<Result<Vec<_>, _>>()?;
    Ok(DriveTest {
        schema: SCHEMA,
        program: env!("CARGO_PKG_VERSION").into(),
        began_unix_ms,
        seconds: (clock.monotonic() - began).as_secs_f64(),
        machine,
        backend: backend.into(),
        smallest_transfer,
        options: options.clone(),
        targets: tested,
        steps: steps.into_iter().filter(|step| step.figures.iter().any(Option::is_some)).collect(),
    })
}

/// Numbers targets that were given twice, which shows how much two tests of one target differ.
fn name_apart(targets: &mut [Target]) {
    for at in 1..targets.len() {
        let (before, rest) = targets.split_at_mut(at);
        let Some(target) = rest.first_mut() else { return };
        let name = target.name.clone();
        let mut number = 1;
        while before.iter().any(|other| other.name == target.name) {
            number += 1;
            target.name = format!("{name} ({number})");
        }
    }
}

struct Run<'r> {
    targets: &'r [Target],
    /// Bytes of the smallest transfer of each target.
    smallest: Vec<u64>,
    options: &'r Options,
    cancel: &'r Cancel,
    tell: &'r mut dyn FnMut(Progress),
    done: usize,
    total: usize,
}

impl Run<'_> {
    fn time(&self) -> Duration {
        Duration::try_from_secs_f64(self.options.seconds).unwrap_or(Duration::from_secs(1))
    }

    fn count(&mut self, steps: &[Step]) {
        let of = |step| (0..self.targets.len()).filter(|at| self.fits(step, *at)).count();
        self.total = steps.iter().map(of).sum::<usize>() * self.options.repetitions.max(1);
    }

    fn fits(&self, step: &Step, at: usize) -> bool {
        let written = self.targets.get(at).is_some_and(Target::is_written);
        (written || !step.writes()) && self.smallest.get(at).is_some_and(|smallest| step.size >= *smallest)
    }

    fn tell(&mut self, title: String) {
        let left = self.total.saturating_sub(self.done);
        let at_most = self.time().saturating_mul(u32::try_from(left).unwrap_or(u32::MAX));
        (self.tell)(Progress { title, done: self.done, total: self.total, at_most });
    }

    /// Fills the files that the test has made, so that no read is one of a hole and no content can be compressed.
    fn prepare(&mut self) -> Result<Vec<TestedTarget>, TestError> {
        let mut tested = Vec::new();
        for (number, target) in self.targets.iter().enumerate() {
            let mut one = TestedTarget::of(target);
            match target.kind {
                TargetKind::Directory | TargetKind::NewFile => self.fill(number, target)?,
                // A large disk takes a day, and none of its parts is a hole.
                TargetKind::ErasedDevice if !self.options.precondition => one.notes.push(UNFILLED.into()),
                _ => {}
            }
            if target.is_written() && self.options.precondition {
                one.preconditioning = Some(self.precondition(target)?);
            }
            self.check()?;
            one.smallest_transfer = target.file.smallest_transfer() as u64;
            tested.push(one);
        }
        Ok(tested)
    }

    fn fill(&mut self, number: usize, target: &Target) -> Result<(), TestError> {
        self.tell(format!("{}: fill", target.name));
        let load = Load {
            region: 0..target.bytes,
            access: Access::OnePass,
            size: 1 << 20,
            depth: 4,
            reads_percent: 0,
            time: Duration::MAX,
            seed: self.options.seed.wrapping_add(number as u64),
        };
        let filled = load::run(&target.file, &target.clock, &load, self.cancel);
        filled.and_then(|_| target.file.sync(jetcell_vfs::IoReason::Other)).map_err(failed(target, "fill"))
    }

    fn precondition(&mut self, target: &Target) -> Result<Preconditioning, TestError> {
        let (cancel, time) = (self.cancel, self.time());
        let bench = bench(target, self.options, cancel, time, self.options.seed);
        let most = PASSES + MOST_ROUNDS;
        let found = Preconditioning::run(&bench, |number| {
            self.tell(format!("{}: precondition, {} of at most {most}", target.name, number + 1));
        });
        found.map_err(failed(target, "precondition"))
    }

    fn step(&mut self, step: Step) -> Result<StepResult, TestError> {
        let mut measured: Vec<Vec<Measurement>> = self.targets.iter().map(|_| Vec::new()).collect();
        for repetition in 0..self.options.repetitions.max(1) {
            for at in turn(self.targets.len(), repetition) {
                let (Some(target), Some(place)) = (self.targets.get(at), measured.get_mut(at)) else {
                    continue;
                };
                if !self.fits(&step, at) {
                    continue;
                }
                self.tell(format!("{}: {}", target.name, step.title));
                // The same places on all targets.
                let seed = self.options.seed.wrapping_add(1 + repetition as u64);
                let bench = bench(target, self.options, self.cancel, self.time(), seed);
                place.push(Measurement::of(&step, &bench).map_err(failed(target, &step.title))?);
                self.done += 1;
                self.check()?;
            }
        }
        Ok(StepResult::of(step, measured))
    }

    fn check(&self) -> Result<(), TestError> {
        if self.cancel.is_cancelled() { Err(TestError::Cancelled) } else { Ok(()) }
    }
}

/// A B, then B A, then A B, …
fn turn(targets: usize, repetition: usize) -> Vec<usize> {
    let forward = 0..targets;
    if repetition.is_multiple_of(2) { forward.collect() } else { forward.rev().collect() }
}

fn bench<'t>(
    target: &'t Target,
    options: &Options,
    cancel: &'t Cancel,
    time: Duration,
    seed: u64,
) -> Bench<'t> {
    let (file, clock): (&Arc<_>, &Arc<dyn Clock>) = (&target.file, &target.clock);
    Bench { file, clock, bytes: target.bytes, cancel, zones: options.zones, time, seed }
}

fn failed(target: &Target, step: &str) -> impl FnOnce(io::Error) -> TestError {
    let (target, step) = (target.name.clone(), step.to_string());
    move |error| TestError::Transfer { target, step, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::result::Costs;
    use crate::drive::simulated_drive::SimulatedDrive;

    const SIZE: u64 = 16 << 20;

    fn target(name: &str, kind: TargetKind, us: u64) -> Target {
        let (file, clock) = SimulatedDrive::new(SIZE, Duration::from_micros(us), 1).start();
        let (name, path) = (name.into(), name.into());
        Target { name, path, kind, bytes: SIZE, notes: Vec::new(), file, clock, _claim: None }
    }

    fn options() -> Options {
        Options {
            seconds: 0.01,
            repetitions: 4,
            zones: 4,
            precondition: false,
            seed: 3,
            only: Vec::new(),
            costs: Costs::default(),
        }
    }

    #[test]
    fn the_faster_of_two_drives_wins_by_the_known_difference() {
        let mut targets = [target("a", TargetKind::Directory, 100), target("b", TargetKind::Directory, 80)];
        let mut told = Vec::new();
        let found =
            test(&mut targets, "simulated", &options(), &Cancel::default(), &mut |at| told.push(at)).unwrap();
        assert_eq!(found.steps.len(), steps(4096).len());
        for step in &found.steps {
            let Some(b) = step.figures[1].as_ref() else { panic!("{} is missing", step.step.name) };
            let difference = b.difference.unwrap();
            let expected = match (step.step.unit.lower_is_better(), step.step.name.as_str()) {
                // The sync of this drive takes no time.
                (_, "sync") => continue,
                (true, _) => -20.0,
                (false, _) => 25.0,
            };
            assert!((difference.percent - expected).abs() < 1.0, "{}: {difference:?}", step.step.name);
            assert_eq!((difference.significant, step.winner), (true, Some(1)), "{}", step.step.name);
        }
        let of_steps = told.iter().filter(|at| !at.title.ends_with("fill")).collect::<Vec<_>>();
        assert_eq!(
            (of_steps.len(), told.last().map(|at| at.total)),
            (told.last().unwrap().total, Some(found.steps.len() * 8))
        );
        assert!(told.windows(2).all(|pair| pair[0].at_most >= pair[1].at_most));
        // The order of the turns: A B, B A.
        let names: Vec<&str> = of_steps.iter().take(4).map(|at| &at.title[..1]).collect();
        assert_eq!(names, ["a", "b", "b", "a"]);
    }

    #[test]
    fn a_target_that_is_not_the_tests_own_is_never_written() {
        let drive = SimulatedDrive::new(SIZE, Duration::from_micros(100), 1);
        let written = drive.written();
        let (file, clock) = drive.start();
        let (name, path, notes) = ("disk".to_string(), "disk".into(), Vec::new());
        let _claim = None;
        let kind = TargetKind::Device;
        let mut targets = [Target { name, path, kind, bytes: SIZE, notes, file, clock, _claim }];
        let once = Options { repetitions: 1, precondition: true, ..options() };
        let found = test(&mut targets, "simulated", &once, &Cancel::default(), &mut |_| ()).unwrap();
        assert!(written.lock().unwrap().is_empty());
        assert!(found.steps.iter().all(|step| !step.step.writes()) && found.steps.len() > 10);
        assert!(!found.targets[0].written && found.targets[0].preconditioning.is_none());
    }

    #[test]
    fn an_erased_device_is_written_and_filled_only_to_precondition_it() {
        let drive = SimulatedDrive::new(SIZE, Duration::from_micros(100), 1);
        let written = drive.written();
        let (file, clock) = drive.start();
        let mut targets = [Target { file, clock, ..target("disk", TargetKind::ErasedDevice, 1) }];
        let only = vec!["random_write_4k".to_string()];
        let once = Options { repetitions: 1, only, ..options() };
        let found = test(&mut targets, "simulated", &once, &Cancel::default(), &mut |_| ()).unwrap();
        assert_eq!((found.steps.len(), found.steps[0].step.name.as_str()), (1, "random_write_4k"));
        assert!(found.targets[0].written && found.targets[0].notes[0].contains("flash"));
        assert_eq!(
            written.lock().unwrap().len() as u64,
            found.steps[0].figures[0].as_ref().unwrap().repetitions[0].operations
        );
        let steady = Options { precondition: true, ..once };
        let found = test(&mut targets, "simulated", &steady, &Cancel::default(), &mut |_| ()).unwrap();
        assert!(found.targets[0].notes.is_empty() && found.targets[0].preconditioning.is_some());
    }

    #[test]
    fn a_result_is_read_back_as_it_was_written() {
        let mut targets = [target("a", TargetKind::Directory, 100), target("a", TargetKind::File, 100)];
        let two = Options { repetitions: 2, precondition: true, ..options() };
        let found = test(&mut targets, "simulated", &two, &Cancel::default(), &mut |_| ()).unwrap();
        assert_eq!(found.targets.iter().map(|each| each.name.as_str()).collect::<Vec<_>>(), ["a", "a (2)"]);
        assert!(found.targets[0].preconditioning.as_ref().unwrap().is_steady());
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<DriveTest>(&text).unwrap(), found);
        // Two equal drives: no winner in any step.
        assert!(found.steps.iter().all(|step| step.winner.is_none()));
    }

    #[test]
    fn errors_name_target_and_step_and_a_cancelled_test_has_no_result() {
        let (file, clock) =
            SimulatedDrive::new(SIZE, Duration::from_micros(100), 1).failing_after(30).start();
        let mut targets = [Target { file, clock, ..target("a", TargetKind::Directory, 1) }];
        let error = test(&mut targets, "simulated", &options(), &Cancel::default(), &mut |_| ()).unwrap_err();
        assert!(error.to_string().starts_with("a: Transfer, read: "), "{error}");
        let mut targets = [target("a", TargetKind::Directory, 100)];
        let cancel = Cancel::default();
        let asked = cancel.clone();
        let stop = &mut move |at: Progress| {
            if at.done == 3 {
                asked.cancel()
            }
        };
        assert!(matches!(
            test(&mut targets, "simulated", &options(), &cancel, stop),
            Err(TestError::Cancelled)
        ));
    }
}
