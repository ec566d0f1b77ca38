//! Descriptions of events about pages that differ between the active side and a copy, and about page repairs.

use std::path::Path;

use ese_format::{LogPosition, PageNumber};

use super::{EventDescription, EventValue, informational};
use crate::events::{EventCategory, EventSeverity, PageDivergence};

impl PageDivergence {
    pub(in crate::events) fn describe(&self) -> EventDescription {
        let LogPosition { generation, segment, offset } = self.position;
        let position = format!("{:X}:{segment:X}:{offset:X}", generation.0);
        let (active, copy) = (self.active_time.0, self.copy_time.0);
        let parameters = vec![
            ("database", (&*self.database).into()),
            ("page", self.page.get().into()),
            ("position", EventValue::Text(position.clone())),
            ("active_time", active.into()),
            ("copy_time", copy.into()),
        ];
        let text = format!(
            "Page {} of database '{}' differs between the active side and the copy at log position \
             {position} (hexadecimal): {}. Its dbtime is {active} on the active side and {copy} on the \
             copy. Check the device of the side with the stale page.",
            self.page,
            self.database.display(),
            self.kind.meaning(),
        );
        EventDescription {
            severity: EventSeverity::Error,
            ..informational(self.kind.id(), EventCategory::Corruption, parameters, text)
        }
    }
}

/// Describes event 905 or 911: a page was repaired using the other side's page.
pub(super) fn repaired(database: &Path, page: PageNumber, on_copy: bool) -> EventDescription {
    let (id, side, other) =
        if on_copy { (911, "copy", "the active side") } else { (905, "active side", "a copy") };
    let parameters = vec![("database", database.into()), ("page", page.get().into())];
    let text = format!(
        "Page {page} of database '{}' was repaired on the {side} with the page from {other} at the same log \
         position.",
        database.display()
    );
    EventDescription {
        severity: EventSeverity::Warning,
        ..informational(id, EventCategory::Corruption, parameters, text)
    }
}
