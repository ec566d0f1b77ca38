//! Knowledge about the columns of Windows applications that is not in the catalog.

mod access_logging;
mod active_directory;
mod fields;
mod search;
mod usage_monitor;
mod web_cache;

use active_directory::Directory;

use crate::error::ExportError;
use crate::names::Names;
use crate::source::Source;
use crate::table::Table;

/// The application whose column names and formats are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Profile {
    /// Names and types from the catalog.
    #[default]
    None,
    /// The profile that matches the database schema, if there is one.
    BySchema,
    /// Active Directory: attribute and object names, times, and single values without lists.
    Directory,
    /// System Resource Usage Monitor: provider, application and user names, and times.
    UsageMonitor,
    /// User Access Logging: role names and addresses.
    AccessLogging,
    /// Windows Search: property names, paths, times and sizes.
    Search,
    /// Web page cache: container names, times and headers.
    WebCache,
}

/// What is known about a database's columns.
#[derive(Debug, Default)]
pub(crate) struct Knowledge {
    /// True if the tables belong to Active Directory, whose Currency columns contain integers.
    pub(crate) directory: bool,
    application: Option<Application>,
}

/// What was learned about the columns by reading rows from the database.
#[derive(Debug)]
enum Application {
    Directory(Directory),
    UsageMonitor(Names),
    AccessLogging(Names),
    Search(Names),
    WebCache(Names),
}

impl Profile {
    /// Returns the profile that matches a database's tables.
    fn of(source: &Source) -> Profile {
        if active_directory::fits(source) {
            Profile::Directory
        } else if usage_monitor::fits(source) {
            Profile::UsageMonitor
        } else if access_logging::fits(source) {
            Profile::AccessLogging
        } else if search::fits(source) {
            Profile::Search
        } else if web_cache::fits(source) {
            Profile::WebCache
        } else {
            Profile::None
        }
    }
}

impl Knowledge {
    /// Reads the rows that the profile needs. Rows that cannot be read are skipped here, because they are reported
    /// when their table is exported.
    ///
    /// # Errors
    ///
    /// Returns an error if the database does not contain the profile's tables.
    pub(crate) fn read(source: &Source, profile: Profile) -> Result<Knowledge, ExportError> {
        let other = |fits: bool, name| if fits { Ok(()) } else { Err(ExportError::OtherProfile(name)) };
        let is_chosen = profile != Profile::BySchema;
        let profile = if is_chosen { profile } else { Profile::of(source) };
        let application = match profile {
            Profile::None | Profile::BySchema => None,
            Profile::Directory => {
                let directory = Directory::read(source);
                // A damaged schema must not prevent the other rows from being exported.
                other(directory.has_schema() || !is_chosen, "Active Directory")?;
                directory.has_schema().then_some(Application::Directory(directory))
            }
            Profile::UsageMonitor => {
                other(usage_monitor::fits(source), "the usage monitor")?;
                Some(Application::UsageMonitor(usage_monitor::read(source)))
            }
            Profile::AccessLogging => {
                other(access_logging::fits(source), "user access logging")?;
                Some(Application::AccessLogging(access_logging::read(source)))
            }
            Profile::Search => {
                other(search::fits(source), "Windows Search")?;
                Some(Application::Search(search::read(source)))
            }
            Profile::WebCache => {
                other(web_cache::fits(source), "the web cache")?;
                Some(Application::WebCache(web_cache::read(source)))
            }
        };
        Ok(Knowledge { directory: active_directory::fits(source), application })
    }

    /// Applies the application's names and formats to a table and its columns.
    pub(crate) fn apply(&self, table: &mut Table) {
        if self.directory {
            active_directory::mark_security_identifiers(table);
        }
        match &self.application {
            None => {}
            Some(Application::Directory(directory)) => directory.apply(table),
            Some(Application::UsageMonitor(ids)) => usage_monitor::apply(table, ids),
            Some(Application::AccessLogging(roles)) => access_logging::apply(table, roles),
            Some(Application::Search(paths)) => search::apply(table, paths),
            Some(Application::WebCache(containers)) => web_cache::apply(table, containers),
        }
    }
}
