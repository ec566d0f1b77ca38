//! Published figures, properties of the whole calculation, and the worked example of `docs/internals/sizing-model.md`.

mod cases;
mod drives;
mod explained;
mod properties;
mod refusals;
mod worked_example;

use serde_json::Value;

/// Loads a fixture from this directory.
pub fn fixture(name: &str) -> Value {
    let path = format!("{}/tests/it/fixtures/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the number in a JSON value.
pub fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// Asserts that two numbers are equal within a relative error.
#[track_caller]
pub fn near(found: f64, expected: f64, relative: f64) {
    assert!((found - expected).abs() <= expected.abs() * relative + 1e-12, "{found} is not {expected}");
}
