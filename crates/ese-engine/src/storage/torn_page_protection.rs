//! Policy for protection against torn page writes.

use std::path::Path;

use ese_format::Signature;
use ese_format::header::DatabaseHeader;
use jetcell_sync::Arc;
use jetcell_vfs::{File, Vfs};

use super::double_write::DoubleWrite;
use crate::Result;

/// How a database is protected against torn pages. A page is torn if a power cut interrupts its write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TornPageProtection {
    /// No protection: the device must write each page atomically. ESE relies on this.
    Off,
    /// Each page is written twice: first durably to a side file, then in place. InnoDB: the doublewrite buffer.
    DoubleWrite,
}

impl TornPageProtection {
    /// Creates the side file if the policy needs one. The caller must first remove any old side file with
    /// [`double_write::discard`](super::double_write::discard).
    pub(crate) fn create(
        self,
        vfs: &dyn Vfs,
        path: &Path,
        database: Arc<dyn File>,
        header: &DatabaseHeader,
        log_signature: Signature,
    ) -> Result<Option<Arc<DoubleWrite>>> {
        match self {
            TornPageProtection::Off => Ok(None),
            TornPageProtection::DoubleWrite => {
                DoubleWrite::create(vfs, path, database, header, log_signature).map(Some)
            }
        }
    }
}
