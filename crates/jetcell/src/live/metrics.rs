//! `--metrics`: serves the counters of a running test as OpenMetrics text over HTTP.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use jetcell_workload::Phase;
use jetcell_workload::measurement::{InstanceIo, IoTotals};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use tiny_http::{Header, Method, Request, Response, Server};

use super::Monitor;
use crate::outcome::Failure;

/// Longest wait for a request before the server checks whether it must end.
const PATIENCE: Duration = Duration::from_millis(200);

/// Upper bounds of the latency histograms in microseconds.
const BUCKETS_US: [u64; 13] =
    [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 1_000_000];

/// Serves until dropped.
pub struct MetricsServer {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens at `address`: `9100`, `192.0.2.1:9100`, `[::1]:9100`. A port without an address is on the loopback interface.
    pub fn start(address: &str, monitor: Monitor) -> Result<MetricsServer, Failure> {
        let wanted = resolve(address)?;
        let server = Server::http(wanted).map_err(|error| {
            format!("--metrics {address}: cannot listen at {wanted}: {error}; give another address or port")
        })?;
        let address = server.server_addr().to_ip().unwrap_or(wanted);
        let over = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&over);
        let mut registry = Registry::with_prefix("jetcell");
        registry.register_collector(Box::new(Counters(monitor)));
        let thread = std::thread::spawn(move || {
            while !asked.load(Ordering::SeqCst) {
                match server.recv_timeout(PATIENCE) {
                    // An error of a client does not affect the run.
                    Ok(Some(request)) => drop(answer(request, &registry)),
                    Ok(None) => {}
                    Err(_) => std::thread::sleep(PATIENCE),
                }
            }
        });
        Ok(MetricsServer { address, over, thread: Some(thread) })
    }

    /// The address of the metrics.
    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn resolve(address: &str) -> Result<SocketAddr, Failure> {
    let port = address.strip_prefix(':').unwrap_or(address);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    let wrong = || {
        Failure::from(format!(
            "--metrics {address} is no address; write PORT or ADDRESS:PORT, for example 9100 or 0.0.0.0:9100"
        ))
    };
    address.to_socket_addrs().ok().and_then(|mut found| found.next()).ok_or_else(wrong)
}

fn answer(request: Request, registry: &Registry) -> std::io::Result<()> {
    let plain = |text: &str, status: u16| Response::from_string(text).with_status_code(status);
    let path = request.url().split('?').next().unwrap_or_default();
    if !matches!(request.method(), Method::Get | Method::Head) {
        return request.respond(plain("only GET is answered\n", 405));
    }
    if path != "/metrics" {
        return request.respond(plain("the counters are at /metrics\n", 404));
    }
    let mut text = String::new();
    if encode(&mut text, registry).is_err() {
        return request.respond(plain("the counters cannot be written\n", 500));
    }
    let kind = b"application/openmetrics-text; version=1.0.0; charset=utf-8";
    let kind = Header::from_bytes(b"Content-Type", kind).expect("the header is constant");
    request.respond(Response::from_string(text).with_header(kind))
}

/// Encodes the state of the run at each request.
#[derive(Debug)]
struct Counters(Monitor);

const PHASES: [(Phase, &str); 8] = [
    (Phase::Examine, "examine"),
    (Phase::Create, "create"),
    (Phase::Attach, "attach"),
    (Phase::Warm, "warm"),
    (Phase::Search, "search"),
    (Phase::Measure, "measure"),
    (Phase::Shutdown, "shutdown"),
    (Phase::Verify, "verify"),
];

