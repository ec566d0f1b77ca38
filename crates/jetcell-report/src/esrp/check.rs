//! Compares statements in the document with the results.

use crate::esrp::figure::Figure;

/// Outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The results confirm the statement.
    Holds,
    /// The results contradict the statement.
    Contradicted,
    /// The results contain no evidence for or against the statement.
    NoEvidence,
    /// The document lacks a required part.
    Missing,
    /// The statement is not wrong, but readers should know about a circumstance.
    Remark,
}

impl Outcome {
    /// Returns a word for the outcome.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Outcome::Holds => "holds",
            Outcome::Contradicted => "contradicted",
            Outcome::NoEvidence => "no evidence",
            Outcome::Missing => "missing",
            Outcome::Remark => "remark",
        }
    }

    /// Returns true if the author must correct the document.
    pub(crate) const fn is_inconsistency(self) -> bool {
        matches!(self, Outcome::Contradicted | Outcome::NoEvidence | Outcome::Missing)
    }
}

/// A statement and the outcome of its check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    /// Where the document makes the statement.
    pub(crate) place: String,
    /// The statement itself.
    pub(crate) stated: String,
    /// What the results contain.
    pub(crate) found: String,
    pub(crate) outcome: Outcome,
}

/// The checks of a document, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checks {
    pub(crate) all: Vec<Check>,
}

impl Checks {
    /// Adds a check of a statement.
    pub(crate) fn add(
        &mut self,
        outcome: Outcome,
        place: impl Into<String>,
        stated: impl Into<String>,
        found: impl Into<String>,
    ) {
        self.all.push(Check { place: place.into(), stated: stated.into(), found: found.into(), outcome });
    }

    /// Adds a check whose outcome is [`Outcome::Holds`] or [`Outcome::Contradicted`].
    pub(crate) fn judge(
        &mut self,
        holds: bool,
        place: impl Into<String>,
        stated: impl Into<String>,
        found: impl Into<String>,
    ) {
        self.add(if holds { Outcome::Holds } else { Outcome::Contradicted }, place, stated, found);
    }

    /// Checks a stated figure. The statement holds if the computed figure, rounded to the same number of decimals,
    /// equals it. `how` describes the computation.
    pub(crate) fn figure(&mut self, place: &str, stated: Figure, computed: f64, how: &str) -> bool {
        let holds = stated.rounds(computed);
        self.judge(holds, place, stated.to_string(), format!("{}: {how}", stated.in_same_form(computed)));
        holds
    }
}
