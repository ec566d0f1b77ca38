use super::*;

#[test]
fn a_common_drift_does_not_hide_a_difference() {
    // The machine slows down by half, but the second target is 5 % faster in every repetition.
    let base = [1000.0, 800.0, 600.0, 500.0];
    let other = base.map(|iops| iops * 1.05);
    let found = Change::paired(&base, &other).unwrap();
    assert!((found.percent - 5.0).abs() < 1e-9 && found.significant, "{found:?}");
    assert_eq!(winner(BetterDirection::Higher, &[base.to_vec(), other.to_vec()]), Some(1));
    assert_eq!(winner(BetterDirection::Lower, &[base.to_vec(), other.to_vec()]), Some(0));
}

#[test]
fn noise_has_no_winner() {
    let (base, other) = ([100.0, 104.0, 98.0, 101.0], [103.0, 99.0, 101.0, 102.0]);
    let found = Change::paired(&base, &other).unwrap();
    assert!(!found.significant && found.half_width.unwrap() > found.percent.abs(), "{found:?}");
    assert_eq!(winner(BetterDirection::Higher, &[base.to_vec(), other.to_vec()]), None);
    assert_eq!(
        winner(BetterDirection::Higher, &[vec![100.0], vec![200.0]]),
        None,
        "one repetition proves nothing"
    );
}

#[test]
fn the_best_of_three_beats_both_others() {
    let around = |mean: f64| [mean - 1.0, mean + 1.0, mean, mean + 0.5].to_vec();
    let three = |a, b, c| winner(BetterDirection::Higher, &[around(a), around(b), around(c)]);
    assert_eq!((three(100.0, 150.0, 200.0), three(300.0, 150.0, 200.0)), (Some(2), Some(0)));
    // The two best targets are equal.
    assert_eq!(winner(BetterDirection::Higher, &[around(100.0), around(200.0), around(200.0)]), None);
    // The second target did not run this step.
    assert_eq!(winner(BetterDirection::Higher, &[around(100.0), Vec::new(), around(200.0)]), Some(2));
    assert_eq!(winner(BetterDirection::Higher, &[around(100.0), Vec::new()]), None);
}

#[test]
fn a_zero_baseline_has_no_percentages() {
    assert_eq!(Change::paired(&[0.0, 0.0], &[1.0, 1.0]), None);
    assert_eq!(Change::paired::<f64>(&[], &[]), None);
    let one = Change::paired(&[10.0], &[9.0]).unwrap();
    assert_eq!((one.percent, one.half_width, one.significant), (-10.0, None, false));
}

#[test]
fn a_turn_without_a_figure_is_left_out_on_both_sides() {
    // The machine slows down, and the first target has no figure in the second turn.
    let base = [Some(1000.0), None, Some(600.0), Some(500.0)];
    let other = [Some(1100.0), Some(880.0), Some(660.0), Some(550.0)];
    let found = Change::paired(&base, &other).unwrap();
    assert!((found.percent - 10.0).abs() < 1e-9 && found.significant, "{found:?}");
    assert_eq!(Change::paired(&[Some(1.0), None], &[None, Some(1.0)]), None);
    assert_eq!(winner(BetterDirection::Higher, &[base.to_vec(), other.to_vec()]), Some(1));
    assert_eq!(winner(BetterDirection::Higher, &[vec![None; 4], other.to_vec()]), None);
}

#[test]
fn a_whole_number_of_degrees_of_freedom_is_not_rounded_down() {
    // With equal variances, Welch's test has 2 (n - 1) degrees of freedom, here 14.
    for half_width in (1..1000).map(|at| f64::from(at) * 0.037) {
        let around =
            |mean| RepeatedFigure { interval: ConfidenceInterval { mean, half_width }, repetitions: 8 };
        let found = Change::independent(around(100.0), around(100.0)).unwrap();
        let expected = half_width / student_t(7) * 2.0_f64.sqrt() * student_t(14);
        assert!((found.half_width.unwrap() - expected).abs() < 1e-9, "{half_width}: {found:?}");
    }
}

#[test]
fn independent_repetitions_are_compared_by_welchs_test() {
    // t = 2.853 with 27.9 degrees of freedom.
    let one = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4];
    let other = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 30.5, 24.4];
    let repeated = |values: &[f64]| RepeatedFigure {
        interval: ConfidenceInterval::from_values(values).unwrap(),
        repetitions: values.len(),
    };
    let found = Change::independent(repeated(&one), repeated(&other)).unwrap();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let variance = |values: &[f64]| {
        let mean = mean(values);
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64
    };
    let error = ((variance(&one) + variance(&other)) / 15.0).sqrt();
    let t = (mean(&other) - mean(&one)) / error;
    assert!((t - 2.853).abs() < 0.001 && found.significant, "{t} {found:?}");
    assert!((found.half_width.unwrap() / 100.0 * mean(&one) / error - 2.052).abs() < 1e-9, "{found:?}");
    let once = RepeatedFigure { repetitions: 1, ..repeated(&one) };
    assert_eq!(Change::independent(once, repeated(&other)), None);
}

#[test]
fn repetitions_without_noise_differ_if_their_means_differ() {
    let exact =
        |mean: f64| RepeatedFigure { interval: ConfidenceInterval { mean, half_width: 0.0 }, repetitions: 3 };
    let change = |base, other| Change::independent(exact(base), exact(other));
    assert!(change(10.0, 11.0).unwrap().significant && !change(10.0, 10.0).unwrap().significant);
    assert_eq!(change(0.0, 1.0), None);
    // The same mean, summed in a different order.
    assert!(!change(0.6, 0.1 + 0.2 + 0.3).unwrap().significant);
}

#[test]
fn an_improvement_is_positive() {
    let faster = Change { percent: -5.0, half_width: Some(1.0), significant: true };
    assert_eq!(faster.improvement(BetterDirection::Lower).percent, 5.0);
    let is_better = [BetterDirection::Lower, BetterDirection::Higher, BetterDirection::Neither]
        .map(|better| faster.is_better(better));
    assert_eq!(is_better, [true, false, false]);
}
