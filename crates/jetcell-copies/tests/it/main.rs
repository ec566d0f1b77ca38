//! Copies on a simulated disk: seeding, following, and logs that are unreachable, damaged, missing or of another
//! history.

mod activate;
mod active_instance;
mod block_mode;
mod bulk_loads;
mod follow;
mod pages;
mod passive_work;
mod races;
mod reseed;
mod seed;
