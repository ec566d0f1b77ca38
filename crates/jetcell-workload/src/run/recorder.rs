//! The recorder of a run. It forwards all events to the observer, keeps the test log and phase durations, and stores
//! interim results.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Local};
use parking_lot::Mutex;

use crate::endurance::{Endurance, StateFiles};
use crate::event_file::{EventFile, rfc3339};
use crate::layout::Plan;
use crate::machine::processor_seconds;
use crate::measurement::{Measurement, Sample, Snapshot};
use crate::observer::{Observer, Phase};
use crate::profile::Profile;
use crate::result::{Part, PhaseTime, RunResult};
use crate::run::RunError;
use crate::run::assembly::{History, Loaded, assemble, not_ended};
use crate::run::background_writer::{BackgroundWriter, Interval};
use crate::run::event_log::Event;

/// Interval between writes of the interim result. A long run has a large result, which is therefore rewritten less
/// often. `result.json` is rewritten without a sync, because a sync could force the file system under test to write
/// all its dirty data. If the process is killed, nothing is lost. After a power failure, the file may be an older
/// version or empty.
const INTERIM_RESULT: Interval = Interval { every: Duration::from_secs(10), idle: 100 };

/// Interval at which the state of a stress test is stored. A crash loses at most about this much measured time.
const STRESS_STATE: Interval = Interval { every: Duration::from_secs(1), idle: 1 };

/// Forwards events to the observer and records them.
pub(crate) struct Recorder<'a> {
    observer: &'a mut dyn Observer,
    pub(crate) history: History,
    /// Start time of the phase, and the processor time that the process had used by then, in seconds.
    began: (Instant, f64),
    /// Writer of interim results and the path of the result, once the output directory exists.
    interim: Option<(BackgroundWriter, PathBuf)>,
    pub(crate) subject: Option<Subject>,
    /// State of the stress test, without the running part.
    pub(crate) endurance: Option<Endurance>,
    /// Running part of a stress test.
    part: Option<Part>,
    /// State files of a stress test and their writer, set while a part is running.
    states: Option<(Arc<Mutex<StateFiles>>, BackgroundWriter)>,
    pub(crate) events: Option<EventFile>,
}

/// Inputs of an interim result that do not change during the run.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) profile: Profile,
    pub(crate) plan: Plan,
    pub(crate) started: DateTime<Local>,
    /// Size of all databases before the load, in bytes.
    pub(crate) initial_bytes: u64,
}

impl Observer for Recorder<'_> {
    fn holds_load(&mut self) -> bool {
        self.observer.holds_load()
    }
    fn alone_first(&mut self) -> Option<Duration> {
        self.observer.alone_first()
    }
    fn begin(&mut self, phase: Phase, total: u64) {
        // Time spent waiting for other hosts counts toward the previous phase.
        self.observer.before(phase);
        self.close_phase();
        self.began = (Instant::now(), processor_seconds());
        self.history.phases.push(PhaseTime { phase, seconds: 0.0, processor_seconds: 0.0 });
        self.event(&Event::PhaseStarted { phase });
        self.log(phase.title());
        self.observer.begin(phase, total);
    }
    fn advance(&mut self, done: u64, note: &str) {
        self.observer.advance(done, note);
    }
    fn log(&mut self, line: &str) {
        self.history.log.push(format!("{} -- {line}", Local::now().format("%Y-%m-%d %H:%M:%S")));
        self.observer.log(line);
    }
    fn counters(&mut self, now: &Snapshot) {
        self.observer.counters(now);
    }
    fn wants_measured(&self) -> bool {
        self.interim.as_ref().is_some_and(|(writer, _)| writer.is_due())
    }
    fn measured(&mut self, so_far: Measurement) {
        let (measured, parts) = self.joined(so_far);
        self.publish(Loaded { measured, parts, ..Loaded::default() });
    }
    fn wants_totals(&self) -> bool {
        self.states.as_ref().is_some_and(|(_, writer)| writer.is_due())
    }
    fn totals(&mut self, so_far: Measurement) {
        let parts = self.parts(so_far.seconds);
        if let Some(test) = &self.endurance {
            let whole = test.joined_totals(so_far);
            self.store_state(&whole, &parts);
        }
    }
    fn sampled(&mut self, sample: &Sample) {
        let limits = self.subject.as_ref().filter(|subject| subject.profile.test.judges_speed());
        let Some(limits) = limits.map(|subject| subject.profile.thresholds) else { return };
        for event in Event::of_sample(sample, &limits) {
            self.event(&event);
        }
    }
}

