//! Names for stored values, for example user names for user numbers.

mod hierarchy;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use hierarchy::Hierarchy;

use crate::value::Value;

/// Names for a column's values.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Names {
    /// Names for integers.
    Numbers(Arc<BTreeMap<i64, String>>),
    /// Names for GUIDs, keyed by the stored bytes.
    Guids(Arc<BTreeMap<[u8; 16], String>>),
    /// Distinguished names for object numbers.
    Objects(Arc<Hierarchy>),
    /// Paths for directory numbers.
    Folders(Arc<Hierarchy>),
}

impl Names {
    /// Returns the name of a value, or `None` if it has no name.
    pub(crate) fn of(&self, value: &Value<'_>) -> Option<String> {
        match (self, value) {
            (Names::Numbers(names), Value::Int(number)) => names.get(number).cloned(),
            (Names::Guids(names), Value::Guid(guid)) => names.get(guid).cloned(),
            (Names::Objects(objects), Value::Int(number)) => Some(objects.names_to_root(*number)?.join(",")),
            (Names::Folders(directories), Value::Int(number)) => {
                let mut names = directories.names_to_root(*number)?;
                names.reverse();
                Some(names.concat())
            }
            _ => None,
        }
    }
}
