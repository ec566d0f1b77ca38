//! Errors for invalid inputs.

use std::borrow::Cow;

use jetcell_input::quantity::QuantityError;

/// Error returned for an invalid input to a reliability calculation. [`Error::advice`] says how to correct it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A text is not a valid quantity.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// The number is infinite or not a number.
    #[error("\"{0}\" is out of range")]
    NotFinite(String),
    /// The number is negative.
    #[error("\"{0}\" is negative")]
    Negative(String),
    /// The number is zero where a positive number is required.
    #[error("{0} must be above zero")]
    Zero(&'static str),
    /// The annual failure rate exceeds 100 %.
    #[error("an annual failure rate of {} is above 100 %", percent(.0))]
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
    #[error("a group of {group} drives is larger than the array of {array}")]
    GroupLargerThanArray {
        /// Number of drives in a group.
        group: u32,
        /// Number of drives in the array.
        array: u32,
    },
    /// A name is unknown.
    #[error("unknown {what} \"{name}\"")]
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
         {raid_parities}"
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
    /// Several inputs determine the same number.
    #[error("{} are mutually exclusive", .0.join(" and "))]
    Exclusive(Vec<&'static str>),
    /// An input requires another input that is missing. Contains the names of both.
    #[error("{0} has no effect without {1}")]
    NoEffect(&'static str, &'static str),
    /// A rate of read errors was given without a read rate.
    #[error("--error-rate requires a read rate")]
    NoReadRate,
    /// A curve over disk size was requested, but the times do not depend on the size.
    #[error("a curve over disk size requires times derived from the size")]
    SizeHasNoEffect,
    /// The number of years exceeds the limit. Contains both numbers.
    #[error("{0} years exceeds the maximum of {1}")]
    TooManyYears(f64, f64),
    /// The drives do not form whole groups.
    #[error("{drives} drives cannot be divided into groups of {group}: {} are left over", .drives % .group)]
    PartOfGroup {
        /// Number of drives.
        drives: u32,
        /// Number of drives in a group.
        group: u32,
    },
    /// A number is outside its limits. Contains its name, its value and the limits.
    #[error("a {0} of {1} is not between {2}")]
    OutsideLimits(&'static str, f64, &'static str),
    /// A simulated life would have too many events.
    #[error("a simulated lifetime would have too many events ({0:.0e})")]
    TooManyEvents(f64),
    /// Too many drives would be on order at any time.
    #[error("{0:.0} drives would be on order at any time")]
    TooManyOrders(f64),
}

impl Error {
    /// Returns what the user can do about the error, for example `specify only one`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            Error::Quantity(error) => return error.advice(),
            Error::AnnualFailureAboveOne(_) => "specify the mean time between failures instead",
            Error::Unknown { choices, .. } => return Some(format!("choose one of {choices}").into()),
            Error::Negative(_) => "rates, times and sizes cannot be negative",
            Error::Zero(_) => "correct this value",
            Error::GroupLargerThanArray { .. } => "use more drives or a smaller group",
            Error::ModelMismatch { fitting, .. } => return Some(format!("use {fitting}").into()),
            Error::Exclusive(_) => "specify only one",
            Error::NoReadRate => {
                "use --read-rate (the published value is 1.35GB/h), or --bandwidth and --load"
            }
            Error::SizeHasNoEffect => "use --capacity, --bandwidth and --load instead of --restore",
            Error::TooManyEvents(_) => "use the models without --monte-carlo",
            Error::TooManyOrders(_) => "check the failure rate and the delivery time",
            _ => return None,
        }))
    }
}

fn percent(part: &f64) -> String {
    format!("{} %", part * 100.0)
}
