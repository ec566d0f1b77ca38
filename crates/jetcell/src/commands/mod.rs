//! One module per command.

pub mod activate;
pub mod backup;
pub mod check;
pub mod compare;
pub mod completions;
pub mod copies;
pub mod disk;
pub mod doctor;
pub mod dump;
pub mod durability;
mod empty_directory;
pub mod events;
pub mod export;
pub mod maintain;
pub mod man;
pub mod raid;
pub mod raid_reliability;
pub mod recover;
pub mod replicate;
pub mod report;
pub mod reseed;
pub mod restore;
pub mod run_list;
pub mod size;
pub mod storage_test;
mod transfer_progress;
mod until;
