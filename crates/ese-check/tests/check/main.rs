//! What the check says about real databases, and about real databases damaged on purpose.

mod corpus;
mod damage;
mod logs;
mod lost_writes;
mod memory;
