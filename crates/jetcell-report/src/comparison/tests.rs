use jetcell_input::Unit;
use jetcell_workload::measurement::{
    ConfidenceInterval, RepeatedFigure, Repetition, Repetitions, SampleFile,
};
use serde::Deserialize;

use super::*;
use crate::example::{result, samples};

#[derive(Deserialize)]
struct PrintedComparison {
    columns: Vec<String>,
    metrics: Vec<PrintedRunMetric>,
}

#[derive(Deserialize)]
struct PrintedRunMetric {
    metric: String,
    better: BetterDirection,
    values: Vec<f64>,
    reported_delta_pct: Vec<Option<f64>>,
    computed_delta_pct: Vec<Option<f64>>,
}

/// Reads a published comparison of three file systems, in which figures are printed with two decimals and percentages
/// without decimals.
fn printed() -> PrintedComparison {
    serde_json::from_str(include_str!("filesystem-comparison.json")).unwrap()
}

fn metric(better: BetterDirection, figures: &[f64]) -> ComparisonMetric {
    let values = figures.iter().map(|figure| Some(MetricValue { figure: *figure, interval: None })).collect();
    ComparisonMetric { name: "m".into(), unit: Unit::None, better, values }
}

#[test]
fn the_28_printed_percentages_are_reproduced() {
    let printed = printed();
    let mut compared = 0;
    for row in &printed.metrics {
        let ours = metric(row.better, &row.values);
        for run in 1..printed.columns.len() {
            let delta = ours.delta(0, run).unwrap();
            let name = &row.metric;
            assert_eq!(delta.round(), row.reported_delta_pct[run].unwrap(), "{name} {run}: {delta}");
            assert!((delta - row.computed_delta_pct[run].unwrap()).abs() < 0.0051, "{name} {run}: {delta}");
            compared += 1;
        }
    }
    assert_eq!(compared, 28);
}

/// Printed figures are rounded, so each exact percentage is only known to within an interval. The test checks that
/// every printed percentage lies in its interval. In three cases, the neighbouring number could also have been printed.
/// The first of these is exactly 62.5, a tie.
#[test]
fn the_printed_figures_leave_three_percentages_ambiguous() {
    let mut open = Vec::new();
    for row in &printed().metrics {
        for (run, reported) in row.reported_delta_pct.iter().enumerate().skip(1) {
            let mut ends: Vec<f64> = [-0.005, 0.005]
                .iter()
                .flat_map(|a| [-0.005, 0.005].map(|b| (row.values[0] + a, row.values[run] + b)))
                .map(|(base, value)| metric(row.better, &[base, value]).delta(0, 1).unwrap().round())
                .collect();
            ends.sort_by(f64::total_cmp);
            assert!((ends[0]..=ends[3]).contains(&reported.unwrap()), "{} {run}: {ends:?}", row.metric);
            if ends[0] != ends[3] {
                open.push((row.metric.clone(), run, ends[0], ends[3]));
            }
        }
    }
    let open: Vec<_> = open.iter().map(|(name, run, low, high)| (name.as_str(), *run, *low, *high)).collect();
    let expected = [
        ("db_writes_avg_latency_ms", 1, -63.0, -62.0),
        ("log_writes_avg_latency_ms", 2, -31.0, -30.0),
        ("avg_processor_time_pct", 1, 14.0, 15.0),
    ];
    assert_eq!(open, expected);
}

#[test]
fn signs_show_the_better_run() {
    assert_eq!(metric(BetterDirection::Higher, &[100.0, 110.0]).delta(0, 1).map(f64::round), Some(10.0));
    assert_eq!(metric(BetterDirection::Lower, &[100.0, 110.0]).delta(0, 1).map(f64::round), Some(-10.0));
    assert_eq!(metric(BetterDirection::Neither, &[100.0, 90.0]).delta(0, 1).map(f64::round), Some(-10.0));
}

#[test]
fn without_a_base_there_is_no_percentage() {
    for odd in [0.0, -0.0, f64::NAN, f64::INFINITY] {
        let odd = metric(BetterDirection::Lower, &[odd, 1.0, odd]);
        assert_eq!((odd.delta(0, 1), odd.delta(0, 2)), (None, None));
    }
    let mut missing = metric(BetterDirection::Higher, &[1.0, 2.0]);
    missing.values[0] = None;
    assert_eq!((missing.delta(0, 1), missing.delta(1, 0), missing.delta(0, 7)), (None, None, None));
    assert_eq!(metric(BetterDirection::Lower, &[3.0, 3.0]).delta(0, 1).map(f64::to_bits), Some(0));
}

