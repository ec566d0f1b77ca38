//! The list of the drives that are compared, as TOML. An error is one line: the place, the mistake, and what to write instead.

use std::path::{Path, PathBuf};

use jetcell_input::error_line;
use jetcell_power::{Energy, Scope, Tariff};
use jetcell_vfs::read_input;
use jetcell_workload::measurement::Better;
use serde::Deserialize;
use thiserror::Error;

use super::rows::RunFigures;

/// No real list has more bytes.
const LARGEST: u64 = 1 << 20;
/// Most drives of a list.
const MOST_DRIVES: usize = 24;

/// Why a list cannot be used.
#[derive(Debug, Error)]
#[error("{}: {what}", .path.display())]
pub struct DriveListError {
    path: PathBuf,
    what: String,
}

/// The list.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveList {
    /// Currency of all prices.
    #[serde(default)]
    pub currency: Option<String>,
    /// Money for a kilowatt-hour.
    #[serde(default)]
    pub price_per_kwh: Option<f64>,
    /// Kilograms of carbon dioxide for a kilowatt-hour.
    #[serde(default)]
    pub co2_kg_per_kwh: Option<f64>,
    /// The drives. The first is the one that others are compared with.
    #[serde(rename = "drive")]
    pub drives: Vec<DriveEntry>,
    /// Figures that other programs measured.
    #[serde(default)]
    pub measured: Vec<Measured>,
    /// Advantages without figures.
    #[serde(default)]
    pub advantage: Vec<Advantage>,
    /// Percentages that a source prints, to be examined.
    #[serde(default, rename = "claim")]
    pub claims: Vec<PrintedClaim>,
    /// What a reader of the comparison should know about its source.
    #[serde(default)]
    pub remarks: Vec<String>,
}

/// A drive of the list.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveEntry {
    /// Its name.
    pub name: String,
    /// Directory with the result of `jetcell disk test`.
    #[serde(default)]
    pub disk_test: Option<PathBuf>,
    /// Name of the target in that test, if it has several.
    #[serde(default)]
    pub target: Option<String>,
    /// Directory of a performance test on the drive.
    #[serde(default)]
    pub run: Option<PathBuf>,
    /// The figures of a mail load that another program measured, instead of `run`.
    #[serde(default)]
    pub mail_load: Option<MailLoad>,
    /// What it costs.
    #[serde(default)]
    pub price: Option<f64>,
    /// What it draws.
    #[serde(default)]
    pub power: Option<PowerSource>,
}

/// How the power of a drive is known.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerSource {
    /// What the meter measured; a log may say so itself.
    #[serde(default)]
    pub scope: Option<Scope>,
    /// Watts.
    #[serde(default)]
    pub watts: Option<f64>,
    /// Kilowatt-hours that the meter counted in `hours`.
    #[serde(default)]
    pub kwh: Option<f64>,
    /// See `kwh`.
    #[serde(default)]
    pub hours: Option<f64>,
    /// Log of a meter; the energy of the run is taken from it, or of all of it without a run.
    #[serde(default)]
    pub log: Option<PathBuf>,
}

/// A figure of each drive.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// What was measured.
    pub title: String,
    /// Its unit.
    #[serde(default)]
    pub unit: String,
    /// Which direction is better.
    pub better: Better,
    /// One figure for each drive.
    pub values: Vec<f64>,
    /// Whether it counts for the mean advantage.
    #[serde(default = "yes")]
    pub in_mean: bool,
}

/// An advantage that is known without its figures.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Advantage {
    /// What was measured.
    pub title: String,
    /// In percent of the first drive, positive if better: one for each other drive.
    pub percent: Vec<f64>,
}

/// A mail load that another program measured.
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
    /// Its figures, which have no intervals.
    pub fn figures(&self) -> RunFigures {
        let once = |value: f64| (value, None);
        RunFigures {
            transactional_iops: once(self.transactional_iops),
            database_read_ms: self.database_read_ms.map(once),
            log_write_ms: self.log_write_ms.map(once),
        }
    }
}

/// A percentage that a source prints.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrintedClaim {
    /// The sentence.
    pub text: String,
    /// What has the percentage: the title of a row, `price`, `power` or `mean advantage`.
    pub of: String,
    /// The drive that has more, or less if `percent` is negative; the second one if it is left out.
    #[serde(default)]
    pub drive: Option<String>,
    /// The drive that it is compared with; the first one if it is left out.
    #[serde(default)]
    pub than: Option<String>,
    /// How much more, in percent of `than`.
    pub percent: f64,
    /// What the source says that its power is the power of.
    #[serde(default)]
    pub scope: Option<Scope>,
}

fn yes() -> bool {
    true
}

impl DriveList {
    /// Reads a list. Paths in it are relative to its directory.
    pub fn read(path: &Path) -> Result<DriveList, DriveListError> {
        let failed = |what: String| DriveListError { path: path.into(), what };
        let text = read_input(path, LARGEST).map_err(|error| failed(error.to_string()))?;
        let mut list: DriveList = DriveList::parse(&text).map_err(failed)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        for drive in &mut list.drives {
            let log = drive.power.as_mut().and_then(|power| power.log.as_mut());
            for path in [drive.disk_test.as_mut(), drive.run.as_mut(), log].into_iter().flatten() {
                *path = directory.join(&*path);
            }
        }
        Ok(list)
    }

