//! What a run measures: plain values without behaviour of the load. Counters are read while the load runs; samples,
//! repetitions and latencies are computed from them; the analysis (steady state, limit) explains them.

mod array;
mod backup_counters;
mod better;
mod copy_counters;
mod counters;
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

use ese_engine::Error;

pub use array::{ArrayCounters, ArraySample};
pub use backup_counters::BackupCounters;
pub use better::Better;
pub use copy_counters::CopyCounters;
pub use counters::{CacheState, InstanceIo};
pub use defragmentation::DefragSummary;
pub(crate) use host::HostCounters;
pub use host::{DiskUse, HostUse};
pub use io::{IoRates, IoTotals};
pub use latency::{Latencies, LatencySummary, LatencyTable};
pub use limit::{Limit, Limiter};
pub use log_copies::LogCopies;
pub use maintenance_impact::TaskImpact;
pub use open_loop::OpenLoop;
pub(crate) use percentiles::Percentiles;
pub use repetition::{Interval, LatencyIntervals, Repetition, Repetitions};
pub use replay_counters::ReplayCounters;
pub use sample::{InstanceSample, Sample, SamplePercentiles};
pub use sample_file::{SampleFile, read_samples};
pub(crate) use saturation::{CONFIRMATIONS, LOWEST_RATE, broken};
pub use saturation::{Saturation, Step};
pub use scan::ScanSummary;
pub use snapshot::Snapshot;
pub use steady_state::SteadyState;
pub use tally::Tally;
pub use trend::{Trend, trends};
pub use verification::{FileVerification, Verification};

/// The figures of the measured time: what lies between its first and its last snapshot.
#[derive(Clone, Debug, Default)]
pub struct Measurement {
    /// Length of the measured time in seconds.
    pub seconds: f64,
    /// Length of the warm-up in seconds.
    pub warm_seconds: f64,
    /// I/O of each instance.
    pub io: Vec<InstanceIo>,
    /// The cache at the end; stalls are those of the measured time.
    pub cache: CacheState,
    /// The work of the load.
    pub tally: Tally,
    /// Samples of the measured time.
    pub samples: Vec<Sample>,
    /// The machine over the measured time.
    pub host: HostUse,
    /// The machine in each interval.
    pub host_samples: Vec<HostUse>,
    /// Arrays below the databases in each interval; none if they are on none.
    pub array_samples: Vec<ArraySample>,
    /// Figures of each repetition that was completed.
    pub repetitions: Vec<Repetition>,
    /// How well the load kept the target rate; `None` in a closed loop.
    pub open_loop: Option<OpenLoop>,
    /// The search for the highest rate, if there was one.
    pub saturation: Option<Saturation>,
    /// Whether the measurement had its full length.
    pub complete: bool,
    /// The error that ended the load early.
    pub failure: Option<Error>,
}
