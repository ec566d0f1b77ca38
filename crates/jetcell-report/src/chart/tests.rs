use super::axis::short_label;
use super::drawing::{INTERVALS, downsample};
use super::*;

fn chart(series: Vec<ChartSeries>) -> Chart {
    Chart::over_time("IOPS", "transfers per second", series)
}

fn line(name: &str, points: &[(f64, f64)]) -> ChartSeries {
    ChartSeries::new(name, points.iter().copied())
}

#[test]
fn a_chart_scales_and_uses_page_colours() {
    let page = chart(vec![line("a", &[(0.0, 1.0), (1.0, 3.0)]), line("b", &[(0.0, 2.0), (1.0, 2.5)])]);
    let page = page.figure().into_string();
    assert!(page.contains("viewBox=\"0 0 480 244\"") && !page.contains("width=\"480\""), "{page}");
    for property in
        ["stroke:var(--series-0)", "stroke:var(--series-1)", "fill:currentColor", "stroke:var(--line)"]
    {
        assert!(page.contains(property), "{property}: {page}");
    }
    assert!(!page.contains("#C15E") && !page.contains("http:"), "{page}");
    assert!(page.contains(">\nseconds\n<") && page.contains("</span>a</li>"), "{page}");
}

#[test]
fn unusual_values_can_be_drawn() {
    let odd =
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, f64::MIN_POSITIVE, 0.0, -0.0, -1.0];
    for a in odd {
        for b in odd {
            let mut odd = chart(vec![line("a", &[(a, b)]), line("b", &[(b, a), (a, a), (b, b)])]);
            odd.marks = vec![(a, String::new())];
            for scale in [AxisScale::Linear, AxisScale::Logarithmic] {
                odd.scale = scale;
                let svg = odd.svg();
                assert!(
                    svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"),
                    "{a} {b}: {svg}"
                );
            }
        }
    }
    assert!(chart(vec![]).figure().into_string().contains("Nothing was recorded"));
    assert!(chart(vec![line("a", &[(5.0, 5.0)])]).svg().contains("<circle"));
    let many = vec![line("a", &[(0.0, 1.0), (1.0, 2.0)]); 1000];
    assert!(chart(many).figure().into_string().contains("and 976 more"));
}

#[test]
fn measured_quantities_are_points_on_a_logarithmic_axis() {
    let points = [(100.0, 0.2), (200.0, 0.0), (300.0, 3.0), (400.0, 4000.0)];
    let mut curve = chart(vec![line("p99", &points)]);
    (curve.horizontal_axis, curve.scale) = (HorizontalAxis::Quantity("rate".into()), AxisScale::Logarithmic);
    let svg = curve.svg();
    let labels = |svg: &str| -> Vec<String> {
        let texts = svg.split("<text").skip(1).filter_map(|text| text.split('\n').nth(1));
        texts.map(String::from).collect()
    };
    let labelled = labels(&svg);
    for decade in ["0.1", "1", "10", "100", "1,000", "10k"] {
        assert!(labelled.iter().any(|label| label == decade), "{decade}: {labelled:?}");
    }
    assert_eq!(svg.matches("<circle").count(), 3, "zero has no place");
    let lines = |svg: &str| svg.matches("<polyline").count();
    assert_eq!(svg.matches("style=\"stroke:var(--series-0)\" stroke-width=\"2\"").count(), 1);

    curve.marks = vec![(350.0, String::new())];
    assert_eq!(lines(&curve.svg()), lines(&svg) + 1);
    curve.marks = vec![(900.0, "the limit <".into())];
    assert!(labels(&curve.svg()).contains(&"800".to_string()), "the mark is inside");
    assert!(curve.figure().into_string().contains("</span>the limit &lt;</li>"));
}

/// Parses a figure's values in the same way as the script.
fn places(chart: &Chart) -> Vec<serde_json::Value> {
    let values: serde_json::Value = serde_json::from_str(&chart.readout()).unwrap();
    values["places"].as_array().unwrap().clone()
}

#[test]
fn every_charted_value_is_also_in_text() {
    let nan = f64::NAN;
    let two = chart(vec![line("a", &[(10.0, 1.0), (20.0, 2345.6)]), line("b", &[(10.0, nan), (20.0, 0.5)])]);
    let shown = places(&two);
    assert_eq!(shown[0][1], "10 seconds");
    assert_eq!(shown[0][2], serde_json::json!(["1", null]));
    assert_eq!(shown[1][2], serde_json::json!(["2,346", "0.5"]));
    // The axis starts at the first data point, and the cursor is drawn there.
    let [left, right] = [0, 1].map(|at| shown[at][0].as_f64().unwrap());
    assert!((left * 480.0 - 70.0).abs() < 0.1 && (right * 480.0 - 456.0).abs() < 0.1, "{left} {right}");
    let svg = two.svg();
    assert!(svg.contains(">\n10\n<") && !svg.contains(">\n5\n<"), "{svg}");
    // A long series is reduced to a limited number of positions. The range at one of them includes the peak.
    let mut points: Vec<(f64, f64)> = (0..50_000).map(|n| (f64::from(n), 1.0)).collect();
    points[25_000].1 = 900.0;
    let long = places(&chart(vec![ChartSeries::new("a", points)]));
    assert!(long.len() <= 200, "{}", long.len());
    assert_eq!(long.iter().filter(|place| place[2][0] == "1 to 900").count(), 1);
}

