//! Sizes of new databases.

/// Settings for a new database.
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// Initial file size in pages; at least 256.
    pub initial_pages: u32,
    /// Number of pages by which the file grows. ESE: `JET_paramDbExtensionSize`.
    pub extension_pages: u32,
}

impl Default for DatabaseOptions {
    fn default() -> DatabaseOptions {
        DatabaseOptions { initial_pages: 256, extension_pages: 256 }
    }
}
