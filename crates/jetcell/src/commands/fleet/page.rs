//! The HTML report of a fleet.

use std::collections::BTreeMap;

use jetcell_fleet::HostResult;
use jetcell_fleet::result::FleetResult;
use jetcell_report::ReportPage;
use jetcell_report::chart::{Chart, ChartSeries};
use jetcell_workload::measurement::{InstanceSample, IoRates, Sample};

use super::tables::{fleet_tables, verdict};

/// Maximum number of lines in a chart. A chart with more lines would not be readable.
const MAX_LINES: usize = 24;

/// Returns the page with charts that show all hosts over time.
pub fn fleet_html(fleet: &FleetResult, results: &BTreeMap<u32, HostResult>) -> String {
    let title = format!("fleet {}: {}", fleet.name, fleet.test);
    let mut page = ReportPage::new(title).text(&format!("{}: {}", verdict(fleet), fleet.reason));
    let tables = fleet_tables(fleet);
    let (first, rest) = tables.split_at(2);
    for table in first {
        page = page.table(table);
    }
    if results.values().any(|one| !one.samples.is_empty()) {
        page = page.heading("All hosts over time").charts(&charts(fleet, results));
    }
    if results.len() > MAX_LINES {
        page = page.text(&format!("The charts show the first {MAX_LINES} of {} hosts.", results.len()));
    }
    rest.iter().fold(page, jetcell_report::ReportPage::table).finish()
}

fn charts(fleet: &FleetResult, results: &BTreeMap<u32, HostResult>) -> Vec<Chart> {
    let chart = |title: &str, unit: &str, value: &dyn Fn(&Sample) -> f64| {
        let line = |(rank, one): (&u32, &HostResult)| {
            let host =
                fleet.hosts.iter().find(|host| host.rank == *rank).map_or("", |host| host.host.as_str());
            let points = one.samples.iter().map(|sample| (sample.at_seconds, value(sample)));
            ChartSeries::new(format!("{rank} {host}"), points)
        };
        Chart::over_time(title, unit, results.iter().take(MAX_LINES).map(line).collect())
    };
    vec![
        chart("Transactional I/O", "1/s", &Sample::iops),
        chart("Database read latency", "ms", &|sample| mean_ms(sample, |one| one.database_read)),
        chart("Log write latency", "ms", &|sample| mean_ms(sample, |one| one.log_write)),
        chart("Operations", "1/s", &|sample| sample.operations_per_second),
    ]
}

/// Returns a host's mean latency over all its databases in an interval, weighted by the number of transfers.
fn mean_ms(sample: &Sample, kind: fn(&InstanceSample) -> IoRates) -> f64 {
    let all = || sample.instances.iter().map(kind);
    let transfers: f64 = all().map(|rates| rates.per_second).sum();
    let ms: f64 = all().map(|rates| rates.per_second * rates.average_ms).sum();
    if transfers > 0.0 { ms / transfers } else { 0.0 }
}
