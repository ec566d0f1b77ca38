//! Renders a drive test as a page with charts. Each chart shows all targets.

use jetcell_input::Unit;
use jetcell_input::number::MIB;
use jetcell_lab::drive::{
    DriveTest, SeekMeasurement, StepGroup, StepMeasurement, StepResult, TargetStepResult, TestStep,
};
use jetcell_workload::measurement::LatencyHistogram;

use crate::bars::{BarChart, BarItem};
use crate::chart::{AxisScale, Chart, ChartSeries, DotOverlay, HorizontalAxis};
use crate::drive_test::{details, improvement, name_with_difference, notes, overview};
use crate::page::ReportPage;
use crate::series::{PER_DECADE, mode_text};

const GIB: f64 = (1 << 30) as f64;
/// Renders a test's charts, tables, and remarks as a single file.
pub fn drive_test_html(test: &DriveTest) -> String {
    let names: Vec<&str> = test.targets.iter().map(|target| target.name.as_str()).collect();
    let page = ReportPage::new(format!("Disk test of {}", names.join(" and ")));
    let page = overview(test).iter().fold(page, ReportPage::table);
    let mut page = notes(test).iter().fold(page, |page, line| page.text(line));
    page = page
        .heading("By position on the drive")
        .charts(&transfer_rate_charts(test))
        .charts(seeks(test).as_slice());
    let bars: Vec<BarChart> = ["read", "write"].into_iter().filter_map(|kind| by_size(test, kind)).collect();
    page = page.heading("Random transfers").bars(&bars).charts(&by_depth(test));
    page = page.heading("Latency").charts(&histograms(test));
    details(test).iter().fold(page.heading("Tables"), ReportPage::table).finish()
}

/// Returns the targets that ran the step, with their names.
fn targets_with_figures<'t>(
    test: &'t DriveTest,
    step: &'t StepResult,
) -> impl Iterator<Item = (&'t str, &'t TargetStepResult)> {
    let names = test.targets.iter().map(|target| target.name.as_str());
    names.zip(&step.figures).filter_map(|(name, figure)| Some((name, figure.as_ref()?)))
}

fn steps_in_group(test: &DriveTest, group: StepGroup) -> impl Iterator<Item = &StepResult> {
    test.steps.iter().filter(move |step| step.step.group == group)
}

/// Returns a line for each target and step. If there is only one step, its name is omitted.
fn step_lines(
    test: &DriveTest,
    steps: &[&StepResult],
    points: impl Fn(&TargetStepResult) -> Vec<(f64, f64)>,
) -> Vec<ChartSeries> {
    let mut all = Vec::new();
    for step in steps {
        for (name, figure) in targets_with_figures(test, step) {
            let kind = if step.step.reads_percent == 0 { "write" } else { "read" };
            let name = if steps.len() > 1 { format!("{name}, {kind}") } else { name.to_string() };
            all.push(ChartSeries::new(name, points(figure)));
        }
    }
    all
}

