//! The policy for torn page writes.

use std::path::Path;

use ese_format::Signature;
use ese_format::header::DatabaseHeader;
use jetcell_sync::Arc;
use jetcell_vfs::{File, Vfs};

use super::double_write::DoubleWrite;
use crate::Result;

/// What protects a database against page writes that a power cut interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TornPageProtection {
    /// Nothing: the device writes each page as a whole. ESE relies on this.
    Off,
    /// Each page is written twice: first to a side file, durably, then in place. InnoDB: the doublewrite buffer.
    DoubleWrite,
}

impl TornPageProtection {
    /// Creates the side file, if the policy needs one. The caller has removed an old one with
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
