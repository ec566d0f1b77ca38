//! One module per command.

pub mod test_performance;
