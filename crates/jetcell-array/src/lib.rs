//! RAID arrays over files: parity that survives lost disks, with inner loops for the instructions of the machine.
//!
//! The kernels compute and solve the parity of one row, a block from each member: [`ReedSolomon`] (RAID 5, RAID 6 as in Linux,
//! triple parity) and [`RowDiagonal`] (RAID-DP).

#![forbid(unsafe_code)]

mod kernels;

pub use kernels::{Consistency, InstructionSet, Kernel, RecoveryStep, ReedSolomon, RowDiagonal};
