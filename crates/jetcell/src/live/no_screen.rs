//! The interface of `screen` in a build without the feature `live`: `--live` is rejected.

use super::Monitor;
use crate::not_built::not_built;
use crate::outcome::Failure;

/// Does nothing, because there is no screen to restore.
pub fn restore_terminal() {}

/// A type without values.
pub enum Screen {}

impl Screen {
    /// Returns an error that explains how to get a build with `--live`.
    pub fn of_run(_: Monitor, _: impl Fn() + Send + 'static) -> Result<Screen, Failure> {
        Err(not_built("--live", "live"))
    }
}
