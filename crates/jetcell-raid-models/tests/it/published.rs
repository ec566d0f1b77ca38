//! Checks every figure of the reference: exactly for reproducible figures, and by their deviation for the others.

use jetcell_raid_models::diagram::StateDiagram;
use jetcell_raid_models::units::PerHour;
use jetcell_raid_models::{
    ArrayShape, DriveSet, EventRates, GeneralModelRules, LossProbability, MarkovModel, RaidType,
};
use serde_json::Value;

const FIVE_YEARS: f64 = 43_800.0;
const EXACT: f64 = 1e-9;

fn fixture() -> Value {
    serde_json::from_str(include_str!("../../fixtures/markov-expected.json")).unwrap()
}

fn close(value: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((value / expected - 1.0).abs() <= tolerance, "{what}: {value:.13e} is not {expected:.13e}");
}

fn five_years(model: MarkovModel, data: u32, parities: u32) -> LossProbability {
    model.loss_probability(DriveSet { data, parities }, &EventRates::published(), FIVE_YEARS).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[test]
fn five_year_losses_and_mean_times() {
    let fixture = fixture();
    let models = [
        (MarkovModel::A, 1, &fixture["n_plus_1"]),
        (MarkovModel::B1, 2, &fixture["n_plus_2"]["B1"]),
        (MarkovModel::B2, 2, &fixture["n_plus_2"]["B2"]),
        (MarkovModel::B3, 2, &fixture["n_plus_2"]["B3"]),
        (MarkovModel::BFit, 2, &fixture["n_plus_2"]["Bfit"]),
    ];
    let mut cells = 0;
    for (model, parities, table) in models {
        for (data, row) in table.as_object().unwrap() {
            let set = DriveSet { data: data.parse().unwrap(), parities };
            let chain = StateDiagram::new(model, set).chain(&EventRates::published()).unwrap();
            let what = format!("{model} n = {data}");
            close(chain.probabilities_after(FIVE_YEARS).unwrap().loss, number(&row["F5y"]), EXACT, &what);
            close(chain.mean_time_to_loss().unwrap(), number(&row["mttdl_h"]), EXACT, &what);
            cells += 1;
        }
    }
    assert_eq!(cells, 21 + 4 * 6);
}

#[test]
fn aggregates_of_tables_2_and_3() {
    let fixture = fixture();
    for (table, model, keys) in [
        ("aggregates_table2", MarkovModel::A, ["F_group", "F_aggregate"]),
        ("aggregates_table3", MarkovModel::B1, ["F_group_B1", "F_aggregate_B1"]),
        ("aggregates_table3", MarkovModel::B2, ["F_group_B2", "F_aggregate_B2"]),
    ] {
        for row in fixture[table].as_array().unwrap() {
            let parities = if model == MarkovModel::A { 1 } else { 2 };
            let raid = if model == MarkovModel::A { RaidType::Raid5 } else { RaidType::RaidDp };
            let data = number(&row["hdd_per_group"]) as u32 - parities;
            let groups = number(&row["groups"]);
            let group = five_years(model, data, parities);
            close(group.loss, number(&row[keys[0]]), EXACT, table);
            close(group.for_independent_sets(groups).loss, number(&row[keys[1]]), EXACT, table);
            if let Some(expected) = row["expected_lossy_groups"].as_f64() {
                close(group.loss * groups, expected, 1e-6, table);
            }
            let array = ArrayShape::new(raid, data, groups as u32).unwrap();
            assert_eq!(
                (array.drives(), array.overhead_disks()),
                (number(&row["hdd"]) as u64, number(&row["overhead"]) as u64)
            );
            assert_eq!(array.usable_disks(), 42);
        }
    }
}

#[test]
fn sensitivity_table() {
    for row in fixture()["sensitivity"].as_array().unwrap() {
        let mut rates = EventRates::published();
        for (key, value) in row["overrides"].as_object().unwrap() {
            let rate = PerHour::new(number(value)).unwrap();
            match key.as_str() {
                "lo" => rates.failure = rate,
                "ll" => rates.latent = rate,
                "mo" => rates.restore = rate,
                "ms" => rates.scrub = rate,
                other => panic!("{other}"),
            }
        }
        for (key, model, data, parities) in [
            ("raid10", MarkovModel::A, 1, 1),
            ("raid5_n7", MarkovModel::A, 7, 1),
            ("dp_n7_B2", MarkovModel::B2, 7, 2),
            ("dp_n14_B2", MarkovModel::B2, 14, 2),
        ] {
            let loss = model.loss_probability(DriveSet { data, parities }, &rates, FIVE_YEARS).unwrap().loss;
            // Figures are printed with nine digits, and the rates in the rows have twelve digits.
            close(loss, number(&row[key]), 5e-9, &format!("{} {key}", row["case"]));
        }
    }
}

#[test]
fn general_chain() {
    for row in fixture()["extended_fk_chain"]["rows"].as_array().unwrap() {
        let (drives, parities) = (number(&row["N"]) as u32, number(&row["m"]) as u32);
        let options = GeneralModelRules {
            rebuild_cleans: row["rebuild_clears_ld"].as_bool().unwrap(),
            scrub_while_degraded: row["scrub_while_degraded"].as_bool().unwrap(),
            late_defects: false,
        };
        let loss = five_years(MarkovModel::General(options), drives - parities, parities).loss;
        close(loss, number(&row["F5y"]), 1e-9, &row.to_string());
    }
}

/// Checks the figures that the paper prints, and the results of the models in the paper.
#[test]
fn claims_of_the_paper() {
    let raid10 = five_years(MarkovModel::A, 1, 1).loss;
    let raid5 = five_years(MarkovModel::A, 7, 1);
    let raid_dp = five_years(MarkovModel::B1, 7, 2).loss;

    // Reproduced: RAID 10 loses 0.33 %, 33 of 10,000 groups; RAID-DP loses 0.002 %.
    assert_eq!(format!("{:.2}", raid10 * 100.0), "0.33");
    assert_eq!(format!("{:.0}", raid10 * 1e4), "33");
    assert_eq!(format!("{:.3}", raid_dp * 100.0), "0.002");
    // Reproduced: R = 0.92, six groups 0.60, aggregate loss 40 %. These use the unrounded R; 0.92^6 itself is 0.6064.
    assert_eq!(format!("{:.2}", raid5.survival), "0.92");
    assert_eq!(format!("{:.2}", raid5.for_independent_sets(6.0).survival), "0.60");
    assert_eq!(format!("{:.0}", raid5.for_independent_sets(6.0).loss * 100.0), "40");
    // Reproduced: 3 to 4 of 10,000 groups with 20 data disks, by B1, B2, and B-fit. B3 gives 2.96.
    for (model, expected) in [
        (MarkovModel::B1, 3.14457),
        (MarkovModel::B2, 3.16120),
        (MarkovModel::BFit, 3.12333),
        (MarkovModel::B3, 2.95522),
    ] {
        let per_10_000 = five_years(model, 20, 2).loss * 1e4;
        close(per_10_000, expected, 1e-5, model.name());
        assert_eq!((3.0..4.0).contains(&per_10_000), model != MarkovModel::B3);
    }

    // Not reproduced: RAID 5 with seven data disks loses 6.0 %. The correct value is 8.05 %. 6.0 would imply R^6 =
    // 0.69 instead of the printed 0.60, and a ratio to RAID 10 of 18 instead of the printed 3955/163 = 24.3. Six data
    // disks give 6.2 %.
    close(raid5.loss, 0.080524, 1e-5, "RAID 5");
    assert_eq!(format!("{:.2}", 0.94f64.powi(6)), "0.69");
    close(raid5.loss / raid10, 24.3106, 1e-5, "RAID 5 : RAID 10");
    assert!((24.19..24.34).contains(&(raid5.loss / raid10)));
    close(five_years(MarkovModel::A, 6, 1).loss, 0.0620, 1e-3, "six data disks");

    // Within 2.2 % (B1 1.9 %, B2 2.1 %): risks 163 : 3955 : 1. Exact only with B-fit, whose (n-1) ll has no physical
    // meaning.
    for (model, first, second) in [
        (MarkovModel::B1, 159.9167, 3887.673),
        (MarkovModel::B2, 159.5237, 3878.1186),
        (MarkovModel::B3, 170.8053, 4152.3815),
        (MarkovModel::BFit, 162.7023, 3955.3932),
    ] {
        let base = five_years(model, 7, 2).loss;
        close(raid10 / base, first, 1e-6, model.name());
        close(raid5.loss / base, second, 1e-6, model.name());
        let within =
            (raid10 / base / 163.0 - 1.0).abs() < 0.022 && (raid5.loss / base / 3955.0 - 1.0).abs() < 0.022;
        assert_eq!(within, model != MarkovModel::B3, "{model}");
        assert_eq!((raid5.loss / base).round() == 3955.0, model == MarkovModel::BFit, "{model}");
    }
}
