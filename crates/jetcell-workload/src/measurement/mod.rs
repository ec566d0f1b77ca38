//! Measurements of a run. The types are plain data and do not depend on the load. Counters are read while the load
//! runs. Samples, repetitions and latencies are computed from them, and the analysis (steady state, limiting factor)
//! interprets the results.

mod array;
mod backup_counters;
mod better;
mod change;
mod copy_counters;
mod counters;
mod damage;
mod defragmentation;
mod host;
mod io;
mod latency;
mod limit;
mod log_copies;
mod maintenance_impact;
mod open_loop;
mod percentiles;
mod repetition;
mod replay_counters;
mod sample;
mod sample_file;
mod saturation;
mod scan;
mod snapshot;
mod steady_state;
mod tally;
mod trend;
mod verification;

use crate::error::Error;

pub use array::{ArrayCounters, ArraySample};
pub use backup_counters::BackupCounters;
pub use better::BetterDirection;
pub use change::{Change, RepeatedFigure, winner};
pub use copy_counters::CopyCounters;
pub use counters::{CacheUsage, InstanceIo};
pub(crate) use damage::{CountingSink, DamageTally, StorageFailure};
pub use damage::{DamageCount, PageDamageCounts};
pub use defragmentation::DefragSummary;
pub(crate) use host::HostCounters;
pub use host::{DiskUsage, HostUsage};
pub use io::{IoRates, IoTotals};
pub use latency::{LatencyHistogram, LatencySummary, LatencyTable};
pub use limit::{LimitAnalysis, LimitingFactor};
pub use log_copies::LogCopySummary;
pub use maintenance_impact::TaskImpact;
pub use open_loop::OpenLoopBacklog;
pub(crate) use percentiles::LatencyPercentiles;
pub use repetition::{ConfidenceInterval, LatencyIntervals, Repetition, Repetitions};
pub use replay_counters::ReplayCounters;
pub use sample::{InstanceSample, Sample, SamplePercentiles};
pub use sample_file::{SampleFile, read_samples};
pub(crate) use saturation::{CONFIRMATIONS, MIN_RATE, first_broken_rule};
pub use saturation::{SaturationSearch, SaturationStep};
pub use scan::ScanSummary;
pub use snapshot::CounterSnapshot;
pub use steady_state::SteadyState;
pub use tally::LoadTally;
pub use trend::{Trend, trends};
pub use verification::{FileVerification, VerificationResult};

/// Results for the measured interval, between its first and last snapshot.
#[derive(Clone, Debug, Default)]
pub struct Measurement {
    /// Length of the measured interval in seconds.
    pub seconds: f64,
    /// Length of the warm-up in seconds.
    pub warm_seconds: f64,
    /// I/O of each instance.
    pub io: Vec<InstanceIo>,
    /// State of the cache at the end. The number of stalls covers only the measured interval.
    pub cache: CacheUsage,
    /// Work done by the load.
    pub tally: LoadTally,
    /// Damage to pages that the engine detected in the whole run.
    pub damage: PageDamageCounts,
    /// Samples taken during the measured interval.
    pub samples: Vec<Sample>,
    /// The machine's resource usage over the measured interval.
    pub host: HostUsage,
    /// The machine's resource usage in each interval.
    pub host_samples: Vec<HostUsage>,
    /// Array activity in each interval. Empty if no database is on an array.
    pub array_samples: Vec<ArraySample>,
    /// Results of each completed repetition.
    pub repetitions: Vec<Repetition>,
    /// Comparison of the load with its target rate, or `None` in a closed loop.
    pub open_loop: Option<OpenLoopBacklog>,
    /// Search for the highest rate, if the run included one.
    pub saturation: Option<SaturationSearch>,
    /// Whether the measurement ran for its full length.
    pub complete: bool,
    /// The error that ended the load early.
    pub failure: Option<Error>,
}
