//! Compares modelled response times with measured ones.

use std::time::Duration;

/// Returns the demerit figure of Ruemmler and Wilkes: the root mean square of the horizontal distance between the two
/// distributions of response times, divided by the mean of the measured times. A value of 0 means perfect agreement.
/// Published drive models reach values between 0.02 and 0.4.
///
/// Returns `None` if a list is empty, or if all measured times are 0.
pub fn demerit(measured: &[Duration], modelled: &[Duration]) -> Option<f64> {
    let sorted = |times: &[Duration]| {
        let mut seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
        seconds.sort_unstable_by(f64::total_cmp);
        seconds
    };
    let (measured, modelled) = (sorted(measured), sorted(modelled));
    let mean = measured.iter().sum::<f64>() / measured.len() as f64;
    if measured.is_empty() || modelled.is_empty() || mean == 0.0 {
        return None;
    }
    let steps = measured.len().max(modelled.len());
    let quantile = |times: &[f64], step: usize| times[(2 * step + 1) * times.len() / (2 * steps)];
    let squares = (0..steps).map(|step| (quantile(&measured, step) - quantile(&modelled, step)).powi(2));
    Some((squares.sum::<f64>() / steps as f64).sqrt() / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(times: impl IntoIterator<Item = u64>) -> Vec<Duration> {
        times.into_iter().map(Duration::from_millis).collect()
    }

    #[test]
    fn demerit_is_zero_for_equal_distributions_and_relative_for_shifts() {
        let measured = milliseconds([1, 2, 3, 4]);
        assert_eq!(demerit(&measured, &milliseconds([4, 2, 1, 3])), Some(0.0));
        assert_eq!(demerit(&measured, &milliseconds([1, 1, 2, 2, 3, 3, 4, 4])), Some(0.0));
        let shifted = demerit(&measured, &milliseconds([2, 3, 4, 5])).unwrap();
        assert!((shifted - 1.0 / 2.5).abs() < 1e-12);
        let one_far = demerit(&measured, &milliseconds([1, 2, 3, 8])).unwrap();
        assert!((one_far - 2.0 / 2.5).abs() < 1e-12, "{one_far}");
        assert_eq!((demerit(&[], &measured), demerit(&measured, &[])), (None, None));
        assert_eq!(demerit(&milliseconds([0, 0]), &measured), None);
    }
}
