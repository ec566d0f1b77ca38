//! Errors for invalid inputs.

use jetcell_input::quantity::QuantityError;

/// Error returned for an invalid input to a reliability calculation. The message says how to correct it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A text is not a valid quantity.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// The number is infinite or not a number.
    #[error("\"{0}\" is out of range")]
    NotFinite(String),
    /// The number is negative.
    #[error("\"{0}\" is negative; rates, times and sizes cannot be negative")]
    Negative(String),
    /// The number is zero where a positive number is required.
    #[error("{0} must be above zero")]
    Zero(&'static str),
    /// The annual failure rate exceeds 100 %.
    #[error("an annual failure rate of {} is above 100 %; specify the mean time between failures instead", percent(.0))]
    AnnualFailureAboveOne(f64),
    /// A fraction exceeds 1.
    #[error("a share of {} exceeds 100 %", percent(.0))]
    FractionAboveOne(f64),
    /// A count is outside the limits of the models.
    #[error("{what}: {count} is not between {least} and {most}")]
    Count {
        /// Description of the objects that are counted.
        what: &'static str,
        /// The given count.
        count: u64,
        /// Minimum valid count.
        least: u64,
        /// Maximum valid count.
        most: u64,
    },
    /// A group is larger than the array.
    #[error(
        "a group of {group} drives is larger than the array of {array}; use more drives or a smaller group"
    )]
    GroupLargerThanArray {
        /// Number of drives in a group.
        group: u32,
        /// Number of drives in the array.
        array: u32,
    },
    /// A name is unknown.
    #[error("unknown {what} \"{name}\"; choose one of {choices}")]
    Unknown {
        /// Kind of object that the name refers to.
        what: &'static str,
        /// The given name.
        name: String,
        /// All valid names.
        choices: &'static str,
    },
    /// The model is for a different number of parities.
    #[error(
        "model {model} covers groups that survive {model_parities} failed drives, but {raid} survives \
         {raid_parities}; use {fitting}"
    )]
    ModelMismatch {
        /// Name of the model.
        model: &'static str,
        /// Number of lost drives that the model's groups survive.
        model_parities: u32,
        /// Name of the RAID type.
        raid: &'static str,
        /// Number of lost drives that the RAID type's groups survive.
        raid_parities: u32,
        /// Names of the models that fit the RAID type.
        fitting: &'static str,
    },
    /// Two inputs determine the same number, or an input requires another input that is missing.
    #[error("{0}")]
    Combination(String),
}

fn percent(part: &f64) -> String {
    format!("{} %", part * 100.0)
}
