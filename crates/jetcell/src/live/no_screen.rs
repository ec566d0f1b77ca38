//! Replacement for `screen` in a build without the `live` feature: `--live` is rejected.

use super::Monitor;
use crate::not_built::not_built;
use crate::outcome::Failure;

/// Does nothing, because there is no screen to restore.
pub fn restore_terminal() {}

/// An uninhabited type, because no screen can be opened.
pub enum Screen {}

impl Screen {
    /// Returns an error that explains how to get a build that supports `--live`.
    pub fn of_run(_: Monitor, _: impl Fn() + Send + 'static) -> Result<Screen, Failure> {
        Err(not_built("--live", "live"))
    }
}
