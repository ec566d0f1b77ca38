//! The engine through its public API, on a simulated disk; judged by models and by `ese-check`.

mod attached;
mod ended;
mod definitions;
mod foreign;
mod headers;
mod opened;
mod recovered;
mod removed;
mod rollback;
mod side_files;
mod tables;
