//! Checks this program's arithmetic and rules against published Jetstress reports.

use jetcell_input::number::rounded;
use jetcell_workload::measurement::{IoRates, Measurement};
use jetcell_workload::result::{EsrpSummary, InstanceRow, VerdictEvidence, achieved_iops, judge, subtract};
use jetcell_workload::{Options, Profile, Verdict};
use serde_json::Value;

const JS13: &str = include_str!("../testdata/esrp-js13.json");
const JS14: &str = include_str!("../testdata/esrp-js14.json");

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name} is missing"))
}

fn rates(row: &Value, kind: &str) -> IoRates {
    IoRates {
        per_second: number(row, &format!("{kind}_per_sec")),
        average_bytes: number(row, &format!("{kind}_avg_bytes")),
        average_ms: number(row, &format!("{kind}_avg_latency_ms")),
    }
}

fn maintenance(row: &Value) -> IoRates {
    IoRates {
        per_second: number(row, "maintenance_reads_per_sec"),
        average_bytes: number(row, "maintenance_reads_avg_bytes"),
        average_ms: 0.0,
    }
}

fn rows(table: &Value) -> Vec<InstanceRow> {
    let row = |row: &Value| {
        InstanceRow::new(row["instance"].to_string(), "d".into(), "l".into()).with_rates(
            rates(row, "db_reads"),
            rates(row, "db_writes"),
            rates(row, "log_reads"),
            rates(row, "log_writes"),
        )
    };
    table.as_array().expect("a table").iter().map(row).collect()
}

fn tests(of: &str) -> [(Value, Value); 2] {
    let all: Value = serde_json::from_str(of).unwrap();
    ["performance", "stress"].map(|name| (all["tests"][name].clone(), all["derived"][name].clone()))
}

#[test]
fn achieved_io_matches_the_printed_value() {
    let achieved = |of| {
        tests(of).map(|(test, _)| {
            let printed = number(&test["sizing"], "achieved_transactional_iops");
            let ours = achieved_iops(&rows(&test["transactional_io"]));
            // The printed rows are rounded, but the printed sum is computed from unrounded rows.
            assert!((ours - printed).abs() <= 0.0015, "{ours} {printed}");
            (printed, ours)
        })
    };
    assert_eq!(achieved(JS13)[0].0, 285.979);
    assert_eq!(achieved(JS14)[0].0, 259.878);
}

#[test]
fn maintenance_is_separated_from_the_total() {
    for (test, _) in [JS13, JS14].into_iter().flat_map(tests) {
        let table = |name: &str| test[name].as_array().unwrap().clone();
        let (total, apart, printed) =
            (table("total_io"), table("background_maintenance_io"), table("transactional_io"));
        assert_eq!(printed.len(), 4);
        for i in 0..4 {
            let ours = subtract(rates(&total[i], "db_reads"), maintenance(&apart[i]));
            let printed = rates(&printed[i], "db_reads");
            assert!((ours.per_second - printed.per_second).abs() <= 0.0015);
            assert!((ours.average_bytes / printed.average_bytes - 1.0).abs() < 0.0005);
            assert_eq!(ours.average_ms, printed.average_ms);
        }
    }
}

#[test]
fn the_summary_matches_the_printed_one() {
    for of in [JS13, JS14] {
        let all: Value = serde_json::from_str(of).unwrap();
        let printed = &all["summary_claimed"];
        let ours = EsrpSummary::from_rows(&rows(&all["tests"]["performance"]["total_io"]));
        for (name, value) in [
            ("database_disk_transfers_per_sec", ours.database_transfers),
            ("database_disk_reads_per_sec", ours.database_reads),
            ("database_disk_writes_per_sec", ours.database_writes),
            ("avg_database_read_latency_ms", ours.database_read_ms),
            ("avg_database_write_latency_ms", ours.database_write_ms),
            ("log_disk_writes_per_sec", ours.log_writes),
            ("avg_log_write_latency_ms", ours.log_write_ms),
        ] {
            assert_eq!(rounded(value, 3), number(printed, name), "{name}");
        }
    }
}

#[test]
fn verdicts_match_the_printed_ones() {
    let profile = |margin: f64| -> Profile {
        let options = Options {
            dirs: vec!["d".into()],
            target_iops: Some(270.0),
            margin: Some(margin),
            ..Options::default()
        };
        options.resolve().unwrap()
    };
    let mut measured = Measurement { seconds: 7200.0, complete: true, ..Measurement::default() };
    measured.tally.counts[0] = 1;
    let verdict = |test: &Value, margin| {
        let rows = rows(&test["transactional_io"]);
        judge(&profile(margin), &rows, achieved_iops(&rows), &measured, &VerdictEvidence::default()).verdict
    };
    for (test, _) in [JS13, JS14].into_iter().flat_map(tests) {
        assert_eq!(test["test_summary"]["overall_test_result"], "Pass");
        assert_eq!(verdict(&test, 0.05), Verdict::Pass);
    }
    assert_eq!(verdict(&tests(JS14)[0].0, 0.03), Verdict::Fail);
}
