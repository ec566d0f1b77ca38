//! An example result for tests. It is stored as JSON, so the tests also cover reading stored results.

use jetcell_workload::measurement::{
    ConfidenceInterval, InstanceSample, IoRates, LatencyIntervals, Repetition, Repetitions, Sample,
    SaturationSearch, SaturationStep,
};
use jetcell_workload::result::RunResult;
use jetcell_workload::{Options, RuleKind, VerdictRule};
use serde_json::json;

pub(crate) fn result() -> RunResult {
    let profile = Options { dirs: vec!["/data".into()], target_iops: Some(270.0), ..Options::default() };
    let latency = json!({ "count": 1000, "mean": 5000.5, "min": 100, "p50": 4000, "p90": 9000, "p95": 10000, "p99": 20000,
        "p99_9": 30000, "p99_99": 40000, "max": 50000 });
    let none = json!({ "count": 0, "mean": 0.0, "min": 0, "p50": 0, "p90": 0, "p95": 0, "p99": 0, "p99_9": 0, "p99_99": 0,
        "max": 0 });
    let mut instance = json!({ "MSExchange Database ==> Instances": "Jetstress001001", "database": "/data/Jetstress001001.edb",
        "log_path": "/data/log001", "maximum_database_read_ms": 40.0, "maximum_log_write_ms": 3.0 });
    for row in ["Database Reads", "Database Writes", "Log Reads", "Log Writes"] {
        instance[format!("I/O {row} Average Latency (msec)")] = json!(1.25);
        instance[format!("I/O {row}/sec")] = json!(100.5);
        instance[format!("I/O {row} Average Bytes")] = json!(33000.0);
    }
    let rule = |kind: &str, name: &str, bound: &str, limit: f64, measured: f64, passed: bool| json!({ "kind": kind, "name": name, "bound": bound, "limit": limit, "measured": measured, "passed": passed, "note": "" });
    serde_json::from_value(json!({
        "schema_version": jetcell_workload::result::SCHEMA_VERSION, "jetcell_version": "0.1.0", "verdict": "fail",
        "reason": "Average database read latency: 25 where at most 20 is allowed",
        "rules": [
            rule("average_database_read", "Average database read latency", "at_most", 20.0, 25.0, false),
            rule("transactional_io", "Achieved transactional I/O per second", "at_least", 256.5, 285.979, true),
        ],
        "achieved_transactional_iops": 285.979,
        "started": "2026-01-02T03:04:05+00:00", "ended": "2026-01-02T03:06:05+00:00",
        "measured_seconds": 60.0,
        "phases": [{ "phase": "create", "seconds": 30.0 }, { "phase": "measure", "seconds": 60.0 }],
        "initial_database_bytes": 1u64 << 30, "final_database_bytes": (1u64 << 30) + (8 << 20), "database_files": 1,
        "instances": [instance],
        "latency": { "database_read": latency, "database_write": latency, "log_write": latency, "log_read": none },
        "operation_latency": { "insert": latency, "durable_commit": latency },
        "operations": { "counts": { "insert": 400, "read": 350 }, "per_second": 12.5, "batches": [30], "conflicts": 1,
            "misses": 0, "wrong_records": 0, "wrong": [] },
        "cache_used_bytes": 128 << 20, "page_fault_stalls": 0, "peak_resident_bytes": 200 << 20, "io_errors": 0,
        "verification": { "seconds": 1.5, "files": [{ "path": "/data/Jetstress001001.edb", "blocks": 32768, "bad": 0,
            "repaired": 0, "findings": [] }] },
        "log": ["2026-01-02 03:04:05 -- Creating databases"],
        "configuration": profile.resolve().expect("the options are valid"),
        "plan": { "instances": [], "page_bytes": 32768, "cache_bytes": 128 << 20, "tables": 8, "circular_log": true, "page_protection": false,
            "output": "/data/out", "create": [], "remove": [] },
        "machine": { "host": "cell", "operating_system": "Linux", "kernel": "6.1", "processor": "x", "processors": 2,
            "memory_bytes": 8u64 << 30, "storage": [{ "directory": "/data", "mount": null, "device": null }] },
    }))
    .expect("the example follows the schema")
}

/// Returns three repetitions whose intervals all differ.
pub(crate) fn repetitions() -> Repetitions {
    let within = |half_width: f64| ConfidenceInterval { mean: half_width * 50.0, half_width };
    let latencies = |more: f64| LatencyIntervals {
        mean: within(more + 20.0),
        p50: within(more + 50.0),
        p90: within(more + 90.0),
        p95: within(more + 95.0),
        p99: within(more + 99.0),
    };
    Repetitions {
        each: vec![Repetition::default(); 3],
        transactional_iops: within(4.5),
        operations_per_second: within(0.5),
        database_read_ms: within(0.25),
        log_write_ms: within(0.125),
        database_reads: Some(latencies(0.0)),
        log_writes: Some(latencies(100.0)),
    }
}

/// Returns a search in which the rate 1200 broke a rule and the rate 600 was sustained. The confirmation had a higher
/// latency.
pub(crate) fn saturation() -> SaturationSearch {
    let step = |rate: f64, p99: u64, confirming| {
        let mut step = SaturationStep { rate, confirming, ..SaturationStep::default() };
        step.figures.operations_per_second = rate - 1.0;
        step.figures.database_read_ms = 0.5;
        (step.operation_latency.p99, step.operation_latency.p99_9) = (p99, 12_340);
        step
    };
    let broken = VerdictRule::at_most(RuleKind::AverageDatabaseRead, 20.0, 21.0, String::new());
    SaturationSearch {
        sustained_rate: Some(600.0),
        first_failed_rate: Some(1200.0),
        ended: true,
        steps: vec![
            SaturationStep { broken: Some(broken), ..step(1200.0, 2_000_000, false) },
            step(600.0, 4_000, false),
            step(600.0, 5_000, true),
        ],
        ..SaturationSearch::default()
    }
}

pub(crate) fn samples(count: usize) -> Vec<Sample> {
    let rates = IoRates { per_second: 50.0, average_bytes: 32768.0, average_ms: 2.0 };
    let instance = InstanceSample {
        database_read: rates,
        database_write: rates,
        log_read: IoRates::default(),
        log_write: rates,
    };
    let sample = |n: usize| Sample {
        at_seconds: n as f64,
        seconds: 1.0,
        instances: vec![instance],
        ..Sample::default()
    };
    (1..=count).map(sample).collect()
}
