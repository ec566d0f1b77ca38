//! Names of trees in findings, such as `Messages / index ByDate`.

/// The table in the name of a tree; none for the database itself.
pub(crate) fn table_of(tree: &str) -> Option<&str> {
    tree.split(" / ").next().filter(|table| *table != DATABASE)
}

/// Name of the tree that all pages come from.
pub(crate) const DATABASE: &str = "database";
