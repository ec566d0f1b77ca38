//! Drive tests: transfer curve, access time, transfer sizes, queue depths, syncs, and mixed loads.
//!
//! All transfers bypass the page cache. The repetitions on several targets are interleaved (A B, B A, …), and targets
//! are compared repetition by repetition. A drift in the machine's speed therefore affects all targets alike.

mod error;
mod expected_cost;
mod load;
mod measurement;
mod preconditioning;
mod progress;
mod result;
mod run;
mod seek_curve;
#[cfg(test)]
#[path = "tests/simulated_drive.rs"]
mod simulated_drive;
mod step;
mod target;
mod test;

pub use error::DriveTestError;
pub use expected_cost::ExpectedCost;
pub use measurement::{AccessTimePoint, SeekMeasurement, StepMeasurement, TransferZone};
pub use preconditioning::Preconditioning;
pub use progress::DriveTestProgress;
pub use result::{
    DriveTest, DriveTestOptions, SCHEMA, StepResult, TargetCosts, TargetStepResult, TestedTarget,
};
pub use seek_curve::SeekCurve;
pub use step::{StepGroup, StepUnit, TestStep, is_step};
pub use target::{MIN_TARGET, TargetError, TargetKind, TestTarget, WritePermission};
pub use test::test;
