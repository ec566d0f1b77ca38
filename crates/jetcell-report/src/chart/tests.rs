use super::*;

fn chart(series: Vec<Series>) -> Chart {
    Chart::over_time("IOPS", "transfers per second", series)
}

fn line(name: &str, points: &[(f64, f64)]) -> Series {
    Series::new(name, points.iter().copied())
}

#[test]
fn a_chart_follows_the_page() {
    let page = chart(vec![line("a", &[(0.0, 1.0), (1.0, 3.0)]), line("b", &[(0.0, 2.0), (1.0, 2.5)])]);
    let page = page.figure().into_string();
    assert!(page.contains("viewBox=\"0 0 480 220\"") && !page.contains("width=\"480\""), "{page}");
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
            odd.mark = Some((a, String::new()));
            for scale in [Scale::Linear, Scale::Logarithmic] {
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
fn measured_quantities_are_points_on_powers_of_ten() {
    let points = [(100.0, 0.2), (200.0, 0.0), (300.0, 3.0), (400.0, 4000.0)];
    let mut curve = chart(vec![line("p99", &points)]);
    (curve.along, curve.scale) = (Along::Quantity("rate".into()), Scale::Logarithmic);
    let svg = curve.svg();
    let labels = |svg: &str| -> Vec<String> {
        let texts = svg.split("<text").skip(1).filter_map(|text| text.split('\n').nth(1));
        texts.map(String::from).collect()
    };
    let labelled = labels(&svg);
    for decade in ["0.1", "1", "10", "100", "1000", "10k"] {
        assert!(labelled.iter().any(|label| label == decade), "{decade}: {labelled:?}");
    }
    assert_eq!(svg.matches("<circle").count(), 3, "zero has no place");
    let lines = |svg: &str| svg.matches("<polyline").count();
    assert_eq!(svg.matches("style=\"stroke:var(--series-0)\" stroke-width=\"2\"").count(), 1);

    curve.mark = Some((350.0, String::new()));
    assert_eq!(lines(&curve.svg()), lines(&svg) + 1);
    curve.mark = Some((900.0, "the limit <".into()));
    assert!(labels(&curve.svg()).contains(&"800".to_string()), "the mark is inside");
    assert!(curve.figure().into_string().contains("</span>the limit &lt;</li>"));
}

#[test]
fn a_gap_stays_a_gap() {
    let nan = f64::NAN;
    let points = [(0.0, 1.0), (1.0, 1.0), (2.0, nan), (3.0, 1.0), (4.0, 2.0), (nan, 1.0), (6.0, 1.0)];
    assert_eq!(thinned(&points).iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
}

#[test]
fn peaks_stay_and_the_size_is_bounded() {
    let mut points: Vec<(f64, f64)> = (0..200_000).map(|n| (f64::from(n), 1.0)).collect();
    points[77_777].1 = 500.0;
    points[123_456].1 = -3.0;
    let parts = thinned(&points);
    assert_eq!(parts.len(), 1);
    assert!(parts[0].len() <= 2 * INTERVALS && parts[0].is_sorted_by(|a, b| a.0 < b.0));
    assert!(parts[0].contains(&(77_777.0, 500.0)) && parts[0].contains(&(123_456.0, -3.0)));
    assert!(chart(vec![Series::new("a", points)]).svg().len() < 40_000);
}

#[test]
fn names_are_escaped() {
    let hostile = "</svg><script>alert(1)</script>\"&";
    let mut bad = chart(vec![line(hostile, &[(0.0, 1.0), (1.0, 2.0)])]);
    bad.title = hostile.into();
    bad.unit = hostile.into();
    bad.along = Along::Quantity(hostile.into());
    let page = bad.figure().into_string();
    assert!(!page.contains("<script") && !page.contains("\"&\""), "{page}");
    assert_eq!(page.matches("</svg>").count(), 1);
}

#[test]
fn time_has_a_suitable_unit() {
    let unit = |end: f64| Along::Time.scale(&(0.0..end)).1;
    assert_eq!(
        (unit(60.0), unit(7200.0), unit(86_400.0)),
        ("seconds".into(), "minutes".into(), "hours".into())
    );
    assert_eq!([1.5, 2000.0, 12_000.0, 3e6].map(short), ["1.5", "2000", "12k", "3M"]);
}
