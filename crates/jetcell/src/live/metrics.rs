//! `--metrics` option: serves the counters of a running command as OpenMetrics text over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tiny_http::{Header, Method, Request, Response, Server};

use crate::outcome::{CommandContext, CommandResult};

/// Maximum time to wait for a request before the server checks whether it must stop.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(200);

/// A server for metrics that runs until it is dropped.
pub struct MetricsServer {
    address: SocketAddr,
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Starts serving metrics at `address`.
    pub fn start(address: SocketAddr, metrics: Box<dyn Collector>) -> CommandResult<MetricsServer> {
        let server = Server::http(address)
            .context(format_args!("--metrics: cannot listen at {address}"))
            .advise("use a different address or port")?;
        let address = server.server_addr().to_ip().unwrap_or(address);
        let over = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&over);
        let mut registry = Registry::with_prefix("jetcell");
        registry.register_collector(metrics);
        let thread = std::thread::spawn(move || {
            while !asked.load(Ordering::SeqCst) {
                match server.recv_timeout(RECEIVE_TIMEOUT) {
                    // A client error does not affect the run.
                    Ok(Some(request)) => drop(respond(request, &registry)),
                    Ok(None) => {}
                    Err(_) => std::thread::sleep(RECEIVE_TIMEOUT),
                }
            }
        });
        Ok(MetricsServer { address, is_stopped: over, thread: Some(thread) })
    }

    /// Returns the URL of the metrics.
    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn respond(request: Request, registry: &Registry) -> std::io::Result<()> {
    let plain = |text: &str, status: u16| Response::from_string(text).with_status_code(status);
    let path = request.url().split('?').next().unwrap_or_default();
    if !matches!(request.method(), Method::Get | Method::Head) {
        return request.respond(plain("only GET is supported\n", 405));
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::live::monitor_observer::tests::measuring;
    use crate::live::{CopyFigures, CopyMetricsHandle, RunMetrics, RunMonitor};

    fn serve(address: &str, monitor: RunMonitor) -> CommandResult<MetricsServer> {
        MetricsServer::start(address.parse().unwrap(), Box::new(RunMetrics(monitor)))
    }

    fn fetch(server: &MetricsServer, request: &str) -> String {
        let mut stream = TcpStream::connect(server.address).unwrap();
        write!(stream, "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn counters_are_served_as_metrics() {
        let server = serve("127.0.0.1:0", measuring(3)).unwrap();
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
    fn queues_and_lag_of_a_copy_are_served() {
        let monitor = CopyMetricsHandle::default();
        let server = MetricsServer::start(([127, 0, 0, 1], 0).into(), Box::new(monitor.clone())).unwrap();
        assert!(!fetch(&server, "GET /metrics").contains("jetcell_copy"), "no copy exists yet");
        monitor.update(CopyFigures {
            copy: "/copy".into(),
            copied: 0x1B,
            replayed: 0x1A,
            copy_queue: 2,
            replay_queue: 1,
            lag_bytes: 3 << 20,
            lag_seconds: Some(7),
            ..CopyFigures::default()
        });
        let text = fetch(&server, "GET /metrics");
        for line in [
            "# TYPE jetcell_copy_queue_generations gauge",
            "jetcell_copy_queue_generations{copy=\"/copy\"} 2",
            "jetcell_copy_replay_queue_generations{copy=\"/copy\"} 1",
            "jetcell_copy_lag_generations{copy=\"/copy\"} 3",
            "jetcell_copy_lag_bytes{copy=\"/copy\"} 3145728",
            "jetcell_copy_lag_seconds{copy=\"/copy\"} 7",
            "jetcell_copy_copied_generation{copy=\"/copy\"} 27",
            "jetcell_copy_replayed_generation{copy=\"/copy\"} 26",
            "jetcell_copy_waiting{copy=\"/copy\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn only_metrics_requests_are_served() {
        let server = serve("127.0.0.1:0", RunMonitor::default()).unwrap();
        assert!(fetch(&server, "GET /").starts_with("HTTP/1.1 404"));
        assert!(fetch(&server, "POST /metrics").starts_with("HTTP/1.1 405"));
        assert!(fetch(&server, "\u{1}\u{2}").starts_with("HTTP/1.1 400"));
        assert!(fetch(&server, "GET /metrics?x=y").contains("jetcell_phase{phase=\"create\"} 0"));
    }

    #[test]
    fn an_unusable_address_is_refused() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let refusal = serve(&address, RunMonitor::default()).err().unwrap().full_text();
        assert!(refusal.starts_with(&format!("--metrics: cannot listen at {address}: ")), "{refusal}");
        // This address is reserved for documentation, so no host has it.
        let refusal = serve("192.0.2.1:0", RunMonitor::default()).err().unwrap().full_text();
        assert!(refusal.contains("cannot listen at 192.0.2.1:0"), "{refusal}");
    }
}
