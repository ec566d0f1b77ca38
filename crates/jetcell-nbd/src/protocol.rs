//! Constants of the protocol, with their names in its specification.

/// First bytes that the server sends.
pub const MAGIC: u64 = 0x4E42_444D_4147_4943;
/// Magic number that precedes each option, and that follows the first bytes from the server.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454F_5054;
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_E889_0455_65A9;
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668E_33EF;

/// Size of a request in bytes, without its data.
pub const REQUEST_HEADER: usize = 28;
/// Maximum number of bytes in one read or write. According to the specification, clients may rely on this size.
pub const MAX_PAYLOAD: u32 = 32 << 20;
/// Maximum number of bytes in a request or reply with its data. It includes room for the headers of many reads.
pub const MAX_MESSAGE: usize = MAX_PAYLOAD as usize + (64 << 10);
/// Maximum length of a name in bytes.
pub const MAX_NAME: usize = 4096;

/// Handshake flags: options are answered, and no zeros follow the answer to `EXPORT_NAME`. The client uses the same
/// bits.
pub const FIXED_NEWSTYLE: u16 = 1;
pub const NO_ZEROES: u16 = 2;

/// Client options.
pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Replies to options.
pub mod option_reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    pub const UNSUPPORTED: u32 = 1 << 31 | 1;
    pub const INVALID: u32 = 1 << 31 | 3;
    pub const UNKNOWN: u32 = 1 << 31 | 6;
}

/// Types of information about an export.
pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Flags for the features of an export.
pub mod transmission {
    pub const HAS_FLAGS: u16 = 1;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Client requests.
pub mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISCONNECT: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of requests.
pub mod command_flag {
    pub const FUA: u16 = 1;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
    pub const ALL: u16 = FUA | NO_HOLE | DF | REQ_ONE | FAST_ZERO;
}

/// Flags and types of the chunks of a structured reply.
pub mod chunk {
    pub const DONE: u16 = 1;
    pub const OFFSET_DATA: u16 = 1;
    pub const BLOCK_STATUS: u16 = 5;
    pub const ERROR: u16 = 1 << 15 | 1;
}

/// Request errors, which are Linux error numbers.
pub mod error {
    pub const EPERM: u32 = 1;
    pub const EIO: u32 = 5;
    pub const EINVAL: u32 = 22;
    pub const ENOSPC: u32 = 28;
    pub const ENOTSUP: u32 = 95;
}

/// Name of the context that tells which ranges contain data.
pub const ALLOCATION: &str = "base:allocation";
/// Number of this context in replies. There are no other contexts.
pub const ALLOCATION_ID: u32 = 1;
/// States of ranges in this context.
pub const STATE_HOLE: u32 = 1;
pub const STATE_ZERO: u32 = 2;
