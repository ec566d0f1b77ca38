//! Compares statements in the document with the results.

use crate::esrp::figure::StatedNumber;

/// Outcome of checking a statement in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatementOutcome {
    /// The results confirm the statement.
    Holds,
    /// The results contradict the statement.
    Contradicted,
    /// The results contain no evidence for or against the statement.
    NoEvidence,
    /// The document lacks a required part.
    Missing,
    /// The statement is not wrong, but it needs a remark for readers of the document.
    Remark,
}

impl StatementOutcome {
    /// Returns a word for the outcome.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            StatementOutcome::Holds => "holds",
            StatementOutcome::Contradicted => "contradicted",
            StatementOutcome::NoEvidence => "no evidence",
            StatementOutcome::Missing => "missing",
            StatementOutcome::Remark => "remark",
        }
    }

    /// Returns true if the author must correct the document.
    pub(crate) const fn is_inconsistency(self) -> bool {
        matches!(
            self,
            StatementOutcome::Contradicted | StatementOutcome::NoEvidence | StatementOutcome::Missing
        )
    }
}

/// A figure stated in an ESRP document, and whether the results agree with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConsistencyCheck {
    /// Location of the statement in the document.
    pub(crate) location: String,
    /// The statement itself.
    pub(crate) stated: String,
    /// Corresponding content of the results.
    pub(crate) found: String,
    pub(crate) outcome: StatementOutcome,
}

/// The consistency checks on a document, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConsistencyChecks {
    pub(crate) all: Vec<ConsistencyCheck>,
}

impl ConsistencyChecks {
    /// Adds a check of a statement.
    pub(crate) fn add(
        &mut self,
        outcome: StatementOutcome,
        place: impl Into<String>,
        stated: impl Into<String>,
        found: impl Into<String>,
    ) {
        self.all.push(ConsistencyCheck {
            location: place.into(),
            stated: stated.into(),
            found: found.into(),
            outcome,
        });
    }

    /// Adds a check whose outcome is [`StatementOutcome::Holds`] or [`StatementOutcome::Contradicted`].
    pub(crate) fn add_comparison(
        &mut self,
        holds: bool,
        place: impl Into<String>,
        stated: impl Into<String>,
        found: impl Into<String>,
    ) {
        self.add(
            if holds { StatementOutcome::Holds } else { StatementOutcome::Contradicted },
            place,
            stated,
            found,
        );
    }

    /// Checks a stated figure. The statement holds if the computed figure, rounded to the same number of decimals,
    /// equals it. `how` describes the computation.
    pub(crate) fn add_figure(&mut self, place: &str, stated: StatedNumber, computed: f64, how: &str) -> bool {
        let holds = stated.matches_rounded(computed);
        self.add_comparison(
            holds,
            place,
            stated.to_string(),
            format!("{}: {how}", stated.format_like(computed)),
        );
        holds
    }
}
