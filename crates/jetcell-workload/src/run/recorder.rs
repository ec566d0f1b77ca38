//! The recorder of a run: passes all events on to the observer, keeps the test log and the times of the phases, and stores
//! interim results.

use std::fmt;
use std::time::Instant;

use chrono::{DateTime, Local};

use crate::layout::Plan;
use crate::measurement::{Measurement, Snapshot};
use crate::observer::{Observer, Phase};
use crate::profile::Profile;
use crate::result::PhaseTime;
use crate::run::RunError;
use crate::run::assembly::{History, Loaded, assemble, not_ended};
use crate::run::interim::Interim;

/// Passes events on and records them.
pub(crate) struct Recorder<'a> {
    observer: &'a mut dyn Observer,
    pub(crate) history: History,
    began: Instant,
    /// The writer of interim results, once the output directory exists, and its inputs.
    pub(crate) interim: Option<Interim>,
    pub(crate) subject: Option<Subject>,
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
        self.publish(Loaded { measured: so_far, ..Loaded::default() });
    }
}

impl Recorder<'_> {
    /// A recorder without events and without a place for interim results.
    pub(crate) fn new(observer: &mut dyn Observer) -> Recorder<'_> {
        let history = History::default();
        Recorder { observer, history, began: Instant::now(), interim: None, subject: None }
    }

    /// Sets the end of the current phase to now.
    pub(crate) fn close_phase(&mut self) {
        if let Some(last) = self.history.phases.last_mut() {
            last.seconds = self.began.elapsed().as_secs_f64();
        }
    }

    /// Stores an interim result, which has no verdict yet.
    pub(crate) fn publish(&mut self, loaded: Loaded) {
        self.close_phase();
        let (Some(interim), Some(subject)) = (&mut self.interim, &self.subject) else { return };
        let (subject, history) = (subject.clone(), self.history.clone());
        let loaded = Loaded { initial_bytes: subject.initial_bytes, ..loaded };
        interim.put(Box::new(move || {
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
