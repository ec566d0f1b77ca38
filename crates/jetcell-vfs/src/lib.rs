//! A common interface to files, directories and clocks. Counters, fault injection and deterministic crash simulation
//! are decorators of this interface.
//!
//! Invariants: every transfer carries its [`IoReason`]; code above this crate does not use `std::fs` or the system
//! clock; all of the project's `unsafe` code is in this crate.

mod advised_error;
mod backend_choice;
mod buffer;
mod clock;
mod confinement;
mod counted;
mod descriptor;
mod engine;
mod fault;
mod file;
mod file_list;
mod file_name;
mod file_ownership;
mod file_range;
mod freeze;
mod input_file;
mod layer;
mod lock;
mod memory;
mod mounted;
mod output_file;
mod overlay;
mod panic;
mod path_error;
mod path_names;
mod pool;
mod process;
mod real;
mod replaced_file;
mod retry;
pub mod sim;
mod unfinished_file;
mod uring;

pub use advised_error::{io_error_advice, io_error_with_advice};
pub use backend_choice::Backend;
pub use buffer::IoBuffer;
pub use clock::{RealClock, SimClock};
pub use counted::{CountedVfs, IoCount, IoCounters, IoOperation, IoSnapshot, LatencyPrecision};
pub use fault::{FaultEffect, FaultTarget, FaultVfs, InjectedFault};
pub use file::{
    Clock, DirectoryLock, File, IoReason, OpenMode, Transfer, TransferKind, Vfs, is_disconnected,
};
pub use file_list::{SkippedPath, files_at, files_below};
pub use file_name::{FileName, FileStem, NameError};
pub use file_range::FileRange;
pub use freeze::{FreezableVfs, FrozenVfs};
pub use input_file::{
    InputFile, check_input, check_secret, open_input, open_trusted_input, read_input, read_input_bytes,
    read_secret,
};
pub use layer::{FileLayer, VfsLayer};
pub use lock::{is_locked, try_lock_open};
pub use memory::try_reserve;
pub use mounted::MountedVfs;
pub use output_file::{
    OutputFile, clone_or_copy, create_new, create_private_directory, open_or_create, rename_durably,
    sync_directory, sync_file, sync_file_system,
};
pub use overlay::OverlayVfs;
pub use panic::abort_on_panic;
pub use path_error::{clone_io_error, system_error_number, with_path};
pub use path_names::{fixed_unfinished_path, is_unfinished, parent_directory};
pub use process::report_file_size_limit;
pub use real::{RealOptions, RealVfs, direct_io_available};
pub use replaced_file::{
    remove_durably, remove_if_exists, remove_unfinished, replace_file, replace_file_through,
    replace_file_unsynced, unique_unfinished,
};
pub use sim::{CrashOptions, SimVfs, is_power_off};
pub use unfinished_file::{UnfinishedFile, remove_unfinished_outputs, replace_output};
