//! The curve found by a search for the highest sustained rate.

use jetcell_input::Unit;
use jetcell_workload::measurement::SaturationStep;
use jetcell_workload::result::RunResult;

use crate::number::latency_ms;
use crate::table::{ReportCell, ReportColumn, ReportTable};

/// Returns a table with every step of the search, sorted by rate. Empty if there was no search.
pub(crate) fn curve(result: &RunResult) -> ReportTable {
    let columns = ["Achieved/sec", "Mean", "p50", "p99", "p99.9", "Database Read", "Log Write"];
    let mut table = ReportTable::numbers("Latency over Rate (msec)", "Target rate (operations/sec)", columns);
    table.columns.push(ReportColumn::text("Outcome"));
    let Some(saturation) = &result.analysis.saturation else {
        return table.or_note("No search for the highest rate (--find-max).");
    };
    let found = match (saturation.sustained_rate, saturation.first_failed_rate) {
        (Some(rate), Some(failed)) => {
            format!(
                "Highest sustained rate: {} operations per second; {} broke a rule.",
                rate_text(rate),
                rate_text(failed)
            )
        }
        (Some(rate), None) => {
            format!(
                "Highest sustained rate: {} operations per second; no rate broke a rule.",
                rate_text(rate)
            )
        }
        (None, _) if saturation.ended => "No rate was sustained.".into(),
        (None, _) => "The search for the highest rate did not complete.".into(),
    };
    table.rows(saturation.curve().into_iter().map(row)).note(found)
}

fn rate_text(rate: f64) -> String {
    Unit::PerSecond.format(rate)
}

fn row(step: &SaturationStep) -> Vec<ReportCell> {
    let (all, figures) = (&step.operation_latency, &step.figures);
    let mut row: Vec<ReportCell> = vec![
        ReportCell::figure(Unit::PerSecond, step.rate),
        ReportCell::figure(Unit::PerSecond, figures.operations_per_second),
    ];
    let latencies = [all.mean, all.p50 as f64, all.p99 as f64, all.p99_9 as f64];
    row.extend(latencies.map(latency_ms));
    row.extend(
        [figures.database_read_ms, figures.log_write_ms].map(|ms| ReportCell::figure(Unit::Milliseconds, ms)),
    );
    row.push(match &step.broken {
        Some(rule) => format!("broke: {}", rule.name).into(),
        None if step.confirming => "confirmed".into(),
        None => "held".into(),
    });
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{result, saturation};

    #[test]
    fn the_curve_is_sorted_and_names_the_broken_rule() {
        let mut result = result();
        assert!(curve(&result).rows.is_empty());
        result.analysis.saturation = Some(saturation());
        let table = curve(&result);
        let line = |at: usize| table.rows[at].iter().map(ReportCell::line).collect::<Vec<_>>().join(" ");
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
        assert_eq!(line(0), "600.0 599.0 0.000 0.000 4.000 12.340 0.500 0.000 held");
        assert!(line(1).ends_with("confirmed"));
        assert!(
            line(2).starts_with("1,200.0 1,199.0 0.000 0.000 2,000.000")
                && line(2).ends_with("broke: Average database read latency (msec)")
        );
        assert_eq!(
            table.notes,
            ["Highest sustained rate: 600.0 operations per second; 1,200.0 broke a rule."]
        );
    }
}
