//! Distribution of accesses over the records. The newest records are accessed most often, as in a mailbox. A skew
//! maps a uniformly distributed position in the key range to a skewed one, so the sequence of operations still
//! depends only on the seed.

use std::fmt;
use std::str::FromStr;

use jetcell_input::OptionValueError;

use crate::parse_error::ParseError;

/// Distribution of accesses over the key range.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Skew {
    /// All records are equally likely.
    #[default]
    Uniform,
    /// Continuous Zipf distribution. With an exponent below 1, the newest fraction `x` of the keys gets the fraction
    /// `x^(1 - exponent)` of the accesses. With an exponent of 1 or more, the integral of the density would diverge
    /// near 0, so the density is kept constant within the newest millionth of the keys.
    Zipf(f64),
    /// The newest `keys` percent of the keys get `accesses` percent of the accesses. Accesses are uniformly
    /// distributed within each of the two parts.
    Hot {
        /// Percentage of the accesses.
        accesses: u8,
        /// Percentage of the keys.
        keys: u8,
    },
}

/// Maximum exponent. With a larger exponent, nearly all accesses would go to the same few records.
const MAX_EXPONENT: f64 = 10.0;

impl Skew {
    /// Maps a uniform position to a skewed one. Both are fractions of the key range, in units of 2^-64.
    pub fn point(self, uniform: u64) -> u64 {
        match self {
            Skew::Uniform => uniform,
            Skew::Zipf(exponent) => {
                let draw = (uniform >> 11) as f64 / (1u64 << 53) as f64;
                from_newest(if exponent < 1.0 {
                    draw.powf(1.0 / (1.0 - exponent))
                } else {
                    steep_age(draw, exponent)
                })
            }
            Skew::Hot { accesses, keys } => {
                let (draw, share, hot) = (
                    (uniform >> 11) as f64 / (1u64 << 53) as f64,
                    f64::from(accesses) / 100.0,
                    f64::from(keys) / 100.0,
                );
                from_newest(if draw < share {
                    draw / share * hot
                } else {
                    hot + (draw - share) / (1.0 - share) * (1.0 - hot)
                })
            }
        }
    }
}

/// Fraction of the key range in which the density is constant if the Zipf exponent is 1 or more.
const STEEP_CORE: f64 = 1e-6;

/// Maps a uniform random number to an age. The density is `age^-exponent` outside the core and constant inside it.
fn steep_age(draw: f64, exponent: f64) -> f64 {
    // Integrals of the density, in units of the integral over the core: 1 for the core, and `outside(x)` from its
    // edge to the age `x`.
    let power = exponent - 1.0;
    let outside = |x: f64| {
        if power < 1e-9 { (x / STEEP_CORE).ln() } else { (1.0 - (x / STEEP_CORE).powf(-power)) / power }
    };
    let mass = draw * (1.0 + outside(1.0));
    if mass <= 1.0 {
        return mass * STEEP_CORE;
    }
    let along = mass - 1.0;
    let age = if power < 1e-9 {
        STEEP_CORE * along.exp()
    } else {
        STEEP_CORE * (1.0 - along * power).max(f64::MIN_POSITIVE).powf(-1.0 / power)
    };
    age.clamp(STEEP_CORE, 1.0)
}

/// Returns the position at this fraction of the key range, measured from the newest key.
fn from_newest(age: f64) -> u64 {
    // The conversion saturates, so age 0 maps to the last key.
    ((1.0 - age) * u64::MAX as f64) as u64
}

impl FromStr for Skew {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Skew, ParseError> {
        let help = || OptionValueError::unparsable(text, "a skew", "use uniform, zipf:0.9 or 80/20");
        let out_of_range = |name: &str, limits: &'static str| {
            OptionValueError::new(format_args!("the {name} is out of range"), limits)
        };
        if text == "uniform" {
            return Ok(Skew::Uniform);
        }
        if let Some(exponent) = text.strip_prefix("zipf:") {
            let exponent: f64 = exponent.parse().map_err(|_| help())?;
            let known = exponent > 0.0 && exponent <= MAX_EXPONENT;
            return if known {
                Ok(Skew::Zipf(exponent))
            } else {
                Err(out_of_range("zipf exponent", "use a value greater than 0 and at most 10").into())
            };
        }
        let (accesses, keys) = text.split_once('/').ok_or_else(help)?;
        let (accesses, keys) = (accesses.parse().map_err(|_| help())?, keys.parse().map_err(|_| help())?);
        if !(1..=99).contains(&accesses) || !(1..=99).contains(&keys) {
            let name = "percentage of accesses or of keys";
            return Err(out_of_range(name, "use a value from 1 to 99").into());
        }
        Ok(Skew::Hot { accesses, keys })
    }
}

impl fmt::Display for Skew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Skew::Uniform => f.write_str("uniform"),
            Skew::Zipf(exponent) => write!(f, "zipf:{exponent}"),
            Skew::Hot { accesses, keys } => write!(f, "{accesses}/{keys}"),
        }
    }
}

jetcell_input::text_in_serde!(Skew);

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the fraction of evenly spaced positions that are mapped to the newest `percent` of the keys.
    fn share_of_newest(skew: Skew, percent: u64) -> f64 {
        const DRAWS: u64 = 100_000;
        let bound = u64::MAX / 100 * (100 - percent);
        let hits = (0..DRAWS).filter(|draw| skew.point(draw * (u64::MAX / DRAWS)) >= bound).count();
        hits as f64 / DRAWS as f64
    }

    #[test]
    fn accesses_follow_the_distribution() {
        for (text, percent, expected) in [
            ("uniform", 20, 0.2),
            ("80/20", 20, 0.8),
            ("80/20", 60, 0.9),
            ("zipf:0.5", 25, 0.5),
            ("zipf:0.9", 1, 0.631),
            // The expected values are (1 + ln 10^4) / (1 + ln 10^6) and (1 + 2 (1 - 10^-2)) / (1 + 2 (1 - 10^-3)).
            ("zipf:1", 1, 0.689),
            ("zipf:1.5", 1, 0.994),
        ] {
            let share = share_of_newest(text.parse().unwrap(), percent);
            assert!((share - expected).abs() < 0.001, "{text} {percent}: {share}");
        }
    }

    #[test]
    fn distribution_names_round_trip_and_unknown_names_are_refused() {
        for text in ["uniform", "zipf:0.99", "zipf:1", "zipf:1.2", "80/20"] {
            assert_eq!(text.parse::<Skew>().unwrap().to_string(), text);
        }
        for text in [
            "", "zipf", "zipf:11", "zipf:0", "zipf:NaN", "zipf:-1", "zipf:inf", "0/20", "80/100", "300/1",
            "80",
        ] {
            assert!(text.parse::<Skew>().is_err(), "{text}");
        }
    }
}
