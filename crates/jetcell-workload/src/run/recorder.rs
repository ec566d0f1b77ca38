//! The recorder of a run. It forwards all events to the observer, keeps the test log and phase durations, and stores
//! interim results.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Local;
use jetcell_host::processor_seconds;
use parking_lot::Mutex;

use crate::endurance::{EnduranceState, StateFiles};
use crate::event_file::{EventFile, rfc3339};
use crate::measurement::{CounterSnapshot, DamageTally, Measurement, PageDamageCounts, Sample};
use crate::observer::{Observer, RunPhase};
use crate::result::{PhaseTime, RunResult, TestPart};
use crate::run::assembly::{LoadPhaseResult, ResultInputs, RunHistory, assemble, interim_result};
use crate::run::background_writer::{BackgroundWriter, WriteInterval};
use crate::run::event_log::RunEvent;
use crate::run::{PhaseError, RunError};

/// Interval between writes of the interim result. A long run has a large result, which is therefore rewritten less
/// often. `result.json` is rewritten without a sync, because a sync could force the file system under test to write
/// all its dirty data. If the process is killed, nothing is lost. After a power failure, the file may be an older
/// version or empty.
const INTERIM_RESULT: WriteInterval = WriteInterval { every: Duration::from_secs(10), idle: 100 };

/// Interval at which the state of a stress test is stored. A crash loses at most about this much measured time.
const STRESS_STATE: WriteInterval = WriteInterval { every: Duration::from_secs(1), idle: 1 };

/// Forwards events to the observer and records them.
pub(crate) struct RunRecorder<'a> {
    observer: &'a mut dyn Observer,
    pub(crate) history: RunHistory,
    /// Start time of the phase, and the processor time that the process had used by then, in seconds.
    began: (Instant, f64),
    /// Writer of interim results and the path of the result, once the output directory exists.
    interim: Option<(BackgroundWriter, PathBuf)>,
    pub(crate) subject: Option<ResultInputs>,
    /// State of the stress test, without the running part.
    pub(crate) endurance: Option<EnduranceState>,
    /// Running part of a stress test.
    part: Option<TestPart>,
    /// State files of a stress test and their writer, set while a part is running.
    states: Option<(Arc<Mutex<StateFiles>>, BackgroundWriter)>,
    pub(crate) events: Option<EventFile>,
    /// Damage to pages that the engine has reported.
    pub(crate) damage: DamageTally,
}

impl Observer for RunRecorder<'_> {
    fn must_hold_load(&mut self) -> bool {
        self.observer.must_hold_load()
    }
    fn alone_duration(&mut self) -> Option<Duration> {
        self.observer.alone_duration()
    }
    fn begin_phase(&mut self, phase: RunPhase, total: u64) {
        // Time spent waiting for other hosts counts toward the previous phase.
        self.observer.before_phase(phase);
        self.close_phase();
        self.began = (Instant::now(), processor_seconds());
        self.history.phases.push(PhaseTime { phase, seconds: 0.0, processor_seconds: 0.0 });
        self.event(&RunEvent::PhaseStarted { phase });
        self.log(phase.title());
        self.observer.begin_phase(phase, total);
    }
    fn advance(&mut self, done: u64, note: &str) {
        self.observer.advance(done, note);
    }
    fn log(&mut self, line: &str) {
        self.history.log.push(format!("{} -- {line}", Local::now().format("%Y-%m-%d %H:%M:%S")));
        self.observer.log(line);
    }
    fn report_counters(&mut self, now: &CounterSnapshot) {
        self.observer.report_counters(now);
    }
    fn wants_measured(&self) -> bool {
        self.interim.as_ref().is_some_and(|(writer, _)| writer.is_due())
    }
    fn report_measurement(&mut self, so_far: Measurement) {
        let (measured, parts) = self.with_previous_parts(so_far);
        self.store_interim_result(LoadPhaseResult { measured, parts, ..LoadPhaseResult::default() });
    }
    fn wants_totals(&self) -> bool {
        self.states.as_ref().is_some_and(|(_, writer)| writer.is_due())
    }
    fn report_totals(&mut self, so_far: Measurement) {
        let parts = self.parts(so_far.seconds);
        let so_far = Measurement { damage: self.damage.counts(), ..so_far };
        if let Some(test) = &self.endurance {
            let whole = test.with_previous_totals(so_far);
            self.store_state(&whole, &parts);
        }
    }
    fn report_sample(&mut self, sample: &Sample) {
        let limits = self.subject.as_ref().filter(|subject| subject.profile.test.judges_speed());
        let Some(limits) = limits.map(|subject| subject.profile.thresholds) else { return };
        for event in RunEvent::events_for_sample(sample, &limits) {
            self.event(&event);
        }
    }
}

