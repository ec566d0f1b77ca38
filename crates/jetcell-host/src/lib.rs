//! Cancellation, pacing, signals, progress, listeners and limits of the process, for commands and servers.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod cancellation;
#[cfg(feature = "events")]
mod event_lines;
#[cfg(feature = "evidence")]
mod evidence;
#[cfg(feature = "interrupt")]
mod interrupt;
#[cfg(feature = "listen")]
mod listener;
#[cfg(feature = "evidence")]
pub mod machine;
mod memory_limit;
mod os_advice;
mod pacer;
#[cfg(feature = "listen")]
mod private_socket;
mod process;
#[cfg(feature = "progress")]
mod progress_line;
#[cfg(feature = "readiness")]
pub mod readiness;
mod thread_limit;
mod unsuitable_storage;

pub use cancellation::Cancellation;
#[cfg(feature = "events")]
pub use event_lines::{EVENT_FILE, EventLines};
#[cfg(feature = "evidence")]
pub use evidence::{BuildInfo, Evidence};
#[cfg(feature = "interrupt")]
pub use interrupt::{Interrupt, InterruptError, at_exit, cancel_on_signals, cancelled_by_signals};
#[cfg(feature = "listen")]
pub use listener::StoppableListener;
pub use memory_limit::{MemoryLimit, memory_limit};
pub use os_advice::os_advice;
pub use pacer::{Pacer, Rate};
#[cfg(feature = "listen")]
pub use private_socket::PrivateSocket;
pub use process::{
    field, host_name, kibibytes_field, peak_resident_bytes, processor_seconds, processor_ticks,
};
#[cfg(feature = "progress")]
pub use progress_line::{ProgressLine, ProgressReport, completed_share, terminal_width};
pub use thread_limit::try_threads;
pub use unsuitable_storage::UnsuitableStorage;
