//! Events of a run. They are stored in the same file as the engine's events.

use chrono::{DateTime, Local};
use serde::Serialize;

use crate::event_file::{EventFile, rfc3339};
use crate::measurement::Sample;
use crate::observer::RunPhase;
use crate::profile::{TestKind, Thresholds};
use crate::verdict::Verdict;

/// An event that occurred during a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum RunEvent {
    /// The run started.
    RunStarted {
        /// The kind of test.
        test: TestKind,
    },
    /// The run resumed an interrupted run.
    RunContinued {
        /// Number of the part being started, counted from 1.
        part: usize,
        /// Measured time of the previous parts, in seconds.
        measured_seconds: f64,
    },
    /// A phase started.
    PhaseStarted {
        /// The phase.
        phase: RunPhase,
    },
    /// The average latency in a sample exceeded the maximum.
    LimitExceeded {
        /// Kind of I/O that exceeded the limit.
        kind: &'static str,
        /// Number of the instance, starting at 1.
        instance: usize,
        /// End of the sample, in seconds of measured time.
        at_seconds: f64,
        /// Average latency of the sample in milliseconds.
        milliseconds: f64,
        /// Maximum latency in milliseconds.
        limit: f64,
    },
    /// Sessions waited for a free cache page.
    PageFaultStalls {
        /// End of the sample, in seconds of measured time.
        at_seconds: f64,
        /// Number of waits in the sample.
        count: u64,
    },
    /// A figure drifted over the run.
    Drift {
        /// Name of the figure.
        figure: String,
        /// Change over the measured interval, as a fraction of the median.
        change: f64,
    },
    /// The run ended.
    RunEnded {
        /// Verdict of the run.
        verdict: Verdict,
        /// The reason for the verdict.
        reason: String,
    },
}

impl RunEvent {
    /// Returns the events that a sample triggers.
    pub(crate) fn events_for_sample(sample: &Sample, limits: &Thresholds) -> Vec<RunEvent> {
        let mut events = Vec::new();
        for (number, instance) in sample.instances.iter().enumerate() {
            for (kind, rates, limit) in [
                ("database_read", instance.database_read, limits.maximum_database_read_ms),
                ("log_write", instance.log_write, limits.maximum_log_write_ms),
            ] {
                if rates.average_ms > limit {
                    events.push(RunEvent::LimitExceeded {
                        kind,
                        instance: number + 1,
                        at_seconds: sample.at_seconds,
                        milliseconds: rates.average_ms,
                        limit,
                    });
                }
            }
        }
        if sample.page_fault_stalls > 0 {
            let (at_seconds, count) = (sample.at_seconds, sample.page_fault_stalls);
            events.push(RunEvent::PageFaultStalls { at_seconds, count });
        }
        events
    }

    fn severity(&self) -> &'static str {
        match self {
            RunEvent::RunStarted { .. } | RunEvent::RunContinued { .. } | RunEvent::PhaseStarted { .. } => {
                "information"
            }
            RunEvent::RunEnded { verdict: Verdict::Pass, .. } => "information",
            RunEvent::RunEnded { verdict: Verdict::Fail, .. } => "error",
            RunEvent::RunEnded { .. }
            | RunEvent::LimitExceeded { .. }
            | RunEvent::PageFaultStalls { .. }
            | RunEvent::Drift { .. } => "warning",
        }
    }

    fn text(&self) -> String {
        match self {
            RunEvent::RunStarted { test } => format!("The test has started: {test:?}."),
            RunEvent::RunContinued { part, measured_seconds } => {
                format!(
                    "The test continues with part {part}, after {measured_seconds:.0} s of measured time."
                )
            }
            RunEvent::PhaseStarted { phase } => format!("{}.", phase.title()),
            RunEvent::LimitExceeded { kind, instance, at_seconds, milliseconds, limit } => {
                let kind = kind.replace('_', " ");
                format!(
                    "The {kind} latency of instance {instance} was {milliseconds:.3} ms in the sample at \
                     {at_seconds:.0} s; the limit is {limit} ms."
                )
            }
            RunEvent::PageFaultStalls { at_seconds, count } => {
                format!("Sessions waited {count} times for a cache page in the sample at {at_seconds:.0} s.")
            }
            RunEvent::Drift { figure, change } => {
                format!("{figure} drifted by {:+.1} % over the run.", change * 100.0)
            }
            RunEvent::RunEnded { verdict, reason } => format!("The test has ended: {verdict:?}. {reason}."),
        }
    }
}

#[derive(Serialize)]
struct RunEventLine<'a> {
    at: String,
    #[serde(flatten)]
    event: &'a RunEvent,
    severity: &'static str,
    text: String,
}

impl EventFile {
    /// Adds an event of a run.
    pub(crate) fn add_run_event(&self, now: &DateTime<Local>, event: &RunEvent) {
        let (severity, text) = (event.severity(), event.text());
        self.add(&RunEventLine { at: rfc3339(now), event, severity, text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::{InstanceSample, IoRates};

    #[test]
    fn a_slow_sample_is_logged_with_figures() {
        let slow = IoRates { per_second: 1.0, average_bytes: 4096.0, average_ms: 250.0 };
        let instances =
            vec![InstanceSample::default(), InstanceSample { log_write: slow, ..Default::default() }];
        let sample =
            Sample { at_seconds: 30.0, seconds: 15.0, page_fault_stalls: 2, instances, ..Sample::default() };
        let events = RunEvent::events_for_sample(&sample, &Thresholds::default());
        let dir = tempfile::tempdir().unwrap();
        for continued in [false, true] {
            let log = EventFile::open(dir.path(), continued).unwrap();
            events.iter().for_each(|event| log.add_run_event(&Local::now(), event));
        }
        let text = std::fs::read_to_string(dir.path().join("events.jsonl")).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert_eq!((&lines[0]["event"], &lines[0]["kind"]), (&"limit_exceeded".into(), &"log_write".into()));
        assert_eq!((&lines[0]["instance"], &lines[0]["milliseconds"]), (&2.into(), &250.0.into()));
        assert_eq!((&lines[3]["event"], &lines[3]["count"]), (&"page_fault_stalls".into(), &2.into()));
        assert!(lines[0]["at"].is_string());
    }
}
