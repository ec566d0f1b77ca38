//! Tables for the result of a fleet.

use jetcell_fleet::result::{FleetResult, FleetVerdict, HostOutcome, HostRow};
use jetcell_input::Unit;
use jetcell_input::number::{decimal, grouped, human_bytes, significant};
use jetcell_report::{
    CellValue, Digits, ReportCell, ReportTable, StyledText, Tone, outcome_line, rule_state_cell, table_text,
    verdict_tone,
};
use jetcell_workload::result::StandaloneLoad;
use jetcell_workload::{Verdict, VerdictRule};

/// Returns the verdict in words.
pub fn verdict(result: &FleetResult) -> &'static str {
    match result.verdict {
        FleetVerdict::Pass => "PASS",
        FleetVerdict::Fail => "FAIL",
        FleetVerdict::Invalid => "INVALID",
        FleetVerdict::Incomplete => "INCOMPLETE",
    }
}

/// Renders the verdict and its reason.
pub fn verdict_line(result: &FleetResult, width: usize) -> StyledText {
    let tone = match result.verdict {
        FleetVerdict::Pass => Tone::Good,
        FleetVerdict::Fail | FleetVerdict::Invalid => Tone::Bad,
        FleetVerdict::Incomplete => Tone::Warning,
    };
    outcome_line(verdict(result), tone, &result.reason, width)
}

/// Formats a report for a terminal with the given width.
pub fn fleet_text(result: &FleetResult, width: usize) -> StyledText {
    let mut text = verdict_line(result, width);
    for table in fleet_tables(result) {
        text += "\n";
        text.append(table_text(&table, width));
    }
    text
}

/// Returns all tables, the most important first.
pub fn fleet_tables(result: &FleetResult) -> Vec<ReportTable> {
    let alone = alone_and_together(result);
    [totals_table(result), hosts(result)]
        .into_iter()
        .chain(alone)
        .chain([clocks(result), rules(result)])
        .collect()
}

fn rate(value: f64) -> ReportCell {
    ReportCell::number(value, Digits::Decimals(0))
}

fn ms(value: f64) -> ReportCell {
    ReportCell::number(value, Digits::Three)
}

fn host(row: &HostRow) -> String {
    match row.host.as_str() {
        "" => format!("rank {}", row.rank),
        name => format!("{} {name}", row.rank),
    }
}

fn totals_table(result: &FleetResult) -> ReportTable {
    let all = &result.totals;
    let completed = result.hosts.iter().filter(|host| host.outcome == HostOutcome::Completed).count();
    let worst = result.worst_database.as_ref().map(|worst| {
        format!(
            "{} on {} (rank {}): {} ms",
            worst.database,
            worst.host,
            worst.rank,
            significant(worst.database_read_ms)
        )
    });
    let percentile = |kind: &str| {
        let found = result.latency.get(kind).filter(|one| one.count > 0)?;
        let [p50, p99, max] = [found.p50, found.p99, found.max].map(|us| significant(us as f64 / 1e3));
        Some(format!("{p50} / {p99} / {max}"))
    };
    ReportTable::facts("Fleet")
        .fact("Test", result.test.name())
        .fact("Hosts with a result", format!("{completed} of {}", result.hosts.len()))
        .fact("Achieved transactional I/O per second", rate(all.achieved_transactional_iops))
        .fact(
            "Database reads and writes (MB/s)",
            ReportCell::number(all.database_bytes_per_second / 1e6, Digits::Decimals(1)),
        )
        .fact("Log writes per second", rate(all.log_writes_per_second))
        .fact("Operations per second", rate(all.operations_per_second))
        .fact(
            "Databases",
            ReportCell::count(all.databases as u64).with_remark(human_bytes(all.database_bytes)),
        )
        .fact_if("Database reads, p50 / p99 / max (ms)", percentile("database_read"))
        .fact_if("Log writes, p50 / p99 / max (ms)", percentile("log_write"))
        .fact_if("Slowest database", worst)
        .fact("Time that all hosts measured together (s)", decimal(result.overlap_seconds, 1))
        .fact_if("Start of the measured time", result.measured_from.clone())
}

fn outcome(row: &HostRow) -> ReportCell {
    match row.outcome {
        HostOutcome::Completed => {
            let word = row.verdict.map_or("completed", |verdict| match verdict {
                Verdict::Pass => "pass",
                Verdict::Fail => "fail",
                Verdict::Incomplete => "incomplete",
            });
            ReportCell::from(word).with_tone(row.verdict.map_or(Tone::Neutral, verdict_tone))
        }
        HostOutcome::Lost => ReportCell::with_judgement("lost", false),
        HostOutcome::Failed => ReportCell::with_judgement("failed", false),
        HostOutcome::Absent => ReportCell::with_judgement("absent", false),
    }
}

