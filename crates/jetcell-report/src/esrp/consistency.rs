//! Checks on the results: whether the tables in a report agree with each other, and whether the servers' tests match.

use jetcell_input::number::{MIB, plain, rounded, with_three_decimals};
use jetcell_input::time::duration_text;
use jetcell_workload::result::{InstanceRow, achieved_iops, total_reads};
use jetcell_workload::{TestKind, Verdict};

use crate::esrp::aggregate::{ServerTests, tests_of_kind};
use crate::esrp::check::{ConsistencyChecks, StatementOutcome};
use crate::esrp::tested_server::{AverageMethod, ServerTest};

/// Tolerance for printed rates, which have three decimals.
const RATE_TOLERANCE: f64 = 0.0015;
/// Tolerance for backups, whose printed seconds are truncated.
const BACKUP_RATE_TOLERANCE: f64 = 0.02;
/// Minimum fraction of the required duration. A measurement may lack one sampling interval at either end.
const MIN_DURATION_FRACTION: f64 = 0.99;
/// Minimum fraction of the shorter window during which both servers must be under load.
const MIN_OVERLAP_FRACTION: f64 = 0.95;
/// Number of 1 MiB logs per database that ESRP requires.
const MIN_REPLAYED_LOGS: u64 = 500;
/// Size in bytes of each read when Jetstress simulates the replication of a 1 MiB log: 2,093,056 bytes in nine reads.
const REPLICATION_READ_BYTES: f64 = 2_093_056.0 / 9.0;
/// Minimum ratio of an average to its expected value. A lower average counts as biased.
const MIN_UNBIASED_RATIO: f64 = 0.99;

/// Adds all checks.
pub(crate) fn check(servers: &[ServerTests], checks: &mut ConsistencyChecks) {
    for server in servers {
        for kind in TestKind::ALL {
            match server.test(kind) {
                Some(test) => check_test(test, checks),
                None => {
                    let place = format!("{kind} test of {}", server.name);
                    checks.add(
                        StatementOutcome::Missing,
                        place,
                        "ESRP requires all four tests",
                        "no run is given",
                    );
                }
            }
        }
        backup_sizes(server, checks);
        single_machine(server, checks);
    }
    for kind in TestKind::ALL {
        concurrent_load(&tests_of_kind(servers, kind), checks);
    }
}

/// Checks the tables in one report.
fn check_test(test: &ServerTest, checks: &mut ConsistencyChecks) {
    verdict(test, checks);
    duration(test, checks);
    throughput(test, checks);
    maintenance_separation(test, checks);
    match test.kind {
        TestKind::Backup => backup(test, checks),
        TestKind::Recovery => replay(test, checks),
        TestKind::Performance | TestKind::Stress | TestKind::Replication => {}
    }
    sparse_averages(test, checks);
    let words = test.description.to_lowercase();
    let per_database =
        ["threads/db", "threads per db", "threads per database"].iter().any(|text| words.contains(text));
    if let Some(threads) = test.threads.filter(|_| per_database) {
        let found = format!("{threads} threads for all {} databases together", test.databases);
        checks.add_comparison(false, format!("{}, description", test.title()), &test.description, found);
    }
}

fn verdict(test: &ServerTest, checks: &mut ConsistencyChecks) {
    let place = test.title();
    match test.verdict {
        Some(Verdict::Pass) => checks.add_comparison(true, place, "the test passes", "Pass"),
        Some(Verdict::Fail) => {
            checks.add_comparison(false, place, "the test passes", format!("Fail: {}", test.reason));
        }
        Some(Verdict::Incomplete) => {
            checks.add_comparison(false, place, "the test passes", format!("Incomplete: {}", test.reason));
        }
        None => {}
    }
    if let Some(errors) = test.io_errors.filter(|errors| *errors > 0) {
        checks.add_comparison(false, test.title(), "no I/O error", format!("{errors} failed transfers"));
    }
}

fn duration(test: &ServerTest, checks: &mut ConsistencyChecks) {
    let wanted = match test.kind {
        TestKind::Performance => 2.0 * 3600.0,
        TestKind::Stress => 24.0 * 3600.0,
        TestKind::Backup | TestKind::Recovery | TestKind::Replication => return,
    };
    let measured = test.measured_seconds.unwrap_or(0.0);
    let place = format!("{}, duration", test.title());
    if test.interruptions > 0 {
        let found = format!("the test was interrupted and continued; interruptions: {}", test.interruptions);
        checks.add(StatementOutcome::Remark, place.as_str(), "measured without interruption", found);
    }
    checks.add_comparison(
        measured >= wanted * MIN_DURATION_FRACTION,
        place,
        format!("ESRP requires {}", duration_text(wanted)),
        duration_text(measured),
    );
}

