//! Tests properties that every set of rates must have.

use jetcell_raid_models::diagram::StateDiagram;
use jetcell_raid_models::units::{AnnualFailure, Hours, PerHour};
use jetcell_raid_models::{
    DriveSet, EventRates, MarkovModel, RaidType, ReliabilityAssessment, ReliabilityInputs, ScrubPolicy,
};
use proptest::prelude::*;

const HOURS: f64 = 43_800.0;

/// Generates rates from far better to far worse than the published rates, as powers of ten.
fn rates() -> impl Strategy<Value = EventRates> {
    let rate = |range: std::ops::Range<f64>| range.prop_map(|power| PerHour::new(10f64.powf(power)).unwrap());
    (rate(-9.0..-4.0), rate(-8.0..-2.0), rate(-3.0..1.0), rate(-5.0..0.0))
        .prop_map(|(failure, latent, restore, scrub)| EventRates { failure, latent, restore, scrub })
}

fn models(parities: u32) -> &'static [MarkovModel] {
    const GENERAL: MarkovModel = MarkovModel::General(jetcell_raid_models::GeneralModelRules {
        rebuild_cleans: false,
        scrub_while_degraded: true,
        late_defects: false,
    });
    match parities {
        1 => &[MarkovModel::A, GENERAL],
        2 => &[MarkovModel::B1, MarkovModel::B2, GENERAL],
        _ => &[GENERAL],
    }
}

fn loss(model: MarkovModel, data: u32, parities: u32, rates: &EventRates) -> f64 {
    model.loss_probability(DriveSet { data, parities }, rates, HOURS).unwrap().loss
}

/// Compares with a tolerance, because rounding may change the last digits of equal values.
fn not_more(less: f64, more: f64) -> bool {
    less <= more * (1.0 + 1e-9)
}

/// Returns true if defects, at `factor` times their rate, arise far more slowly than they are repaired.
fn defects_are_rare(rates: &EventRates, factor: f64) -> bool {
    rates.latent.get() * factor * 20.0 < rates.restore.get().min(rates.scrub.get())
}

