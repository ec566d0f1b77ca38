//! Compares very small probabilities with values computed to 60 digits.

use jetcell_raid_models::{DriveSet, EventRates, MarkovModel};

/// Test case: number of drives, parities, lo, ll, mo, ms, hours, and the probability of loss in the general chain.
type GoldenCase = (u32, u32, &'static str, &'static str, &'static str, &'static str, f64, f64);

const GENERAL: [GoldenCase; 6] = [
    (4, 3, "1e-7/h", "1e-5/h", "1/h", "0.1/h", 43_800.0, 5.25599988607663e-20),
    (3, 2, "2e-9/h", "1e-6/h", "0.5/h", "0.05/h", 43_800.0, 4.20319873773639e-17),
    (5, 2, "1e-8/h", "0/h", "1/h", "0.01/h", 8760.0, 2.6275498292205e-19),
    (9, 2, "1e-9/h", "1e-7/h", "2/h", "1/h", 1000.0, 2.52335424573653e-20),
    (6, 3, "2.17e-6/h", "1.08e-4/h", "0.0833/h", "0.00595/h", 43_800.0, 2.02532179816046e-10),
    (9, 3, "2.17e-6/h", "1.08e-4/h", "0.0833/h", "0.00595/h", 1.0, 3.91943650006608e-19),
];

#[test]
fn probabilities_far_below_1e_minus_15_have_ten_correct_digits() {
    for (drives, parities, lo, ll, mo, ms, hours, expected) in GENERAL {
        let rates = EventRates {
            failure: lo.parse().unwrap(),
            latent: ll.parse().unwrap(),
            restore: mo.parse().unwrap(),
            scrub: ms.parse().unwrap(),
        };
        let set = DriveSet { data: drives - parities, parities };
        let loss = MarkovModel::general().loss_probability(set, &rates, hours).unwrap().loss;
        assert!((loss / expected - 1.0).abs() < 1e-10, "{loss:e} is not {expected:e}");
    }
}
