//! Choice between `io_uring` and threads for the transfers of real files.

use std::io;

use jetcell_sync::Arc;

use crate::engine::TransferEngine;
use crate::pool::TransferPool;
use crate::uring::Uring;

/// Backend that runs asynchronous file transfers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backend {
    /// `io_uring` if the kernel allows it, otherwise threads.
    #[default]
    Auto,
    /// `io_uring` only. The file system cannot be created if the kernel refuses `io_uring`.
    Uring,
    /// Threads that make blocking calls.
    Threads,
}

impl Backend {
    /// Starts the engine. Fails if its threads cannot start, or if `io_uring` was requested and the kernel refuses it.
    pub(crate) fn start(self) -> io::Result<Arc<dyn TransferEngine>> {
        Ok(match self {
            Backend::Uring => Arc::new(Uring::new()?),
            Backend::Threads => Arc::new(TransferPool::new()?),
            Backend::Auto => match Uring::new() {
                Ok(uring) => Arc::new(uring),
                Err(_) => Arc::new(TransferPool::new()?),
            },
        })
    }
}
