//! Tests that involve several crates: crash simulation, kills, full disks, independent readers, fuzzing.

/// Simulations allocate and free pages all the time. The allocator of the C library returns that memory to the system each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod array;
mod backups;
mod concurrency;
mod copies;
mod copies_killed;
mod copies_remote;
mod export_damage;
mod export_large;
mod export_readers;
mod export_web_cache;
mod full_disk;
mod fuzz;
mod kill;
mod lost_logs;
mod lying_disk;
mod power_cut_result;
mod readers_engine;
mod readers_recovered;
mod real_storage;
mod simulation;
mod snapshots;
mod space;