impl RunRecorder<'_> {
    /// Creates a recorder that stores neither events nor interim results.
    pub(crate) fn new(observer: &mut dyn Observer) -> RunRecorder<'_> {
        let history = RunHistory::default();
        RunRecorder {
            observer,
            history,
            began: (Instant::now(), 0.0),
            interim: None,
            subject: None,
            endurance: None,
            part: None,
            states: None,
            events: None,
            damage: DamageTally::default(),
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
    pub(crate) fn event(&mut self, event: &RunEvent) {
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
            self.event(&RunEvent::Drift { figure: trend.figure.clone(), change: trend.change });
        }
        self.event(&RunEvent::RunEnded { verdict: result.verdict, reason: result.reason.clone() });
    }

    /// Starts the background writers of interim results.
    pub(crate) fn start_writers(&mut self, result: PathBuf) -> io::Result<()> {
        self.interim = Some((BackgroundWriter::start(INTERIM_RESULT)?, result));
        Ok(())
    }

    /// Waits until all jobs are complete and stops the writers.
    pub(crate) fn end_writers(&mut self) {
        if let Some(Err(error)) = self.interim.take().map(|(writer, _)| writer.finish()) {
            self.log(&format!("failed to rewrite result.json during the run: {error}"));
        }
        if let Some((files, writer)) = self.states.take() {
            let ended = writer.finish();
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
        self.part = Some(TestPart { ended: started.clone(), started, ..TestPart::default() });
        let files = StateFiles::create(test.state_after(&test.previous_totals(), self.parts(0.0)))?;
        self.states = Some((Arc::new(Mutex::new(files)), BackgroundWriter::start(STRESS_STATE)?));
        Ok(())
    }

    /// Stores the state of a stress test in the background. Does nothing in other tests.
    pub(crate) fn store_state(&mut self, whole: &Measurement, parts: &[TestPart]) {
        let (Some(test), Some((files, writer))) = (&self.endurance, &mut self.states) else { return };
        let (state, files) = (test.state_after(whole, parts.to_vec()), files.clone());
        writer.submit(Box::new(move || {
            files.lock().store(state);
            Ok(())
        }));
    }

    /// Returns the seconds that a stress test had measured before it was interrupted.
    pub(crate) fn measured_before(&self) -> f64 {
        self.endurance.as_ref().map_or(0.0, |test| test.seconds)
    }

    /// Combines the measurement with the previous parts. Returns the combined measurement and all parts.
    pub(crate) fn with_previous_parts(&self, measured: Measurement) -> (Measurement, Vec<TestPart>) {
        let parts = self.parts(measured.seconds);
        let measured = Measurement { damage: self.damage.counts(), ..measured };
        match self.endurance.as_ref().filter(|_| !parts.is_empty()) {
            Some(test) => (test.with_previous_parts(measured), parts),
            None => (measured, parts),
        }
    }

    /// Returns the damage to pages that the engine has reported in all parts of the run.
    pub(crate) fn reported_damage(&self) -> PageDamageCounts {
        let mut damage = self.endurance.as_ref().map(EnduranceState::damage).unwrap_or_default();
        damage.add(&self.damage.counts());
        damage
    }

    /// Returns all parts of a stress test, with the given measured time for the running part.
    fn parts(&self, measured_seconds: f64) -> Vec<TestPart> {
        let (Some(test), Some(part)) = (&self.endurance, &self.part) else { return Vec::new() };
        let running = TestPart { ended: rfc3339(&Local::now()), measured_seconds, ..part.clone() };
        test.parts.iter().cloned().chain([running]).collect()
    }

    /// Stores an interim result without a verdict.
    pub(crate) fn store_interim_result(&mut self, loaded: LoadPhaseResult) {
        self.close_phase();
        let (Some((interim, path)), Some(subject)) = (&mut self.interim, &self.subject) else { return };
        let (subject, history, path) = (subject.clone(), self.history.clone(), path.clone());
        let loaded = LoadPhaseResult { initial_bytes: subject.initial_bytes, ..loaded };
        interim.submit(Box::new(move || {
            interim_result(assemble(&subject, &history, &loaded, None, None)).write_unsynced(&path)
        }));
    }

    /// Returns the error for a run that failed in its current phase.
    pub(crate) fn run_error(&self, error: impl Into<PhaseError>) -> RunError {
        let phase = self.history.phases.last().map_or(RunPhase::Create, |last| last.phase);
        RunError::Failed { phase, error: error.into() }
    }
}
