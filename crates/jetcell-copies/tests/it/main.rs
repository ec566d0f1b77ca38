//! Copies on a simulated disk: seeded, followed, cut off, and with logs that are damaged, gone or of another history.

mod activate;
mod follow;
mod passive_work;
mod reseed;
mod seed;
mod site;
