//! Direction in which a figure improves, and the sign of a difference.

use serde::{Deserialize, Serialize};

/// Whether higher or lower values of a metric are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BetterDirection {
    /// Higher values are better.
    Higher,
    /// Lower values are better.
    Lower,
    /// Neither higher nor lower values are better.
    #[serde(alias = "neutral")]
    Neither,
}

impl BetterDirection {
    /// Returns the percentage by which `value` is better than `base`, or `None` if the base is zero.
    pub fn percent(self, base: f64, value: f64) -> Option<f64> {
        let turned = self.signed_change((value / base - 1.0) * 100.0);
        (base != 0.0 && base.is_finite() && turned.is_finite()).then_some(turned)
    }

    /// Converts a change to a number that is positive for an improvement.
    pub fn signed_change(self, change: f64) -> f64 {
        // Adding zero removes the sign of a negative zero.
        if self == BetterDirection::Lower { 0.0 - change } else { change + 0.0 }
    }
}
