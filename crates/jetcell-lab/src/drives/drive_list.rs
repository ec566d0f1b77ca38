//! TOML list of the drives to compare. An error is reported on one line that states the position, the mistake, and how
//! to correct it.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use jetcell_input::toml::{self, TomlError};
use jetcell_power::{EnergyEstimate, EnergyTariff, MeterScope};
use jetcell_vfs::read_input;
use jetcell_workload::measurement::BetterDirection;
use serde::Deserialize;
use thiserror::Error;

use super::rows::RunFigures;

/// Maximum size of a list in bytes.
const MAX_LIST_BYTES: u64 = 1 << 20;
/// Maximum number of drives in a list.
const MAX_DRIVES: usize = 24;

/// Reason why a list of drives to compare cannot be used.
#[derive(Debug, Error)]
pub enum DriveListError {
    /// The file is not a list of drives.
    #[error(transparent)]
    Toml(#[from] TomlError),
    /// The file cannot be read.
    #[error("{}: {error}", .path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error that the system returned.
        #[source]
        error: io::Error,
    },
    /// A value in the file is not valid.
    #[error("{}: {mistake}", .path.display())]
    Invalid {
        /// Path of the file.
        path: PathBuf,
        /// The mistake.
        mistake: DriveListMistake,
    },
}

/// Mistake in a list of drives to compare.
#[derive(Clone, Debug, PartialEq, Error)]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum DriveListMistake {
    #[error("the list must contain 2 to {MAX_DRIVES} drives, but contains {0}")]
    DriveCount(usize),
    #[error("two drives have the name {0}")]
    DuplicateName(String),
    #[error("{0} is not above 0")]
    NotPositive(String),
    #[error("{0} has both run and mail_load")]
    TwoLoads(String),
    #[error("power of {0}: expected exactly one power value")]
    PowerValue(String),
    #[error("power of {0}: the meter's scope is missing")]
    NoScope(String),
    #[error("{title}: the number of values does not match the number of drives")]
    ValueCount { title: String, drives: usize },
    #[error("{title}: the number of percentages does not match the number of drives")]
    PercentageCount { title: String, others: usize },
    #[error("claim: the list does not contain a drive named {0}")]
    UnknownDrive(String),
    #[error("claim: {0} is not a percentage")]
    NotAPercentage(f64),
}

impl DriveListError {
    /// Returns what the user can do about the error, for example `give each drive a unique name`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        match self {
            DriveListError::Toml(error) => error.advice(),
            DriveListError::Unreadable { .. } => None,
            DriveListError::Invalid { mistake, .. } => mistake.advice(),
        }
    }
}

impl DriveListMistake {
    fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            DriveListMistake::DriveCount(_) => return None,
            DriveListMistake::DuplicateName(_) => "give each drive a unique name",
            DriveListMistake::NotPositive(_) => "use a number above 0",
            DriveListMistake::TwoLoads(_) => "specify only one of them",
            DriveListMistake::PowerValue(_) => "specify watts, or kwh and hours, or log",
            DriveListMistake::NoScope(_) => {
                "add scope = \"drive\", \"enclosure\", \"server\" or \"processor\""
            }
            DriveListMistake::ValueCount { drives, .. } => {
                return Some(format!("specify {drives} values above 0, one per drive").into());
            }
            DriveListMistake::PercentageCount { others, .. } => {
                return Some(format!("specify {others}, one per drive after the first").into());
            }
            DriveListMistake::UnknownDrive(_) => "use the name of a drive in the list",
            DriveListMistake::NotAPercentage(_) => "use a number",
        }))
    }
}

/// The drives to compare, with their results and costs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveList {
    /// Currency of all prices.
    #[serde(default)]
    pub currency: Option<String>,
    /// Price of a kilowatt-hour.
    #[serde(default)]
    pub price_per_kwh: Option<f64>,
    /// Carbon dioxide in kilograms per kilowatt-hour.
    #[serde(default)]
    pub co2_kg_per_kwh: Option<f64>,
    /// The drives. Each further drive is compared with the first.
    #[serde(rename = "drive")]
    pub drives: Vec<DriveEntry>,
    /// Figures measured by other programs.
    #[serde(default)]
    pub measured: Vec<MeasuredQuantity>,
    /// Claimed advantages for which the underlying figures are unknown.
    #[serde(default)]
    pub advantage: Vec<StatedAdvantage>,
    /// Percentages printed by a source, which are to be checked.
    #[serde(default, rename = "claim")]
    pub claims: Vec<PrintedPercentage>,
    /// Remarks about the source, for readers of the comparison.
    #[serde(default)]
    pub remarks: Vec<String>,
}

