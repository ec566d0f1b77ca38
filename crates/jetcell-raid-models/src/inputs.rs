//! The user's inputs. Every field of a [`ReliabilityInputs`] is optional; [`ReliabilityInputs::case`] derives the
//! missing values.

use serde::Serialize;

use crate::MarkovModel;
use crate::array::RaidType;
use crate::scrub::ScrubPolicy;
use crate::units::{AnnualFailure, Bytes, BytesPerSecond, ErrorsPerByte, Fraction, Hours, PerHour};

/// How to interpret an annual failure rate such as 1.9 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AfrInterpretation {
    /// Failures per year of operation.
    #[default]
    Rate,
    /// Probability that a drive fails within a year.
    Probability,
}

/// All inputs to a reliability case. The command-line options have the same names.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct ReliabilityInputs {
    pub raid: Option<RaidType>,
    pub data_disks: Option<u32>,
    pub groups: Option<u32>,
    pub drives: Option<u32>,
    pub years: Option<f64>,
    pub model: Option<MarkovModel>,
    pub afr: Option<AnnualFailure>,
    pub afr_reading: Option<AfrInterpretation>,
    pub mtbf: Option<Hours>,
    pub latent_rate: Option<PerHour>,
    pub error_rate: Option<ErrorsPerByte>,
    pub read_rate: Option<BytesPerSecond>,
    pub restore: Option<Hours>,
    pub rebuild_rate: Option<BytesPerSecond>,
    pub scrub: Option<ScrubPolicy>,
    pub scrub_pass: Option<Hours>,
    pub capacity: Option<Bytes>,
    pub bandwidth: Option<BytesPerSecond>,
    pub load: Option<Fraction>,
    pub scrub_share: Option<Fraction>,
    pub bus: Option<BytesPerSecond>,
    pub spares: Option<u32>,
    pub spare_delivery: Option<Hours>,
}
