//! Summary of a comparison: the drives' advantages, prices, and energy.

use jetcell_power::EnergyEstimate;
use serde::Serialize;

use super::claims::{CheckedPercentage, claims};
use super::drive::{ComparedDrive, DifferenceFromFirst};
use super::drive_list::DriveList;
use super::rows::{DriveRow, RunFigures, run_rows, test_rows};
use crate::drive::DriveTest;

/// Version of the JSON format, incremented whenever a field is removed or changes its meaning.
pub const SCHEMA: u32 = 1;

/// Summary of a drive comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriveSummary {
    /// Version of the format, [`SCHEMA`].
    pub schema: u32,
    /// Currency of all prices.
    pub currency: Option<String>,
    /// The drives, in the order of the list.
    pub drives: Vec<ComparedDrive>,
    /// The measured quantities.
    pub rows: Vec<DriveRow>,
    /// Printed percentages from the source of the figures, with the results of checking them.
    pub claims: Vec<CheckedPercentage>,
    /// Remarks about the source of the figures, for readers of the summary.
    pub remarks: Vec<String>,
}

impl DriveSummary {
    /// Compares the drives in a list. For each drive, `tests` contains its test and the index of its target, `runs`
    /// its figures under load, and `energy` its energy.
    pub fn new(
        list: &DriveList,
        tests: &[Option<(&DriveTest, usize)>],
        runs: &[Option<RunFigures>],
        energy: &[Option<EnergyEstimate>],
    ) -> DriveSummary {
        let mut rows = test_rows(tests);
        for one in &list.measured {
            let values: Vec<_> = one.values.iter().map(|value| Some((*value, None))).collect();
            rows.extend(DriveRow::from_figures(
                &one.title,
                &one.unit,
                one.better,
                &values,
                &|_| None,
                one.in_mean,
            ));
        }
        let known = list.advantage.iter().map(|one| DriveRow {
            title: one.title.clone(),
            unit: String::new(),
            better: jetcell_workload::measurement::BetterDirection::Higher,
            figures: vec![None; list.drives.len()],
            advantages: std::iter::once(None).chain(one.percent.iter().copied().map(Some)).collect(),
            steps: 1,
            undecided_steps: list.drives.len() - 1,
            in_mean: true,
        });
        rows.extend(known);
        rows.extend(run_rows(runs));
        let first = (list.drives.first().and_then(|drive| drive.price), energy.first().copied().flatten());
        let drive = |(at, entry): (usize, &super::DriveEntry)| {
            let counted: Vec<f64> = rows
                .iter()
                .filter(|row| row.in_mean)
                .filter_map(|row| row.advantages.get(at).copied()?)
                .collect();
            let own = energy.get(at).copied().flatten();
            let same_scope = first.1.zip(own).filter(|(one, other)| at > 0 && one.scope == other.scope);
            let iops = runs.get(at).and_then(Option::as_ref).map(|run| run.transactional_iops.0);
            ComparedDrive {
                name: entry.name.clone(),
                mean_advantage: (!counted.is_empty())
                    .then(|| counted.iter().sum::<f64>() / counted.len() as f64),
                rows_in_mean: counted.len(),
                price: entry.price,
                premium: first
                    .0
                    .zip(entry.price)
                    .filter(|_| at > 0)
                    .map(|(first, this)| DifferenceFromFirst::new(first, this)),
                energy: own,
                power: same_scope.map(|(one, other)| DifferenceFromFirst::new(one.watts, other.watts)),
                joules_per_io: own.zip(iops).and_then(|(energy, iops)| energy.joules_per(iops)),
            }
        };
        let drives: Vec<ComparedDrive> = list.drives.iter().enumerate().map(drive).collect();
        let claims = claims(list, &drives, &rows);
        let (currency, remarks) = (list.currency.clone(), list.remarks.clone());
        DriveSummary { schema: SCHEMA, currency, drives, rows, claims, remarks }
    }
}

#[cfg(test)]
mod tests {
    use jetcell_power::{EnergyTariff, MeterScope};
    use serde_json::Value;

    use super::super::{DriveEntry, PowerSource, StatedAdvantage};
    use super::*;

    /// Reads a published comparison of two drives.
    fn published() -> Value {
        serde_json::from_str(include_str!("drive-comparison.json")).unwrap()
    }

    /// Summarizes the published list: six differences printed by another program, prices, energy at the outlet, and a
    /// mail load on both drives.
    fn summary(published: &Value) -> DriveSummary {
        let number = |pointer: &str| published.pointer(pointer).unwrap().as_f64().unwrap();
        let drive = |name: &str| DriveEntry {
            name: name.into(),
            disk_test: None,
            target: None,
            run: None,
            mail_load: None,
            price: Some(number(&format!("/price_usd/{name}"))),
            power: Some(PowerSource {
                scope: Some(MeterScope::Server),
                watts: None,
                kwh: Some(number(&format!("/power/{name}/kwh"))),
                hours: Some(number(&format!("/power/{name}/hours"))),
                log: None,
            }),
        };
        let printed = published["hd_tune_reported"].as_object().unwrap();
        let percent = printed.iter().filter(|(name, _)| name.ends_with("_black_better_pct"));
        let advantage = percent
            .map(|(name, value)| StatedAdvantage {
                title: name.clone(),
                percent: vec![value.as_f64().unwrap()],
            })
            .collect();
        let tariff = number("/power/tariff_usd_per_kwh");
        let list = DriveList {
            currency: Some("USD".into()),
            price_per_kwh: Some(tariff),
            co2_kg_per_kwh: None,
            drives: vec![drive("green"), drive("black")],
            measured: Vec::new(),
            advantage,
            claims: Vec::new(),
            remarks: Vec::new(),
        };
        let run = |name: &str| {
            let figure = |what: &str| (number(&format!("/jetstress/{name}/{what}")), None);
            Some(RunFigures {
                transactional_iops: figure("iops"),
                database_read_ms: Some(figure("latency_ms")),
                log_write_ms: None,
            })
        };
        let energy: Vec<_> = list.drives.iter().map(|drive| list.stated_energy(drive)).collect();
        DriveSummary::new(&list, &[None, None], &[run("green"), run("black")], &energy)
    }

