//! The sign of a difference.

use serde::{Deserialize, Serialize};

/// Which direction of a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// Neither direction is better.
    #[serde(alias = "neutral")]
    Neither,
}

impl Better {
    /// Percent by which `value` is better than `base`; `None` if the base is zero.
    pub fn percent(self, base: f64, value: f64) -> Option<f64> {
        let turned = self.turned((value / base - 1.0) * 100.0);
        (base != 0.0 && base.is_finite() && turned.is_finite()).then_some(turned)
    }

    /// A change with the sign of an improvement.
    pub fn turned(self, change: f64) -> f64 {
        // Adding zero removes the sign of a negative zero.
        if self == Better::Lower { 0.0 - change } else { change + 0.0 }
    }
}
