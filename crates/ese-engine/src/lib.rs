//! The transactional engine: instances, sessions and tables over real ESE databases and logs.

pub mod cache;
pub mod error;
pub mod log;

pub use error::{Error, Result};
