//! The engine through its public API, on a simulated disk; judged by models and by `ese-check`.

mod attached;
mod definitions;
mod ended;
mod foreign;
mod headers;
mod log_set;
mod opened;
mod recovered;
mod removed;
mod rollback;
mod side_files;
mod tables;
