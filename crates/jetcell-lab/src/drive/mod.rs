//! Tests of drives: transfer curve, access time, sizes, queue depths, syncs, mixed loads.
//!
//! All transfers bypass the kernel's cache. Several targets are tested in turns (A B, B A, …), so that a drift of the machine
//! affects them alike, and are compared by pairs of the same turn.

mod expected_cost;
mod load;
mod measurement;
mod preconditioning;
mod result;
mod seek_curve;
#[cfg(test)]
mod simulated_drive;
mod step;
mod target;
mod test;

pub use expected_cost::ExpectedCost;
pub use measurement::{Measurement, Point, Seek, Zone};
pub use preconditioning::Preconditioning;
pub use result::{Costs, DriveTest, Figure, Options, SCHEMA, StepResult, TestedTarget};
pub use seek_curve::SeekCurve;
pub use step::{Group, Step, Unit, is_step};
pub use target::{SMALLEST_TARGET, Target, TargetError, TargetKind};
pub use test::{Progress, TestError, test};