/// Checks that, whichever run is the base, the better run stays better, ratios multiply, and the column order does
/// not matter.
#[test]
fn base_and_order_do_not_change_which_run_is_better() {
    for row in printed().metrics {
        let here = metric(row.better, &row.values);
        let turned = metric(row.better, &[row.values[2], row.values[0], row.values[1]]);
        let sign = if row.better == BetterDirection::Lower { -1.0 } else { 1.0 };
        let ratio = |a: usize, b: usize| 1.0 + sign * here.delta(a, b).unwrap() / 100.0;
        for a in 0..3 {
            assert_eq!(here.delta(a, a), Some(0.0));
            for b in 0..3 {
                assert_eq!(here.delta(a, b), turned.delta((a + 1) % 3, (b + 1) % 3));
                let (there, back) = (here.delta(a, b).unwrap(), here.delta(b, a).unwrap());
                assert!(a == b || there.signum() == -back.signum(), "{} {there} {back}", row.metric);
                for c in 0..3 {
                    assert!((ratio(a, b) * ratio(b, c) - ratio(a, c)).abs() < 1e-12, "{}", row.metric);
                }
            }
        }
    }
}

#[test]
fn an_insignificant_difference_is_not_shown() {
    let finding = |half_width: f64, other: Option<f64>| {
        let value = |mean: f64, half_width: f64| {
            let interval = ConfidenceInterval { mean, half_width };
            Some(MetricValue { figure: mean, interval: Some(RepeatedFigure { interval, repetitions: 5 }) })
        };
        let mut metric = metric(BetterDirection::Higher, &[100.0]);
        metric.values = vec![value(100.0, half_width), other.and_then(|mean| value(mean, 3.0))];
        metric.finding(0, 1)
    };
    assert_eq!(finding(2.0, Some(105.5)), Some(DifferenceFinding::Different));
    assert_eq!(finding(2.0, Some(102.5)), Some(DifferenceFinding::NotShown));
    assert_eq!(finding(2.0, Some(94.5)), Some(DifferenceFinding::Different));
    assert_eq!(finding(9.0, Some(94.5)), Some(DifferenceFinding::NotShown));
    assert_eq!(finding(2.0, None), None);
}

/// Returns a passed run that is `times` as fast as the example, with repetitions that vary by `noise`.
fn run(name: &str, times: f64, noise: Option<f64>) -> (String, StoredRun) {
    let mut result = result();
    (result.verdict, result.reason) = (Verdict::Pass, "every rule held".into());
    result.achieved_transactional_iops *= times;
    result.instances[0].database_reads_average_latency_ms /= times;
    result.analysis.repetitions = noise.and_then(|noise| {
        let repetition = |by: f64| Repetition {
            transactional_iops: result.achieved_transactional_iops + by,
            operations_per_second: 12.5,
            database_read_ms: 1.25 / times,
            log_write_ms: 1.25 + by / 100.0,
            ..Repetition::default()
        };
        Repetitions::new(&[repetition(-noise), repetition(0.0), repetition(noise)])
    });
    (name.into(), StoredRun { result, samples: samples(5) })
}

fn eight() -> Vec<(String, StoredRun)> {
    let long = "/a/very/long/path/to/results/of/many/runs/on/a/file/system/Performance_2026-01-02_03-04-05";
    let numbered_run = |n: usize| run(&format!("{long}-{n}"), 1.0 + n as f64 * 1000.0, Some(0.5));
    (0..8).map(numbered_run).collect()
}

#[test]
fn a_terminal_of_100_columns_is_wide_enough() {
    for count in 2..=8 {
        let text = text(&RunComparison::new(&eight()[..count], 1), 100).to_string();
        for line in text.lines() {
            assert!(jetcell_input::columns(line) <= 100, "{count} runs: {line}");
        }
        assert!(text.contains("_03-04-05-0") && text.contains("The base is run 2."), "{text}");
        assert!(text.contains("Positive is") && text.contains("different"), "{text}");
    }
}

