//! JSON of results.

use std::path::Path;

use jetcell_host::Evidence;
use serde::Serialize;

/// A result with its evidence, which has the same fields as in the result of a test.
#[derive(Serialize)]
struct ResultWithEvidence<T> {
    #[serde(flatten)]
    result: T,
    #[serde(flatten)]
    evidence: Evidence,
}

/// Formats a result about `paths` as one line of JSON with the evidence for it.
pub fn json_with_evidence<'p, P: AsRef<Path> + ?Sized + 'p>(
    result: impl Serialize,
    paths: impl IntoIterator<Item = &'p P>,
) -> serde_json::Result<String> {
    let evidence = Evidence::collect(paths.into_iter().map(AsRef::as_ref));
    let result = ResultWithEvidence { result, evidence };
    Ok(jetcell_input::json_line(&result)? + "\n")
}
