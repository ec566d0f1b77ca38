//! Lists and maps with a maximum number of items, for files written by other users.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Reads a list of at most `MAX` items. Used as `#[serde(deserialize_with = "bounded_list::<_, _, 100>")]`.
///
/// An item such as `""` or `{}` can be many times larger in memory than its text. Therefore a limit on the file size
/// alone does not limit memory.
///
/// # Errors
/// Returns an error if an item is invalid, or if there are more than `MAX` items.
pub fn bounded_list<'de, D, T, const MAX: usize>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_seq(BoundedList::<T, MAX>(PhantomData))
}

/// Reads a map of at most `MAX` items, like [`bounded_list`].
///
/// # Errors
/// Returns an error if an item is invalid, or if there are more than `MAX` items, including repeated keys.
pub fn bounded_map<'de, D, K, V, const MAX: usize>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de> + Ord,
    V: Deserialize<'de>,
{
    deserializer.deserialize_map(BoundedMap::<K, V, MAX>(PhantomData))
}

struct BoundedMap<K, V, const MAX: usize>(PhantomData<(K, V)>);

impl<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>, const MAX: usize> Visitor<'de>
    for BoundedMap<K, V, MAX>
{
    type Value = BTreeMap<K, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a map of at most {MAX} items")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<BTreeMap<K, V>, A::Error> {
        let (mut map, mut count) = (BTreeMap::new(), 0);
        while let Some(key) = items.next_key()? {
            if count == MAX {
                return Err(A::Error::custom(format!("a map has more than {MAX} items")));
            }
            count += 1;
            map.insert(key, items.next_value()?);
        }
        Ok(map)
    }
}

struct BoundedList<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for BoundedList<T, MAX> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX} items")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            if list.len() == MAX {
                return Err(A::Error::custom(format!("a list has more than {MAX} items")));
            }
            list.push(item);
        }
        Ok(list)
    }
}

#[cfg(test)]
#[path = "bounded_list_tests.rs"]
mod tests;