/// A drive in the list of drives to compare.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveEntry {
    /// Name of the drive.
    pub name: String,
    /// Directory that contains the result of `jetcell disk test`.
    #[serde(default)]
    pub disk_test: Option<PathBuf>,
    /// Name of the drive's target in that test, if the test has more than one.
    #[serde(default)]
    pub target: Option<String>,
    /// Directory of a performance test that ran on this drive.
    #[serde(default)]
    pub run: Option<PathBuf>,
    /// Mail load figures measured by another program, as an alternative to `run`.
    #[serde(default)]
    pub mail_load: Option<MailLoad>,
    /// Price of the drive.
    #[serde(default)]
    pub price: Option<f64>,
    /// Source of the drive's power figure.
    #[serde(default)]
    pub power: Option<PowerSource>,
}

/// Source of a drive's power figure.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerSource {
    /// Part of the system that the meter measured. A meter log may itself contain the scope.
    #[serde(default)]
    pub scope: Option<MeterScope>,
    /// Power in watts.
    #[serde(default)]
    pub watts: Option<f64>,
    /// Kilowatt-hours that the meter counted in `hours` hours.
    #[serde(default)]
    pub kwh: Option<f64>,
    /// Number of hours in which the meter counted `kwh`.
    #[serde(default)]
    pub hours: Option<f64>,
    /// Log file of a meter. The energy is computed over the run, or over the whole log if there is no run.
    #[serde(default)]
    pub log: Option<PathBuf>,
}

/// A measured quantity with one figure per drive.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredQuantity {
    /// Name of the measured quantity.
    pub title: String,
    /// Unit of the figures.
    #[serde(default)]
    pub unit: String,
    /// Whether higher or lower figures are better.
    pub better: BetterDirection,
    /// Figures, one per drive.
    pub values: Vec<f64>,
    /// True if the row is included in the mean advantage.
    #[serde(default = "yes")]
    pub in_mean: bool,
}

/// Advantages over the first drive that a drive list states without the underlying figures.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatedAdvantage {
    /// Name of the measured quantity.
    pub title: String,
    /// Advantage over the first drive in percent, one value for each further drive. Positive values are better.
    pub percent: Vec<f64>,
}

/// Mail load figures measured by another program.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MailLoad {
    /// Database reads and writes per second.
    pub transactional_iops: f64,
    /// Mean latency of database reads in milliseconds.
    #[serde(default)]
    pub database_read_ms: Option<f64>,
    /// Mean latency of log writes in milliseconds.
    #[serde(default)]
    pub log_write_ms: Option<f64>,
}

impl MailLoad {
    /// Returns the figures, without confidence intervals.
    pub fn figures(&self) -> RunFigures {
        let once = |value: f64| (value, None);
        RunFigures {
            transactional_iops: once(self.transactional_iops),
            database_read_ms: self.database_read_ms.map(once),
            log_write_ms: self.log_write_ms.map(once),
        }
    }
}

/// A published percentage that the comparison checks.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrintedPercentage {
    /// Sentence that contains the percentage.
    pub text: String,
    /// Subject of the claim: a row title, `price`, `power`, or `mean advantage`.
    pub of: String,
    /// Drive that is said to have more, or less if `percent` is negative. Defaults to the second drive.
    #[serde(default)]
    pub drive: Option<String>,
    /// Drive with which it is compared. Defaults to the first drive.
    #[serde(default)]
    pub than: Option<String>,
    /// Claimed increase, in percent of `than`.
    pub percent: f64,
    /// Part of the system whose power the source claims to report.
    #[serde(default)]
    pub scope: Option<MeterScope>,
}

fn yes() -> bool {
    true
}

