//! How a file is divided into parts on its device, and an experiment that measures what that costs.

mod experiment;
mod placement;

pub use experiment::{EXPERIMENT_ROWS, Experiment, read_rates};
pub use jetcell_workload::fragmentation::{CrossedReads, Extent, FileMap, Fragmentation, MapError};
pub use placement::{PIECE, Placement, place};
