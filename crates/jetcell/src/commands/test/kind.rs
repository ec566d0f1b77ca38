//! Differences between the tests that run the mail load.

use jetcell_workload::TestKind;

/// Interface to a command that runs one kind of storage test.
pub trait StorageTestCommand: Clone + Send + Sync + 'static {
    /// Kind of the test.
    const KIND: TestKind;
    /// Help text shown after the options.
    const EXAMPLES: &'static str;
}
