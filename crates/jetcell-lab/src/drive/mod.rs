//! Tests of drives: transfer curve, access time, sizes, queue depths, syncs, mixed loads.
//!
//! All transfers bypass the kernel's cache. Several targets are tested in turns (A B, B A, …), so that a drift of the machine
//! affects them alike, and are compared by pairs of the same turn.

mod load;
mod measurement;
mod preconditioning;
mod result;
#[cfg(test)]
mod simulated_drive;
mod step;
mod target;
mod test;

pub use measurement::{Measurement, Point, Zone};
pub use preconditioning::Preconditioning;
pub use result::{DriveTest, Figure, Options, SCHEMA, StepResult, TestedTarget};
pub use step::{Group, Step, Unit};
pub use target::{SMALLEST_TARGET, Target, TargetError, TargetKind};
pub use test::{Progress, TestError, test};