    /// Asserts that a value equals the published one to the number of digits that were printed or recomputed.
    #[track_caller]
    fn close(found: f64, published: &Value, pointer: &str) {
        let wanted = published.pointer(pointer).unwrap_or_else(|| panic!("{pointer}"));
        let text = wanted.to_string();
        let digits = text.split_once('.').map_or(0, |(_, digits)| digits.len());
        assert_eq!(format!("{found:.digits$}").parse::<f64>().ok(), wanted.as_f64(), "{pointer}: {found}");
    }

    #[test]
    fn a_published_comparison_is_reproduced_on_the_right_bases() {
        let published = published();
        let summary = summary(&published);
        let (green, black) = (&summary.drives[0], &summary.drives[1]);
        let iops = summary.rows.iter().find(|row| row.title.contains("transactional")).unwrap();
        close(iops.advantages[1].unwrap(), &published, "/claims/0/correct_more_pct");
        close(black.premium.unwrap().more_percent, &published, "/claims/1/correct_premium_pct");
        close(black.power.unwrap().more_percent, &published, "/power/recomputed/black_extra_pct");
        close(black.power.unwrap().first_is_less_percent, &published, "/power/recomputed/green_saving_pct");
        for (drive, name) in [(green, "green"), (black, "black")] {
            let energy = drive.energy.unwrap();
            close(energy.watts, &published, &format!("/power/recomputed/{name}/watts"));
            close(energy.kwh_per_day, &published, &format!("/power/recomputed/{name}/kwh_per_day"));
            close(energy.kwh_per_year, &published, &format!("/power/recomputed/{name}/kwh_per_year"));
            close(
                energy.cost_per_year.unwrap(),
                &published,
                &format!("/power/recomputed/{name}/usd_per_year"),
            );
            close(
                energy.cost_per_day.unwrap() * 100.0,
                &published,
                &format!("/power/recomputed/{name}/cents_per_day"),
            );
            close(drive.joules_per_io.unwrap(), &published, &format!("/derived/joules_per_io/{name}"));
        }
        // The latency under load has a row, but is not included in the mean.
        let latency = summary.rows.iter().find(|row| row.title.contains("database read")).unwrap();
        assert!(!latency.in_mean && latency.advantages[1].unwrap() < -41.0);
        assert_eq!(black.rows_in_mean, 7);
        assert_eq!(green.mean_advantage, None);
    }

    /// Checks the known errors in the source. Each assertion repeats the source's wrong calculation.
    #[test]
    fn errors_in_the_published_source_are_listed() {
        let published = published();
        let summary = summary(&published);
        let black = &summary.drives[1];
        let iops = |name: &str| published["jetstress"][name]["iops"].as_f64().unwrap();
        let wrong_base = DifferenceFromFirst::new(iops("green"), iops("black")).first_is_less_percent;
        assert_eq!(format!("{wrong_base:.1}"), "26.6", "26.6 % more is what the slower drive has less");
        assert_eq!(
            format!("{:.0}", black.premium.unwrap().first_is_less_percent),
            "44",
            "so is a premium of 44 %"
        );
        // The printed mean of 24 % includes the wrong value 26.6 %.
        let right: f64 = black.mean_advantage.unwrap();
        let six = right * 7.0 - DifferenceFromFirst::new(iops("green"), iops("black")).more_percent;
        close((six + 26.6) / 7.0, &published, "/claims/2/recomputed_mean_of_7");
        assert_eq!(format!("{right:.1}"), "25.5");
        // The printed saving of 18.8 % energy was computed from rounded figures and from the whole server's power.
        let rounded = DifferenceFromFirst::new(350.0, 431.0).first_is_less_percent;
        assert_eq!(format!("{rounded:.1}"), "18.8");
        assert!(!black.energy.unwrap().scope.is_storage());
    }

    #[test]
    fn power_values_with_different_scopes_are_not_compared() {
        let published = published();
        let list = DriveList {
            currency: None,
            price_per_kwh: None,
            co2_kg_per_kwh: None,
            drives: summary(&published)
                .drives
                .iter()
                .map(|drive| DriveEntry {
                    name: drive.name.clone(),
                    disk_test: None,
                    target: None,
                    run: None,
                    mail_load: None,
                    price: None,
                    power: None,
                })
                .collect(),
            measured: Vec::new(),
            advantage: Vec::new(),
            claims: Vec::new(),
            remarks: Vec::new(),
        };
        let energy = [MeterScope::Drive, MeterScope::Server]
            .map(|scope| Some(EnergyEstimate::from_watts(5.0, scope, &EnergyTariff::default())));
        let found = DriveSummary::new(&list, &[None, None], &[None, None], &energy);
        assert_eq!((found.drives[1].power, found.drives[1].premium, found.rows.len()), (None, None, 0));
        assert_eq!(found.drives[1].mean_advantage, None);
    }
}