#[test]
fn published_double_parity_loses_more_than_single_with_many_defects() {
    let rate = |value| PerHour::new(value).unwrap();
    let rates = EventRates { failure: rate(1e-4), latent: rate(1e-2), restore: rate(1e-3), scrub: rate(1.0) };
    assert!(!defects_are_rare(&rates, 1.0));
    assert!(loss(MarkovModel::B1, 1, 2, &rates) > loss(MarkovModel::A, 1, 1, &rates));
    assert!(loss(MarkovModel::general(), 1, 2, &rates) < loss(MarkovModel::general(), 1, 1, &rates));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn more_redundancy_never_raises_the_loss(rates in rates(), data in 1u32..12) {
        for (fewer, more) in [(1, 2), (2, 3)] {
            let (fewer, more) = (loss(MarkovModel::general(), data, fewer, &rates), loss(MarkovModel::general(), data, more, &rates));
            prop_assert!(not_more(more, fewer), "{more:e} {fewer:e}");
        }
        // With a failed drive, B1 has no scrub, and a defect uses as much redundancy as a failure. With many defects,
        // the second parity therefore protects nothing, and the set has one more drive that can fail.
        if defects_are_rare(&rates, 1.0) {
            prop_assert!(not_more(loss(MarkovModel::B1, data, 2, &rates), loss(MarkovModel::A, data, 1, &rates)));
        }
    }

    #[test]
    fn more_data_disks_never_lower_the_loss(rates in rates(), data in 1u32..12, parities in 1u32..4) {
        for &model in models(parities) {
            prop_assert!(not_more(loss(model, data, parities, &rates), loss(model, data + 1, parities, &rates)), "{}", model);
        }
    }

    #[test]
    fn the_loss_is_monotone_in_each_rate(rates in rates(), data in 1u32..10, parities in 1u32..4, factor in 1.01f64..10.0) {
        let times = |rate: PerHour| PerHour::new(rate.get() * factor).unwrap();
        for &model in models(parities) {
            let base = loss(model, data, parities, &rates);
            let changed = |rates: EventRates| loss(model, data, parities, &rates);
            prop_assert!(not_more(base, changed(EventRates { failure: times(rates.failure), ..rates })), "{} failure", model);
            // If defects arise as fast as they are repaired, the diagrams are biased. In a set with a defect, they
            // count one drive less that can fail, and a restored drive counts again.
            if defects_are_rare(&rates, factor) {
                let worse = changed(EventRates { latent: times(rates.latent), ..rates });
                prop_assert!(not_more(base, worse), "{} latent", model);
                let quicker = changed(EventRates { restore: times(rates.restore), ..rates });
                prop_assert!(not_more(quicker, base), "{} restore", model);
                let oftener = changed(EventRates { scrub: times(rates.scrub), ..rates });
                prop_assert!(not_more(oftener, base), "{} scrub", model);
            }
        }
    }

    #[test]
    fn the_loss_grows_with_time_and_agrees_with_survival(rates in rates(), data in 1u32..10, parities in 1u32..4) {
        for &model in models(parities) {
            let chain = StateDiagram::new(model, DriveSet { data, parities }).chain(&rates).unwrap();
            let (half, whole) = (chain.probabilities_after(HOURS / 2.0).unwrap(), chain.probabilities_after(HOURS).unwrap());
            prop_assert!(not_more(half.loss, whole.loss));
            prop_assert!((whole.loss + whole.survival - 1.0).abs() < 1e-12);
            prop_assert!((0.0..=1.0).contains(&whole.loss));
        }
    }

    #[test]
    fn rare_losses_follow_the_mean_time(rates in rates(), data in 1u32..10, parities in 1u32..4) {
        // Long after the start and long before the mean time to loss, the probability is linear in time.
        for &model in models(parities) {
            let chain = StateDiagram::new(model, DriveSet { data, parities }).chain(&rates).unwrap();
            let mean = chain.mean_time_to_loss().unwrap();
            let line = (chain.probabilities_after(1e7).unwrap().loss - chain.probabilities_after(5e6).unwrap().loss) / 5e6;
            if mean > 1e12 {
                prop_assert!((line * mean - 1.0).abs() < 1e-4, "{} {}", line * mean, mean);
            }
        }
    }
}

/// Generates values of any magnitude, including the limits of the valid ranges.
fn any_size() -> impl Strategy<Value = f64> {
    let power = |range: std::ops::Range<f64>| range.prop_map(|power| 10f64.powf(power));
    let border = proptest::sample::select(vec![0.0, 1.0, f64::MAX, f64::MIN_POSITIVE]);
    prop_oneof![8 => power(-9.0..3.0), 2 => power(-300.0..300.0), 1 => border]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_case_gives_a_probability_without_a_panic(
        raid in 0usize..6, data in 0u32..14, groups in 0u32..2_000_000, years in 0.0f64..100.0,
        afr in 0.0f64..1.0, latent in any_size(), restore in any_size(), scrub in any_size(),
        spares in proptest::option::of(0u32..2000), delivery in any_size(),
    ) {
        let question = ReliabilityInputs {
            raid: RaidType::ALL.get(raid).copied(),
            data_disks: Some(data),
            groups: Some(groups),
            years: Some(years),
            afr: AnnualFailure::new(afr).ok(),
            latent_rate: PerHour::new(latent).ok(),
            restore: Hours::new(restore).ok(),
            scrub: Hours::new(scrub).ok().map(ScrubPolicy::Mean),
            spares,
            spare_delivery: spares.and(Hours::new(delivery).ok()),
            ..ReliabilityInputs::default()
        };
        let Ok(case) = question.case() else { return Ok(()) };
        let Ok(answer) = ReliabilityAssessment::new(&case) else { return Ok(()) };
        for loss in [answer.group.loss, answer.array.loss, answer.general_group_loss] {
            prop_assert!((0.0..=1.0 + 1e-12).contains(&loss), "{loss} {question:?}");
        }
    }
}
