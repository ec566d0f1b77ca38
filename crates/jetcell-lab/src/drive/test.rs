//! Runs a whole test under a watchdog, which ends the test if a drive stops responding.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use jetcell_host::Cancellation;

use super::error::DriveTestError;
use super::progress::{DriveTestProgress, TestStage, TransferredBytes};
use super::result::{DriveTest, DriveTestOptions};
use super::run::DriveTestRun;
use super::target::TestTarget;

/// Interval at which the watchdog checks the current stage.
const WATCHDOG_INTERVAL: Duration = Duration::from_millis(250);
/// The limits are several minutes long, because the kernel retries a transfer for minutes before it reports an error.
const STALL_LIMITS: StallLimits =
    StallLimits { usual: Duration::from_secs(300), at_the_end: Duration::from_secs(5) };

/// Maximum time without a completed transfer before the test is abandoned.
#[derive(Clone, Copy)]
struct StallLimits {
    usual: Duration,
    /// Limit that applies once the test has been cancelled or has reached its deadline.
    at_the_end: Duration,
}

/// Message from the measuring thread.
enum MeasurementThreadMessage {
    Begins(TestStage),
    Ended(Box<Result<DriveTest, DriveTestError>>),
}

/// Tests the given targets. Targets with the same name are numbered. `tell` receives the progress at each stage.
///
/// # Errors
/// Returns an error if a transfer fails or stalls, if `cancel` is set, or if the time limit is reached before the
/// targets are prepared.
pub fn test(
    targets: Vec<TestTarget>,
    backend: &str,
    options: &DriveTestOptions,
    cancel: &Cancellation,
    tell: &mut dyn FnMut(DriveTestProgress),
) -> Result<DriveTest, DriveTestError> {
    run_with_watchdog(targets, backend, options, cancel, STALL_LIMITS, tell)
}

/// Runs the measurements in a separate thread, so a transfer that never completes does not block the caller.
fn run_with_watchdog(
    mut targets: Vec<TestTarget>,
    backend: &str,
    options: &DriveTestOptions,
    cancel: &Cancellation,
    patience: StallLimits,
    tell: &mut dyn FnMut(DriveTestProgress),
) -> Result<DriveTest, DriveTestError> {
    number_duplicates(&mut targets);
    let Some(clock) = targets.first().map(|target| target.clock.clone()) else {
        return Err(DriveTestError::Cancelled);
    };
    let began = clock.monotonic();
    let deadline = options.longest().map(|longest| began.saturating_add(longest));
    let moved = TransferredBytes::default();
    // The channel has no buffer, so nothing is measured while the receiver handles an event.
    let (events, told) = mpsc::sync_channel(0);
    let measuring = {
        let (backend, options, cancel) = (backend.to_string(), options.clone(), cancel.clone());
        let (clock, moved) = (clock.clone(), moved.clone());
        thread::Builder::new().name("drive test".into()).spawn(move || {
            let mut tell = |stage| drop(events.send(MeasurementThreadMessage::Begins(stage)));
            let run = DriveTestRun::new(&targets, &options, (&clock, deadline), &cancel, moved, &mut tell);
            let tested = run.test(&backend);
            // The receiver may already have returned.
            drop(events.send(MeasurementThreadMessage::Ended(Box::new(tested))));
        })
    };
    let measuring = measuring.map_err(DriveTestError::Thread)?;
    let (mut current, mut quiet_since, mut seen): (Option<TestStage>, _, _) = (None, Instant::now(), 0);
    loop {
        let event = told.recv_timeout(WATCHDOG_INTERVAL);
        match event {
            Ok(MeasurementThreadMessage::Ended(result)) => return *result,
            Ok(MeasurementThreadMessage::Begins(stage)) => {
                quiet_since = Instant::now();
                current = Some(stage);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => match measuring.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => return Err(DriveTestError::Cancelled),
            },
        }
        let (now, bytes) = (clock.monotonic(), moved.bytes());
        if bytes != seen {
            (seen, quiet_since) = (bytes, Instant::now());
        }
        let Some(stage) = &current else { continue };
        tell(stage.progress(now, bytes, began, deadline));
        let ends = cancel.is_cancelled() || deadline.is_some_and(|end| now >= end);
        if quiet_since.elapsed() >= if ends { patience.at_the_end } else { patience.usual } {
            let seconds = quiet_since.elapsed().as_secs();
            return Err(DriveTestError::Stalled { stage: stage.title.clone(), seconds });
        }
    }
}

