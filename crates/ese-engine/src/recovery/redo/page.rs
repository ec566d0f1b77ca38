//! Redo on one page: the dbtime test, and the change if it is missing.

use ese_format::log::record::{NodeChange, PageChange};
use ese_format::page::{Page, PageMut};
use ese_format::{DbTime, PageNumber, PageSize};

use super::{At, Redo};
use crate::btree::apply::Applied;
use crate::cache::{PinnedPage, WriteLatch};
use crate::{Error, Result};

impl Redo {
    /// Applies a node change if the page still needs it.
    pub(super) fn node(
        &mut self,
        at: At,
        node: &NodeChange,
        change: impl FnOnce(&mut PageMut<'_>, usize) -> Applied,
    ) -> Result<Option<WriteLatch>> {
        self.newest_id = self.newest_id.max(node.rceid);
        self.change(at, &node.page, |page| change(page, usize::from(node.page.line)))
    }

    pub(super) fn change(
        &mut self,
        at: At,
        change: &PageChange,
        apply: impl FnOnce(&mut PageMut<'_>) -> Applied,
    ) -> Result<Option<WriteLatch>> {
        self.page(at, change.database.0, change.page, change.before, change.after, apply)
    }

    pub(super) fn page(
        &mut self,
        at: At,
        database: u8,
        number: PageNumber,
        before: DbTime,
        after: DbTime,
        apply: impl FnOnce(&mut PageMut<'_>) -> Applied,
    ) -> Result<Option<WriteLatch>> {
        let size = self.database(database)?.page_size;
        self.bytes(at, database, number, before, after, |bytes| apply(&mut PageMut::new(bytes, size)))
    }

    pub(super) fn bytes(
        &mut self,
        at: At,
        database: u8,
        number: PageNumber,
        before: DbTime,
        after: DbTime,
        apply: impl FnOnce(&mut [u8]) -> Applied,
    ) -> Result<Option<WriteLatch>> {
        let database = self.database(database)?;
        database.time_used(after);
        let mut latch = database.pin(number)?.write();
        let time = Page::new(&latch, database.page_size).db_time();
        if time >= after {
            return Ok(None);
        }
        if time != before {
            let age = if time < before { "older" } else { "newer" };
            let what = format!(
                "dbtime {} is {age} than the log expects ({} before the change at {:?}): a write was lost or the \
                 file is from another moment than the log",
                time.0, before.0, at.start
            );
            return Err(self.misfit(&database, number, &what));
        }
        let applied = apply(&mut latch);
        if let Err(what) = applied {
            return Err(self.misfit(&database, number, &format!("{what} (log record at {:?})", at.start)));
        }
        PageMut::new(&mut latch, database.page_size).set_db_time(after);
        latch.mark_dirty(at.start);
        latch.set_last(at.end);
        self.applied += 1;
        Ok(Some(latch))
    }

    /// Formats a page unless it is newer already. What an older page holds, or whether it can be read, is no matter.
    pub(super) fn format(
        &mut self,
        at: At,
        database: u8,
        number: PageNumber,
        after: DbTime,
        build: impl for<'b> FnOnce(&'b mut [u8], PageSize) -> std::result::Result<PageMut<'b>, &'static str>,
    ) -> Result<bool> {
        let database = self.database(database)?;
        database.time_used(after);
        let size = database.page_size;
        database.grow_file(number)?;
        let pinned: PinnedPage = match database.pin(number) {
            Ok(pinned) => {
                if Page::new(&pinned.read(), size).db_time() >= after {
                    return Ok(false);
                }
                pinned
            }
            Err(Error::Corrupt { .. }) => database.pin_new(number)?,
            Err(error) => return Err(error),
        };
        let mut latch = pinned.write();
        match build(&mut latch, size) {
            Ok(mut page) => page.set_db_time(after),
            Err(what) => return Err(self.misfit(&database, number, what)),
        }
        latch.mark_dirty(at.start);
        latch.set_last(at.end);
        self.applied += 1;
        Ok(true)
    }
}
