//! Names for stored values, for example user names for user numbers.

mod hierarchy;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use hierarchy::NameHierarchy;

use crate::value::ExportedValue;

/// Names for the values in a column.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ValueNames {
    /// Names for integers.
    Numbers(Arc<BTreeMap<i64, String>>),
    /// Names for GUIDs, keyed by the stored bytes.
    Guids(Arc<BTreeMap<[u8; 16], String>>),
    /// Distinguished names for object numbers.
    Objects(Arc<NameHierarchy>),
    /// Paths for directory numbers.
    Folders(Arc<NameHierarchy>),
}

impl ValueNames {
    /// Returns the name of a value, or `None` if it has no name.
    pub(crate) fn lookup(&self, value: &ExportedValue<'_>) -> Option<String> {
        match (self, value) {
            (ValueNames::Numbers(names), ExportedValue::Int(number)) => names.get(number).cloned(),
            (ValueNames::Guids(names), ExportedValue::Guid(guid)) => names.get(guid).cloned(),
            (ValueNames::Objects(objects), ExportedValue::Int(number)) => {
                Some(objects.names_to_root(*number)?.join(","))
            }
            (ValueNames::Folders(directories), ExportedValue::Int(number)) => {
                let mut names = directories.names_to_root(*number)?;
                names.reverse();
                Some(names.concat())
            }
            _ => None,
        }
    }
}
