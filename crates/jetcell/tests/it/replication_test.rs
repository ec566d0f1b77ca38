//! Tests of `jetcell test replication` with the real engine.

use std::fs;

use serde_json::Value;

use crate::cell::CellDirectory;

const SMALL: &str =
    "size = '32MiB'\ncache = '16MiB'\nthreads = 2\nsample_interval = '200ms'\nrate = 60.0\nduration = '3s'\n";

/// Runs a replication test. On a busy machine the copies may not catch up; the run is then incomplete.
#[track_caller]
fn replicated(cell: &CellDirectory, output: &str, arguments: &[&str]) -> Value {
    let words = ["test", "replication", "--config", "small.toml", "--output", output, "--json", "--quiet"];
    let finished = cell.program(&[&words, arguments].concat()).output().unwrap();
    let stderr = String::from_utf8_lossy(&finished.stderr);
    assert!(matches!(finished.status.code(), Some(0 | 1)), "{stderr}");
    let result: Value = serde_json::from_slice(&finished.stdout).unwrap();
    assert_eq!(result["test"], "replication");
    for rule in result["rules"].as_array().unwrap() {
        let of_load = rule["name"].as_str().unwrap().starts_with("Measured enough");
        assert!(of_load || rule["passed"] == true, "{rule}");
    }
    result
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

#[test]
fn both_copy_kinds_follow_a_load_and_clean_up() {
    let cell = CellDirectory::with_limits();
    cell.write("small.toml", SMALL);
    let result = replicated(&cell, "both", &["--dir", "d", "--copy-dir", "other"]);
    let replication = &result["replication"];
    let copies = replication["copies"].as_array().unwrap();
    let kinds: Vec<bool> = copies.iter().map(|copy| copy["keep_instance"].as_bool().unwrap()).collect();
    assert_eq!(kinds, [true, false]);
    assert!(copies.iter().all(|copy| copy["failure"].is_null() && number(&copy["logs"]) > 0), "{copies:?}");
    let steady = &replication["steady"];
    assert!(steady["seconds"].as_f64().unwrap() > 1.0, "{steady}");
    assert!(number(&steady["active"]["log_writes"]) > 0 && steady["copies"].as_array().unwrap().len() == 2);
    let samples = replication["samples"].as_array().unwrap();
    assert!(samples.len() > 5 && samples[0]["at_seconds"].as_f64().unwrap() < 1.0, "{samples:?}");
    // A copy with logs in its queues lags.
    let copies = samples.iter().flat_map(|sample| sample["copies"].as_array().unwrap());
    let has_queue = |copy: &&Value| number(&copy["copy_queue"]) + number(&copy["replay_queue"]) > 0;
    let queued: Vec<&Value> = copies.filter(has_queue).collect();
    assert!(!queued.is_empty(), "no copy had a queue: {samples:?}");
    assert!(queued.iter().all(|copy| copy["lag_seconds"] != 0), "{samples:?}");
    // The copies, and the files that the databases retained for them, were removed.
    assert_eq!(fs::read_dir(cell.path("other")).unwrap().count(), 0);
    let names = fs::read_dir(cell.path("d/log001")).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().ends_with(".copy")).collect();
    assert!(left.is_empty(), "{left:?}");
    let page = fs::read_to_string(cell.path("both/report.html")).unwrap();
    for text in
        ["Jetcell replication test", "Passive I/O over Active I/O", "Replication over time", "Copy queue"]
    {
        assert!(page.contains(text), "{text}");
    }
    // One set of copies in block mode, under a load whose newest logs may be lost.
    let only = ["--dir", "d", "--open", "--keep-instance=false", "--copies", "2", "--mode", "block"];
    let only = [&only[..], &["--waypoint-latency", "2"]].concat();
    let thrown = replicated(&cell, "thrown", &only);
    let missing = |result: &Value| result["replication"]["steady"]["missing_log"].clone();
    let streamed = |result: &Value| number(&missing(result)[0]["streamed_bytes"]);
    assert!(streamed(&result) == 0 && streamed(&thrown) > 4096, "{}", missing(&thrown));
    assert!(number(&missing(&result)[0]["most_bytes"]) >= number(&missing(&result)[0]["mean_bytes"]));
    assert!(number(&missing(&result)[0]["mean_bytes"]) > 0, "{}", missing(&result));
    assert_eq!(thrown["plan"]["waypoint_latency"], 2);
    let page = fs::read_to_string(cell.path("thrown/report.html")).unwrap();
    for text in ["Log Missing on the Copies", "Log that arrived as it was written", "Waypoint Latency (logs)"]
    {
        assert!(page.contains(text), "{text}");
    }
    let events = fs::read_to_string(cell.path("thrown/events.jsonl")).unwrap();
    assert!(events.contains("block_mode_began"), "{events}");
    let kinds = thrown["replication"]["copies"].as_array().unwrap().iter();
    assert!(kinds.clone().count() == 2 && kinds.clone().all(|copy| copy["keep_instance"] == false));
    let output = cell.program(&["compare", "both", "thrown"]).output().unwrap();
    let compared = String::from_utf8(output.stdout).unwrap();
    for text in [
        "Passive over active I/O, discarded, steady",
        "Log missing on a copy, mean",
        "waypoint_latency",
        "copy_mode",
    ] {
        assert!(compared.contains(text), "{text}: {compared}");
    }
    let listed = cell.program(&["report", "."]).output().unwrap();
    assert_eq!(String::from_utf8(listed.stdout).unwrap().matches("  replication  ").count(), 2);
}
