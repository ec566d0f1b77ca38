//! Tests of the engine through its public API, on a simulated disk. Models and `ese-check` verify the results.

mod attached;
mod bulk_loaded;
mod definitions;
mod defragmented;
mod ended;
mod events;
mod foreign;
mod given_back;
mod golden;
mod golden_log;
mod golden_recovery;
mod golden_space;
mod headers;
mod log_set;
mod maintained;
mod opened;
mod recovered;
mod recovered_in_place;
mod recovery_set;
mod removed;
mod replayer;
mod rollback;
mod side_files;
mod tables;
mod trace;
mod windows_logs;
