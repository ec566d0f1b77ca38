//! Checks percentages printed by a source against percentages computed from its figures.

use jetcell_power::MeterScope;
use serde::Serialize;

use super::drive::ComparedDrive;
use super::drive_list::{DriveList, PrintedPercentage};
use super::rows::DriveRow;

/// Result of comparing a printed percentage with the computed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PercentageFinding {
    /// Both are equal when rounded to the printed number of digits.
    Holds,
    /// The printed percentage uses the wrong base: it is relative to the drive named as having more (or less), not to
    /// the drive it is compared with.
    OtherBase,
    /// The printed mean includes another printed percentage, which is wrong.
    ContainsAnError,
    /// The printed percentage does not follow from the figures.
    Differs,
    /// The figures needed to compute the percentage are missing.
    NoFigures,
}

/// A published percentage and the result of checking it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckedPercentage {
    /// The claim as it was printed.
    pub text: String,
    /// Name of the drive that has more or less.
    pub drive: String,
    /// Name of the drive with which it is compared.
    pub than: String,
    /// The printed percentage.
    pub printed: f64,
    /// The computed percentage, relative to `than`.
    pub computed: Option<f64>,
    /// Result of comparing the printed percentage with the computed one.
    pub finding: PercentageFinding,
    /// Scope that the meter actually measured, if it differs from the scope that the source states.
    pub measured_scope: Option<MeterScope>,
}

/// Checks the claims in a list, in order. A claim about the mean must come after the claims about rows, because the
/// printed mean may be based on them.
pub(super) fn claims(
    list: &DriveList,
    drives: &[ComparedDrive],
    rows: &[DriveRow],
) -> Vec<CheckedPercentage> {
    let drive_index = |name: &Option<String>, default: usize| {
        let found = name.as_ref().and_then(|name| drives.iter().position(|drive| drive.name == *name));
        found.unwrap_or(default)
    };
    let mut checked: Vec<CheckedPercentage> = Vec::new();
    for claim in &list.claims {
        let (at, than) = (drive_index(&claim.drive, 1), drive_index(&claim.than, 0));
        let (Some(drive), Some(base)) = (drives.get(at), drives.get(than)) else { continue };
        let change = |this: f64, first: f64| (this - first) / first * 100.0;
        let scopes = drive.energy.zip(base.energy).filter(|(one, other)| one.scope == other.scope);
        let computed = match claim.of.as_str() {
            PRICE => drive.price.zip(base.price).map(|(this, first)| change(this, first)),
            POWER => scopes.map(|(this, first)| change(this.watts, first.watts)),
            MEAN => drive.mean_advantage.filter(|_| than == 0),
            title => rows.iter().find(|row| row.title == title).and_then(|row| {
                let figure = |at: usize| row.figures.get(at).copied().flatten();
                let advantage = row.advantages.get(at).copied().flatten().filter(|_| than == 0);
                figure(at).zip(figure(than)).map(|(this, first)| change(this, first)).or(advantage)
            }),
        };
        let with_errors = || mean_as_printed(rows, at, list, &checked);
        let finding = match computed {
            None => PercentageFinding::NoFigures,
            Some(percent) if is_printed(percent, claim.percent) => PercentageFinding::Holds,
            Some(percent) if is_printed(percent / (1.0 + percent / 100.0), claim.percent) => {
                PercentageFinding::OtherBase
            }
            Some(_)
                if claim.of == MEAN && with_errors().is_some_and(|mean| is_printed(mean, claim.percent)) =>
            {
                PercentageFinding::ContainsAnError
            }
            Some(_) => PercentageFinding::Differs,
        };
        let measured_scope = scopes.map(|(one, _)| one.scope);
        checked.push(CheckedPercentage {
            text: claim.text.clone(),
            drive: drive.name.clone(),
            than: base.name.clone(),
            printed: claim.percent,
            computed,
            finding,
            measured_scope: measured_scope.filter(|scope| claim.scope.is_some_and(|said| said != *scope)),
        });
    }
    checked
}

