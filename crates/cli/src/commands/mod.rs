//! One module per command.

pub mod dump;
pub mod test_performance;