    pub(super) fn parse(text: &str) -> Result<DriveList, String> {
        let list: DriveList = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| text.get(..span.start).unwrap_or(text).lines().count().max(1));
            let place = line.map_or_else(String::new, |line| format!("line {line}: "));
            format!("{place}{}", error_line(&error.message()))
        })?;
        list.check()?;
        Ok(list)
    }

    /// What energy costs.
    pub fn tariff(&self) -> Tariff {
        Tariff { price_per_kwh: self.price_per_kwh, co2_kg_per_kwh: self.co2_kg_per_kwh }
    }

    /// What a drive draws, if the list itself says it.
    pub fn typed_energy(&self, drive: &DriveEntry) -> Option<Energy> {
        let power = drive.power.as_ref()?;
        Some(Energy::of(power.typed_watts()?, power.scope?, &self.tariff()))
    }

    fn check(&self) -> Result<(), String> {
        let drives = self.drives.len();
        if !(2..=MOST_DRIVES).contains(&drives) {
            return Err(format!("{drives} drives; a comparison has 2 to {MOST_DRIVES}"));
        }
        let mut names: Vec<&str> = self.drives.iter().map(|drive| drive.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("two drives have the name {}; give each its own", twice[0]));
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
                    return Err(format!("{} has run and mail_load; write one of them", drive.name));
                }
            }
            if let Some(power) = &drive.power {
                power.check().map_err(|what| format!("power of {}: {what}", drive.name))?;
            }
        }
        for one in &self.measured {
            if one.values.len() != drives
                || one.values.iter().any(|value| !value.is_finite() || *value <= 0.0)
            {
                return Err(format!(
                    "{}: the values do not fit the drives; write {drives} values above 0, one for each",
                    one.title
                ));
            }
        }
        for claim in &self.claims {
            let drives = [&claim.drive, &claim.than].into_iter().flatten();
            if let Some(unknown) =
                drives.into_iter().find(|name| !self.drives.iter().any(|drive| drive.name == **name))
            {
                return Err(format!("claim: there is no drive {unknown}; write the name of one of the list"));
            }
            if !claim.percent.is_finite() {
                return Err(format!("claim: {} is no percentage; write a number", claim.percent));
            }
        }
        for one in &self.advantage {
            if one.percent.len() + 1 != drives || one.percent.iter().any(|value| !value.is_finite()) {
                let others = drives - 1;
                return Err(format!(
                    "{}: the percentages do not fit the drives; write {others}, one for each drive after the first",
                    one.title
                ));
            }
        }
        Ok(())
    }
}

impl PowerSource {
    fn check(&self) -> Result<(), String> {
        let PowerSource { scope, watts, kwh, hours, log } = self;
        [("watts", watts), ("kwh", kwh), ("hours", hours)]
            .into_iter()
            .try_for_each(|(name, value)| positive(name, *value))?;
        let sources = [watts.is_some(), kwh.is_some() || hours.is_some(), log.is_some()];
        if sources.into_iter().filter(|is| *is).count() != 1 || kwh.is_some() != hours.is_some() {
            return Err("it does not give one power; write watts, or kwh and hours, or log".into());
        }
        match scope.is_none() && log.is_none() {
            true => Err("it does not say what the meter measured; write scope = \"drive\", \"enclosure\", \"server\" or \"processor\"".into()),
            false => Ok(()),
        }
    }

    fn typed_watts(&self) -> Option<f64> {
        self.watts.or_else(|| Some(self.kwh? * 1000.0 / self.hours?))
    }
}

fn positive(name: &str, value: Option<f64>) -> Result<(), String> {
    match value {
        Some(value) if !value.is_finite() || value <= 0.0 => {
            Err(format!("{name} is not above 0; write a number above 0"))
        }
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
    fn a_wrong_list_is_refused_in_one_line() {
        let with = |more: &str| format!("{TWO}{more}");
        for (text, said) in [
            (String::new(), "missing field `drive`"),
            ("[[drive]]\nname = \"a\"\n".into(), "1 drives; a comparison has 2 to 24"),
            (TWO.replace('b', "a"), "two drives have the name a"),
            (with("colour = 1"), "unknown field `colour`"),
            (with("price = 0"), "price of b is not above 0; write a number above 0"),
            (with("price = -3.0"), "above 0"),
            (with("power = { watts = 3 }"), "what the meter measured; write scope"),
            (
                with("power = { watts = 3, kwh = 1, hours = 1, scope = \"drive\" }"),
                "it does not give one power; write watts, or kwh and hours, or log",
            ),
            (
                with("power = { kwh = 1, scope = \"drive\" }"),
                "it does not give one power; write watts, or kwh and hours, or log",
            ),
            (with("power = { scope = \"house\", watts = 1 }"), "unknown variant"),
            (
                with("[[measured]]\ntitle = \"x\"\nbetter = \"higher\"\nvalues = [1]"),
                "x: the values do not fit the drives; write 2 values above 0",
            ),
            (
                with("[[measured]]\ntitle = \"x\"\nbetter = \"lower\"\nvalues = [1, nan]"),
                "x: the values do not fit the drives; write 2 values above 0",
            ),
            (
                with("[[advantage]]\ntitle = \"x\"\npercent = [1, 2]"),
                "x: the percentages do not fit the drives; write 1",
            ),
            (
                with("run = \"r\"\nmail_load = { transactional_iops = 3 }"),
                "b has run and mail_load; write one of them",
            ),
            (with("mail_load = { transactional_iops = 0 }"), "transactional_iops of b is not above 0"),
            (
                with("[[claim]]\ntext = \"x\"\nof = \"price\"\npercent = 3\ndrive = \"c\""),
                "claim: there is no drive c; write the name",
            ),
            (with("[[claim]]\ntext = \"x\"\nof = \"price\"\npercent = nan"), "is no percentage"),
            ("drive = [".into(), "line 1"),
        ] {
            let found = DriveList::parse(&text).unwrap_err();
            assert!(found.contains(said) && !found.contains('\n'), "{text:?}: {found}");
        }
    }
}