/// Subjects of claims that are not row titles.
pub(super) const PRICE: &str = "price";
pub(super) const POWER: &str = "power";
pub(super) const MEAN: &str = "mean advantage";

/// Returns true if `number`, rounded to as many digits as `printed`, equals `printed`.
fn is_printed(number: f64, printed: f64) -> bool {
    let text = printed.to_string();
    let digits = text.split_once('.').map_or(0, |(_, digits)| digits.len());
    format!("{number:.digits$}").parse() == Ok(printed)
}

/// Returns a drive's mean advantage, using the source's printed percentages for the rows that have them.
fn mean_as_printed(
    rows: &[DriveRow],
    at: usize,
    list: &DriveList,
    checked: &[CheckedPercentage],
) -> Option<f64> {
    let printed = |row: &DriveRow| {
        let about = |(claim, _): &(&PrintedPercentage, &CheckedPercentage)| claim.of == row.title;
        list.claims.iter().zip(checked).find(about).map(|(claim, _)| claim.percent)
    };
    let counted = rows.iter().filter(|row| row.in_mean);
    let values: Vec<f64> =
        counted.filter_map(|row| printed(row).or(row.advantages.get(at).copied().flatten())).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drives::DriveSummary;

    #[test]
    fn each_kind_of_claim_error_is_reported() {
        let list = "[[drive]]\nname = \"a\"\nprice = 100\npower = { watts = 40, scope = \"server\" }\n\
             mail_load = { transactional_iops = 50 }\n\
             [[drive]]\nname = \"b\"\nprice = 200\npower = { watts = 50, scope = \"server\" }\n\
             mail_load = { transactional_iops = 80 }\n\
             [[advantage]]\ntitle = \"Transfer\"\npercent = [20]\n";
        let claim = |of: &str, percent: f64, more: &str| {
            format!("[[claim]]\ntext = \"t\"\nof = \"{of}\"\npercent = {percent:?}\n{more}\n")
        };
        let load = "Mail load, transactional I/O";
        let text = [
            list.to_string(),
            claim(load, 37.5, ""),
            claim(load, 60.0, ""),
            claim("price", 50.0, ""),
            claim("price", 98.0, ""),
            claim("power", -20.0, "drive = \"a\"\nthan = \"b\"\nscope = \"drive\""),
            claim("power", 25.0, "scope = \"server\""),
            // The mail load's advantage was printed as 37.5 instead of 60, so the printed mean is (37.5 + 20) / 2
            // instead of (60 + 20) / 2.
            claim("mean advantage", 28.75, ""),
            claim("mean advantage", 40.0, ""),
            claim("Transfer", 20.0, ""),
            claim("Noise", 20.0, ""),
        ]
        .concat();
        let list = jetcell_input::toml::parse::<DriveList>("a", &text).unwrap();
        let runs: Vec<_> = list
            .drives
            .iter()
            .map(|drive| drive.mail_load.as_ref().map(super::super::drive_list::MailLoad::figures))
            .collect();
        let energy: Vec<_> = list.drives.iter().map(|drive| list.stated_energy(drive)).collect();
        let found = DriveSummary::new(&list, &[None, None], &runs, &energy).claims;
        let findings: Vec<PercentageFinding> = found.iter().map(|claim| claim.finding).collect();
        use PercentageFinding::{ContainsAnError, Differs, Holds, NoFigures, OtherBase};
        assert_eq!(
            findings,
            [OtherBase, Holds, OtherBase, Differs, Holds, Holds, ContainsAnError, Holds, Holds, NoFigures]
        );
        assert_eq!((found[0].computed.map(f64::round), found[9].computed), (Some(60.0), None));
        assert_eq!((found[4].measured_scope, found[5].measured_scope), (Some(MeterScope::Server), None));
        assert_eq!((found[4].drive.as_str(), found[4].than.as_str()), ("a", "b"));
    }
}
