//! Monte Carlo: what the Markov models leave out because their rates are constant.
//!
//! [`law`] and [`laws`] say how long things take, [`life`] lives one set of drives, [`estimate`] many of them.
//!
//! The rules are those of the general chain: a set loses data when a drive fails and, with the drives being restored and
//! one more when another drive has a defect, more drives are missing than there are parities. A defect that arises
//! afterwards is no loss. Scrubs go on while drives are missing, a rebuild leaves the defects of others, a replaced drive
//! starts a new life.

pub mod estimate;
pub mod law;
pub mod laws;
pub mod life;

pub use estimate::{Effort, Estimate};
pub use laws::{Laws, Shapes};
pub use life::{AfterLoss, Experiment};
