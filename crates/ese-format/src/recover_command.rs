//! The command line that recovers a database, for messages to users.

use std::fmt;
use std::path::Path;

/// The command line of `jetcell recover` for a database and its logs. Unknown paths are shown as placeholders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoverCommand<'p> {
    /// The database; `None` if it is in the log directory or its path is unknown.
    pub database: Option<&'p Path>,
    /// Directory of the logs; `None` if it is unknown.
    pub logs: Option<&'p Path>,
}

impl fmt::Display for RecoverCommand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("jetcell recover ")?;
        match (self.database, self.logs) {
            (None, Some(logs)) => write!(f, "{}", logs.display()),
            (Some(database), Some(logs)) => write!(f, "{} {}", database.display(), logs.display()),
            (Some(database), None) => write!(f, "{} LOGS", database.display()),
            (None, None) => f.write_str("DATABASE LOGS"),
        }?;
        f.write_str(" --into recovered")
    }
}