fn throughput(test: &ServerTest, checks: &mut ConsistencyChecks) {
    let Some(achieved) = test.achieved_iops.filter(|_| !test.transactional.is_empty()) else { return };
    let rows = achieved_iops(&test.transactional);
    let place = format!("{}, achieved transactional I/O per second", test.title());
    let found = format!("{}: sum of the rows of transactional I/O", with_three_decimals(rows));
    checks.add_comparison(
        (rows - achieved).abs() <= RATE_TOLERANCE,
        &place,
        with_three_decimals(achieved),
        found,
    );
    if let Some(target) = test.target_iops.filter(|target| achieved < *target) {
        let share = (achieved / target - 1.0) * 100.0;
        let found =
            format!("{share:+.2} % of the target of {}; Jetstress's rule tolerates 5 % less", plain(target));
        checks.add(StatementOutcome::Remark, place, with_three_decimals(achieved), found);
    }
}

/// Checks that the total number of reads is the sum of the load's reads and those of background maintenance.
fn maintenance_separation(test: &ServerTest, checks: &mut ConsistencyChecks) {
    let pairs = test.transactional.iter().zip(&test.total);
    let differs = |(own, total): &(&InstanceRow, &InstanceRow)| {
        (total_reads(own).per_second - total.database_reads_per_second).abs() > RATE_TOLERANCE
    };
    let worst = pairs.clone().find(differs);
    if pairs.len() > 0 {
        let place = format!("{}, database reads/sec", test.title());
        let found = worst.map_or("true for every row".into(), |(own, total)| {
            let (sum, total) = (total_reads(own).per_second, total.database_reads_per_second);
            format!(
                "{}: {} in total, {} as a sum",
                own.instance,
                with_three_decimals(total),
                with_three_decimals(sum)
            )
        });
        checks.add_comparison(worst.is_none(), place, "total is transactional and maintenance", found);
    }
}

fn backup(test: &ServerTest, checks: &mut ConsistencyChecks) {
    for row in test.backup.iter().filter(|row| row.seconds > 0.0) {
        let rate = row.mib / row.seconds;
        let found =
            format!("{}: {} MB in {}", with_three_decimals(rate), plain(row.mib), duration_text(row.seconds));
        let place = format!("{}, rate of {}", test.title(), row.instance);
        checks.add_comparison(
            (rate - row.mib_per_second).abs() <= BACKUP_RATE_TOLERANCE,
            place,
            plain(row.mib_per_second),
            found,
        );
    }
    let rates: Vec<f64> = test.backup.iter().map(|row| row.mib_per_second).collect();
    totals(test, "MB/s", &rates, test.backup_totals.average, test.backup_totals.sum, 2, checks);
}

fn replay(test: &ServerTest, checks: &mut ConsistencyChecks) {
    let seconds: Vec<f64> = test.replay.iter().map(|row| row.seconds).collect();
    totals(test, "seconds", &seconds, test.replay_totals.average, test.replay_totals.sum, 3, checks);
    if let Some(fewest) = test.replay.iter().min_by_key(|row| row.logs) {
        let found = format!("{} or more per database ({})", fewest.logs, fewest.instance);
        checks.add_comparison(
            fewest.logs >= MIN_REPLAYED_LOGS,
            format!("{}, logs", test.title()),
            format!("ESRP requires {MIN_REPLAYED_LOGS}"),
            found,
        );
    }
}

/// Checks a column's printed average and sum.
fn totals(
    test: &ServerTest,
    unit: &str,
    values: &[f64],
    average: Option<f64>,
    sum: Option<f64>,
    decimals: usize,
    checks: &mut ConsistencyChecks,
) {
    let all: f64 = values.iter().sum();
    let mean = all / values.len().max(1) as f64;
    for (name, printed, computed) in [("average", average, mean), ("sum", sum, all)] {
        let Some(printed) = printed else { continue };
        let place = format!("{}, {name} of {unit}", test.title());
        let holds = (rounded(computed, decimals) - rounded(printed, decimals)).abs() < 1e-9;
        checks.add_comparison(
            holds,
            place,
            plain(printed),
            format!("{}: of {} rows", with_three_decimals(computed), values.len()),
        );
    }
}

/// Checks that the database sizes in the backup equal the sizes after the last load before it.
fn backup_sizes(server: &ServerTests, checks: &mut ConsistencyChecks) {
    let Some(backup) = server.test(TestKind::Backup) else { return };
    let Some(load) = last_load_before(server, backup) else { return };
    let read: f64 = backup.backup.iter().map(|row| row.mib).sum();
    let pages = load.final_bytes.map(|bytes| bytes.saturating_sub(load.header_bytes) as f64 / MIB);
    let Some(left) = pages.filter(|_| read > 0.0) else { return };
    // Each row is rounded to two decimals.
    let same = (read - left).abs() <= 0.01 * backup.backup.len() as f64;
    let difference = if left < read { "less" } else { "more" };
    let found = format!(
        "{} MB at the end of the {} test, {} MB {difference}",
        plain(left),
        load.kind,
        plain((left - read).abs())
    );
    let place = format!("{}, database sizes", backup.title());
    checks.add_comparison(same, place, format!("{} MB in total", plain(read)), found);
}

/// Returns the last load before the backup. Falls back to the performance test if the times do not show which load
/// was last.
fn last_load_before<'a>(server: &'a ServerTests, backup: &ServerTest) -> Option<&'a ServerTest> {
    let loads = server.tests.iter().filter(|test| test.kind != TestKind::Backup);
    let before = loads.filter_map(|test| Some((test.window?, test)));
    let before = before.filter(|(window, _)| backup.window.is_some_and(|of| window.end <= of.start));
    let last = before.max_by_key(|(window, _)| window.end).map(|(_, test)| test);
    last.or_else(|| server.test(TestKind::Performance))
}

