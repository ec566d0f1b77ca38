//! Verifies the pages that a scan has read, and reports bad ones. A suspect page is reread while the cache blocks
//! writes to it.

use std::time::Duration;

use ese_format::PageNumber;
use ese_format::checksum::{PageIntegrity, verify_page};
use ese_format::page::{Page, PageFlags};
use ese_format::space::Extent;
use jetcell_sync::Arc;
use jetcell_vfs::IoReason;

use super::progress::{PageFlaw, ScanProgress};
use crate::Result;
use crate::cache::OnDiskVerification;
use crate::events::{EventKind, PageDamage, PageDamageKind};
use crate::storage::DatabaseFile;
use crate::task::TaskHost;

/// Maximum number of retries for a page that is being written. The next constant is the time between attempts.
const ATTEMPTS: u32 = 200;
const RETRY_AFTER: Duration = Duration::from_millis(1);

/// Makes the cache rewrite a page whose flipped bits were corrected. Returns whether the cache has reported the
/// page because it had to read it.
fn rewrite(file: &Arc<DatabaseFile>, page: PageNumber) -> bool {
    let key = file.page_key(page);
    let reported = !file.cache.has_verified(key);
    // A page that the cache is about to write must not be written by operations that bypass the cache. No such
    // operation begins during a step.
    file.unsettled.add(Extent { last: page, count: 1 });
    // If the page cannot be read now, the cache reports that, and the next pass finds the page again.
    if let Ok(pinned) = file.cache.fetch_cold(key) {
        pinned.write().mark_dirty(file.log.tail());
    }
    reported
}

/// Reports a bad page. Flipped bits are corrected if the checksum identifies them.
pub(super) fn report_flaw(file: &Arc<DatabaseFile>, page: PageNumber, flaw: &PageFlaw) {
    if matches!(flaw, PageFlaw::FlippedBits(_)) && rewrite(file, page) {
        return;
    }
    if !matches!(flaw, PageFlaw::FlippedBits(_)) {
        file.cache.record_damage(file.page_key(page));
    }
    let (path, offset) = (file.path.clone(), file.page_size.offset_of(page));
    let fault = match flaw {
        PageFlaw::FlippedBits(bits) => PageDamageKind::Corrected(bits.clone()),
        PageFlaw::WrongPage(stored) => PageDamageKind::WrongPage(*stored),
        PageFlaw::Checksum => PageDamageKind::Checksum,
        PageFlaw::Unreadable(why) => PageDamageKind::Unreadable(why.clone()),
    };
    let bytes = file.page_size.bytes() as u64;
    let damage = PageDamage { file: path.clone(), offset, bytes, page, fault };
    file.events.report(EventKind::PageDamaged(damage));
    if !matches!(flaw, PageFlaw::FlippedBits(_)) {
        file.events.report(EventKind::ScanFoundPage { file: path, offset, page, what: flaw.to_string() });
    }
}

/// Result of verifying a page.
pub(super) struct PageCheck {
    /// Whether the page is all zeros.
    pub is_zero: bool,
    /// Whether the page seemed damaged in the first read, and was verified again.
    pub in_doubt: bool,
    /// Damage to the page, if any.
    pub flaw: Option<PageFlaw>,
    /// Flags of a page that is good and is or was in use. They are empty if the page had to be verified again.
    pub flags: Option<PageFlags>,
}

/// Verifies a page. `was_read` is false if its batch could not be read.
pub(super) fn check_page(
    host: &TaskHost<ScanProgress>,
    number: PageNumber,
    page: &mut [u8],
    was_read: bool,
) -> Result<PageCheck> {
    let size = host.file.page_size;
    let first = if was_read { verify_page(page, size, number) } else { PageIntegrity::Bad };
    let in_doubt = !matches!(first, PageIntegrity::Good | PageIntegrity::Zero);
    let (is_zero, flaw) =
        if in_doubt { recheck_page(host, number, page)? } else { (first == PageIntegrity::Zero, None) };
    let flags = (!is_zero && flaw.is_none())
        .then(|| if in_doubt { PageFlags::empty() } else { Page::new(page, size).flags() });
    Ok(PageCheck { is_zero, in_doubt, flaw, flags })
}

/// Returns whether the page is all zeros, and its damage, if any. Verifies the page while no write is in progress.
fn recheck_page(
    host: &TaskHost<ScanProgress>,
    number: PageNumber,
    page: &mut [u8],
) -> Result<(bool, Option<PageFlaw>)> {
    let file = &host.file;
    for _ in 0..ATTEMPTS {
        if host.is_stopping() {
            break;
        }
        let flaw = match file.cache.verify_on_disk(file.page_key(number), page, IoReason::Scan)? {
            OnDiskVerification::Busy => {
                file.vfs.clock().sleep(RETRY_AFTER);
                continue;
            }
            OnDiskVerification::Superseded => return Ok((false, None)),
            OnDiskVerification::Unreadable(error) => PageFlaw::Unreadable(error.to_string()),
            OnDiskVerification::Verified(verdict) => match verdict {
                PageIntegrity::Good => return Ok((false, None)),
                PageIntegrity::Zero => return Ok((true, None)),
                PageIntegrity::Repaired { bits } => PageFlaw::FlippedBits(bits),
                // A small page does not store its number, so damage can make it look like any other page.
                PageIntegrity::WrongPage { stored } if stored <= file.file_pages()? => {
                    PageFlaw::WrongPage(stored)
                }
                PageIntegrity::WrongPage { .. } | PageIntegrity::Bad => PageFlaw::Checksum,
            },
        };
        return Ok((false, Some(flaw)));
    }
    // A page that is being written continuously is checked in the next pass.
    Ok((false, None))
}
