//! Options and steps that several commands share.

#[cfg(feature = "arrays")]
pub mod array_environment;
#[cfg_attr(not(feature = "arrays"), path = "no_arrays.rs")]
pub mod array_volumes;
pub mod empty_directory;
pub mod files;
pub mod json;
pub mod listen_address;
#[cfg(feature = "lab")]
pub mod load_turns;
pub mod power_recording;
pub mod remote;
pub mod replay_end;
pub mod result_directory;
pub mod run_list;
#[cfg(feature = "lab")]
pub mod stored_drive_result;
pub mod tariff;
pub mod tls_client;
pub mod transfer_progress;
