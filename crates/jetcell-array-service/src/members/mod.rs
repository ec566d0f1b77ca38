//! Files and devices that are, or are to become, members of an array.

mod created_files;
mod shared_device;
mod simulated_drive;

pub(crate) use created_files::{CreatedMemberFiles, is_link_to_file};
pub use shared_device::SharedDevice;
pub use simulated_drive::SimulatedDriveOptions;
