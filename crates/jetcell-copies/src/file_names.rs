//! Names of files in the directory of a copy.

/// Name of the file.
pub(crate) const RESEED_FILE: &str = "reseed.json";
