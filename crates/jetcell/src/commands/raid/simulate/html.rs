//! HTML page for an experiment: its tables, and charts of the run in which a drive fails.

use jetcell_disk_simulation::ExperimentResults;
use jetcell_disk_simulation::experiment::LayoutResults;
use jetcell_disk_simulation::timeline::TimelineSecond;
use jetcell_report::ReportPage;
use jetcell_report::chart::{Chart, ChartSeries};

use super::tables;

pub fn page(experiment: &ExperimentResults) -> String {
    let page = ReportPage::new("Simulated arrays").text(&tables::title(experiment));
    let page = tables::all_tables(experiment).iter().fold(page, ReportPage::table);
    page.heading("Before, during and after the loss of a drive")
        .text(
            "A drive fails, and its rebuild begins later. The run rebuilds a part of the drive, evenly \
         spread from its first to its last byte.",
        )
        .charts(&charts(experiment))
        .finish()
}

/// Returns charts that contain a line for each layout and mark the times of the failure and the rebuild.
fn charts(experiment: &ExperimentResults) -> [Chart; 5] {
    type TimelineValueFn = fn(&TimelineSecond) -> Option<f64>;
    let chart = |title: &str, unit: &str, value: TimelineValueFn| {
        let line = |layout: &LayoutResults| {
            let seconds = layout.timeline.seconds.iter().enumerate();
            let points = seconds.map(|(at, second)| (at as f64, value(second).unwrap_or(f64::NAN)));
            ChartSeries::new(layout.name.as_str(), points)
        };
        let lines: Vec<ChartSeries> = experiment.layouts.iter().map(line).collect();
        let mut chart = Chart::over_time(title, unit, lines);
        if let Some(first) = experiment.layouts.first() {
            chart.marks = vec![
                (first.timeline.failed, "a drive fails (the first vertical line)".into()),
                (first.timeline.rebuild_began, "the rebuild begins (the second vertical line)".into()),
            ];
        }
        chart
    };
    [
        chart("Read latency", "milliseconds, mean of each second", |second| second.read_ms),
        chart("Write latency", "milliseconds, mean of each second", |second| second.write_ms),
        chart("Latency of log writes", "milliseconds, mean of each second", |second| second.log_ms),
        chart(
            "Disk writes for each host write",
            "disk writes, excluding commands of the rebuild",
            |second| (second.host_writes > 0).then(|| second.disk_writes as f64 / second.host_writes as f64),
        ),
        chart("Progress of the rebuild", "percent", |second| Some(second.rebuilt_share * 100.0)),
    ]
}
