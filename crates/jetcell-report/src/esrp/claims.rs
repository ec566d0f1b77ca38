//! Checks figures quoted in the author's text or in a published paper.

use jetcell_input::number::{rounded, with_three_decimals};
use jetcell_workload::TestKind;
use jetcell_workload::result::{EsrpSummary, InstanceRow};

use crate::esrp::aggregate::{BackupRate, PerformanceTotals, ReplayRate, ServerTests, tests_of_kind};
use crate::esrp::check::{ConsistencyChecks, StatementOutcome};
use crate::esrp::configuration::{LogReadClaim, PublishedClaims, SummaryClaim};
use crate::esrp::figure::StatedNumber;
use crate::esrp::tested_server::{ChecksumVerification, ServerTest};

/// Adds checks for all claims.
pub(crate) fn check(claims: &PublishedClaims, servers: &[ServerTests], checks: &mut ConsistencyChecks) {
    let performance = tests_of_kind(servers, TestKind::Performance);
    for (name, claim) in &claims.servers {
        let of_server = performance.iter().find(|test| test.server == *name);
        summary(&format!("Results of {name}"), claim, of_server.copied().as_slice(), checks);
    }
    aggregate(claims, &performance, checks);
    backup(claims, &tests_of_kind(servers, TestKind::Backup), checks);
    replay(claims, &tests_of_kind(servers, TestKind::Recovery), checks);
    checksums(claims, servers, checks);
    claims.test_log.iter().for_each(|claim| log_reads(claim, servers, checks));
}

fn summary(place: &str, claim: &SummaryClaim, tests: &[&ServerTest], checks: &mut ConsistencyChecks) {
    let computed = PerformanceTotals::from_tests(tests).map(|performance| performance.summary);
    type StatedFigure = fn(&SummaryClaim) -> Option<StatedNumber>;
    type ComputedFigure = fn(EsrpSummary) -> f64;
    let rows: [(&str, StatedFigure, ComputedFigure); 7] = [
        (
            "Database Disks Transfers/sec",
            |claim| claim.database_disk_transfers_per_sec,
            |all| all.database_transfers,
        ),
        ("Database Disks Reads/sec", |claim| claim.database_disk_reads_per_sec, |all| all.database_reads),
        ("Database Disks Writes/sec", |claim| claim.database_disk_writes_per_sec, |all| all.database_writes),
        (
            "Average Database Disk Read Latency (ms)",
            |claim| claim.avg_database_read_latency_ms,
            |all| all.database_read_ms,
        ),
        (
            "Average Database Disk Write Latency (ms)",
            |claim| claim.avg_database_write_latency_ms,
            |all| all.database_write_ms,
        ),
        ("Log Disks Writes/sec", |claim| claim.log_disk_writes_per_sec, |all| all.log_writes),
        (
            "Average Log Disk Write Latency (ms)",
            |claim| claim.avg_log_write_latency_ms,
            |all| all.log_write_ms,
        ),
    ];
    for (name, stated, of) in rows {
        let Some(stated) = stated(claim) else { continue };
        let place = format!("{place}, {name}");
        match computed {
            Some(computed) => {
                checks.add_figure(&place, stated, of(computed), "from the table of total I/O");
            }
            None => checks.add(
                StatementOutcome::NoEvidence,
                place,
                stated.to_string(),
                "no performance test is given",
            ),
        }
    }
}

/// Checks the figures for all servers combined. A paper with figures for several servers must also contain the
/// aggregate.
fn aggregate(claims: &PublishedClaims, performance: &[&ServerTest], checks: &mut ConsistencyChecks) {
    let place = "Results of all servers";
    if let Some(claim) = &claims.aggregate {
        summary(place, claim, performance, checks);
    } else if let (Some(all), 2..) = (PerformanceTotals::from_tests(performance), claims.servers.len()) {
        let figures = &all.summary;
        let achieved =
            all.achieved_iops.map(|iops| format!(", {} transactional I/O/s", with_three_decimals(iops)));
        let found = format!(
            "{} transfers/s{}, {} log writes/s; database reads {} ms, database writes {} ms, log writes {} ms",
            with_three_decimals(figures.database_transfers),
            achieved.unwrap_or_default(),
            with_three_decimals(figures.log_writes),
            with_three_decimals(figures.database_read_ms),
            with_three_decimals(figures.database_write_ms),
            with_three_decimals(figures.log_write_ms),
        );
        checks.add(StatementOutcome::Missing, place, "figures per server and no aggregate", found);
    }
}

