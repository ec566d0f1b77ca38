//! Approximations simple enough for a pocket calculator: the classical formula, and closed forms.
//!
//! With the published rates, the closed forms are too high by 0.4 to 0.7 % for up to nine drives, and by 1.05 % for
//! 23 drives.

use crate::EventRates;
use crate::array::DriveSet;

/// Returns the mean time to data loss in hours according to the classical formula, which ignores latent defects: mo^m
/// / (lo^(m+1) N (N-1) ... (N-m)).
///
/// The value is printed only to show how wrong the formula is: with the published rates, its time is hundreds of
/// times too long.
pub fn classical_mean_time_to_loss(set: DriveSet, rates: &EventRates) -> Option<f64> {
    let (lo, mo) = (rates.failure.get(), rates.restore.get());
    // The factors are multiplied one at a time, to keep intermediate values from overflowing.
    let time = (1..=set.parities).fold(1.0 / (f64::from(set.drives()) * lo), |time, lost| {
        time * mo / (f64::from(set.drives() - lost) * lo)
    });
    time.is_finite().then_some(time)
}

/// Returns the probability that a set loses data within `hours`, according to the classical formula: 1 - exp(-T /
/// MTTDL).
pub fn classical_loss(set: DriveSet, rates: &EventRates, hours: f64) -> f64 {
    classical_mean_time_to_loss(set, rates).map_or(0.0, |time| -(-hours / time).exp_m1())
}

/// Returns the approximate probability that a set with one or two parities loses data within `hours`. The formula
/// assumes that the fast transitions are in equilibrium. Returns `None` for three parities. Also returns `None` without
/// a scrub, because an equilibrium does not exist in this case.
///
/// n+1: a = (n+1) ll/ms, b = (n+1) lo/mo, F = 1 - exp(-T n lo (a+b)/(1+a+b)). n+2: a, b with n+2; p1 = 1/(1+a+b), p2
/// = a p1, p3 = b p1, p4 = ((n+1) lo p2 + (n+1) ll p3)/mo, p5 = (n+1) lo p3/mo, F = 1 - exp(-T n lo (p4+p5)).
pub fn closed_form_loss(set: DriveSet, rates: &EventRates, hours: f64) -> Option<f64> {
    let n = f64::from(set.data);
    let drives = f64::from(set.drives());
    let (lo, ll, mo, ms) = (rates.failure.get(), rates.latent.get(), rates.restore.get(), rates.scrub.get());
    let a = if ll == 0.0 { 0.0 } else { drives * ll / ms };
    let b = drives * lo / mo;
    let p1 = 1.0 / (1.0 + a + b);
    let exposed = match set.parities {
        1 => (a + b) * p1,
        2 => ((n + 1.0) * (lo * a * p1 + ll * b * p1) + (n + 1.0) * lo * b * p1) / mo,
        _ => return None,
    };
    exposed.is_finite().then(|| -(-hours * n * lo * exposed).exp_m1())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MarkovModel;

    #[test]
    fn closed_forms_are_too_high_by_about_half_a_per_cent() {
        for (parities, model) in [(1, MarkovModel::A), (2, MarkovModel::B1)] {
            for data in [1, 3, 7, 14, 21] {
                let (set, rates) = (DriveSet { data, parities }, EventRates::published());
                let exact = model.loss_probability(set, &rates, 43_800.0).unwrap().loss;
                let closed = closed_form_loss(set, &rates, 43_800.0).unwrap();
                let most = if data <= 7 { 0.0067 } else { 0.0106 };
                let high = closed / exact - 1.0;
                assert!((0.004..most).contains(&high), "{model} {data}: {high}");
            }
        }
    }

    #[test]
    fn the_classical_formula_is_hundreds_of_times_too_low() {
        let rates = EventRates::published();
        let single = DriveSet { data: 7, parities: 1 };
        let double = DriveSet { data: 7, parities: 2 };
        assert_eq!(format!("{:.2e}", classical_loss(single, &rates, 43_800.0)), "1.38e-4");
        assert_eq!(format!("{:.1e}", classical_loss(double, &rates, 43_800.0)), "3.2e-8");
        let exact = MarkovModel::A.loss_probability(single, &rates, 43_800.0).unwrap().loss;
        assert_eq!((exact / classical_loss(single, &rates, 43_800.0) / 10.0).round(), 58.0);
        let exact = MarkovModel::B1.loss_probability(double, &rates, 43_800.0).unwrap().loss;
        assert_eq!((exact / classical_loss(double, &rates, 43_800.0) / 10.0).round(), 64.0);
    }

    #[test]
    fn without_defects_fast_restores_match_the_classical_formula() {
        let mut rates = EventRates::published();
        rates.latent = crate::units::PerHour::NEVER;
        rates.restore = "1000/h".parse().unwrap();
        for (set, model) in [
            (DriveSet { data: 7, parities: 1 }, MarkovModel::A),
            (DriveSet { data: 1, parities: 2 }, MarkovModel::B1),
        ] {
            let exact = crate::diagram::StateDiagram::new(model, set)
                .chain(&rates)
                .unwrap()
                .mean_time_to_loss()
                .unwrap();
            let classical = classical_mean_time_to_loss(set, &rates).unwrap();
            assert!((exact / classical - 1.0).abs() < 1e-6, "{exact:e} {classical:e}");
        }
    }
}
