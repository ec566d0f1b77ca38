//! The array service: running arrays, changes to them from other processes, and their export to clients and tests.
//!
//! The modules, from the lowest layer to the highest; each module uses only those above it in the table:
//!
//! | part | the question that it answers |
//! | --- | --- |
//! | `error`, `environment` | What can fail, and what does the service need from its process? |
//! | `description` | Which words describe the states of arrays and members? |
//! | `members` | Which files may become members, which share a device, and which drive do they simulate? |
//! | `directory` | Which files belong to an array, may one be created there, and what happened to it? |
//! | `running` | How is an array started, what is on it, which object owns it, and when is it rebuilt? |
//! | `lifecycle` | How does an array begin and end? |
//! | `operations` | What can be done to an array, and what is the result? |
//! | `control` | How do other processes request operations? |
//! | `perform` | Does an operation run here, or in the process that uses the array? |
//! | `serve` | How is an array exported as block devices? |
//! | `volumes` | How do tests mount arrays and LUNs? |

#![forbid(unsafe_code)]

/// Compiles and runs the example in the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod control;
mod description;
mod directory;
mod environment;
mod error;
mod lifecycle;
mod members;
mod operations;
mod perform;
mod running;
mod serve;
#[cfg(test)]
#[path = "tests/test_arrays.rs"]
mod test_arrays;
mod volumes;

pub use description::{ArrayHealth, describe_exclusion, transfers_json};
pub use directory::{ArrayDirectory, find_locked_member, is_array};
pub use environment::ServiceEnvironment;
pub use error::{ConnectionFault, DriveFault, Error, Result, StateFileFault};
pub use lifecycle::{CreatedArray, DestroyedArray, NewArray};
pub use members::{SharedDevice, SimulatedDriveOptions};
pub use operations::{
    ArrayOperation, DamagedSlot, LunSummary, NewLun, NewMembers, OperationControl, OperationProgress,
    OperationResult, ParityDisagreement, RebuildResult, ScrubResult, SnapshotChange, SnapshotName,
    SnapshotSummary,
};
pub use perform::{PerformedOperation, perform};
pub use running::{ArraySnapshot, ArrayStartOptions, ZONE_BYTES};
pub use serve::{ServeOptions, ServedDevice};
pub use volumes::{ArrayVolumes, WatchedArrays, files_of_array};
