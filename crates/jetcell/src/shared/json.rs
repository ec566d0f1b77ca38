//! JSON of results.

use std::path::PathBuf;

use jetcell_host::Evidence;
use serde::Serialize;

/// Formats a result as JSON with a line end.
pub fn json(result: &impl Serialize) -> String {
    jetcell_input::json_pretty(result).expect("text and numbers can be written as JSON") + "\n"
}

/// A result, and the evidence in the same fields as in the result of a test.
#[derive(Serialize)]
struct ResultWithEvidence<T> {
    #[serde(flatten)]
    result: T,
    #[serde(flatten)]
    evidence: Evidence,
}

/// Formats a result about `paths` as one line of JSON with the evidence for it.
pub fn json_with_evidence<'p>(
    result: impl Serialize,
    paths: impl IntoIterator<Item = &'p PathBuf>,
) -> String {
    let evidence = Evidence::collect(paths.into_iter().map(PathBuf::as_path));
    let result = ResultWithEvidence { result, evidence };
    jetcell_input::json_line(&result).expect("text and numbers can be written as JSON") + "\n"
}
