//! The members of an array: which files they are, which slot each of them has, the transfers to and from them, and
//! their cached records.

mod admission;
mod buffer_pool;
mod create;
mod examination;
mod partial_rebuild;
mod record_cache;
mod replacement;
mod slot_devices;
mod transfers;
mod zone_generations;

pub use self::admission::{MemberPurpose, MemberRequirements, PreparedMember};
pub use self::create::CreateArrayOptions;
pub use self::examination::{ArrayExamination, MemberState};

pub(in crate::array) use self::buffer_pool::{BufferPool, MIN_POOLED_BYTES};
pub(in crate::array) use self::create::open_distinct;
pub(crate) use self::partial_rebuild::{PartialZoneRebuild, RebuildTarget};
pub(crate) use self::record_cache::RecordCache;
pub(crate) use self::transfers::{InFlightTransfers, TransferSegment};
pub(in crate::array) use self::transfers::{MAX_SEGMENT_BYTES, join_writes};
