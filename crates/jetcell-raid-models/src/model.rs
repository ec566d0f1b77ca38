//! The models: which diagram belongs to which RAID type.

use std::fmt;
use std::str::FromStr;

use crate::Error;
use crate::array::RaidType;

/// A state diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// n+1, with the states good, defect and failed.
    A,
    /// n+2; a rebuild also repairs the defect that it meets.
    B1,
    /// n+2; a rebuild leaves the defect to the scrub.
    B2,
    /// n+2; the scrub continues while the set is degraded (the paper's figure 5 contradicts this).
    B3,
    /// n+2 with (n-1) ll and a double restore rate: a numerical fit to the paper's ratios, without physical meaning.
    BFit,
    /// Any number of parities, over (failed, defective) drives.
    General(General),
}

/// How the general chain treats defects while drives are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct General {
    /// Whether a rebuild repairs all defects.
    pub rebuild_cleans: bool,
    /// Whether the scrub continues while drives are missing.
    pub scrub_while_degraded: bool,
    /// Whether a defect that arises while no redundancy is left is a loss.
    pub late_defects: bool,
}

impl General {
    /// The rules of the crate `jetcell-array`: a rebuild reads whole rows and repairs the defects that it meets, the scrub
    /// continues, and a defect without redundancy is a loss whenever it arises.
    pub fn of_arrays() -> General {
        General { rebuild_cleans: true, scrub_while_degraded: true, late_defects: true }
    }
}

impl Default for General {
    /// As in the reference figures: the rebuild does not repair defects, and the scrub continues.
    fn default() -> General {
        General { rebuild_cleans: false, scrub_while_degraded: true, late_defects: false }
    }
}

impl Model {
    const NAMES: &str = "a, b1, b2, general";

    /// The general chain with its usual assumptions.
    pub fn general() -> Model {
        Model::General(General::default())
    }

    /// The default model of a RAID type.
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

    /// Lost drives that the diagram survives. `None` for the general chain, which takes any number.
    fn parities(self) -> Option<u32> {
        match self {
            Model::A => Some(1),
            Model::B1 | Model::B2 | Model::B3 | Model::BFit => Some(2),
            Model::General(_) => None,
        }
    }

    /// Returns an error if the diagram is for another number of parities.
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