impl DriveList {
    /// Reads a list from a file. Relative paths in the list are resolved against the file's directory.
    pub fn read(path: &Path) -> Result<DriveList, DriveListError> {
        let text = read_input(path, MAX_LIST_BYTES)
            .map_err(|error| DriveListError::Unreadable { path: path.into(), error })?;
        let mut list: DriveList = toml::parse(&path.display().to_string(), &text)?;
        list.check().map_err(|mistake| DriveListError::Invalid { path: path.into(), mistake })?;
        let directory = path.parent().unwrap_or(Path::new(""));
        for drive in &mut list.drives {
            let log = drive.power.as_mut().and_then(|power| power.log.as_mut());
            for path in [drive.disk_test.as_mut(), drive.run.as_mut(), log].into_iter().flatten() {
                *path = directory.join(&*path);
            }
        }
        Ok(list)
    }

    /// Returns the price and the carbon dioxide per kilowatt-hour.
    pub fn tariff(&self) -> EnergyTariff {
        EnergyTariff { price_per_kwh: self.price_per_kwh, co2_kg_per_kwh: self.co2_kg_per_kwh }
    }

    /// Returns the energy that a drive uses, if the list states its power directly.
    pub fn stated_energy(&self, drive: &DriveEntry) -> Option<EnergyEstimate> {
        let power = drive.power.as_ref()?;
        Some(EnergyEstimate::from_watts(power.stated_watts()?, power.scope?, &self.tariff()))
    }

    fn check(&self) -> Result<(), DriveListMistake> {
        let drives = self.drives.len();
        if !(2..=MAX_DRIVES).contains(&drives) {
            return Err(DriveListMistake::DriveCount(drives));
        }
        let mut names: Vec<&str> = self.drives.iter().map(|drive| drive.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(DriveListMistake::DuplicateName(twice[0].into()));
        }
        let amounts = [("price_per_kwh", self.price_per_kwh), ("co2_kg_per_kwh", self.co2_kg_per_kwh)];
        amounts.into_iter().try_for_each(|(name, value)| positive(name, value))?;
        for drive in &self.drives {
            positive(&format!("price of {}", drive.name), drive.price)?;
            if let Some(load) = &drive.mail_load {
                let MailLoad { transactional_iops, database_read_ms, log_write_ms } = load;
                for (name, value) in [
                    ("transactional_iops", &Some(*transactional_iops)),
                    ("database_read_ms", database_read_ms),
                    ("log_write_ms", log_write_ms),
                ] {
                    positive(&format!("{name} of {}", drive.name), *value)?;
                }
                if drive.run.is_some() {
                    return Err(DriveListMistake::TwoLoads(drive.name.clone()));
                }
            }
            if let Some(power) = &drive.power {
                power.check(&drive.name)?;
            }
        }
        for one in &self.measured {
            if one.values.len() != drives
                || one.values.iter().any(|value| !value.is_finite() || *value <= 0.0)
            {
                return Err(DriveListMistake::ValueCount { title: one.title.clone(), drives });
            }
        }
        for claim in &self.claims {
            let drives = [&claim.drive, &claim.than].into_iter().flatten();
            if let Some(unknown) =
                drives.into_iter().find(|name| !self.drives.iter().any(|drive| drive.name == **name))
            {
                return Err(DriveListMistake::UnknownDrive(unknown.clone()));
            }
            if !claim.percent.is_finite() {
                return Err(DriveListMistake::NotAPercentage(claim.percent));
            }
        }
        for one in &self.advantage {
            if one.percent.len() + 1 != drives || one.percent.iter().any(|value| !value.is_finite()) {
                let others = drives - 1;
                return Err(DriveListMistake::PercentageCount { title: one.title.clone(), others });
            }
        }
        Ok(())
    }
}

impl PowerSource {
    fn check(&self, drive: &str) -> Result<(), DriveListMistake> {
        let PowerSource { scope, watts, kwh, hours, log } = self;
        [("watts", watts), ("kwh", kwh), ("hours", hours)]
            .into_iter()
            .try_for_each(|(name, value)| positive(&format!("power of {drive}: {name}"), *value))?;
        let sources = [watts.is_some(), kwh.is_some() || hours.is_some(), log.is_some()];
        if sources.into_iter().filter(|is| *is).count() != 1 || kwh.is_some() != hours.is_some() {
            return Err(DriveListMistake::PowerValue(drive.into()));
        }
        if scope.is_none() && log.is_none() { Err(DriveListMistake::NoScope(drive.into())) } else { Ok(()) }
    }

