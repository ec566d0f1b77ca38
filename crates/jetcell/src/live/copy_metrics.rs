//! Metrics of passive copies: queues, lag and state.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use jetcell_copies::{CopyStatus, Replicator};
use jetcell_vfs::{Clock, RealClock};
use jetcell_workload::measurement::CopyCounters;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// A copy's metrics at one point in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyFigures {
    /// Directory of the copy.
    pub copy: String,
    /// Newest generation that has been copied.
    pub copied: u32,
    /// Newest generation that has been replayed.
    pub replayed: u32,
    /// Number of closed generations that have not been copied yet.
    pub copy_queue: u32,
    /// Number of generations that have been copied but not replayed.
    pub replay_queue: u32,
    /// Size in bytes of the logs in both queues.
    pub lag_bytes: u64,
    /// Age in seconds of the newest state that the copy contains completely. `None` if it is unknown.
    pub lag_seconds: Option<u64>,
    /// Seconds since the last contact with the active side. `None` before the first contact, and in a test.
    pub contact_seconds: Option<u64>,
    /// True if the current log is streamed while it is being written.
    pub block_mode: bool,
    /// True if the copy waits for the active side, for space, or for a backup.
    pub waiting: bool,
}

impl CopyFigures {
    /// Returns the figures for a copy that is replayed by this process.
    pub fn from_replication(directory: &Path, copy: &Replicator, waiting: bool) -> CopyFigures {
        let state = copy.state();
        let now = RealClock::new().unix_ms();
        let status = CopyStatus::examine(copy.vfs(), state, None, now);
        let age = |contact: i64| now.saturating_sub(contact).max(0).unsigned_abs() / 1000;
        CopyFigures {
            copy: directory.display().to_string(),
            copied: state.next.saturating_sub(1),
            replayed: state.replayed,
            copy_queue: status.copy_queue,
            replay_queue: status.replay_queue,
            lag_bytes: status.lag.bytes,
            lag_seconds: status.lag.seconds,
            contact_seconds: status.contact_unix_ms.map(age),
            block_mode: copy.is_in_block_mode(),
            waiting,
        }
    }

    /// Returns the figures of a copy in a test.
    pub fn from_test_counters(copy: &CopyCounters) -> CopyFigures {
        CopyFigures {
            copy: copy.directory.display().to_string(),
            copied: copy.next.saturating_sub(1),
            replayed: copy.next.saturating_sub(1).saturating_sub(copy.replay_queue),
            copy_queue: copy.copy_queue,
            replay_queue: copy.replay_queue,
            lag_bytes: copy.lag_bytes,
            lag_seconds: copy.lag_seconds,
            contact_seconds: None,
            block_mode: copy.next_bytes > 0,
            waiting: copy.waiting.is_some(),
        }
    }
}

/// Shared metrics of the copy that a command replays. Clones share the figures.
#[derive(Clone, Debug, Default)]
pub struct CopyMetricsHandle(Arc<Mutex<Option<CopyFigures>>>);

impl CopyMetricsHandle {
    /// Updates the figures.
    pub fn update(&self, figures: CopyFigures) {
        *self.0.lock() = Some(figures);
    }
}

impl Collector for CopyMetricsHandle {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let copies: Vec<CopyFigures> = self.0.lock().clone().into_iter().collect();
        encode_copy_metrics(&mut encoder, &copies)
    }
}

type CopyMetricReader = fn(&CopyFigures) -> Option<u64>;

/// Name, help text, unit and value of each metric.
const COPY_METRICS: [(&str, &str, &str, CopyMetricReader); 10] = [
    ("copy_queue", "Closed generations that the copy does not have", "generations", |copy| {
        Some(copy.copy_queue.into())
    }),
    ("copy_replay_queue", "Generations that the copy has received but not replayed", "generations", |copy| {
        Some(copy.replay_queue.into())
    }),
    ("copy_lag", "Closed generations that were not replayed", "generations", |copy| {
        Some(u64::from(copy.copy_queue) + u64::from(copy.replay_queue))
    }),
    ("copy_lag", "Bytes in closed logs that were not replayed", "bytes", |copy| Some(copy.lag_bytes)),
    ("copy_lag", "Age of the newest state that the copy contains completely", "seconds", |copy| {
        copy.lag_seconds
    }),
    ("copy_contact_age", "Time since the last contact with the active side", "seconds", |copy| {
        copy.contact_seconds
    }),
    ("copy_copied_generation", "The newest generation that the copy has", "", |copy| {
        Some(copy.copied.into())
    }),
    ("copy_replayed_generation", "The newest generation that was replayed", "", |copy| {
        Some(copy.replayed.into())
    }),
    ("copy_block_mode", "1 while the current log is received as it is written", "", |copy| {
        Some(copy.block_mode.into())
    }),
    ("copy_waiting", "1 while the copy waits: for the active side, for space, or for a backup", "", |copy| {
        Some(copy.waiting.into())
    }),
];

/// Encodes the figures of copies. Writes nothing if there are no copies.
pub fn encode_copy_metrics(encoder: &mut DescriptorEncoder, copies: &[CopyFigures]) -> fmt::Result {
    if copies.is_empty() {
        return Ok(());
    }
    for (name, help, unit, figure) in COPY_METRICS {
        let unit = (!unit.is_empty()).then(|| Unit::Other(unit.to_string()));
        let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        for copy in copies {
            let Some(value) = figure(copy) else { continue };
            let labels = [("copy", copy.copy.as_str())];
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            ConstGauge::new(value).encode(metric.encode_family(&labels.as_slice())?)?;
        }
    }
    Ok(())
}