fn hosts(result: &FleetResult) -> ReportTable {
    let columns = ["IOPS", "MB/s", "Read ms", "Read p99 ms", "Log write ms", "Measured s", "Verdict"];
    let row = |one: &HostRow| {
        vec![
            host(one).into(),
            rate(one.totals.achieved_transactional_iops),
            ReportCell::number(one.totals.database_bytes_per_second / 1e6, Digits::Decimals(1)),
            ms(one.database_read_ms),
            ms(one.database_read_p99_ms),
            ms(one.log_write_ms),
            ReportCell::number(one.measured_seconds, Digits::Decimals(1)),
            outcome(one),
        ]
    };
    let mut table = ReportTable::numbers("Hosts", "Host", columns).rows(result.hosts.iter().map(row));
    for one in &result.hosts {
        if let Some(reason) = &one.straggler {
            table = table.note(format!("Straggler: {}: {reason}", host(one)));
        }
        if one.outcome != HostOutcome::Completed || one.verdict != Some(Verdict::Pass) {
            table = table.note(format!("{}: {}", host(one), one.reason));
        }
    }
    table
}

/// Returns the table that shows how hosts that share storage slow each other down. Returns `None` unless each host
/// was first measured alone.
fn alone_and_together(result: &FleetResult) -> Option<ReportTable> {
    let measured: Vec<(&HostRow, &StandaloneLoad)> =
        result.hosts.iter().filter_map(|row| Some((row, row.alone.as_ref()?))).collect();
    let columns = [
        "IOPS alone",
        "IOPS together",
        "Change",
        "Read ms alone",
        "Read ms together",
        "Log write ms alone",
        "Log write ms together",
    ];
    let change = |alone: f64, together: f64| {
        if alone > 0.0 {
            ReportCell::figure(Unit::Change, (together / alone - 1.0) * 100.0)
        } else {
            ReportCell::missing()
        }
    };
    let row = |(one, alone): &(&HostRow, &StandaloneLoad)| {
        let (before, now) = (alone.achieved_transactional_iops, one.totals.achieved_transactional_iops);
        vec![
            host(one).into(),
            rate(before),
            rate(now),
            change(before, now),
            ms(alone.database_read_ms),
            ms(one.database_read_ms),
            ms(alone.log_write_ms),
            ms(one.log_write_ms),
        ]
    };
    let compared = measured.iter().filter(|(one, _)| one.outcome == HostOutcome::Completed);
    let (alone, together) = compared.fold((0.0, 0.0), |(alone, together), (one, before)| {
        (alone + before.achieved_transactional_iops, together + one.totals.achieved_transactional_iops)
    });
    let table = ReportTable::numbers("Alone and together", "Host", columns).rows(measured.iter().map(row));
    let table = if alone > 0.0 {
        table.note(format!(
            "Together, the hosts reached {} I/O per second; the sum of the hosts measured alone is {}: \
             {:.0} %.",
            grouped(together),
            grouped(alone),
            together / alone * 100.0
        ))
    } else {
        table
    };
    (!measured.is_empty()).then_some(table)
}

fn clocks(result: &FleetResult) -> ReportTable {
    let columns = ["Offset ms", "± ms", "Round trip ms", "Clock moved ms", "Start skew ms"];
    let row = |one: &HostRow| {
        let figure = |value| ReportCell::figure_or_missing(Unit::Milliseconds, value);
        vec![
            host(one).into(),
            figure(one.clock.map(|clock| clock.offset_ms)),
            figure(one.clock.map(|clock| clock.round_trip_ms / 2.0)),
            figure(one.clock.map(|clock| clock.round_trip_ms)),
            figure(one.clock.map(|clock| clock.moved_ms)),
            figure(one.start_skew_ms),
        ]
    };
    ReportTable::numbers("Host clocks relative to the coordinator", "Host", columns)
        .rows(result.hosts.iter().map(row))
}

fn rules(result: &FleetResult) -> ReportTable {
    let row = |rule: &VerdictRule| {
        vec![
            rule.name.clone().into(),
            ReportCell::new(CellValue::Limit(rule.bound, rule.limit, rule.kind().unit())),
            ReportCell::figure(rule.kind().unit(), rule.measured),
            rule_state_cell(rule.state()).with_remark(rule.note.clone()),
        ]
    };
    ReportTable::text_columns("Rules of the fleet", &["Rule", "Limit", "Measured", "State"])
        .rows(result.rules.iter().map(row))
}