type Kind = (&'static str, fn(&InstanceIo) -> &IoTotals);

const KINDS: [Kind; 5] = [
    ("database_read", |io| &io.database_read),
    ("database_write", |io| &io.database_write),
    ("log_read", |io| &io.log_read),
    ("log_write", |io| &io.log_write),
    ("log_format", |io| &io.log_format),
];

impl Collector for Counters {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let state = self.0.state();
        let info = [("version", env!("CARGO_PKG_VERSION"))];
        encoder
            .encode_descriptor("build", "The program that runs", None, MetricType::Info)?
            .encode_info(&info.as_slice())?;

        let help = "1 for the current phase of the run, 0 for the others";
        let mut phases = encoder.encode_descriptor("phase", help, None, MetricType::Gauge)?;
        for (phase, name) in PHASES {
            let labels = [("phase", name)];
            phases.encode_family(&labels.as_slice())?.encode_gauge(&i64::from(state.phase == Some(phase)))?;
        }
        gauge(
            &mut encoder,
            "phase_progress",
            "Share of the phase that is done",
            Some(Unit::Ratios),
            state.fraction(),
        )?;
        if let Some(left) = state.remaining() {
            let help = "Estimated time until the end of the phase";
            gauge(&mut encoder, "phase_remaining", help, Some(Unit::Seconds), left.as_secs_f64())?;
        }
        let Some(counters) = &state.counters else { return Ok(()) };

        counter(&mut encoder, "operations", "Operations of the load", counters.operations)?;
        counter(
            &mut encoder,
            "page_fault_stalls",
            "Waits of the load for a free cache page",
            counters.cache.stalls,
        )?;
        let used = counters.cache.used_bytes as f64;
        gauge(&mut encoder, "cache_used", "Cache that holds pages", Some(Unit::Bytes), used)?;
        let limit = counters.cache.limit_bytes as f64;
        gauge(&mut encoder, "cache_limit", "Cache that may be used", Some(Unit::Bytes), limit)?;

        let instances = || counters.io.iter().enumerate().map(|(index, io)| ((index + 1).to_string(), io));
        let help = "Transfers of any kind that failed";
        let mut errors = encoder.encode_descriptor("io_errors", help, None, MetricType::Counter)?;
        for (instance, io) in instances() {
            let labels = [("instance", instance.as_str())];
            ConstCounter::new(io.errors).encode(errors.encode_family(&labels.as_slice())?)?;
        }
        let help = "Bytes that were transferred";
        let mut bytes = encoder.encode_descriptor("io", help, Some(&Unit::Bytes), MetricType::Counter)?;
        for (instance, io) in instances() {
            for (kind, totals) in KINDS {
                let labels = [("instance", instance.as_str()), ("kind", kind)];
                ConstCounter::new(totals(io).bytes).encode(bytes.encode_family(&labels.as_slice())?)?;
            }
        }
        let help = "Latency of transfers; the count of the histogram is their number";
        let mut latency =
            encoder.encode_descriptor("io_latency", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (instance, io) in instances() {
            for (kind, totals) in KINDS {
                let labels = [("instance", instance.as_str()), ("kind", kind)];
                let totals = totals(io);
                latency.encode_family(&labels.as_slice())?.encode_histogram::<NoLabelSet>(
                    totals.latency_us as f64 / 1e6,
                    totals.operations,
                    &buckets(totals),
                    None,
                )?;
            }
        }
        Ok(())
    }
}

/// Transfers by latency. The last bucket has the rest, so that the sum of all buckets is the count.
fn buckets(totals: &IoTotals) -> Vec<(f64, u64)> {
    let mut below = 0;
    let mut buckets: Vec<(f64, u64)> = Vec::with_capacity(BUCKETS_US.len() + 1);
    for bound in BUCKETS_US {
        let at_most = totals.latencies.at_most(bound).clamp(below, totals.operations.max(below));
        buckets.push((bound as f64 / 1e6, at_most - below));
        below = at_most;
    }
    buckets.push((f64::INFINITY, totals.operations - below.min(totals.operations)));
    buckets
}

fn gauge(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    unit: Option<Unit>,
    value: f64,
) -> fmt::Result {
    let metric = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
    ConstGauge::new(value).encode(metric)
}

fn counter(encoder: &mut DescriptorEncoder, name: &str, help: &str, value: u64) -> fmt::Result {
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    ConstCounter::new(value).encode(metric)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::live::watcher::tests::measuring;

    fn fetch(server: &MetricsServer, request: &str) -> String {
        let mut stream = TcpStream::connect(server.address).unwrap();
        write!(stream, "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn the_counters_are_served() {
        let server = MetricsServer::start("0", measuring(3)).unwrap();
        assert!(server.url().starts_with("http://127.0.0.1:"), "{}", server.url());
        let text = fetch(&server, "GET /metrics");
        for line in [
            "HTTP/1.1 200 OK",
            "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8",
            "# TYPE jetcell_build info",
            "jetcell_phase{phase=\"measure\"} 1",
            "jetcell_phase{phase=\"verify\"} 0",
            "jetcell_phase_progress_ratios 0.05",
            "jetcell_phase_remaining_seconds 57.0",
            "# TYPE jetcell_operations counter",
            "jetcell_operations_total 150",
            "jetcell_page_fault_stalls_total 3",
            "# UNIT jetcell_cache_used_bytes bytes",
            "jetcell_io_errors_total{instance=\"2\"} 0",
            "jetcell_io_bytes_total{instance=\"1\",kind=\"database_read\"} 983040",
            "# TYPE jetcell_io_latency_seconds histogram",
            "jetcell_io_latency_seconds_count{instance=\"1\",kind=\"log_write\"} 30",
            "jetcell_io_latency_seconds_bucket{le=\"0.001\",instance=\"1\",kind=\"database_read\"} 0",
            "jetcell_io_latency_seconds_bucket{le=\"0.0025\",instance=\"1\",kind=\"database_read\"} 30",
            "jetcell_io_latency_seconds_bucket{le=\"+Inf\",instance=\"1\",kind=\"database_read\"} 30",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(text.trim_end().ends_with("# EOF"));
    }

    #[test]
    fn only_the_metrics_are_answered() {
        let server = MetricsServer::start(":0", Monitor::default()).unwrap();
        assert!(fetch(&server, "GET /").starts_with("HTTP/1.1 404"));
        assert!(fetch(&server, "POST /metrics").starts_with("HTTP/1.1 405"));
        assert!(fetch(&server, "\u{1}\u{2}").starts_with("HTTP/1.1 400"));
        assert!(fetch(&server, "GET /metrics?x=y").contains("jetcell_phase{phase=\"create\"} 0"));
    }

    #[test]
    fn an_unusable_address_is_refused() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port().to_string();
        let refusal = MetricsServer::start(&port, Monitor::default()).err().unwrap().to_string();
        assert!(
            refusal.starts_with(&format!("--metrics {port}: cannot listen at 127.0.0.1:{port}")),
            "{refusal}"
        );
        for nonsense in ["", "host", "70000", "1.2.3.4", "1.2.3.4:x", "::1"] {
            let refusal = MetricsServer::start(nonsense, Monitor::default()).err().unwrap().to_string();
            assert!(refusal.contains("write PORT or ADDRESS:PORT"), "{refusal}");
        }
        // An address for documentation, which no host has.
        let refusal = MetricsServer::start("192.0.2.1:0", Monitor::default()).err().unwrap().to_string();
        assert!(refusal.contains("cannot listen at 192.0.2.1:0"), "{refusal}");
    }
}
