//! Replacement for `screen` in a build without the `live` feature: `--live` is rejected.

use super::RunMonitor;
use crate::disabled_command::disabled_feature_error;
use crate::outcome::CommandError;

/// Does nothing, because there is no screen to restore.
pub fn restore_terminal() {}

/// An uninhabited type, for builds in which no screen can be opened.
pub enum Screen {}

impl Screen {
    /// Returns an error that explains how to get a build that supports `--live`.
    pub fn open_for_run(_: RunMonitor, _: impl Fn() + Send + 'static) -> Result<Screen, CommandError> {
        Err(disabled_feature_error("--live", "live"))
    }
}
