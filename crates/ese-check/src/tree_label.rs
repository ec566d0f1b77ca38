//! Names of trees in findings, such as `Messages / index ByDate`.

/// Returns the table in the name of a tree, or `None` for the database itself.
pub(crate) fn table_of(tree: &str) -> Option<&str> {
    tree.split(" / ").next().filter(|table| *table != DATABASE)
}

/// Name of the tree from which all pages are allocated.
pub(crate) const DATABASE: &str = "database";
