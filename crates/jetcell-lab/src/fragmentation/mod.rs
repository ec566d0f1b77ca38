//! Determines how a file is fragmented on its device, and measures in an experiment what this fragmentation costs.

mod database_search;
mod experiment;
mod placement;

pub use database_search::find_databases;
pub use experiment::{DefragmentationExperiment, EXPERIMENT_ROWS, read_rates};
pub use jetcell_workload::fragmentation::{FileExtent, FileMap, FileMapError, Fragmentation, SplitReads};
pub use placement::{DEFAULT_FRAGMENT_BYTES, FilePlacement, rewrite_with_placement};
