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

pub use error::TestError;
pub use expected_cost::ExpectedCost;
pub use measurement::{Measurement, Point, Seek, Zone};
pub use preconditioning::Preconditioning;
pub use progress::Progress;
pub use result::{Costs, DriveTest, Figure, Options, SCHEMA, StepResult, TestedTarget};
pub use seek_curve::SeekCurve;
pub use step::{Group, Step, Unit, is_step};
pub use target::{MIN_TARGET, Target, TargetError, TargetKind, Writing};
pub use test::test;
