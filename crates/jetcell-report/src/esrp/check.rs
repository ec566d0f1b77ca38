//! A statement of the document beside what the results say.

use crate::esrp::figure::Figure;

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The statement follows from the results.
    Holds,
    /// The statement does not follow from the results.
    Contradicted,
    /// The results have no evidence for it.
    NoEvidence,
    /// The document lacks something that it must have.
    Missing,
    /// The statement is not wrong, but readers should know the circumstance.
    Remark,
}

impl Outcome {
    /// The outcome in words.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Outcome::Holds => "holds",
            Outcome::Contradicted => "contradicted",
            Outcome::NoEvidence => "no evidence",
            Outcome::Missing => "missing",
            Outcome::Remark => "remark",
        }
    }

    /// Whether the author has to act.
    pub(crate) const fn is_inconsistency(self) -> bool {
        matches!(self, Outcome::Contradicted | Outcome::NoEvidence | Outcome::Missing)
    }
}

/// One statement and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    /// Where the statement is.
    pub(crate) place: String,
    /// What it says.
    pub(crate) stated: String,
    /// What the results say.
    pub(crate) found: String,
    pub(crate) outcome: Outcome,
}

/// The checks of a document, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checks {
    pub(crate) all: Vec<Check>,
}

impl Checks {
    /// Adds a statement.
    pub(crate) fn add(
        &mut self,
        outcome: Outcome,
        place: impl Into<String>,
        stated: impl Into<String>,
        found: impl Into<String>,
    ) {
        self.all.push(Check { place: place.into(), stated: stated.into(), found: found.into(), outcome });
    }

    /// Adds a statement that holds or is contradicted.
    pub(crate) fn judge(
        &mut self,
        holds: bool,
        place: impl Into<String>,
        stated: impl Into<String>,
        found: impl Into<String>,
    ) {
        self.add(if holds { Outcome::Holds } else { Outcome::Contradicted }, place, stated, found);
    }

    /// Adds a figure, which holds if it is the computed one rounded to as many decimals. `how` says what was computed.
    pub(crate) fn figure(&mut self, place: &str, stated: Figure, computed: f64, how: &str) -> bool {
        let holds = stated.rounds(computed);
        self.judge(holds, place, stated.to_string(), format!("{}: {how}", stated.in_same_form(computed)));
        holds
    }
}