fn backup(claims: &PublishedClaims, tests: &[&ServerTest], checks: &mut ConsistencyChecks) {
    let all = BackupRate::from_tests(tests);
    let each = |of: fn(BackupRate) -> f64| {
        tests.iter().filter_map(move |test| Some((*test, of(BackupRate::from_tests(&[test])?))))
    };
    let (database, server) = (claims.mb_read_per_sec_per_database, claims.mb_read_per_sec_per_server);
    if let Some(stated) = database {
        let place = "MB read/sec per database";
        let of_one = explain(stated, each(|rate| rate.per_database));
        figure(
            place,
            stated,
            all.map(|all| all.per_database),
            &format!("mean of all databases{of_one}"),
            checks,
        );
    }
    if let Some(stated) = server {
        let mut how = "mean of the servers".to_string() + &explain(stated, each(|rate| rate.per_server));
        let databases = tests.iter().map(|test| test.backup.len()).max().unwrap_or(0);
        if let Some(rate) = database.filter(|rate| stated.matches_rounded(rate.value() * databases as f64)) {
            how += &format!("; {stated} is the rounded {rate} × {databases}");
        }
        figure("MB read/sec total per server", stated, all.map(|all| all.per_server), &how, checks);
    }
}

fn replay(claims: &PublishedClaims, tests: &[&ServerTest], checks: &mut ConsistencyChecks) {
    let Some(stated) = claims.avg_seconds_per_log else { return };
    let all = ReplayRate::from_tests(tests).map(ReplayRate::seconds_per_log);
    let each =
        tests.iter().filter_map(|test| Some((*test, ReplayRate::from_tests(&[test])?.seconds_per_log())));
    let how = format!("all logs of all servers{}", explain(stated, each));
    figure("Average time to play one Log file (sec)", stated, all, &how, checks);
}

fn figure(
    place: &str,
    stated: StatedNumber,
    computed: Option<f64>,
    how: &str,
    checks: &mut ConsistencyChecks,
) {
    match computed {
        Some(computed) => {
            checks.add_figure(place, stated, computed, how);
        }
        None => checks.add(
            StatementOutcome::NoEvidence,
            place,
            stated.to_string(),
            "no test with this figure is given",
        ),
    }
}

/// Lists the servers whose own figure equals the stated one, unless all of them do.
fn explain<'a>(stated: StatedNumber, each: impl Iterator<Item = (&'a ServerTest, f64)>) -> String {
    let all: Vec<_> = each.collect();
    let same: Vec<&str> = all
        .iter()
        .filter(|(_, value)| stated.matches_rounded(*value))
        .map(|(test, _)| test.server.as_str())
        .collect();
    if same.is_empty() || same.len() == all.len() {
        return String::new();
    }
    format!("; {stated} is the figure of {} alone", same.join(" and "))
}

/// Checks the claim that no checksum was wrong. Pages and logs are verified in a phase after the load. Without this
/// phase, there is no evidence for the claim.
fn checksums(claims: &PublishedClaims, servers: &[ServerTests], checks: &mut ConsistencyChecks) {
    let place = "Reliability, checksums of databases and logs";
    let stated =
        if claims.checksums_clean == Some(true) { "no errors" } else { "to be verified after the load" };
    let loads = servers.iter().flat_map(|server| &server.tests);
    let loads = loads.filter(|test| matches!(test.kind, TestKind::Performance | TestKind::Stress));
    let mut without = Vec::new();
    for test in loads {
        match test.checksums {
            ChecksumVerification::NotRun => without.push(test.title()),
            ChecksumVerification::Verified { files, bad } => {
                let found =
                    format!("{}: {files} files verified, {bad} bad pages or log segments", test.title());
                checks.add_comparison(bad == 0, place, stated, found);
            }
        }
    }
    if !without.is_empty() {
        let found = format!("the report has no checksum phase: {}", without.join(", "));
        checks.add(StatementOutcome::NoEvidence, place, stated, found);
    }
}

/// Checks log read latencies. Jetstress prints the log write latency in its lines about log reads.
fn log_reads(claim: &LogReadClaim, servers: &[ServerTests], checks: &mut ConsistencyChecks) {
    let LogReadClaim { server, test: kind, log_reads_avg_latency_ms: lines } = claim;
    let place = format!("Test log of the {kind} test of {server}, log read latency");
    let list = |values: &mut dyn Iterator<Item = String>| values.collect::<Vec<_>>().join(", ");
    let stated = list(&mut lines.iter().map(StatedNumber::to_string)) + " ms";
    let test = servers.iter().find(|one| one.name == *server).and_then(|server| server.test(*kind));
    let Some(rows) = test.map(|test| test.total.as_slice()).filter(|rows| rows.len() == lines.len()) else {
        checks.add(
            StatementOutcome::NoEvidence,
            place,
            stated,
            "no table of total I/O with the same number of instances is given",
        );
        return;
    };
    let matches_lines = |ms: fn(&InstanceRow) -> f64| {
        lines.iter().zip(rows).all(|(line, row)| rounded(ms(row), 1) == rounded(line.value(), 1))
    };
    let reads = list(&mut rows.iter().map(|row| with_three_decimals(row.log_reads_average_latency_ms)));
    let mut found = format!("{reads} ms in the table of total I/O");
    let holds = matches_lines(|row| row.log_reads_average_latency_ms);
    if !holds && matches_lines(|row| row.log_writes_average_latency_ms) {
        found += "; the lines repeat the latency of log writes";
    }
    checks.add_comparison(holds, place, stated, found);
}