impl Recorder<'_> {
    /// Creates a recorder that stores neither events nor interim results.
    pub(crate) fn new(observer: &mut dyn Observer) -> Recorder<'_> {
        let history = History::default();
        Recorder {
            observer,
            history,
            began: (Instant::now(), 0.0),
            interim: None,
            subject: None,
            endurance: None,
            part: None,
            states: None,
            events: None,
        }
    }

    /// Ends the current phase and records its duration.
    pub(crate) fn close_phase(&mut self) {
        if let Some(last) = self.history.phases.last_mut() {
            last.seconds = self.began.0.elapsed().as_secs_f64();
            last.processor_seconds = processor_seconds() - self.began.1;
        }
    }

    /// Stores an event. If the event log cannot be written, closes it and records the error in the test log.
    pub(crate) fn event(&mut self, event: &Event) {
        let Some(log) = &self.events else { return };
        log.add_run_event(&Local::now(), event);
        if let Some(error) = log.failure() {
            self.events = None;
            self.log(&format!("failed to write events.jsonl: {error}"));
        }
    }

    /// Stores the events at the end of a run.
    pub(crate) fn run_ended(&mut self, result: &RunResult) {
        for trend in result.trends.iter().filter(|trend| trend.drifts) {
            self.event(&Event::Drift { figure: trend.figure.clone(), change: trend.change });
        }
        self.event(&Event::RunEnded { verdict: result.verdict, reason: result.reason.clone() });
    }

    /// Starts the background writers of interim results.
    pub(crate) fn start_writers(&mut self, result: PathBuf) -> io::Result<()> {
        self.interim = Some((BackgroundWriter::start(INTERIM_RESULT)?, result));
        Ok(())
    }

    /// Waits until all jobs are complete and stops the writers.
    pub(crate) fn end_writers(&mut self) {
        if let Some(Err(error)) = self.interim.take().map(|(writer, _)| writer.end()) {
            self.log(&format!("failed to rewrite result.json during the run: {error}"));
        }
        if let Some((files, writer)) = self.states.take() {
            let ended = writer.end();
            let failed = files.lock().take_failure().or(ended.err());
            if let Some(error) = failed {
                self.log(&format!("failed to store the state of the test at least once: {error}"));
            }
        }
    }

    /// Starts a part of a stress test. From then on, the test can be resumed. Does nothing in other tests.
    pub(crate) fn begin_part(&mut self) -> io::Result<()> {
        let Some(test) = &self.endurance else { return Ok(()) };
        let started = rfc3339(&Local::now());
        self.part = Some(Part { ended: started.clone(), started, ..Part::default() });
        let files = StateFiles::begin(test.after(&test.totals(), self.parts(0.0)))?;
        self.states = Some((Arc::new(Mutex::new(files)), BackgroundWriter::start(STRESS_STATE)?));
        Ok(())
    }

    /// Stores the state of a stress test in the background. Does nothing in other tests.
    pub(crate) fn store_state(&mut self, whole: &Measurement, parts: &[Part]) {
        let (Some(test), Some((files, writer))) = (&self.endurance, &mut self.states) else { return };
        let (state, files) = (test.after(whole, parts.to_vec()), files.clone());
        writer.put(Box::new(move || {
            files.lock().store(state);
            Ok(())
        }));
    }

    /// Returns the seconds that a stress test had measured before it was interrupted.
    pub(crate) fn measured_before(&self) -> f64 {
        self.endurance.as_ref().map_or(0.0, |test| test.seconds)
    }

    /// Combines the measurement with the previous parts. Returns the combined measurement and all parts.
    pub(crate) fn joined(&self, measured: Measurement) -> (Measurement, Vec<Part>) {
        let parts = self.parts(measured.seconds);
        match self.endurance.as_ref().filter(|_| !parts.is_empty()) {
            Some(test) => (test.joined(measured), parts),
            None => (measured, parts),
        }
    }

    /// Returns all parts of a stress test, with the given measured time for the running part.
    fn parts(&self, measured_seconds: f64) -> Vec<Part> {
        let (Some(test), Some(part)) = (&self.endurance, &self.part) else { return Vec::new() };
        let running = Part { ended: rfc3339(&Local::now()), measured_seconds, ..part.clone() };
        test.parts.iter().cloned().chain([running]).collect()
    }

    /// Stores an interim result without a verdict.
    pub(crate) fn publish(&mut self, loaded: Loaded) {
        self.close_phase();
        let (Some((interim, path)), Some(subject)) = (&mut self.interim, &self.subject) else { return };
        let (subject, history, path) = (subject.clone(), self.history.clone(), path.clone());
        let loaded = Loaded { initial_bytes: subject.initial_bytes, ..loaded };
        interim.put(Box::new(move || {
            let Subject { profile, plan, started, .. } = &subject;
            let result = assemble(profile, plan, started, &history, &loaded, None, None);
            not_ended(result).write_unsynced(&path)
        }));
    }

    /// Returns the error for a run that failed in its current phase.
    pub(crate) fn failed(&self, error: impl fmt::Display) -> RunError {
        let phase = self.history.phases.last().map_or(Phase::Create, |last| last.phase);
        RunError::Failed { phase, error: error.to_string() }
    }
}
