//! `--metrics` option of a coordinator: exports live figures for all hosts as OpenMetrics.

use std::fmt;

use jetcell_fleet::HostActivity;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::monitor::{FleetMonitor, HostState};

type HostMetricReader = fn(&HostState) -> Option<f64>;

/// Name, help text and value of each metric. The value is `None` while it is not available.
const HOST_METRICS: [(&str, &str, HostMetricReader); 6] = [
    ("fleet_transactional_iops", "Database reads and writes per second", |host| Some(host.live?.iops)),
    ("fleet_database_bytes_per_second", "Bytes per second of database reads and writes", |host| {
        Some(host.live?.bytes_per_second)
    }),
    ("fleet_database_read_seconds", "Mean latency of database reads", |host| Some(host.live?.read_ms / 1e3)),
    ("fleet_log_write_seconds", "Mean latency of log writes", |host| Some(host.live?.log_write_ms / 1e3)),
    ("fleet_host_lost", "1 if the host has timed out", |host| {
        Some(f64::from(u8::from(host.activity == HostActivity::Lost)))
    }),
    ("fleet_host_silence_seconds", "Time since the last message", |host| Some(host.silence.as_secs_f64())),
];

impl fmt::Debug for FleetMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FleetMonitor of {} hosts", self.state().hosts.len())
    }
}

impl Collector for FleetMonitor {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let state = self.state();
        for (name, help, figure) in HOST_METRICS {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for host in &state.hosts {
                let Some(value) = figure(host) else { continue };
                let rank = host.rank.to_string();
                let labels = [("rank", rank.as_str()), ("host", host.name.as_str())];
                ConstGauge::new(value).encode(metric.encode_family(&labels.as_slice())?)?;
            }
        }
        Ok(())
    }
}
