//! Tests of dumps of real, damaged, and hostile files.

mod common;
mod database;
mod golden;
mod hostile;
mod values;
