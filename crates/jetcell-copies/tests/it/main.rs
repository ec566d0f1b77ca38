//! Copies on a simulated disk: seeding, following, and logs that are unreachable, damaged, missing or of another
//! history.

mod activate;
mod block_mode;
mod bulk_loads;
mod follow;
mod pages;
mod passive_work;
mod races;
mod reseed;
mod seed;
mod active_instance;