/// Checks that all tests attributed to a server ran on the same machine. They may not have, because two servers can
/// have the same name.
fn single_machine(server: &ServerTests, checks: &mut ConsistencyChecks) {
    let machines = || server.tests.iter().filter_map(|test| Some((test, test.machine.as_ref()?)));
    let Some((_, first)) = machines().next() else { return };
    if machines().count() < 2 {
        return;
    }
    let all_same = machines().all(|(_, machine)| machine == first);
    let found = if all_same {
        first.clone()
    } else {
        machines().map(|(test, machine)| format!("{}: {machine}", test.kind)).collect::<Vec<_>>().join("; ")
    };
    checks.add_comparison(all_same, format!("tests of {}", server.name), "all on the same machine", found);
}

/// Checks for biased averages. A mean over samples counts samples without I/O as zero, which lowers the average for
/// reads that occur in bursts.
fn sparse_averages(test: &ServerTest, checks: &mut ConsistencyChecks) {
    if test.averages == AverageMethod::Weighted {
        return;
    }
    let reads = test.total.iter().filter(|row| row.log_reads_per_second > 0.0);
    let place = format!("{}, average bytes of log reads", test.title());
    let why = "the average counts samples without reads as zero";
    if test.kind == TestKind::Recovery {
        // Each log is read exactly once.
        let lowest = reads.filter_map(|row| {
            let replay =
                test.replay.iter().find(|replay| replay.instance == row.instance && replay.logs > 0)?;
            let bytes = row.log_reads_per_second * row.log_reads_average_bytes * replay.seconds;
            Some((row, bytes / replay.logs as f64))
        });
        if let Some((row, bytes)) = lowest.min_by(|a, b| a.1.total_cmp(&b.1)) {
            let found = format!("{bytes:.0} bytes per log of 1,048,576 bytes ({}): {why}", row.instance);
            checks.add_comparison(
                bytes >= MIN_UNBIASED_RATIO * MIB,
                place,
                with_three_decimals(row.log_reads_average_bytes),
                found,
            );
        }
    } else if let Some(row) =
        reads.min_by(|a, b| a.log_reads_average_bytes.total_cmp(&b.log_reads_average_bytes))
    {
        let bytes = row.log_reads_average_bytes;
        let found = format!(
            "each read of log replication has {REPLICATION_READ_BYTES:.0} bytes ({}): {why}",
            row.instance
        );
        checks.add_comparison(
            bytes >= MIN_UNBIASED_RATIO * REPLICATION_READ_BYTES,
            place,
            with_three_decimals(bytes),
            found,
        );
    }
}

/// Checks that servers sharing storage were under load at the same time and ran the same test.
fn concurrent_load(tests: &[&ServerTest], checks: &mut ConsistencyChecks) {
    let Some((first, 2..)) = tests.first().map(|first| (first, tests.len())) else { return };
    same_time(tests, checks);
    let mut same = |name: &str, value: &dyn Fn(&ServerTest) -> String| {
        let values: Vec<String> = tests.iter().map(|test| value(test)).collect();
        if values.iter().any(|value| *value != values[0]) {
            let each: Vec<String> =
                tests.iter().zip(&values).map(|(test, value)| format!("{}: {value}", test.server)).collect();
            let place = format!("{} tests, {name}", first.kind);
            checks.add(StatementOutcome::Remark, place, "all servers ran the same test", each.join(", "));
        }
    };
    same("threads", &|test| test.threads.map_or("not given".into(), |threads| threads.to_string()));
    same("databases", &|test| test.databases.to_string());
    same("engine", &|test| test.engine_version.clone());
    same("target I/O per second", &|test| test.target_iops.map_or("none".into(), plain));
}

fn same_time(tests: &[&ServerTest], checks: &mut ConsistencyChecks) {
    let place = format!("{} tests, windows", tests[0].kind);
    let stated = "all servers are under load at the same time";
    let windows: Option<Vec<_>> = tests.iter().map(|test| Some((test, test.window?))).collect();
    let Some(windows) = windows else {
        checks.add(StatementOutcome::NoEvidence, place, stated, "a report does not state its times");
        return;
    };
    let last = windows.iter().max_by_key(|(_, window)| window.start);
    let first = windows.iter().min_by_key(|(_, window)| window.end);
    let (Some((last, late)), Some((first, early))) = (last, first) else { return };
    let shortest = windows.iter().map(|(_, window)| window.seconds()).fold(f64::INFINITY, f64::min);
    let common = late.common_seconds(*early).min(shortest);
    let found = if common > 0.0 {
        format!("{} of {} in common", duration_text(common), duration_text(shortest))
    } else {
        format!("{} ended {} before {} began", first.server, duration_text(-common), last.server)
    };
    checks.add_comparison(common > 0.0 && common >= MIN_OVERLAP_FRACTION * shortest, place, stated, found);
}
