//! Names for stored values, for example user names for user numbers.

mod hierarchy;
mod interfaces;
mod property_metadata;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use hierarchy::NameHierarchy;
pub(crate) use property_metadata::number_key;

use crate::sddl::format_descriptor;
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
    /// Names of network interfaces, derived from their identifiers.
    Interfaces,
    /// Security descriptors, keyed by number. A value of eight bytes is such a number, and a longer value is a
    /// descriptor itself.
    Descriptors(Arc<BTreeMap<i64, Box<[u8]>>>),
    /// Names for the attributes in replication metadata, keyed by [`number_key`].
    PropertyMetadata(Arc<BTreeMap<i64, String>>),
}

impl ValueNames {
    /// Returns the named form of a value, or `None` if it has no name.
    pub(crate) fn lookup(&self, value: &ExportedValue<'_>) -> Option<ExportedValue<'static>> {
        let name = match (self, value) {
            (ValueNames::Numbers(names), ExportedValue::Int(number)) => names.get(number)?.clone(),
            (ValueNames::Guids(names), ExportedValue::Guid(guid)) => names.get(guid)?.clone(),
            (ValueNames::Objects(objects), ExportedValue::Int(number)) => {
                objects.names_to_root(*number)?.join(",")
            }
            (ValueNames::Folders(directories), ExportedValue::Int(number)) => {
                let mut names = directories.names_to_root(*number)?;
                names.reverse();
                names.concat()
            }
            (ValueNames::Interfaces, ExportedValue::Int(luid)) => interfaces::interface_name(*luid)?,
            (ValueNames::Descriptors(descriptors), ExportedValue::Binary(bytes)) => {
                match <[u8; 8]>::try_from(*bytes) {
                    Ok(number) => format_descriptor(descriptors.get(&i64::from_le_bytes(number))?)?,
                    Err(_) => format_descriptor(bytes)?,
                }
            }
            (ValueNames::PropertyMetadata(attributes), ExportedValue::Binary(bytes)) => {
                return property_metadata::decode_property_metadata(bytes, attributes);
            }
            _ => return None,
        };
        Some(ExportedValue::Text(name.into()))
    }
}
