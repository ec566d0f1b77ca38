//! The measurements of all rounds, as stored in JSON, and the figures that are computed from them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Why an engine is missing that the options did not name.
pub const NOT_ASKED_FOR: &str = "not asked for";

/// All measurements of a run of the table.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measurements {
    /// Date, processor, memory, kernel, file system.
    pub machine: String,
    /// Version of each engine and of fio, as the library or program reports it.
    pub versions: BTreeMap<String, String>,
    /// Rows that were asked for.
    pub rows: Vec<u8>,
    /// MiB of records in a store.
    pub size_mib: u64,
    /// Engines that were not measured, and why.
    pub missing: BTreeMap<String, String>,
    /// Samples of each step, in the order of the rounds.
    pub samples: BTreeMap<String, Vec<TableSample>>,
    /// Steps that failed, and how.
    pub failures: BTreeMap<String, String>,
}

/// One measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TableSample {
    /// Number of the round.
    pub round: u32,
    /// Whether the machine was quiet.
    pub quiet: bool,
    #[serde(flatten)]
    pub disturbance: SampleDisturbance,
    /// The result.
    pub value: Value,
}

/// Other activity on the machine during a measurement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct SampleDisturbance {
    /// Cores that other processes used.
    pub other_cores: f64,
    /// Share of the time in which the machine stood still.
    pub stalled_share: f64,
}

/// Computes one figure of a sample.
pub type FigureFn = fn(&Value) -> Option<f64>;

impl Measurements {
    /// Samples of a step.
    pub fn samples(&self, step: &str) -> &[TableSample] {
        self.samples.get(step).map_or(&[], Vec::as_slice)
    }

    /// Median of a figure over the rounds.
    pub fn figure(&self, step: &str, figure: FigureFn) -> Option<f64> {
        median(self.samples(step).iter().filter_map(|sample| figure(&sample.value)).collect())
    }

    /// Median of the ratios within rounds.
    pub fn ratio(&self, ours: (&str, FigureFn), theirs: (&str, FigureFn)) -> Option<f64> {
        let of_round = |sample: &TableSample| {
            let peer = self.sample_in_round(theirs.0, sample.round)?;
            Some(ours.1(&sample.value)? / theirs.1(&peer.value)?)
        };
        median(self.samples(ours.0).iter().filter_map(of_round).collect())
    }

    /// The sample of a step in a round.
    pub fn sample_in_round(&self, step: &str, round: u32) -> Option<&TableSample> {
        self.samples(step).iter().find(|sample| sample.round == round)
    }

    /// Whether the machine was quiet in all samples of the steps.
    pub fn is_quiet(&self, steps: &[&str]) -> bool {
        steps.iter().flat_map(|step| self.samples(step)).all(|sample| sample.quiet)
    }

    /// Number of rounds.
    pub fn rounds(&self) -> usize {
        self.samples.values().map(Vec::len).max().unwrap_or(0)
    }
}

/// Median of values; `None` if there are none.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        even if even % 2 == 0 => Some((values[middle - 1] + values[middle]) / 2.0),
        _ => Some(values[middle]),
    }
}

/// The number at a path of a result.
pub fn number_at_path(value: &Value, path: &str) -> Option<f64> {
    value.pointer(path).and_then(Value::as_f64)
}

/// Operations per second of a mix.
pub fn operation_rate(value: &Value) -> Option<f64> {
    Some(number_at_path(value, "/operations")? / number_at_path(value, "/used/seconds")?)
}

/// CPU seconds per 10,000 operations of a mix.
pub fn cpu_seconds(value: &Value) -> Option<f64> {
    Some(number_at_path(value, "/used/cpu_seconds")? / number_at_path(value, "/operations")? * 1e4)
}

/// Bytes written per byte of inserted and replaced records of a mix.
pub fn write_amplification(value: &Value) -> Option<f64> {
    Some(number_at_path(value, "/used/written")? / number_at_path(value, "/logical")?)
}

/// p99 of durable transactions of a mix in microseconds.
pub fn durable_p99(value: &Value) -> Option<f64> {
    number_at_path(value, "/durable_us/p99")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_an_even_count_is_the_mean_of_the_middle_two() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