    fn stated_watts(&self) -> Option<f64> {
        self.watts.or_else(|| Some(self.kwh? * 1000.0 / self.hours?))
    }
}

fn positive(name: &str, value: Option<f64>) -> Result<(), DriveListMistake> {
    match value {
        Some(value) if !value.is_finite() || value <= 0.0 => Err(DriveListMistake::NotPositive(name.into())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const TWO: &str = "[[drive]]\nname = \"a\"\n[[drive]]\nname = \"b\"\n";

    #[test]
    fn paths_are_relative_to_the_list() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("drives.toml");
        fs::write(
            &path,
            TWO.replace("name = \"b\"", "name = \"b\"\nrun = \"r\"\npower = { log = \"/p.csv\" }"),
        )
        .unwrap();
        let list = DriveList::read(&path).unwrap();
        assert_eq!(list.drives[1].run, Some(directory.path().join("r")));
        assert_eq!(list.drives[1].power.as_ref().unwrap().log, Some("/p.csv".into()));
        assert!(DriveList::read(&directory.path().join("none")).unwrap_err().to_string().contains("none"));
    }

    #[test]
    fn an_invalid_drive_list_is_refused_in_one_line() {
        let with = |more: &str| format!("{TWO}{more}");
        for (text, said) in [
            (String::new(), "missing key 'drive'"),
            ("[[drive]]\nname = \"a\"\n".into(), "the list must contain 2 to 24 drives, but contains 1"),
            (TWO.replace('b', "a"), "two drives have the name a"),
            (with("colour = 1"), "a, line 5: unknown key 'colour'"),
            (with("price = 0"), "price of b is not above 0; use a number above 0"),
            (with("price = -3.0"), "above 0"),
            (with("power = { watts = 3 }"), "the meter's scope is missing; add scope"),
            (
                with("power = { watts = 3, kwh = 1, hours = 1, scope = \"drive\" }"),
                "expected exactly one power value; specify watts, or kwh and hours, or log",
            ),
            (
                with("power = { kwh = 1, scope = \"drive\" }"),
                "expected exactly one power value; specify watts, or kwh and hours, or log",
            ),
            (with("power = { scope = \"house\", watts = 1 }"), "unknown variant"),
            (
                with("[[measured]]\ntitle = \"x\"\nbetter = \"higher\"\nvalues = [1]"),
                "x: the number of values does not match the number of drives; specify 2 values above 0",
            ),
            (
                with("[[measured]]\ntitle = \"x\"\nbetter = \"lower\"\nvalues = [1, nan]"),
                "x: the number of values does not match the number of drives; specify 2 values above 0",
            ),
            (
                with("[[advantage]]\ntitle = \"x\"\npercent = [1, 2]"),
                "x: the number of percentages does not match the number of drives; specify 1",
            ),
            (
                with("run = \"r\"\nmail_load = { transactional_iops = 3 }"),
                "b has both run and mail_load; specify only one of them",
            ),
            (with("mail_load = { transactional_iops = 0 }"), "transactional_iops of b is not above 0"),
            (
                with("[[claim]]\ntext = \"x\"\nof = \"price\"\npercent = 3\ndrive = \"c\""),
                "claim: the list does not contain a drive named c; use the name",
            ),
            (with("[[claim]]\ntext = \"x\"\nof = \"price\"\npercent = nan"), "is not a percentage"),
            ("drive = [".into(), "line 1"),
        ] {
            let invalid = |mistake| DriveListError::Invalid { path: "a".into(), mistake };
            let parsed = toml::parse("a", &text).map_err(DriveListError::from);
            let error = parsed.and_then(|list: DriveList| list.check().map_err(invalid)).unwrap_err();
            let found = format!("{error}; {}", error.advice().unwrap_or_default());
            assert!(found.contains(said) && !found.contains('\n'), "{text:?}: {found}");
        }
    }
}
