//! `--metrics` of a coordinator: live figures of all hosts as OpenMetrics.

use std::fmt;
use std::sync::Arc;

use jetcell_fleet::{Coordinator, Member};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// One host at one time.
struct HostFigures {
    rank: String,
    host: String,
    /// A value for each of [`FIGURES`]; `None` while there is none.
    values: [Option<f64>; FIGURES.len()],
}

type Figure = fn(&Coordinator, &Member) -> Option<f64>;

/// Name, help and value of each metric.
const FIGURES: [(&str, &str, Figure); 6] = [
    ("fleet_transactional_iops", "Database reads and writes per second", |_, host| {
        Some(host.beat().live?.iops)
    }),
    ("fleet_database_bytes_per_second", "Bytes of these", |_, host| Some(host.beat().live?.bytes_per_second)),
    ("fleet_database_read_seconds", "Mean latency of database reads", |_, host| {
        Some(host.beat().live?.read_ms / 1e3)
    }),
    ("fleet_log_write_seconds", "Mean latency of log writes", |_, host| {
        Some(host.beat().live?.log_write_ms / 1e3)
    }),
    ("fleet_host_lost", "1 if the host is lost", |_, host| Some(f64::from(u8::from(host.lost().is_some())))),
    ("fleet_host_silence_seconds", "Time since the last message", |fleet, host| {
        Some(fleet.silence(host).as_secs_f64())
    }),
];

/// The hosts of a fleet, for metrics. Clones share them.
#[derive(Clone, Default)]
pub struct FleetMonitor(Arc<Mutex<Vec<HostFigures>>>);

impl fmt::Debug for FleetMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FleetMonitor of {} hosts", self.0.lock().len())
    }
}

impl FleetMonitor {
    /// The hosts are like this now.
    pub fn set(&self, fleet: &Coordinator) {
        let figures = |host: &Member| HostFigures {
            rank: host.rank().to_string(),
            host: host.beat().name.clone(),
            values: FIGURES.map(|(.., figure)| figure(fleet, host)),
        };
        *self.0.lock() = fleet.members().map(figures).collect();
    }
}

impl Collector for FleetMonitor {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let hosts = self.0.lock();
        for (at, (name, help, _)) in FIGURES.iter().enumerate() {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for host in hosts.iter() {
                let Some(value) = host.values[at] else { continue };
                let labels = [("rank", host.rank.as_str()), ("host", host.host.as_str())];
                ConstGauge::new(value).encode(metric.encode_family(&labels.as_slice())?)?;
            }
        }
        Ok(())
    }
}
