//! Engine settings stored in log headers, checkpoints, and Init records. ESE: `DBMS_PARAM`.

use crate::declare::layout;
use crate::layout::BinaryLayout;

layout! {
    /// Settings of the engine that wrote a log. They are informational only: recovery does not use them.
    ///
    /// ```text
    ///   0 system path (261)   261 log path (261)   522 flags
    /// 523 sessions   527 open tables   531 version pages   535 cursors   539 log buffers
    /// 543 segments per log file   547 largest cache   551 zero (16)   567
    /// ```
    #[doc(alias = "DBMS_PARAM")]
    pub struct EngineParameters {
        /// Directory that contains the checkpoint file, NUL-terminated.
        system_path: [u8; 261],
        /// Directory that contains the log files, NUL-terminated.
        log_path: [u8; 261],
        /// Flags. Bit 0: circular logging.
        flags: u8,
        /// Maximum number of sessions.
        sessions: u32,
        /// Maximum number of open tables.
        open_tables: u32,
        /// Maximum number of pages in the version store.
        version_pages: u32,
        /// Maximum number of cursors.
        cursors: u32,
        /// Size of the log buffer.
        log_buffers: u32,
        /// Number of segments in a log file.
        log_file_segments: u32,
        /// Maximum size of the cache in pages.
        cache_max: u32,
        /// Reserved; always zero.
        reserved: [u8; 16],
    }
}
const _: () = assert!(<EngineParameters as BinaryLayout>::FIXED == EngineParameters::LEN);

impl EngineParameters {
    /// Length on disk, in bytes.
    pub const LEN: usize = 567;
}

impl Default for EngineParameters {
    fn default() -> EngineParameters {
        EngineParameters {
            system_path: [0; 261],
            log_path: [0; 261],
            flags: 0,
            sessions: 0,
            open_tables: 0,
            version_pages: 0,
            cursors: 0,
            log_buffers: 0,
            log_file_segments: 0,
            cache_max: 0,
            reserved: [0; 16],
        }
    }
}
