//! Copies on a simulated disk: seeded, followed, cut off, and with logs that are damaged, gone or of another history.

mod activate;
mod block_mode;
mod bulk_loads;
mod follow;
mod pages;
mod passive_work;
mod races;
mod reseed;
mod seed;
mod site;
