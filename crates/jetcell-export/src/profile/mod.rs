//! Application profiles: information about the columns of Windows applications that goes beyond the catalog.

mod access_logging;
mod active_directory;
mod fields;
mod search;
mod timeline_columns;
mod usage_monitor;
mod web_cache;

use active_directory::DirectorySchema;
pub(crate) use timeline_columns::TimelineColumns;

use crate::error::ExportError;
use crate::names::ValueNames;
use crate::source_database::SourceDatabase;
use crate::table::SourceTable;

/// Which application's column names and formats to use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ApplicationProfile {
    /// Names and types from the catalog.
    #[default]
    None,
    /// The profile that matches the database schema, if there is one.
    BySchema,
    /// Active Directory: names of attributes, objects, classes and links, times, security descriptors in SDDL,
    /// replication metadata, and single values without lists.
    Directory,
    /// System Resource Usage Monitor: names of providers, applications, users and types of network interfaces, and
    /// times.
    UsageMonitor,
    /// User Access Logging: role names and addresses.
    AccessLogging,
    /// Windows Search: property names, paths, lists of texts, times, durations and sizes.
    Search,
    /// Web page cache: container names, times, headers and cookies.
    WebCache,
}

/// Application-specific information about a database's columns.
#[derive(Debug, Default)]
pub(crate) struct ProfileData {
    /// True if the tables belong to Active Directory, whose Currency columns contain integers.
    pub(crate) directory: bool,
    application: Option<ApplicationData>,
}

/// Information about the columns that was read from rows of the database.
#[derive(Debug)]
enum ApplicationData {
    Directory(DirectorySchema),
    UsageMonitor(ValueNames),
    AccessLogging(ValueNames),
    Search(ValueNames),
    WebCache(ValueNames),
}

impl ApplicationProfile {
    /// Returns the profile that matches a database's tables.
    fn detect(source: &SourceDatabase) -> ApplicationProfile {
        if active_directory::matches(source) {
            ApplicationProfile::Directory
        } else if usage_monitor::matches(source) {
            ApplicationProfile::UsageMonitor
        } else if access_logging::matches(source) {
            ApplicationProfile::AccessLogging
        } else if search::matches(source) {
            ApplicationProfile::Search
        } else if web_cache::matches(source) {
            ApplicationProfile::WebCache
        } else {
            ApplicationProfile::None
        }
    }
}

impl ProfileData {
    /// Reads the rows that the profile needs. Rows that cannot be read are skipped here, because they are reported
    /// when their table is exported.
    ///
    /// # Errors
    ///
    /// Returns an error if the database does not contain the profile's tables.
    pub(crate) fn read(
        source: &SourceDatabase,
        profile: ApplicationProfile,
    ) -> Result<ProfileData, ExportError> {
        let other = |fits: bool, name| if fits { Ok(()) } else { Err(ExportError::OtherProfile(name)) };
        let is_chosen = profile != ApplicationProfile::BySchema;
        let profile = if is_chosen { profile } else { ApplicationProfile::detect(source) };
        let application = match profile {
            ApplicationProfile::None | ApplicationProfile::BySchema => None,
            ApplicationProfile::Directory => {
                let directory = DirectorySchema::read(source);
                // A damaged schema must not prevent the other rows from being exported.
                other(directory.has_schema() || !is_chosen, "Active Directory")?;
                directory.has_schema().then_some(ApplicationData::Directory(directory))
            }
            ApplicationProfile::UsageMonitor => {
                other(usage_monitor::matches(source), "the usage monitor")?;
                Some(ApplicationData::UsageMonitor(usage_monitor::read(source)))
            }
            ApplicationProfile::AccessLogging => {
                other(access_logging::matches(source), "user access logging")?;
                Some(ApplicationData::AccessLogging(access_logging::read(source)))
            }
            ApplicationProfile::Search => {
                other(search::matches(source), "Windows Search")?;
                Some(ApplicationData::Search(search::read(source)))
            }
            ApplicationProfile::WebCache => {
                other(web_cache::matches(source), "the web cache")?;
                Some(ApplicationData::WebCache(web_cache::read(source)))
            }
        };
        Ok(ProfileData { directory: active_directory::matches(source), application })
    }

    /// Returns the profile's declarations about times and about the rows that contain them.
    pub(crate) fn timeline(&self) -> TimelineColumns {
        match &self.application {
            None => TimelineColumns::default(),
            Some(ApplicationData::Directory(_)) => active_directory::TIMELINE,
            Some(ApplicationData::UsageMonitor(_)) => usage_monitor::TIMELINE,
            Some(ApplicationData::AccessLogging(_)) => access_logging::TIMELINE,
            Some(ApplicationData::Search(_)) => search::TIMELINE,
            Some(ApplicationData::WebCache(_)) => web_cache::TIMELINE,
        }
    }

    /// Applies the application's names and formats to a table and its columns.
    pub(crate) fn apply(&self, table: &mut SourceTable) {
        if self.directory {
            active_directory::mark_security_identifiers(table);
        }
        match &self.application {
            None => {}
            Some(ApplicationData::Directory(directory)) => directory.apply(table),
            Some(ApplicationData::UsageMonitor(ids)) => usage_monitor::apply(table, ids),
            Some(ApplicationData::AccessLogging(roles)) => access_logging::apply(table, roles),
            Some(ApplicationData::Search(paths)) => search::apply(table, paths),
            Some(ApplicationData::WebCache(containers)) => web_cache::apply(table, containers),
        }
    }
}
