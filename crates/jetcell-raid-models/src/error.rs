//! Errors of inputs.

/// An invalid input. The text says what to write instead.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// No number at the start.
    #[error("\"{0}\" does not start with a number")]
    NoNumber(String),
    /// Infinite or not a number.
    #[error("\"{0}\" is out of range")]
    NotFinite(String),
    /// Below zero.
    #[error("\"{0}\" is negative; rates, times and sizes cannot be negative")]
    Negative(String),
    /// Zero, where only positive values are allowed.
    #[error("{0} must be above zero")]
    Zero(&'static str),
    /// A unit is missing or unknown.
    #[error("\"{text}\" has no unit that fits; write {expected}")]
    Unit {
        /// The text that was given.
        text: String,
        /// The forms that are allowed.
        expected: &'static str,
    },
    /// More failures than drives.
    #[error("an annual failure rate of {} is above 100 %; give the mean time between failures instead", percent(.0))]
    AnnualFailureAboveOne(f64),
    /// A part larger than the whole.
    #[error("a share of {} is above 100 %", percent(.0))]
    FractionAboveOne(f64),
    /// A count outside of the limits of the models.
    #[error("{what}: {count} is not between {least} and {most}")]
    Count {
        /// What is counted.
        what: &'static str,
        /// The count that was given.
        count: u64,
        /// The smallest valid count.
        least: u64,
        /// The largest valid count.
        most: u64,
    },
    /// A group that the array cannot hold.
    #[error(
        "a group of {group} drives is larger than the array of {array}; give more drives, or a smaller group"
    )]
    GroupLargerThanArray {
        /// Drives in a group.
        group: u32,
        /// Drives in the array.
        array: u32,
    },
    /// A name that is not in the list.
    #[error("\"{name}\" is no {what}; choose one of {choices}")]
    Unknown {
        /// The kind of name.
        what: &'static str,
        /// The name that was given.
        name: String,
        /// All valid names.
        choices: &'static str,
    },
    /// The model has another number of parities.
    #[error(
        "model {model} is for groups that survive {model_parities} lost drives, {raid} survives {raid_parities}; use {fitting}"
    )]
    ModelMismatch {
        /// Name of the model.
        model: &'static str,
        /// Lost drives that the model survives.
        model_parities: u32,
        /// Name of the RAID type.
        raid: &'static str,
        /// Lost drives that the RAID type survives.
        raid_parities: u32,
        /// The models that fit.
        fitting: &'static str,
    },
    /// Two inputs for one number, or an input without another one that it needs.
    #[error("{0}")]
    Combination(String),
}

fn percent(part: &f64) -> String {
    format!("{} %", part * 100.0)
}
