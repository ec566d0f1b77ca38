//! Tests for the verdict and for stragglers, using rows without results.

use jetcell_workload::Verdict;

use super::judgement::{CommonMeasurementWindow, judge};
use super::rows::{mark_stragglers, sum};
use super::*;
use crate::config::FleetConfig;

fn row(rank: u32, iops: f64, read_ms: f64) -> HostRow {
    HostRow {
        rank,
        host: format!("h{rank}"),
        outcome: HostOutcome::Completed,
        verdict: Some(Verdict::Pass),
        reason: "all rules hold".into(),
        lost: None,
        totals: FleetTotals { achieved_transactional_iops: iops, databases: 2, ..FleetTotals::default() },
        database_read_ms: read_ms,
        database_read_p99_ms: read_ms,
        log_write_ms: 1.0,
        measured_seconds: 60.0,
        start_skew_ms: Some(0.5),
        clock: Some(HostClock { offset_ms: 3.0, round_trip_ms: 0.4, moved_ms: 0.1 }),
        window: Some((0.0005, 60.0)),
        alone: None,
        straggler: None,
        ignored_messages: 0,
    }
}

fn judged(rows: &[HostRow]) -> (FleetVerdict, String, Vec<VerdictRule>) {
    let config = FleetConfig::parse("f.toml", "name='f'\nhosts=3\noptions.dirs=['/d']").unwrap();
    let fleet = Coordinator::new(config, "1", "run".into(), "epoch".into(), 0);
    judge(&fleet, rows, &CommonMeasurementWindow::from_hosts(rows))
}

fn three() -> Vec<HostRow> {
    (0..3).map(|rank| row(rank, 100.0, 5.0)).collect()
}

#[test]
fn a_fleet_passes_if_all_hosts_measured_the_same_time() {
    let (verdict, reason, rules) = judged(&three());
    assert_eq!((verdict, reason.as_str()), (FleetVerdict::Pass, "all rules of 3 hosts hold"));
    assert!(rules.len() == 6 && rules.iter().all(|rule| rule.passed), "{rules:?}");
    assert!((CommonMeasurementWindow::from_hosts(&three()).overlap_seconds - 59.9995).abs() < 1e-9);
    assert_eq!((sum(&three()).achieved_transactional_iops, sum(&three()).databases), (300.0, 6));
}

#[test]
fn each_violated_rule_changes_the_verdict() {
    type RowMutation = fn(&mut HostRow);
    let cases: [(RowMutation, FleetVerdict, &str); 7] = [
        (
            |host| {
                let lost = LostHost { heard_ns: 7, did: "measuring".into(), given_up: "at the end".into() };
                (host.lost, host.outcome) = (Some(lost), HostOutcome::Lost);
            },
            FleetVerdict::Invalid,
            "host h1 (rank 1) timed out while measuring",
        ),
        (
            |host| (host.outcome, host.reason) = (HostOutcome::Failed, "no space".into()),
            FleetVerdict::Invalid,
            "h1 (rank 1): no space",
        ),
        (|host| host.start_skew_ms = Some(-700.0), FleetVerdict::Invalid, "Start skew"),
        (
            |host| host.clock = Some(HostClock { round_trip_ms: 1300.0, ..HostClock::default() }),
            FleetVerdict::Invalid,
            "Start skew",
        ),
        (
            |host| host.clock = Some(HostClock { moved_ms: 700.0, ..HostClock::default() }),
            FleetVerdict::Invalid,
            "Movement of a wall clock",
        ),
        (|host| host.window = Some((1.0, 61.0)), FleetVerdict::Invalid, "Common time"),
        (
            |host| (host.verdict, host.reason) = (Some(Verdict::Fail), "reads are slow".into()),
            FleetVerdict::Fail,
            "h1 (rank 1): reads are slow",
        ),
    ];
    for (change, expected, why) in cases {
        let mut rows = three();
        change(&mut rows[1]);
        let (verdict, reason, rules) = judged(&rows);
        assert_eq!(verdict, expected, "{reason}");
        assert!(reason.contains(why), "{reason}");
        assert_eq!(rules.iter().filter(|rule| !rule.passed).count(), 1, "{rules:?}");
    }
}

#[test]
fn a_slow_host_among_equal_hosts_is_reported() {
    let straggler_ranks = |rows: &mut Vec<HostRow>| -> Vec<u32> {
        mark_stragglers(rows);
        rows.iter().filter(|host| host.straggler.is_some()).map(|host| host.rank).collect()
    };
    let mut eight: Vec<HostRow> = (0..8).map(|rank| row(rank, 100.0 + f64::from(rank), 5.0)).collect();
    assert!(straggler_ranks(&mut eight).is_empty());
    eight[3].totals.achieved_transactional_iops = 60.0;
    eight[6].database_read_ms = 11.0;
    assert_eq!(straggler_ranks(&mut eight), [3, 6]);
    let mut two = vec![row(0, 100.0, 5.0), row(1, 10.0, 50.0)];
    assert!(straggler_ranks(&mut two).is_empty(), "of two hosts nobody knows which one is usual");
}
