//! Names of files in the directory of a copy.

/// Name of the file that lists the pages that an incremental reseed still has to patch.
pub(crate) const RESEED_FILE: &str = "reseed.json";
