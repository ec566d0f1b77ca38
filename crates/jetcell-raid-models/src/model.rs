//! The models: which diagram belongs to which RAID type.

use std::fmt;
use std::str::FromStr;

use crate::Error;
use crate::array::RaidType;

/// A state diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// n+1: good, defect, failed, lost.
    A,
    /// n+2, and a rebuild also cleans the defect it meets.
    B1,
    /// n+2, and a rebuild leaves the defect to the scrub.
    B2,
    /// n+2, and the scrub goes on while degraded (argued against by the paper's figure 5).
    B3,
    /// n+2 with (n-1) ll and a double restore rate: a numerical fit to the paper's ratios without physical meaning.
    BFit,
    /// Any number of parities, over (failed, defective) drives.
    General(General),
}

/// What happens to defects while drives are missing, in the general chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct General {
    /// A rebuild cleans all defects.
    pub rebuild_cleans: bool,
    /// The scrub goes on while drives are missing.
    pub scrub_while_degraded: bool,
}

impl Default for General {
    /// As the reference figures: the rebuild leaves defects, the scrub goes on.
    fn default() -> General {
        General { rebuild_cleans: false, scrub_while_degraded: true }
    }
}

impl Model {
    const NAMES: &str = "a, b1, b2, general";

    /// The general chain with its usual assumptions.
    pub fn general() -> Model {
        Model::General(General::default())
    }

    /// The model for a RAID type when none is asked for.
    pub fn default_for(raid: RaidType) -> Model {
        match raid.parities() {
            1 => Model::A,
            2 => Model::B1,
            _ => Model::general(),
        }
    }

    /// The name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Model::A => "a",
            Model::B1 => "b1",
            Model::B2 => "b2",
            Model::B3 => "b3",
            Model::BFit => "b-fit",
            Model::General(_) => "general",
        }
    }

    /// Lost drives that the diagram survives; any number for the general chain.
    fn parities(self) -> Option<u32> {
        match self {
            Model::A => Some(1),
            Model::B1 | Model::B2 | Model::B3 | Model::BFit => Some(2),
            Model::General(_) => None,
        }
    }

    /// Refuses a diagram for another number of parities.
    pub fn check(self, raid: RaidType) -> Result<Model, Error> {
        match self.parities() {
            Some(parities) if parities != raid.parities() => Err(Error::ModelMismatch {
                model: self.name(),
                model_parities: parities,
                raid: raid.name(),
                raid_parities: raid.parities(),
                fitting: match raid.parities() {
                    1 => "a or general",
                    2 => "b1, b2 or general",
                    _ => "general",
                },
            }),
            _ => Ok(self),
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Model {
    type Err = Error;
    fn from_str(name: &str) -> Result<Model, Error> {
        let all = [Model::A, Model::B1, Model::B2, Model::general()];
        let found = all.into_iter().find(|model| model.name() == name);
        found.ok_or_else(|| Error::Unknown { what: "model", name: name.into(), choices: Model::NAMES })
    }
}

crate::text::in_serde!(Model);
