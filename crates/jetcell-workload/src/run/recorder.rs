//! The recorder of a run: passes all events on to the observer, keeps the test log and the times of the phases, and stores
//! interim results.

use std::fmt;
use std::io;
use std::time::Instant;

use chrono::{DateTime, Local};

use crate::endurance::Endurance;
use crate::event_file::{EventFile, rfc3339};
use crate::layout::Plan;
use crate::measurement::{Measurement, Sample, Snapshot};
use crate::observer::{Observer, Phase};
use crate::profile::Profile;
use crate::result::{Part, PhaseTime, RunResult};
use crate::run::RunError;
use crate::run::assembly::{History, Loaded, assemble, not_ended};
use crate::run::event_log::Event;
use crate::run::interim::Interim;

/// Passes events on and records them.
pub(crate) struct Recorder<'a> {
    observer: &'a mut dyn Observer,
    pub(crate) history: History,
    began: Instant,
    /// The writer of interim results, once the output directory exists, and its inputs.
    pub(crate) interim: Option<Interim>,
    pub(crate) subject: Option<Subject>,
    /// The stress test so far, without the part that is running.
    pub(crate) endurance: Option<Endurance>,
    /// The part of a stress test that is running.
    part: Option<Part>,
    pub(crate) events: Option<EventFile>,
}

/// The inputs of an interim result that do not change during the run.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) profile: Profile,
    pub(crate) plan: Plan,
    pub(crate) started: DateTime<Local>,
    /// Bytes in all databases before the load.
    pub(crate) initial_bytes: u64,
}

impl Observer for Recorder<'_> {
    fn begin(&mut self, phase: Phase, total: u64) {
        self.close_phase();
        self.began = Instant::now();
        self.history.phases.push(PhaseTime { phase, seconds: 0.0 });
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
        self.interim.as_ref().is_some_and(Interim::is_due)
    }
    fn measured(&mut self, so_far: Measurement) {
        let (measured, parts) = self.joined(so_far);
        self.publish(Loaded { measured, parts, ..Loaded::default() });
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
    /// A recorder without events and without a place for interim results.
    pub(crate) fn new(observer: &mut dyn Observer) -> Recorder<'_> {
        let history = History::default();
        Recorder {
            observer,
            history,
            began: Instant::now(),
            interim: None,
            subject: None,
            endurance: None,
            part: None,
            events: None,
        }
    }

    /// Sets the end of the current phase to now.
    pub(crate) fn close_phase(&mut self) {
        if let Some(last) = self.history.phases.last_mut() {
            last.seconds = self.began.elapsed().as_secs_f64();
        }
    }

    /// Stores an event. An event log that cannot be written ends, and the test log says so.
    pub(crate) fn event(&mut self, event: &Event) {
        let Some(log) = &self.events else { return };
        log.add_run_event(&Local::now(), event);
        if let Some(error) = log.failure() {
            self.events = None;
            self.log(&format!("events.jsonl could not be written: {error}"));
        }
    }

    /// Stores the events of the end of a run.
    pub(crate) fn run_ended(&mut self, result: &RunResult) {
        for trend in result.trends.iter().filter(|trend| trend.drifts) {
            self.event(&Event::Drift { figure: trend.figure.clone(), change: trend.change });
        }
        self.event(&Event::RunEnded { verdict: result.verdict, reason: result.reason.clone() });
    }

    /// Begins a part of a stress test. From now on it can be continued. Does nothing in other tests.
    pub(crate) fn begin_part(&mut self) -> io::Result<()> {
        if self.endurance.is_none() {
            return Ok(());
        }
        let started = rfc3339(&Local::now());
        self.part = Some(Part { ended: started.clone(), started, measured_seconds: 0.0 });
        let (whole, parts) = self.joined(Measurement::default());
        self.endurance.as_ref().map_or(Ok(()), |test| test.after(&whole, parts).write())
    }

    /// Seconds that a stress test measured before it was interrupted.
    pub(crate) fn measured_before(&self) -> f64 {
        self.endurance.as_ref().map_or(0.0, |test| test.seconds)
    }

    /// The measurement with that of the parts before, and all parts.
    pub(crate) fn joined(&self, measured: Measurement) -> (Measurement, Vec<Part>) {
        let (Some(test), Some(part)) = (&self.endurance, &self.part) else { return (measured, Vec::new()) };
        let ended = rfc3339(&Local::now());
        let part = Part { ended, measured_seconds: measured.seconds, ..part.clone() };
        let parts = test.parts.iter().cloned().chain([part]).collect();
        (test.joined(measured), parts)
    }

    /// Stores an interim result, which has no verdict yet.
    pub(crate) fn publish(&mut self, loaded: Loaded) {
        self.close_phase();
        let (Some(interim), Some(subject)) = (&mut self.interim, &self.subject) else { return };
        let (subject, history) = (subject.clone(), self.history.clone());
        let loaded = Loaded { initial_bytes: subject.initial_bytes, ..loaded };
        let state = self.endurance.as_ref().map(|test| test.after(&loaded.measured, loaded.parts.clone()));
        interim.put(Box::new(move || {
            // If the state cannot be written, an older one is continued.
            let _ = state.map(|state| state.write());
            let Subject { profile, plan, started, .. } = &subject;
            not_ended(assemble(profile, plan, started, &history, &loaded, None, None))
        }));
    }

    /// The error of a run whose current phase failed.
    pub(crate) fn failed(&self, error: impl fmt::Display) -> RunError {
        let phase = self.history.phases.last().map_or(Phase::Create, |last| last.phase);
        RunError::Failed { phase, error: error.to_string() }
    }
}
