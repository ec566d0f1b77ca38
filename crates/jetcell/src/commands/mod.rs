//! One module per command.

pub mod activate;
pub mod backup;
pub mod check;
pub mod compare;
pub mod completions;
pub mod copies;
#[cfg(feature = "lab")]
pub mod disk;
pub mod doctor;
pub mod dump;
#[cfg(feature = "lab")]
pub mod durability;
mod empty_directory;
pub mod events;
pub mod export;
#[cfg(feature = "lab")]
pub mod filesystems;
#[cfg(feature = "fleet")]
pub mod fleet;
#[cfg(feature = "lab")]
mod load_turns;
pub mod maintain;
pub mod man;
pub mod power;
#[cfg(feature = "arrays")]
pub mod raid;
#[cfg(feature = "arrays")]
pub mod raid_reliability;
pub mod recover;
mod remote;
mod replay_end;
pub mod replicate;
pub mod report;
pub mod reseed;
pub mod restore;
mod result_directory;
pub mod run_list;
pub mod serve;
#[cfg(feature = "sizing")]
pub mod size;
pub mod storage_test;
#[cfg(feature = "lab")]
mod stored_drive_result;
mod tls_client;
mod transfer_progress;
