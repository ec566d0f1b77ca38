//! Tree names used in findings, such as `Messages / index ByDate`.

/// Returns the table name in a tree's name, or `None` for the database itself.
pub(crate) fn table_name(tree: &str) -> Option<&str> {
    tree.split(" / ").next().filter(|table| *table != DATABASE)
}

/// Name of the tree from which all pages are allocated.
pub(crate) const DATABASE: &str = "database";
