//! Charts for the arrays that store a run's databases, and marks for array events.

use jetcell_workload::measurement::ArraySample;

use crate::chart::{Chart, ChartSeries};

/// Returns charts for the samples, or none if the run does not use an array.
pub(crate) fn charts(samples: &[ArraySample]) -> Vec<Chart> {
    if samples.is_empty() {
        return vec![];
    }
    let over = |name: &str, value: fn(&ArraySample) -> Option<f64>| {
        let chart_point = |sample: &ArraySample| (sample.at_seconds, value(sample).unwrap_or(f64::NAN));
        ChartSeries::new(name, samples.iter().map(chart_point))
    };
    let mut charts = vec![
        Chart::over_time(
            "Array writes",
            "of members, per test write or block",
            vec![
                over("member writes per test write", |sample| sample.member_writes_per_host_write),
                over("member blocks per test block", |sample| sample.member_blocks_per_host_block),
            ],
        ),
        Chart::over_time(
            "Array transfers",
            "per second, all members",
            vec![
                over("member reads", |sample| Some(sample.member_reads_per_second)),
                over("member writes", |sample| Some(sample.member_writes_per_second)),
                over("test writes", |sample| Some(sample.host_writes_per_second)),
            ],
        ),
    ];
    if samples.iter().any(|sample| sample.rebuilt_percent.is_some()) {
        let rebuilt = over("rebuilt", |sample| sample.rebuilt_percent);
        charts.push(Chart::over_time("Array rebuild", "percent rebuilt", vec![rebuilt]));
    }
    for chart in &mut charts {
        chart.marks = marks(samples);
    }
    charts
}

/// Returns a mark for each member failure and for each start or completion of a rebuild. An event is placed at the
/// end of the interval in which it occurred.
pub(crate) fn marks(samples: &[ArraySample]) -> Vec<(f64, String)> {
    let mut marks = vec![];
    for pair in samples.windows(2) {
        let [before, after] = pair else { continue };
        let mut add = |happened: bool, what: &str| {
            if happened {
                marks.push((after.at_seconds, what.to_string()));
            }
        };
        let (was, is) = (before.rebuilt_percent.is_some(), after.rebuilt_percent.is_some());
        add(after.missing_members > before.missing_members, "a member failed");
        add(is && !was, "the rebuild begins");
        add(was && !is, "the rebuild is complete");
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_and_rebuilds_are_marked_in_charts() {
        let sample = |at_seconds: f64, missing_members: u64, rebuilt_percent: Option<f64>| ArraySample {
            at_seconds,
            missing_members,
            rebuilt_percent,
            ..ArraySample::default()
        };
        let samples = [
            sample(1.0, 1, None),
            sample(2.0, 1, None),
            sample(3.0, 2, Some(0.0)),
            sample(4.0, 2, Some(60.0)),
            sample(5.0, 1, None),
        ];
        let names = ["a member failed", "the rebuild begins", "the rebuild is complete"].map(String::from);
        let expected: Vec<(f64, String)> = [3.0, 3.0, 5.0].into_iter().zip(names).collect();
        assert_eq!(marks(&samples), expected);
        let all = charts(&samples);
        assert_eq!(all.len(), 3);
        let page = all[2].figure().into_string();
        assert!(page.contains("the rebuild begins") && page.contains("rebuilt"), "{page}");
        assert!(charts(&[]).is_empty() && charts(&samples[..2]).len() == 2);
    }
}