fn transfer_rate_charts(test: &DriveTest) -> Vec<Chart> {
    let place = || HorizontalAxis::Quantity("GiB from the start".into());
    let transfers: Vec<&StepResult> = steps_in_group(test, StepGroup::Transfer).collect();
    let rates = |figure: &TargetStepResult| mean_curve(&figure.repetitions);
    let curve = Chart::new("Transfer rate", "MiB/s", place(), step_lines(test, &transfers, rates));
    let access: Vec<&StepResult> = steps_in_group(test, StepGroup::AccessTime).collect();
    let cloud = |figure: &TargetStepResult| {
        let points = figure.repetitions.iter().flat_map(|one| &one.points);
        let mut points: Vec<(f64, f64)> = points.map(|point| (point.offset as f64 / GIB, point.ms)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let times = step_lines(test, &access, cloud);
    let scale = if has_outliers(&times) { AxisScale::Logarithmic } else { AxisScale::Linear };
    let unit = "ms, one dot per random 4 KiB read".to_string();
    if transfers.is_empty() {
        let alone = Chart::new("Access time", unit, place(), times);
        return vec![Chart { dots: true, scale, ..alone }];
    }
    let as_access_times =
        |times: ChartSeries| ChartSeries { name: format!("{}, access time", times.name), ..times };
    let series: Vec<ChartSeries> = times.into_iter().map(as_access_times).collect();
    let cloud = (!series.is_empty()).then_some(DotOverlay { unit, scale, series });
    let title = if cloud.is_some() { "Transfer rate and access time" } else { "Transfer rate" };
    vec![Chart { title: title.into(), cloud, ..curve }]
}

/// Returns true if a few points are so high that all other points would appear to lie on the axis.
fn has_outliers(times: &[ChartSeries]) -> bool {
    let mut values: Vec<f64> = times.iter().flat_map(|line| &line.points).map(|point| point.1).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.get(values.len() / 2);
    middle.zip(values.last()).is_some_and(|(middle, highest)| *highest > middle * 20.0)
}

/// Returns a chart of read latency by distance from the previous read.
fn seeks(test: &DriveTest) -> Option<Chart> {
    let points = |figure: &TargetStepResult| {
        let distances = figure.repetitions.first().map(|one| one.seeks.as_slice()).unwrap_or_default();
        let mean = |(at, seek): (usize, &SeekMeasurement)| {
            let all: Vec<f64> =
                figure.repetitions.iter().filter_map(|one| Some(one.seeks.get(at)?.ms)).collect();
            ((seek.distance as f64 / MIB).log10(), all.iter().sum::<f64>() / all.len() as f64)
        };
        distances.iter().enumerate().map(mean).collect::<Vec<_>>()
    };
    let steps: Vec<&StepResult> = steps_in_group(test, StepGroup::Seek)
        .filter(|step| {
            targets_with_figures(test, step)
                .any(|(_, figure)| figure.repetitions.iter().any(|one| !one.seeks.is_empty()))
        })
        .collect();
    let along = HorizontalAxis::Logarithm("MiB from the previous read".into());
    let chart = Chart::new(
        "Seek time by distance",
        "ms, mean of 4 KiB reads",
        along,
        step_lines(test, &steps, points),
    );
    (!steps.is_empty()).then_some(chart)
}

/// Returns each zone's mean rate over the repetitions.
fn mean_curve(repetitions: &[StepMeasurement]) -> Vec<(f64, f64)> {
    let zones = repetitions.first().map(|one| one.zones.as_slice()).unwrap_or_default();
    let rate = |(at, zone): (usize, &jetcell_lab::drive::TransferZone)| {
        let rates: Vec<f64> = repetitions.iter().filter_map(|one| one.zones.get(at)?.rate()).collect();
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        (zone.offset as f64 / GIB, mean)
    };
    zones.iter().enumerate().map(rate).collect()
}

fn by_size(test: &DriveTest, kind: &str) -> Option<BarChart> {
    let reads = if kind == "read" { 100 } else { 0 };
    let steps = steps_in_group(test, StepGroup::BySize).filter(|step| step.step.reads_percent == reads);
    let mut bars = Vec::new();
    for step in steps {
        for (at, (target, figure)) in test.targets.iter().zip(&step.figures).enumerate() {
            let Some(figure) = figure else { continue };
            let size = step.step.size_text();
            let name = if test.targets.len() > 1 { format!("{size}, {}", target.name) } else { size };
            bars.push(BarItem {
                name: name_with_difference(
                    name,
                    improvement(step, Some(figure)).as_ref(),
                    step.winner == Some(at),
                ),
                value: figure.mean,
                label: Unit::Iops.format(figure.mean),
                series: at,
            });
        }
    }
    let (title, unit) = (format!("Random {kind} by size"), "IOPS, one transfer at a time".to_string());
    // The bars are named by transfer size, without the target, so a legend must explain the colours.
    let targets = test.targets.iter().enumerate().filter(|_| test.targets.len() > 1);
    let legend = targets.map(|(at, target)| (at, target.name.clone())).collect();
    (!bars.is_empty()).then_some(BarChart { title, unit, scale: AxisScale::Logarithmic, legend, bars })
}

fn by_depth(test: &DriveTest) -> Vec<Chart> {
    let chart = |(kind, reads): (&str, u32)| {
        let steps =
            || steps_in_group(test, StepGroup::QueueDepth).filter(|step| step.step.reads_percent == reads);
        let line = |(at, target): (usize, &jetcell_lab::drive::TestedTarget)| {
            let point =
                |step: &StepResult| Some((step.step.depth as f64, step.figures.get(at)?.as_ref()?.mean));
            ChartSeries::new(target.name.as_str(), steps().filter_map(point))
        };
        let lines: Vec<ChartSeries> = test.targets.iter().enumerate().map(line).collect();
        let along = HorizontalAxis::Quantity("transfers in flight".into());
        let drawn = lines.iter().any(|line| !line.points.is_empty());
        drawn.then(|| Chart::new(format!("Random {kind} of 4 KiB"), "IOPS", along, lines))
    };
    [("read", 100), ("write", 0)].into_iter().filter_map(chart).collect()
}

/// Returns latency histograms for selected steps.
fn histograms(test: &DriveTest) -> Vec<Chart> {
    type HistogramSelector = fn(&StepMeasurement) -> &LatencyHistogram;
    const DRAWN: [(&str, HistogramSelector); 4] = [
        ("access_time", |one| &one.read_latencies),
        ("random_write_4k", |one| &one.write_latencies),
        ("sync", |one| &one.sync_latencies),
        ("mixed_8k", |one| &one.read_latencies),
    ];
    let chart = |(name, pick): (&str, HistogramSelector)| {
        let step = test.steps.iter().find(|step| step.step.name == name)?;
        let shares = |figure: &TargetStepResult| {
            let mut all = LatencyHistogram::default();
            figure.repetitions.iter().for_each(|one| all.add(pick(one)));
            all.shares(PER_DECADE)
                .into_iter()
                .map(|(us, share)| ((us / 1e3).log10(), share * 100.0))
                .collect()
        };
        let lines = step_lines(test, &[step], shares);
        let along = HorizontalAxis::Logarithm("milliseconds".into());
        let mut chart =
            Chart::new(title(&step.step), "percent of transfers, per tenth of a decade", along, lines);
        chart.steps = true;
        let first = chart.series.first();
        chart.finding = first.and_then(|series| {
            let shares: Vec<_> =
                series.points.iter().map(|(at, share)| (10_f64.powf(*at) * 1e3, share / 100.0)).collect();
            mode_text(&format!("of {}", series.name), &shares)
        });
        Some(chart)
    };
    DRAWN.into_iter().filter_map(chart).collect()
}

fn title(step: &TestStep) -> String {
    match step.group {
        StepGroup::Mixed => format!("{}, reads", step.title),
        _ => step.title.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive_test::tests::example;

    #[test]
    fn the_page_draws_every_chart_type_for_both_targets() {
        let mut test = example();
        let mut more = |name: &str, title: &str, group, size, depth| {
            let mut step = test.steps[0].clone();
            step.step = TestStep { name: name.into(), title: title.into(), group, size, depth, ..step.step };
            test.steps.push(step);
        };
        more("size_read_512", "Random read, 512 B", StepGroup::BySize, 512, 1);
        more("size_read_4k", "Random read, 4 KiB", StepGroup::BySize, 4096, 1);
        more("depth_read_1", "depth", StepGroup::QueueDepth, 4096, 1);
        more("depth_read_8", "depth", StepGroup::QueueDepth, 4096, 8);
        let charts = transfer_rate_charts(&test);
        let points = |chart: &Chart| chart.series.iter().map(|line| line.points.len()).collect::<Vec<_>>();
        let cloud = charts[0].cloud.as_ref().unwrap();
        assert_eq!((charts.len(), points(&charts[0])), (1, vec![4, 4]));
        assert_eq!(cloud.series.iter().map(|dots| dots.points.len()).collect::<Vec<_>>(), [9, 9]);
        // 25 MiB were transferred in a quarter of a second.
        assert!(charts[0].series.iter().flat_map(|line| &line.points).all(|point| point.1 == 100.0));
        // The lines for the rates use the first two colours, and the dots for the times use the next ones.
        let drawn = charts[0].svg();
        for (series, points, dots) in [(0, 4, false), (1, 4, false), (2, 9, true), (3, 9, true)] {
            let circles =
                drawn.split("<circle").filter(|one| one.contains(&format!("fill:var(--series-{series})")));
            assert_eq!(circles.count(), points, "{series}: {drawn}");
            let line = format!("<polyline fill=\"none\" opacity=\"1\" style=\"stroke:var(--series-{series})");
            assert_eq!(
                drawn.contains(&line) || drawn.contains(&format!("style=\"stroke:var(--series-{series})")),
                !dots
            );
        }
        let figure = charts[0].figure().into_string();
        assert!(
            figure.contains("green, access time (right axis)") && figure.contains("dots: ms, one dot"),
            "{figure}"
        );
        let mut only = test.clone();
        only.steps.retain(|step| step.step.group == StepGroup::AccessTime);
        assert!(transfer_rate_charts(&only)[0].dots && transfer_rate_charts(&only)[0].title == "Access time");
        only.steps.clear();
        assert_eq!(transfer_rate_charts(&only)[0].cloud, None);
        let bars = by_size(&test, "read").unwrap();
        let names: Vec<&str> = bars.bars.iter().map(|bar| bar.name.as_str()).collect();
        assert_eq!((names.len(), names[0]), (4, "512 B, green"));
        assert!(names[1].starts_with("512 B, black") && names[1].ends_with(", better"), "{names:?}");
        // Each target has the same colour in bars and charts.
        let series: Vec<usize> = bars.bars.iter().map(|bar| bar.series).collect();
        assert_eq!((series, bars.legend.len()), (vec![0, 1, 0, 1], 2));
        assert!(by_size(&test, "write").is_none());
        assert_eq!(points(&by_depth(&test)[0]), [2, 2]);
        let histogram = &histograms(&test)[0];
        assert!(
            histogram
                .series
                .iter()
                .all(|line| { (line.points.iter().map(|point| point.1).sum::<f64>() - 100.0).abs() < 1e-9 })
        );
        let page = drive_test_html(&test);
        assert!(
            page.starts_with("<!DOCTYPE html>") && page.contains("a &lt;note&gt;") && !page.contains('\x1b')
        );
        assert!(!page.contains("http"), "a page needs no network");
    }
}
