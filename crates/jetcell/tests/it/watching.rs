//! Tests of the metrics of a running test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::cell::CellDirectory;

pub fn fetch(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text.split_once("\r\n\r\n")?.1.to_string())
}

/// Returns the value of a series. Labels are part of its name.
pub fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

/// Checks the format: every sample belongs to a family that is declared before it, and the end marker exists.
pub fn check_open_metrics(text: &str) {
    assert!(text.ends_with("# EOF\n"), "{text}");
    let mut family = ("", "");
    for line in text.lines().take_while(|line| *line != "# EOF") {
        if let Some(announced) = line.strip_prefix("# TYPE ") {
            family = announced.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram", "info"].contains(&family.1), "{line}");
        } else if !line.starts_with('#') {
            let (name, rest) = line.split_at(line.find(['{', ' ']).unwrap());
            let suffix = name.strip_prefix(family.0).unwrap_or_else(|| panic!("{line} is not of {family:?}"));
            let allowed: &[&str] = match family.1 {
                "counter" => &["_total"],
                "gauge" => &[""],
                "info" => &["_info"],
                _ => &["_bucket", "_count", "_sum"],
            };
            assert!(allowed.contains(&suffix), "{line} in a {}", family.1);
            assert!(rest.rsplit(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
        }
    }
}

#[test]
fn the_counters_are_served_during_the_run() {
    let cell = CellDirectory::new();
    cell.make_dir("d");
    // The cache is smaller than the database, so the run reads until it ends.
    let arguments = "--dir d --size 32MiB --cache 8MiB --duration 4s --metrics 0 --output out"
        .split(' ')
        .collect::<Vec<_>>();
    let mut run = cell.command(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(run.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("Metrics: http://").unwrap().strip_suffix("/metrics").unwrap();
    assert!(address.starts_with("127.0.0.1:"), "{address}");

    let measuring = "jetcell_phase{phase=\"measure\"}";
    let reads = "jetcell_io_latency_seconds_count{instance=\"1\",kind=\"database_read\"}";
    let mut seen: Vec<f64> = Vec::new();
    let began = Instant::now();
    while run.try_wait().unwrap().is_none() && began.elapsed() < Duration::from_secs(120) {
        if let Some(text) = fetch(address) {
            check_open_metrics(&text);
            if value(&text, measuring) == Some(1.0) {
                seen.extend(value(&text, reads));
            }
        }
        std::thread::sleep(Duration::from_millis(300));
    }
    assert!(run.wait().unwrap().code().is_some_and(|code| code < 2));
    assert!(seen.len() >= 3 && seen.is_sorted() && seen[0] < seen[seen.len() - 1], "{seen:?}");
    assert!(cell.path("out/result.json").exists());
    assert!(fetch(address).is_none(), "the server outlives the run");
}
