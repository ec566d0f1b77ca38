//! Determines how a file is fragmented on its device, and measures in an experiment what this fragmentation costs.

mod experiment;
mod placement;

pub use experiment::{EXPERIMENT_ROWS, Experiment, read_rates};
pub use jetcell_workload::fragmentation::{CrossedReads, Extent, FileMap, Fragmentation, MapError};
pub use placement::{PIECE, Placement, place};
