//! The models: state diagrams available for each RAID type.

use std::fmt;
use std::str::FromStr;

use crate::Error;
use crate::array::RaidType;

/// State diagram of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// n+1 diagram with the states good, defect, and failed.
    A,
    /// n+2 diagram in which a rebuild also repairs a defect that it encounters.
    B1,
    /// n+2 diagram in which a rebuild leaves a defect for the scrub to repair.
    B2,
    /// n+2 diagram in which the scrub continues while the set is degraded. The paper's Figure 5 contradicts this.
    B3,
    /// n+2 diagram with (n-1) ll and a doubled restore rate: a numerical fit to the paper's ratios, without physical
    /// meaning.
    BFit,
    /// General chain for any number of parities. A state is a pair of drive counts (failed, defective).
    General(General),
}

/// How the general chain treats defects while drives are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct General {
    /// True if a rebuild repairs all defects.
    pub rebuild_cleans: bool,
    /// True if the scrub continues while drives are missing.
    pub scrub_while_degraded: bool,
    /// True if a defect that arises when no redundancy remains is a loss.
    pub late_defects: bool,
}

impl General {
    /// Returns the rules that match the crate `jetcell-array`. A rebuild reads whole rows and repairs the defects
    /// that it encounters. The scrub continues while drives are missing. A defect without redundancy is always a
    /// loss, no matter when it arises.
    pub fn of_arrays() -> General {
        General { rebuild_cleans: true, scrub_while_degraded: true, late_defects: true }
    }
}

impl Default for General {
    /// Returns the rules of the reference figures: the rebuild does not repair defects, and the scrub continues
    /// while drives are missing.
    fn default() -> General {
        General { rebuild_cleans: false, scrub_while_degraded: true, late_defects: false }
    }
}

impl Model {
    const NAMES: &str = "a, b1, b2, general";

    /// Returns the general chain with its default assumptions.
    pub fn general() -> Model {
        Model::General(General::default())
    }

    /// Returns a RAID type's default model.
    pub fn default_for(raid: RaidType) -> Model {
        match raid.parities() {
            1 => Model::A,
            2 => Model::B1,
            _ => Model::general(),
        }
    }

    /// Returns the name used on the command line and in results.
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

    /// Returns how many lost drives the diagram survives, or `None` for the general chain, which supports any number.
    fn parities(self) -> Option<u32> {
        match self {
            Model::A => Some(1),
            Model::B1 | Model::B2 | Model::B3 | Model::BFit => Some(2),
            Model::General(_) => None,
        }
    }

    /// Checks that the diagram is for the RAID type's number of parities, and returns the model.
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
