//! Compares the simulation with the Markov models where their assumptions are met, and with the reference elsewhere.

use jetcell_raid_models::simulation::weibull::Weibull;
use jetcell_raid_models::simulation::{
    AfterLossAction, EventDistributions, LossEstimate, LossSimulation, SimulationSettings,
};
use jetcell_raid_models::units::{Hours, PerHour};
use jetcell_raid_models::{DriveSet, EventRates, MarkovModel};

const FIVE_YEARS: f64 = 43_800.0;

fn estimate(experiment: &LossSimulation, seed: u64, lives: u64) -> LossEstimate {
    experiment.estimate(SimulationSettings { seed, precision: 1e-5, lives }, |_| ()).unwrap()
}

fn weibull(offset: f64, scale: f64, shape: f64) -> Weibull {
    Weibull::new(Hours::new(offset).unwrap(), Hours::new(scale).unwrap(), shape).unwrap()
}

/// Returns the published distributions with another scrub time.
fn published(scrub: Option<f64>) -> EventDistributions {
    EventDistributions {
        failure: Some(weibull(0.0, 461_386.0, 1.12)),
        latent: Some(weibull(0.0, 9259.0, 1.0)),
        restore: weibull(6.0, 12.0, 2.0),
        scrub: scrub.map(|scale| weibull(6.0, scale, 3.0)),
    }
}

/// Asserts that an estimate differs from the expected value by less than four combined standard errors.
#[track_caller]
fn agree(estimate: LossEstimate, expected: f64, error: f64, what: &str) {
    let error = estimate.standard_error.hypot(error);
    let off = (estimate.mean - expected) / error;
    assert!(off.abs() < 4.0, "{what}: {:e} is {off:.1} errors from {expected:e}", estimate.mean);
    assert!(estimate.standard_error < 0.08 * estimate.mean, "{what}: {estimate:?} says too little");
}

#[test]
fn with_constant_rates_the_simulation_agrees_with_the_general_chain() {
    for (data, parities) in [(1, 1), (7, 1), (1, 2), (7, 2), (20, 2), (5, 3), (20, 3)] {
        let (set, rates) = (DriveSet { data, parities }, EventRates::published());
        let exact = MarkovModel::general().loss_probability(set, &rates, FIVE_YEARS).unwrap().loss;
        for biased in [false, true] {
            // Probabilities below 1e-6 need the bias.
            if exact < 1e-6 && !biased {
                continue;
            }
            let experiment = LossSimulation::new(
                set,
                EventDistributions::exponential(&rates).unwrap(),
                FIVE_YEARS,
                AfterLossAction::End,
                biased,
            );
            agree(
                estimate(&experiment, 7, 25_000),
                exact,
                0.0,
                &format!("{data}+{parities} biased {biased}"),
            );
        }
    }
}

#[test]
fn without_defects_the_simulation_agrees_with_the_general_chain() {
    let mut rates = EventRates::published();
    rates.latent = PerHour::NEVER;
    for (data, parities) in [(7, 1), (7, 2), (7, 3)] {
        let set = DriveSet { data, parities };
        let exact = MarkovModel::general().loss_probability(set, &rates, FIVE_YEARS).unwrap().loss;
        let experiment = LossSimulation::new(
            set,
            EventDistributions::exponential(&rates).unwrap(),
            FIVE_YEARS,
            AfterLossAction::End,
            true,
        );
        agree(estimate(&experiment, 3, 40_000), exact, 0.0, &format!("{data}+{parities}"));
    }
}

#[test]
fn first_losses_with_the_published_laws() {
    for (drives, parities, years, expected, error) in [
        (8, 1, 5.0, 0.06098, 2e-5),
        (8, 1, 10.0, 0.12742, 5e-5),
        (9, 2, 5.0, 1.5506e-5, 9e-9),
        (9, 2, 10.0, 3.623e-5, 9e-8),
        (16, 2, 5.0, 9.758e-5, 2e-7),
        (16, 2, 10.0, 2.282e-4, 3.2e-7),
    ] {
        let set = DriveSet { data: drives - parities, parities };
        let experiment =
            LossSimulation::new(set, published(Some(168.0)), years * 8760.0, AfterLossAction::End, true);
        agree(estimate(&experiment, 11, 25_000), expected, error, &format!("{drives} drives {years} years"));
    }
}

