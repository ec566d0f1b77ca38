//! Compares statements of the document with the results.

use crate::esrp::figure::Figure;

/// Outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The statement follows from the results.
    Holds,
    /// The statement does not follow from the results.
    Contradicted,
    /// The results contain no evidence for the statement.
    NoEvidence,
    /// The document lacks a required part.
    Missing,
    /// The statement is not wrong, but readers should know this circumstance.
    Remark,
}

impl Outcome {
    /// Returns the outcome in words.
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
    /// Location of the statement.
    pub(crate) place: String,
    /// Text of the statement.
    pub(crate) stated: String,
    /// Value that the results contain.
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

    /// Adds a check of a figure. The statement holds if it equals the computed figure, rounded to the same number of
    /// decimals. `how` describes the computation.
    pub(crate) fn figure(&mut self, place: &str, stated: Figure, computed: f64, how: &str) -> bool {
        let holds = stated.rounds(computed);
        self.judge(holds, place, stated.to_string(), format!("{}: {how}", stated.in_same_form(computed)));
        holds
    }
}