#[test]
fn percentile_intervals_come_from_repetitions() {
    let mut one = run("a", 1.0, None);
    one.1.result.analysis.repetitions = Some(crate::example::repetitions());
    let found = RunComparison::new(&[one, run("b", 1.0, None)], 0);
    let half = |name: &str| {
        let metric = found.metrics.iter().find(|metric| metric.name == name).unwrap();
        metric.value(0).unwrap().interval.map(|found| found.interval.half_width)
    };
    assert_eq!((half("Database read p50"), half("Database read p99.99")), (Some(0.05), None));
    assert_eq!((half("Log write p99"), half("Database write p99")), (Some(0.199), None));
}

#[test]
fn insignificant_differences_are_marked_in_every_format() {
    let runs = [run("a", 1.0, Some(3.0)), run("b", 1.01, Some(3.0))];
    let comparison = RunComparison::new(&runs, 0);
    assert!(
        text(&comparison, 100).to_string().contains("(+1.0)")
            && text(&comparison, 100).to_string().contains("no difference shown")
    );
    assert!(html(&comparison).contains("(+1.0)") && html(&comparison).contains("no difference shown"));
    assert!(markdown(&comparison).contains("(+1.0)"));
    assert!(csv(&comparison).lines().any(|line| line.starts_with("Transactional I/O,1/s,higher,b,288.8")
        && line.ends_with("no difference shown")));
    let json: serde_json::Value = serde_json::from_str(&json(&comparison).unwrap()).unwrap();
    let value = &json["metrics"][0]["values"][1];
    assert_eq!(value["finding"], "no difference shown");
    assert!((value["difference_percent"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    assert!(value["interval"]["low"].as_f64() < value["interval"]["high"].as_f64());
    assert_eq!(json["metrics"][0]["values"][0]["difference_percent"], serde_json::Value::Null);
    assert_eq!(comparison.warnings, Vec::<String>::new());
}

#[test]
fn different_settings_are_listed() {
    let (mut one, mut other) = (run("a", 1.0, None), run("b", 2.0, None));
    other.1.result.configuration.threads += 4;
    other.1.result.configuration.mix = "10/20/30/40".parse().unwrap();
    other.1.result.plan.cache_bytes *= 2;
    other.1.result.configuration.dirs = vec!["/elsewhere".into()];
    other.1.result.evidence.machine.kernel = "7.0".into();
    other.1.result.evidence.build.commit = "1234567".into();
    other.1.result.evidence.build.features = vec!["full".into()];
    (one.1.result.verdict, one.1.result.reason) = (Verdict::Fail, "too slow".into());
    let comparison = RunComparison::new(&[one, other], 0);
    let names: Vec<&str> = comparison.load.iter().map(|setting| setting.name.as_str()).collect();
    assert_eq!(names, ["cache", "mix.insert", "mix.read", "mix.replace", "threads"]);
    let names: Vec<&str> = comparison.environment.iter().map(|setting| setting.name.as_str()).collect();
    assert_eq!(names, ["build commit", "build features", "kernel"]);
    let warnings = comparison.warnings.join("\n");
    assert!(
        warnings.contains("run 1 failed: too slow") && warnings.contains("not the same load: cache, mix")
    );
    assert!(warnings.contains("no run was repeated"), "{warnings}");
    assert!(
        text(&comparison, 100).to_string().contains("cache: 128.00 MiB (run 1); 256.00 MiB (run 2)"),
        "{}",
        text(&comparison, 100).to_string()
    );
}

#[test]
fn arrays_and_plain_files_under_the_same_directory_differ() {
    use jetcell_host::machine::ArrayStorage;
    let on_array = |level: &str, lun: Option<&str>| {
        let mut run = run("a", 1.0, None);
        let array = ArrayStorage {
            array: "/arr".into(),
            level: level.into(),
            members: vec!["/m1".into(), "/m2".into()],
            lun: lun.map(Into::into),
            simulated_drive: None,
        };
        run.1.result.evidence.machine.set_arrays(&[("/data".into(), array)]);
        run
    };
    let names = |runs: &[(String, StoredRun)]| -> Vec<String> {
        let comparison = RunComparison::new(runs, 0);
        comparison.environment.iter().map(|setting| setting.name.clone()).collect()
    };
    let plain = names(&[run("a", 1.0, None), on_array("raid5", None)]);
    assert_eq!(plain, ["array", "array level", "array members"]);
    assert_eq!(names(&[on_array("raid5", None), on_array("raid6", None)]), ["array level"]);
    assert_eq!(names(&[on_array("raid5", None), on_array("raid5", Some("mail"))]), ["LUN"]);
    assert_eq!(names(&[on_array("raid5", None), on_array("raid5", None)]), Vec::<String>::new());
}

#[test]
fn a_killed_run_is_compared_using_samples() {
    let (mut killed, mut nothing) = (run("a", 1.0, None), run("b", 1.0, None));
    for run in [&mut killed, &mut nothing] {
        (run.1.result.verdict, run.1.result.measured_seconds) = (Verdict::Incomplete, 0.0);
        run.1.result.reason = "killed".into();
        run.1.result.latency.clear();
    }
    killed.1.result.fill_from_samples(&killed.1.samples);
    nothing.1.samples.clear();
    let comparison = RunComparison::new(&[run("whole", 1.0, None), killed, nothing], 0);
    let find = |name: &str| comparison.metrics.iter().find(|metric| metric.name == name).unwrap();
    assert_eq!(find("Transactional I/O").value(1).unwrap().figure, 100.0);
    assert_eq!((find("Database read p99").value(1), find("Transactional I/O").value(2)), (None, None));
    let warnings = comparison.warnings.join("\n");
    assert!(warnings.contains("run 2 is incomplete: killed"), "{warnings}");
    assert!(warnings.contains("run 3 is incomplete and contains no measurement: killed"), "{warnings}");
    for shown in
        [text(&comparison, 100).to_string(), html(&comparison), markdown(&comparison), csv(&comparison)]
    {
        assert!(!shown.contains("NaN") && !shown.contains("inf"), "{shown}");
    }
}

#[test]
fn every_format_shows_the_doubts_about_a_run() {
    let (sure, mut doubtful) = (run("a", 1.0, Some(3.0)), run("b", 1.0, Some(3.0)));
    doubtful.1.result.doubts = vec!["the measured time was 2 s".into(), "the load was not steady".into()];
    let comparison = RunComparison::new(&[sure, doubtful], 0);
    let warning = "run 2 is doubtful: the measured time was 2 s";
    assert!(comparison.warnings.iter().any(|line| line == warning), "{:?}", comparison.warnings);
    // On a page, only the word `PASS` is shown in the colour of the verdict.
    let verdict = "<span class=\"success\">PASS</span>, 2 doubts";
    for (shown, verdict) in [
        (text(&comparison, 200).to_string(), "PASS, 2 doubts"),
        (html(&comparison), verdict),
        (markdown(&comparison), "PASS, 2 doubts"),
    ] {
        assert!(shown.contains(verdict) && shown.contains(warning), "{shown}");
    }
    let json: serde_json::Value = serde_json::from_str(&json(&comparison).unwrap()).unwrap();
    assert_eq!(
        (json["runs"][0]["doubts"].as_array().unwrap().len(), &json["runs"][1]["doubts"][1]),
        (0, &"the load was not steady".into())
    );
}

#[test]
fn names_are_escaped() {
    let comparison =
        RunComparison::new(&[run("<script>alert(1)</script>|", 1.0, None), run("b", 1.0, None)], 0);
    assert!(!html(&comparison).contains("<script>alert"));
    assert!(markdown(&comparison).contains(r"\<script>alert(1)\</script>\|"));
}

#[test]
fn runs_from_disk_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    run("a", 1.0, Some(1.0)).1.result.write(&dir.path().join("result.json")).unwrap();
    let mut file = SampleFile::create(&dir.path().join("samples.csv")).unwrap();
    samples(4).iter().for_each(|sample| file.add(sample).unwrap());
    drop(file);
    let stored = StoredRun::read(dir.path()).unwrap();
    let comparison = RunComparison::new(&[("a".into(), stored.clone()), ("b".into(), stored)], 0);
    assert_eq!(comparison.warnings, ["run 1 and run 2 have the same result"]);
    assert!(
        comparison.charts.iter().all(|chart| chart.series.len() == 2 && chart.series[0].points.len() == 4)
    );
}