#[test]
fn losses_of_1000_raid_5_groups_with_the_published_laws() {
    let set = DriveSet { data: 7, parities: 1 };
    for (scrub, ten_years, error, first_year) in [
        (None, 1200.4, 0.1, 81.4),
        (Some(336.0), 250.6, 0.05, 18.9),
        (Some(168.0), 136.24, 0.03, 10.37),
        (Some(48.0), 44.85, 0.01, 3.42),
        (Some(12.0), 15.73, 0.003, 1.197),
    ] {
        for (hours, expected, error) in
            [(87_600.0, ten_years, error), (8760.0, first_year, first_year * 5e-3)]
        {
            let experiment =
                LossSimulation::new(set, published(scrub), hours, AfterLossAction::Restore, false);
            let what = format!("scrub {scrub:?} {hours} h");
            agree(estimate(&experiment, 5, 10_000), expected / 1000.0, error / 1000.0, &what);
        }
    }
    let laws = EventDistributions { latent: None, ..published(None) };
    let experiment = LossSimulation::new(set, laws, 87_600.0, AfterLossAction::Restore, false);
    agree(estimate(&experiment, 5, 10_000), 0.25528e-3, 0.0002e-3, "no defects");
}

#[test]
fn failure_shape_matters_more_than_restore_or_scrub_shape() {
    let (set, rates) = (DriveSet { data: 7, parities: 2 }, EventRates::published());
    let exponential = EventDistributions::exponential(&rates).unwrap();
    // Means of 12 h and 168 h: scale = mean / gamma(1 + 1/shape).
    let laws = EventDistributions {
        restore: weibull(0.0, 12.0 / 0.886_226_925, 2.0),
        scrub: Some(weibull(0.0, 168.0 / 0.892_979_512, 3.0)),
        ..exponential
    };
    let run =
        |laws| estimate(&LossSimulation::new(set, laws, FIVE_YEARS, AfterLossAction::End, true), 2, 40_000);
    agree(run(laws), 2.0997e-5, 4e-8, "shapes");
    let worn = run(EventDistributions { failure: Some(weibull(0.0, 461_386.0, 1.12)), ..exponential });
    let ratio = worn.mean / 2.0996e-5;
    assert!((ratio - 0.57).abs() < 0.03, "wear-out cuts the figure by 43 %: {ratio}");
}

#[test]
fn counting_losses_gives_the_same_mean_over_many_seeds() {
    let experiment = LossSimulation::new(
        DriveSet { data: 7, parities: 1 },
        published(Some(168.0)),
        FIVE_YEARS,
        AfterLossAction::End,
        false,
    );
    let counts: Vec<f64> = (0..8).map(|seed| estimate(&experiment, seed, 4000).counted).collect();
    let mean = counts.iter().sum::<f64>() / 8.0;
    let error = (0.061f64 * 0.939 / 32_000.0).sqrt();
    assert!((mean - 0.06098).abs() < 4.0 * error, "{mean} {counts:?}");
}

#[test]
fn a_seed_gives_the_same_result_every_time() {
    let experiment = LossSimulation::new(
        DriveSet { data: 7, parities: 2 },
        published(Some(168.0)),
        FIVE_YEARS,
        AfterLossAction::End,
        true,
    );
    let first = estimate(&experiment, 42, 20_000);
    assert_eq!(first, estimate(&experiment, 42, 20_000));
    assert_ne!(first.mean, estimate(&experiment, 43, 20_000).mean);
}

#[test]
fn a_10_per_cent_interval_at_1e_minus_5_takes_few_lives() {
    let experiment = LossSimulation::new(
        DriveSet { data: 7, parities: 2 },
        published(Some(168.0)),
        FIVE_YEARS,
        AfterLossAction::End,
        true,
    );
    let estimate = experiment
        .estimate(SimulationSettings { precision: 0.1, ..SimulationSettings::default() }, |_| ())
        .unwrap();
    assert!(estimate.relative_precision() <= 0.1 && estimate.lives <= 65_536, "{estimate:?}");
    assert!(estimate.low < 1.5506e-5 && estimate.high > 1.5506e-5, "{estimate:?}");
}

#[test]
fn an_estimate_without_contributions_is_a_bound() {
    let laws = EventDistributions { failure: None, ..published(Some(168.0)) };
    let experiment =
        LossSimulation::new(DriveSet { data: 7, parities: 2 }, laws, FIVE_YEARS, AfterLossAction::End, true);
    let estimate = estimate(&experiment, 1, 1000);
    assert_eq!((estimate.mean, estimate.low, estimate.high), (0.0, 0.0, 0.003));
}

#[test]
fn excess_events_are_refused_and_idle_lives_stop_early() {
    let busy = EventDistributions {
        latent: Some(weibull(0.0, 1e-3, 1.0)),
        scrub: Some(weibull(0.0, 1e-3, 3.0)),
        ..published(None)
    };
    let set = DriveSet { data: 7, parities: 2 };
    let busy = LossSimulation::new(set, busy, FIVE_YEARS, AfterLossAction::End, true);
    assert!(busy.estimate(SimulationSettings::default(), |_| ()).is_err());
    let calm = EventDistributions { failure: None, ..published(Some(168.0)) };
    let calm = LossSimulation::new(set, calm, FIVE_YEARS, AfterLossAction::End, true);
    assert!(calm.estimate(SimulationSettings::default(), |_| ()).unwrap().lives < 100_000);
}
