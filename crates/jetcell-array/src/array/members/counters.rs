//! Counters of the work that an array has done since it was assembled.

use crate::member::MemberTransferCounters;

/// Array I/O counters, accumulated since the array was assembled.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct ArrayIoCounters {
    /// Number of blocks read for callers.
    pub blocks_read: u64,
    /// Number of committed blocks that callers wrote.
    pub blocks_written: u64,
    /// Number of data and parity blocks that were read for writes that covered only part of a row.
    pub blocks_read_for_writes: u64,
    /// Member transfers, by purpose.
    pub members: MemberTransferCounters,
    /// Number of commits through the journal.
    pub commits: u64,
    /// Number of rows that were written as a whole.
    pub full_row_writes: u64,
    /// Number of rows that had never been written and were written without the journal.
    pub new_rows: u64,
    /// Number of rows that were cleared because they may have been partially written.
    pub rows_cleared: u64,
    /// Number of rows whose parity was computed from the old parity and the changes (read-modify-write).
    pub read_modify_writes: u64,
    /// Number of rows whose parity was computed from all data (reconstruct-write).
    pub reconstruct_writes: u64,
    /// Number of rows in which blocks had to be recovered for a caller.
    pub rows_recovered: u64,
    /// Number of blocks that did not match their checksum.
    pub checksum_errors: u64,
    /// Number of blocks whose record was damaged or older than the last write.
    pub stale_blocks: u64,
    /// Number of reads that failed on a member.
    pub read_errors: u64,
    /// Number of blocks that were rewritten with recovered content.
    pub blocks_repaired: u64,
    /// Number of blocks with a wrong checksum, a wrong location or an outdated generation that were found by callers'
    /// reads and writes. A block is counted each time it is found, until it is repaired.
    pub defects: u64,
}
