//! What applications of Windows store in their columns, beyond the names and types of the catalog.

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

/// Knowledge of an application about its columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Profile {
    /// Columns as the catalog names and types them.
    #[default]
    None,
    /// The profile of the database's schema, if it is known.
    BySchema,
    /// Active Directory: names of attributes and objects, single values without lists, times.
    Directory,
    /// System Resource Usage Monitor: names of providers, applications and users, times.
    UsageMonitor,
    /// User Access Logging: names of roles, addresses.
    AccessLogging,
    /// Windows Search: names of properties, paths, times, sizes.
    Search,
    /// Cache of web pages: names of containers, times, headers.
    WebCache,
}

/// What is known about the columns of a database.
#[derive(Debug, Default)]
pub(crate) struct Knowledge {
    /// The tables are those of Active Directory, whose Currency columns hold integers.
    pub(crate) directory: bool,
    application: Option<Application>,
}

/// What the rows of a database say about its columns.
#[derive(Debug)]
enum Application {
    Directory(Directory),
    UsageMonitor(Names),
    AccessLogging(Names),
    Search(Names),
    WebCache(Names),
}

impl Profile {
    /// The profile for the tables of a database.
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
    /// Reads what the profile needs. Rows that cannot be read name nothing; the export of their table reports them.
    ///
    /// Errors: the database has not the tables of the profile.
    pub(crate) fn read(source: &Source, profile: Profile) -> Result<Knowledge, ExportError> {
        let other = |fits: bool, name| if fits { Ok(()) } else { Err(ExportError::OtherProfile(name)) };
        let is_chosen = profile != Profile::BySchema;
        let profile = if is_chosen { profile } else { Profile::of(source) };
        let application = match profile {
            Profile::None | Profile::BySchema => None,
            Profile::Directory => {
                let directory = Directory::read(source);
                // The rows of a damaged schema must not keep the others from being exported.
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

    /// Gives a table and its columns the names and forms that the application gives them.
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
