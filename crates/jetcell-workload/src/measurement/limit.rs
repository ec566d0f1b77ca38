//! The limiting factor of a run, derived from measured evidence.
//!
//! The first rule that applies determines the result. The evidence for all rules is reported, so the result can be
//! checked.

use serde::{Deserialize, Serialize};

use crate::measurement::Measurement;

/// The factor that limits a run's throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitingFactor {
    /// The load kept to its target rate, so the storage was not asked to do more.
    TargetRate,
    /// The processors were busy, mostly with this test. The run measured the machine rather than the storage.
    Cpu,
    /// The processors were busy, mostly with other programs.
    OtherPrograms,
    /// The threads spent most of their time waiting for durable commits.
    LogFlush,
    /// Sessions waited for free cache pages, because pages were read and changed faster than they were written back.
    Cache,
    /// The threads spent most of their time waiting for database reads.
    Device,
    /// No other factor applies. The number of threads limits how many requests run in parallel.
    Threads,
}

impl LimitingFactor {
    /// Returns the name of the factor.
    pub const fn title(self) -> &'static str {
        match self {
            LimitingFactor::TargetRate => "target rate",
            LimitingFactor::Cpu => "CPU",
            LimitingFactor::OtherPrograms => "other programs",
            LimitingFactor::LogFlush => "log flush",
            LimitingFactor::Cache => "cache",
            LimitingFactor::Device => "device",
            LimitingFactor::Threads => "number of threads",
        }
    }
}

/// Analysis of a run's limiting factor, with the evidence for it. Shares are fractions of the total time of
/// all load threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitAnalysis {
    /// The limiting factor.
    pub limiter: LimitingFactor,
    /// Explanation of the decision, as a sentence.
    pub reason: String,
    /// Busy time of all the machine's processors, in percent.
    pub cpu_percent: f64,
    /// Share of the threads' time spent in durable commits.
    pub commit_share: f64,
    /// Total latency of all database reads divided by the threads' time. The value can exceed 1 because prereads
    /// overlap.
    pub database_read_share: f64,
    /// Number of waits for a free cache page.
    pub page_fault_stalls: u64,
}

const BUSY_CPU_PERCENT: f64 = 90.0;
const LARGE_SHARE: f64 = 0.5;

impl LimitAnalysis {
    /// Determines the limiting factor from `measured`. Returns `None` if nothing was measured.
    pub fn determine(measured: &Measurement, threads: usize) -> Option<LimitAnalysis> {
        let thread_us = measured.seconds * threads as f64 * 1e6;
        if thread_us <= 0.0 || measured.tally.total() == 0 {
            return None;
        }
        let commits = measured.tally.durable_commits.summary();
        let commit_share = commits.mean * commits.count as f64 / thread_us;
        let read_us: u64 = measured.io.iter().map(|io| io.database_read.latency_us).sum();
        let database_read_share = read_us as f64 / thread_us;
        let (cpu_percent, stalls) = (measured.host.cpu_percent, measured.cache.stalls);
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let (limiter, reason) = if let Some(open) =
            measured.open_loop.filter(super::open_loop::OpenLoopBacklog::kept_rate)
        {
            let rate = open.target_rate;
            (
                LimitingFactor::TargetRate,
                format!("the load kept its target rate of {rate} operations per second"),
            )
        } else if cpu_percent >= BUSY_CPU_PERCENT {
            let own = measured.host.process_cpu_percent;
            let reason =
                format!("the processors were {cpu_percent:.0} % busy, of which this test used {own:.0} %");
            (
                if own >= cpu_percent * LARGE_SHARE {
                    LimitingFactor::Cpu
                } else {
                    LimitingFactor::OtherPrograms
                },
                reason,
            )
        } else if stalls > 0 {
            (LimitingFactor::Cache, format!("sessions waited {stalls} times for a free cache page"))
        } else if commit_share >= LARGE_SHARE && commit_share >= database_read_share {
            let share = percent(commit_share);
            (
                LimitingFactor::LogFlush,
                format!("the threads spent {share} of their time waiting for durable commits"),
            )
        } else if database_read_share >= LARGE_SHARE {
            let share = percent(database_read_share);
            (LimitingFactor::Device, format!("database reads took {share} of the threads' time"))
        } else {
            (
                LimitingFactor::Threads,
                format!("{threads} threads did not keep the processors, the log or the device busy"),
            )
        };
        Some(LimitAnalysis {
            limiter,
            reason,
            cpu_percent,
            commit_share,
            database_read_share,
            page_fault_stalls: stalls,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::counters::InstanceIo;
    use crate::measurement::open_loop::OpenLoopBacklog;

    /// Creates a one-second measurement of one thread with the given wait times in milliseconds.
    fn measured(commit_ms: u64, read_ms: u64) -> Measurement {
        let mut io = InstanceIo::default();
        io.database_read.record(32768, read_ms * 1000);
        let mut measured = Measurement { seconds: 1.0, io: vec![io], ..Measurement::default() };
        measured.tally.counts[0] = 1;
        measured.tally.durable_commits.record(commit_ms * 1000);
        measured
    }

    fn limiter(measured: &Measurement) -> LimitingFactor {
        LimitAnalysis::determine(measured, 1).unwrap().limiter
    }

    #[test]
    fn the_first_rule_that_holds_decides() {
        assert_eq!(limiter(&measured(700, 200)), LimitingFactor::LogFlush);
        assert_eq!(limiter(&measured(200, 700)), LimitingFactor::Device);
        assert_eq!(limiter(&measured(200, 200)), LimitingFactor::Threads);
        let mut stalled = measured(700, 200);
        stalled.cache.stalls = 3;
        assert_eq!(limiter(&stalled), LimitingFactor::Cache);
        stalled.host.cpu_percent = 97.0;
        assert_eq!(limiter(&stalled), LimitingFactor::OtherPrograms);
        stalled.host.process_cpu_percent = 60.0;
        assert_eq!(limiter(&stalled), LimitingFactor::Cpu);
        stalled.open_loop =
            Some(OpenLoopBacklog { target_rate: 10.0, due: 10, ..OpenLoopBacklog::default() });
        assert_eq!(limiter(&stalled), LimitingFactor::TargetRate);
        stalled.open_loop = Some(OpenLoopBacklog {
            target_rate: 10.0,
            due: 10,
            waiting: 9,
            behind_seconds: 0.9,
            not_completed: 9,
        });
        assert_eq!(limiter(&stalled), LimitingFactor::Cpu);
        assert_eq!(LimitAnalysis::determine(&Measurement::default(), 4), None);
    }
}
