//! Determines how a file is fragmented on its device, and measures in an experiment what this fragmentation costs.

mod experiment;
mod placement;

pub use experiment::{DefragmentationExperiment, EXPERIMENT_ROWS, read_rates};
pub use jetcell_workload::fragmentation::{FileExtent, FileMap, FileMapError, Fragmentation, SplitReads};
pub use placement::{DEFAULT_FRAGMENT_BYTES, FilePlacement, rewrite_with_placement};
