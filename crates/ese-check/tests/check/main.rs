//! Tests that check real databases and damaged copies of them.

mod corpus;
mod damage;
mod documented_kinds;
mod internal_pages;
mod logs;
mod lost_writes;
mod memory;
mod read_ahead;
mod samples;
mod temporary;