/// Numbers targets that were given more than once. Testing a target twice shows how much two tests of the same target
/// differ.
fn number_duplicates(targets: &mut [TestTarget]) {
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

#[cfg(test)]
mod tests {
    use jetcell_input::number::MIB;

    use super::*;
    use crate::drive::result::TargetCosts;
    use crate::drive::simulated_drive::FakeDrive;
    use crate::drive::step::steps;
    use crate::drive::{SeekCurve, StepUnit, TargetKind};

    const SIZE: u64 = 16 << 20;

    fn target(name: &str, kind: TargetKind, us: u64) -> TestTarget {
        let (file, clock) = FakeDrive::new(SIZE, Duration::from_micros(us), 1).start();
        let (name, path) = (name.into(), name.into());
        TestTarget { name, path, kind, bytes: SIZE, notes: Vec::new(), file, clock, _claim: None }
    }

    fn options() -> DriveTestOptions {
        DriveTestOptions {
            seconds: 0.01,
            repetitions: 4,
            zones: 4,
            precondition: false,
            end_sync: false,
            seed: 3,
            only: Vec::new(),
            longest_seconds: None,
            costs: TargetCosts::default(),
        }
    }

    #[test]
    fn the_faster_drive_wins_by_the_known_difference() {
        let targets = vec![target("a", TargetKind::Directory, 100), target("b", TargetKind::Directory, 80)];
        let mut told: Vec<DriveTestProgress> = Vec::new();
        let found = test(targets, "simulated", &options(), &Cancellation::default(), &mut |at| told.push(at))
            .unwrap();
        // The same stage is reported repeatedly while it runs.
        told.dedup_by_key(|at| (at.title.clone(), at.done));
        assert_eq!(found.steps.len(), steps(4096).len());
        for step in &found.steps {
            let Some(b) = step.figures[1].as_ref() else { panic!("{} is missing", step.step.name) };
            let difference = b.difference.unwrap();
            if step.step.name == "sync" {
                // Syncs take no time on this drive.
                continue;
            }
            let expected = if step.step.unit == StepUnit::Milliseconds { -20.0 } else { 25.0 };
            assert!((difference.percent - expected).abs() < 1.0, "{}: {difference:?}", step.step.name);
            assert_eq!((difference.significant, step.winner), (true, Some(1)), "{}", step.step.name);
        }
        let of_steps = told.iter().filter(|at| !at.title.ends_with("fill")).collect::<Vec<_>>();
        assert_eq!(
            (of_steps.len(), told.last().map(|at| at.total)),
            (told.last().unwrap().total, Some(found.steps.len() * 8))
        );
        assert!(of_steps.windows(2).all(|pair| pair[0].max_remaining >= pair[1].max_remaining));
        assert!(of_steps.iter().all(|at| at.max_remaining.is_some() && at.written.is_none()));
        // Order within the repetitions: A B, then B A.
        let names: Vec<&str> = of_steps.iter().take(4).map(|at| &at.title[..1]).collect();
        assert_eq!(names, ["a", "b", "b", "a"]);
    }

    #[test]
    fn a_target_not_created_by_the_test_is_never_written() {
        let drive = FakeDrive::new(SIZE, Duration::from_micros(100), 1);
        let written = drive.written();
        let (file, clock) = drive.start();
        let (name, path, notes) = ("disk".to_string(), "disk".into(), Vec::new());
        let _claim = None;
        let kind = TargetKind::Device;
        let targets = vec![TestTarget { name, path, kind, bytes: SIZE, notes, file, clock, _claim }];
        let once = DriveTestOptions { repetitions: 1, precondition: true, ..options() };
        let found = test(targets, "simulated", &once, &Cancellation::default(), &mut |_| ()).unwrap();
        assert!(written.lock().unwrap().is_empty());
        assert!(found.steps.iter().all(|step| !step.step.writes()) && found.steps.len() > 10);
        assert!(!found.targets[0].written && found.targets[0].preconditioning.is_none());
    }

    #[test]
    fn an_erased_device_is_filled_only_for_preconditioning() {
        let drive = FakeDrive::new(SIZE, Duration::from_micros(100), 1);
        let written = drive.written();
        let (file, clock) = drive.start();
        let disk = || TestTarget {
            file: file.clone(),
            clock: clock.clone(),
            ..target("disk", TargetKind::ErasedDevice, 1)
        };
        let only = vec!["random_write_4k".to_string()];
        let once = DriveTestOptions { repetitions: 1, only, ..options() };
        let found = test(vec![disk()], "simulated", &once, &Cancellation::default(), &mut |_| ()).unwrap();
        assert_eq!((found.steps.len(), found.steps[0].step.name.as_str()), (1, "random_write_4k"));
        assert!(found.targets[0].written && found.targets[0].notes[0].contains("flash"));
        assert_eq!(
            written.lock().unwrap().len() as u64,
            found.steps[0].figures[0].as_ref().unwrap().repetitions[0].operations
        );
        let before = written.lock().unwrap().len();
        let steady = DriveTestOptions { precondition: true, ..once };
        let found = test(vec![disk()], "simulated", &steady, &Cancellation::default(), &mut |_| ()).unwrap();
        let passes: Vec<u64> = written.lock().unwrap().iter().skip(before).take(32).copied().collect();
        assert!(passes.len() == 32 && passes.iter().all(|offset| offset % (1 << 20) == 0), "two passes");
        assert!(found.targets[0].notes.is_empty() && found.targets[0].preconditioning.is_some());
    }

    #[test]
    fn a_drive_test_result_round_trips() {
        let targets = vec![target("a", TargetKind::Directory, 100), target("a", TargetKind::File, 100)];
        let two = DriveTestOptions { repetitions: 2, precondition: true, ..options() };
        let found = test(targets, "simulated", &two, &Cancellation::default(), &mut |_| ()).unwrap();
        assert_eq!(found.targets.iter().map(|each| each.name.as_str()).collect::<Vec<_>>(), ["a", "a (2)"]);
        assert!(found.targets[0].preconditioning.as_ref().unwrap().is_steady());
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<DriveTest>(&text).unwrap(), found);
        // Both drives are equal, so no step has a winner.
        assert!(found.steps.iter().all(|step| step.winner.is_none()));
    }

    #[test]
    fn errors_name_target_and_step_and_cancellation_returns_no_result() {
        let (file, clock) = FakeDrive::new(SIZE, Duration::from_micros(100), 1).failing_after(30).start();
        let targets = vec![TestTarget { file, clock, ..target("a", TargetKind::Directory, 1) }];
        let error =
            test(targets, "simulated", &options(), &Cancellation::default(), &mut |_| ()).unwrap_err();
        assert!(error.to_string().starts_with("a: Transfer, read: "), "{error}");
        let targets = vec![target("a", TargetKind::Directory, 100)];
        let cancel = Cancellation::default();
        let asked = cancel.clone();
        let stop = &mut move |at: DriveTestProgress| {
            if at.done == 3 {
                asked.cancel();
            }
        };
        assert!(matches!(
            test(targets, "simulated", &options(), &cancel, stop),
            Err(DriveTestError::Cancelled)
        ));
    }

    #[test]
    fn a_drive_test_yields_a_seek_curve() {
        let drive = FakeDrive::new(64 << 20, Duration::from_micros(200), 1)
            .with_seeks(Duration::from_millis(1), Duration::from_micros(500));
        let (file, clock) = drive.start();
        let disk = TestTarget { file, clock, bytes: 64 << 20, ..target("disk", TargetKind::Device, 1) };
        let only = ["transfer_read", "sequential_read_4k", "seek_curve"].map(str::to_string).to_vec();
        let options = DriveTestOptions { seconds: 1.0, repetitions: 2, only, ..options() };
        let targets = vec![target("other", TargetKind::Device, 100), disk];
        let found = test(targets, "simulated", &options, &Cancellation::default(), &mut |_| ()).unwrap();
        let curve = SeekCurve::from_test(&found, 1).unwrap();
        // A sequential read takes 1.2 ms, and a seek adds 0.5 ms per MiB of distance.
        let close = |distance: u64, ms: f64| {
            let cost = curve.cost(distance) * 1e3;
            assert!((cost - ms).abs() < 0.1, "{distance}: {cost}, expected {ms}");
        };
        close(16 << 20, 8.0);
        close(1 << 20, 0.5);
        close(0, 0.0);
        // Reading 1 MiB takes 1.7 ms, plus the seeks back to the start.
        let share = curve.bytes_per_second * 1.7e-3 / MIB;
        assert!((0.85..1.0).contains(&share), "{curve:?}");
        assert_eq!(curve.drive, "disk");
        assert_eq!(SeekCurve::from_test(&found, 2), None);
        for name in &options.only {
            let mut less = found.clone();
            less.steps.retain(|step| step.step.name != *name);
            assert_eq!(SeekCurve::from_test(&less, 1), None, "without {name}");
        }
    }

    #[test]
    fn a_test_respects_the_maximum_duration() {
        let run = |us, longest| {
            let targets =
                vec![target("a", TargetKind::Directory, us), target("b", TargetKind::Directory, us)];
            let options = DriveTestOptions { seconds: 1.0, longest_seconds: Some(longest), ..options() };
            let mut last = None;
            let found = test(targets, "simulated", &options, &Cancellation::default(), &mut |at| {
                last = at.max_remaining;
            });
            assert!(last.unwrap() <= Duration::from_secs_f64(longest), "{last:?}");
            found
        };
        // Each step gets an equal share of the 20 s, which is less than one second.
        let found = run(1000, 20.0).unwrap();
        assert!((15.0..=20.5).contains(&found.seconds), "{}", found.seconds);
        assert_eq!((found.steps.len(), found.left_out.len()), (steps(4096).len(), 0));
        // Each read takes 10 ms, so the steps together need more time than the limit allows.
        let found = run(10_000, 2.0).unwrap();
        assert!(found.seconds < 4.0 && !found.left_out.is_empty(), "{} {:?}", found.seconds, found.left_out);
        assert_eq!(found.steps.len() + found.left_out.len(), steps(4096).len());
        // Filling one target needs 16 writes of 100 ms.
        let Err(error) = run(100_000, 1.0) else { panic!("the file was not filled") };
        assert!(
            error.to_string().starts_with("a: fill did not finish within 1s, the limit for the whole test"),
            "{error}"
        );
    }

    #[test]
    fn a_drive_that_does_not_respond_times_out() {
        let hanging = |cancel: &Cancellation, patience, tell: &mut dyn FnMut(DriveTestProgress)| {
            let drive = FakeDrive::new(SIZE, Duration::from_micros(100), 1).stalling_after(20);
            let (file, clock) = drive.start();
            let targets = vec![TestTarget { file, clock, ..target("a", TargetKind::Directory, 1) }];
            run_with_watchdog(targets, "simulated", &options(), cancel, patience, tell).unwrap_err()
        };
        // `soon` is longer than a thread may wait for a CPU on a busy machine.
        let (soon, never) = (Duration::from_millis(1500), Duration::MAX);
        let cancel = Cancellation::default();
        let error = hanging(&cancel, StallLimits { usual: soon, at_the_end: never }, &mut |_| ());
        assert!(
            matches!(&error, DriveTestError::Stalled { stage, .. } if stage == "a: Transfer, read"),
            "{error}"
        );
        // Ctrl-C ends the test before that. When the stage is reported for the second time, its transfers are in
        // flight.
        let mut told = 0;
        let cancels = &mut |at: DriveTestProgress| {
            told += usize::from(at.title == "a: Transfer, read");
            if told == 2 {
                cancel.cancel();
            }
        };
        let error = hanging(&cancel, StallLimits { usual: never, at_the_end: soon }, cancels);
        assert!(matches!(error, DriveTestError::Stalled { .. }), "{error}");
        let error = hanging(&cancel, StallLimits { usual: never, at_the_end: never }, &mut |_| ());
        assert!(matches!(error, DriveTestError::Cancelled), "no transfer was in flight: {error}");
    }
}