#[test]
fn a_caption_describes_the_chart() {
    let points = [(1.0, 12.0), (2.0, 30.0), (3.0, 8.0)];
    let caption = |chart: &Chart| {
        let page = chart.figure().into_string();
        page.split_once("<strong>").unwrap().1.split_once("</strong>").unwrap().0.to_string()
    };
    let plain = chart(vec![line("reads", &points)]);
    assert_eq!(caption(&plain), "IOPS: reads 8 to 30");
    let limited = |bound, value| caption(&plain.clone().with_limit(bound, value, "reads", 0));
    assert_eq!(limited(RuleBound::AtMost, 20.0), "IOPS: reads 8 to 30, above 20 in 1 of 3 intervals");
    assert_eq!(limited(RuleBound::AtMost, 30.0), "IOPS: reads 8 to 30, never above 30");
    assert_eq!(limited(RuleBound::AtLeast, 10.0), "IOPS: reads 8 to 30, below 10 in 1 of 3 intervals");
    assert_eq!(
        caption(&plain.clone().with_limit(RuleBound::AtMost, 9.0, "others", 1)),
        "IOPS: reads 8 to 30"
    );
    assert_eq!(
        caption(&chart(vec![line("flat", &[(0.0, 2.0), (1.0, 2.0)])]).with_finding("it is flat")),
        "IOPS: it is flat"
    );
}

#[test]
fn a_histogram_is_drawn_in_steps() {
    let mut steps = chart(vec![line("a", &[(0.0, 10.0), (0.1, 30.0)])]);
    (steps.steps, steps.horizontal_axis) = (true, HorizontalAxis::Logarithm("milliseconds".into()));
    // Each value is drawn as a horizontal line; the last one is as wide as the others.
    assert_eq!(steps.line(&steps.series[0]), [[(0.0, 10.0), (0.1, 10.0), (0.1, 30.0), (0.2, 30.0)]]);
    assert!(!steps.svg().contains("<circle"));
    assert_eq!(places(&steps)[0][1], "from 1 milliseconds");
}

#[test]
fn gaps_are_not_interpolated() {
    let nan = f64::NAN;
    let points = [(0.0, 1.0), (1.0, 1.0), (2.0, nan), (3.0, 1.0), (4.0, 2.0), (nan, 1.0), (6.0, 1.0)];
    assert_eq!(downsample(&points).iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
}

#[test]
fn downsampling_keeps_peaks_and_bounds_the_size() {
    let mut points: Vec<(f64, f64)> = (0..200_000).map(|n| (f64::from(n), 1.0)).collect();
    points[77_777].1 = 500.0;
    points[123_456].1 = -3.0;
    let parts = downsample(&points);
    assert_eq!(parts.len(), 1);
    assert!(parts[0].len() <= 2 * INTERVALS && parts[0].is_sorted_by(|a, b| a.0 < b.0));
    assert!(parts[0].contains(&(77_777.0, 500.0)) && parts[0].contains(&(123_456.0, -3.0)));
    assert!(chart(vec![ChartSeries::new("a", points)]).svg().len() < 40_000);
}

#[test]
fn names_are_escaped() {
    let hostile = "</svg><script>alert(1)</script>\"&";
    let mut bad = chart(vec![line(hostile, &[(0.0, 1.0), (1.0, 2.0)])]);
    bad.title = hostile.into();
    bad.unit = hostile.into();
    bad.horizontal_axis = HorizontalAxis::Quantity(hostile.into());
    let page = bad.figure().into_string();
    assert!(!page.contains("<script") && !page.contains("\"&\""), "{page}");
    assert_eq!(page.matches("</svg>").count(), 1);
}

#[test]
fn axis_labels_share_one_suffix() {
    let labels = [0.0, 5_000.0, 12_500.0].map(|value| axis::short_label_below(value, 15_000.0));
    assert_eq!(labels, ["0", "5k", "12.5k"]);
    assert_eq!([500.0, 9_000.0].map(|value| axis::short_label_below(value, 9_000.0)), ["500", "9,000"]);
    assert_eq!([2e-4, 0.5].map(|value| axis::short_label_below(value, 0.5)), ["2e-4", "0.5"]);
}

#[test]
fn time_has_a_suitable_unit() {
    let unit = |end: f64| HorizontalAxis::Time.scale(&(0.0..end)).1;
    assert_eq!(
        (unit(60.0), unit(7200.0), unit(86_400.0)),
        ("seconds".into(), "minutes".into(), "hours".into())
    );
    assert_eq!([1.5, 2000.0, 12_000.0, 3e6].map(short_label), ["1.5", "2,000", "12k", "3M"]);
}
