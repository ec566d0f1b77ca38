//! Names that form a tree, such as those of directory objects or folders. Each entry has a number, its parent's
//! number, and a name.

use std::collections::HashMap;

/// Maximum length of the path to the root. The limit is needed because a damaged file may contain cycles.
const MAX_DEPTH: usize = 256;
/// Maximum total length in bytes of all names on the path to the root. The limit is needed because a damaged file may
/// contain long names.
const MAX_PATH_BYTES: usize = 64 << 10;

/// A tree of names, which uses about 100 bytes of memory per name.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct NameHierarchy(HashMap<i64, (i64, Box<str>)>);

impl NameHierarchy {
    /// Adds an entry with its number, its parent's number, and its name.
    pub(crate) fn insert(&mut self, number: i64, parent: i64, name: &str) {
        self.0.insert(number, (parent, name.into()));
    }

    /// Returns the name with this number, followed by the names of its ancestors up to the one whose parent is not in
    /// the tree. Returns `None` if the number is not in the tree, if the names form a cycle, or if there are too many
    /// names.
    pub(super) fn names_to_root(&self, number: i64) -> Option<Vec<&str>> {
        let (mut names, mut bytes) = (Vec::new(), 0);
        let mut at = number;
        while let Some((parent, name)) = self.0.get(&at) {
            bytes += name.len();
            if names.len() == MAX_DEPTH || bytes > MAX_PATH_BYTES {
                return None;
            }
            names.push(&**name);
            at = *parent;
        }
        (!names.is_empty()).then_some(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_end_at_the_root_and_cycles_have_no_path() {
        let mut tree = NameHierarchy::default();
        for (number, parent, name) in
            [(3, 2, "C:"), (4, 3, "/"), (5, 4, "Users/"), (7, 8, "a"), (8, 7, "b"), (9, 9, "c")]
        {
            tree.insert(number, parent, name);
        }
        assert_eq!(tree.names_to_root(5), Some(vec!["Users/", "/", "C:"]));
        assert_eq!(tree.names_to_root(3), Some(vec!["C:"]));
        for number in [2, 7, 9] {
            assert_eq!(tree.names_to_root(number), None, "{number}");
        }
        tree.insert(10, 3, &"x".repeat(MAX_PATH_BYTES));
        assert_eq!(tree.names_to_root(10), None, "too long");
    }
}
