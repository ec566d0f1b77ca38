//! Replacement for `screen` in a build without the `live` feature: `--live` is rejected.

use jetcell_host::Interrupt;

use super::RunMonitor;
use crate::disabled_command::disabled_feature_error;
use crate::outcome::CommandResult;

/// An uninhabited type, for builds in which no screen can be opened.
pub enum Screen {}

impl Screen {
    /// Returns an error that explains how to get a build that supports `--live`.
    pub fn open_for_run(_: RunMonitor, _: Interrupt) -> CommandResult<Screen> {
        Err(disabled_feature_error("--live", "live"))
    }
}
