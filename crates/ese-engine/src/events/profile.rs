//! Numbers of maintenance events, which differ between ESE versions.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result, UsageError};

/// Numbering scheme for scan and zeroing events. All other events have the same number in all schemes.
///
/// | event | `Sp1` scan, zeroing | `Sp1Article` | `Modern` scan, zeroing |
/// | --- | --- | --- | --- |
/// | pass starts | 717, 718 | 719, 718 | 717, 736 |
/// | pass resumes | 719, 720 | 719, 720 | 719, 738 |
/// | pass completed | 721, 722 | 721, 722 | 732, 737 |
/// | completed, later than seven days | 721, 722 | 721, 722 | 733, 735 |
/// | pass failed | 723, 724 | 723, 724 | 723, 734 |
/// | pass interrupted | 725, 726 | 725, 726 | 725, 726 |
///
/// Each bad page is reported as event 727, in addition to the event for its damage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventProfile {
    /// Exchange 2007 SP1, according to ESE's message table.
    #[default]
    Sp1,
    /// Exchange 2007 SP1, according to the article by its developers. In the article, event 719 reports the start of a
    /// pass.
    Sp1Article,
    /// Current versions.
    Modern,
}

/// The stage of a pass, as reported by an event.
#[derive(Clone, Copy)]
pub(super) enum PassStage {
    Started,
    Resumed,
    Completed { late: bool },
    Failed,
    Interrupted,
}

impl EventProfile {
    /// All profiles, with the names that [`EventProfile::from_str`] parses.
    pub const NAMES: [(EventProfile, &'static str); 3] =
        [(EventProfile::Sp1, "sp1"), (EventProfile::Sp1Article, "article"), (EventProfile::Modern, "modern")];

    pub(super) fn pass_id(self, step: PassStage, zeroing: bool) -> u16 {
        let modern = self == EventProfile::Modern;
        let (scan, zero) = match step {
            PassStage::Started if modern => (717, 736),
            PassStage::Started if self == EventProfile::Sp1Article => (719, 718),
            PassStage::Started => (717, 718),
            PassStage::Resumed if modern => (719, 738),
            PassStage::Resumed => (719, 720),
            PassStage::Completed { late: false } if modern => (732, 737),
            PassStage::Completed { late: true } if modern => (733, 735),
            PassStage::Completed { .. } => (721, 722),
            PassStage::Failed if modern => (723, 734),
            PassStage::Failed => (723, 724),
            PassStage::Interrupted => (725, 726),
        };
        if zeroing { zero } else { scan }
    }
}

impl FromStr for EventProfile {
    type Err = Error;

    fn from_str(text: &str) -> Result<EventProfile> {
        let known = EventProfile::NAMES.iter().find(|(_, name)| *name == text);
        known.map(|(profile, _)| *profile).ok_or_else(|| UsageError::EventProfile(text.to_string()).into())
    }
}

impl fmt::Display for EventProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = EventProfile::NAMES.iter().find(|(profile, _)| profile == self);
        f.write_str(known.map_or("", |(_, name)| name))
    }
}
