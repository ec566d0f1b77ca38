//! Exports whose output is read back by other readers.

mod carve;
mod common;
mod profiles;
mod read_back;
mod samples;
mod selection;
mod value_files;
