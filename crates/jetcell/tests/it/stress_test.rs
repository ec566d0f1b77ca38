//! Tests of `jetcell test stress` with the real engine, and of the simulated log reads of additional copies.

use std::fs;

use serde_json::Value;

use crate::cell::CellDirectory;
use crate::runs::wait_until;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn lines(cell: &CellDirectory, file: &str) -> Vec<String> {
    fs::read_to_string(cell.path(file)).unwrap_or_default().lines().map(str::to_string).collect()
}

#[test]
fn a_resumed_stress_test_is_marked_in_the_result() {
    let cell = CellDirectory::with_limits();
    let begin = ["test", "stress", "--config", "wide.toml", "--dir", "d", "--output", "out"];
    let begin = [&begin[..], &["--duration", "8s", "--sample-interval", "250ms"]].concat();
    let mut child = cell.program(&begin).stderr(std::process::Stdio::null()).spawn().unwrap();
    let at = || -> Vec<f64> {
        let times = lines(&cell, "out/samples.csv").into_iter().skip(1);
        times.filter_map(|line| line.split(',').next()?.parse().ok()).collect()
    };
    wait_until("four seconds of load", || at().last().is_some_and(|at| *at >= 4.0));
    child.kill().unwrap();
    child.wait().unwrap();
    let killed_at = *at().last().unwrap();

    let refused = cell.program_refused(&["test", "stress", "--dir", "d", "--open"]);
    assert!(
        refused.contains("a stress test was interrupted after")
            && refused.contains("continue it with --resume")
    );

    let output =
        cell.program(&["test", "stress", "--dir", "d", "--resume", "--json", "--quiet"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*stderr), (Some(0), ""));
    let result = json(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(result["test"], "stress");
    let parts = result["parts"].as_array().unwrap();
    let of_parts: f64 = parts.iter().map(|part| part["measured_seconds"].as_f64().unwrap()).sum();
    let whole = result["measured_seconds"].as_f64().unwrap();
    assert_eq!(parts.len(), 2, "{parts:?}");
    // The state is stored every second, but the test machine may be busy.
    let missing = parts[0]["missing_seconds"].as_f64().unwrap();
    let kept = parts[0]["measured_seconds"].as_f64().unwrap();
    assert!(kept >= killed_at - 2.5 && (0.5..2.5).contains(&missing), "{killed_at} {parts:?}");
    assert!((whole - of_parts).abs() < 0.5 && (8.0..11.0).contains(&whole), "{whole} {parts:?}");
    assert_eq!(result["configuration"]["thresholds"]["maximum_database_read_ms"], 10000.0);
    assert!(!cell.path("d/jetcell-stress.json").exists() && !cell.path("d/jetcell-stress.jsonl").exists());
    // Samples of both parts form one sequence, and the distributions include both parts.
    let at = at();
    assert!(at.windows(2).all(|pair| pair[0] < pair[1]) && at.len() > 20, "{at:?}");
    assert!((at.last().unwrap() - whole).abs() < 1.0, "{at:?} {whole}");
    assert_eq!(result["trends"].as_array().unwrap().len(), 5);
    // Every page was verified at the end.
    assert!(result["verification"]["files"].as_array().unwrap().iter().all(|file| file["bad"] == 0));
    let events: Vec<Value> = lines(&cell, "out/events.jsonl").iter().map(|line| json(line)).collect();
    let count = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    assert_eq!((count("run_started"), count("run_continued"), count("run_ended")), (2, 1, 1));
    assert!(
        events.iter().any(|event| event["phase"] == "verify")
            && events.iter().all(|event| event["at"].is_string())
    );
    let page = fs::read_to_string(cell.path("out/report.html")).unwrap();
    for text in [
        "Jetcell stress test",
        "The test was interrupted once and continued",
        "Missing at most",
        "Trends over the Run",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn only_a_stopped_stress_test_can_be_continued() {
    let cell = CellDirectory::with_limits();
    let refused = cell.program_refused(&["test", "stress", "--dir", "d", "--resume"]);
    assert!(refused.contains("does not contain partially created databases"), "{refused}");
    assert!(
        cell.program_refused(&["test", "stress", "--dir", "d", "--find-max"]).contains("unexpected argument")
    );
    cell.write("d/jetcell-stress.json", "{");
    let refused = cell.program_refused(&["test", "stress", "--dir", "d", "--resume"]);
    assert!(refused.contains("jetcell-stress.json is damaged"), "{refused}");
}

#[test]
fn log_reads_for_additional_copies_match_the_jetstress_pattern() {
    let cell = CellDirectory::with_limits();
    let result = cell.run("out", 0, &["--dir", "d", "--copies", "3", "--duration", "4s"]);
    let row = &result["instances"][0];
    let rate = row["Log Replication I/O Log Reads/sec"].as_f64().unwrap();
    let bytes = row["Log Replication I/O Log Reads Average Bytes"].as_f64().unwrap();
    // At both ends of the measured time, a log may have been read only in part.
    assert!(rate > 0.0 && (bytes / (2_093_056.0 / 9.0) - 1.0).abs() < 0.05, "{rate} {bytes}");
    let copies = &result["copies"][0];
    assert!(copies["logs"].as_u64().unwrap() > 0 && copies["missed"] == 0, "{copies}");
    assert_eq!(row["I/O Log Reads/sec"], 0.0);
    let page = fs::read_to_string(cell.path("out/report.html")).unwrap();
    assert!(page.contains("9 reads and 2,093,056 bytes"));
}
