//! The models: state diagrams available for each RAID type.

use std::fmt;
use std::str::FromStr;

use crate::Error;
use crate::array::RaidType;

/// A Markov model of a drive set, which determines the set's state diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkovModel {
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
    General(GeneralModelRules),
}

/// How the general model treats defects while drives are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneralModelRules {
    /// True if a rebuild repairs all defects.
    pub rebuild_cleans: bool,
    /// True if the scrub continues while drives are missing.
    pub scrub_while_degraded: bool,
    /// True if a defect that arises when no redundancy remains is a loss.
    pub late_defects: bool,
}

impl GeneralModelRules {
    /// Returns the rules that match the crate `jetcell-array`. A rebuild reads whole rows and repairs the defects that
    /// it encounters. The scrub continues while drives are missing. A defect in data that has no redundancy left always
    /// counts as a loss, no matter when it arises.
    pub fn for_arrays() -> GeneralModelRules {
        GeneralModelRules { rebuild_cleans: true, scrub_while_degraded: true, late_defects: true }
    }
}

impl Default for GeneralModelRules {
    /// Returns the rules of the reference figures: the rebuild does not repair defects, and the scrub continues
    /// while drives are missing.
    fn default() -> GeneralModelRules {
        GeneralModelRules { rebuild_cleans: false, scrub_while_degraded: true, late_defects: false }
    }
}

impl MarkovModel {
    const NAMES: &str = "a, b1, b2, general";

    /// Returns the general chain with its default assumptions.
    pub fn general() -> MarkovModel {
        MarkovModel::General(GeneralModelRules::default())
    }

    /// Returns a RAID type's default model.
    pub fn default_for(raid: RaidType) -> MarkovModel {
        match raid.parities() {
            1 => MarkovModel::A,
            2 => MarkovModel::B1,
            _ => MarkovModel::general(),
        }
    }

    /// Returns the name used on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            MarkovModel::A => "a",
            MarkovModel::B1 => "b1",
            MarkovModel::B2 => "b2",
            MarkovModel::B3 => "b3",
            MarkovModel::BFit => "b-fit",
            MarkovModel::General(_) => "general",
        }
    }

    /// Returns the number of lost drives that a set with this diagram survives. Returns `None` for the general chain,
    /// which supports any number.
    fn parities(self) -> Option<u32> {
        match self {
            MarkovModel::A => Some(1),
            MarkovModel::B1 | MarkovModel::B2 | MarkovModel::B3 | MarkovModel::BFit => Some(2),
            MarkovModel::General(_) => None,
        }
    }

    /// Checks that the diagram is for the RAID type's number of parities, and returns the model.
    pub fn check(self, raid: RaidType) -> Result<MarkovModel, Error> {
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

impl fmt::Display for MarkovModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for MarkovModel {
    type Err = Error;
    fn from_str(name: &str) -> Result<MarkovModel, Error> {
        let all = [MarkovModel::A, MarkovModel::B1, MarkovModel::B2, MarkovModel::general()];
        let found = all.into_iter().find(|model| model.name() == name);
        found.ok_or_else(|| Error::Unknown { what: "model", name: name.into(), choices: MarkovModel::NAMES })
    }
}

jetcell_input::text_in_serde!(MarkovModel);
