//! The interface of `screen` in a build without the feature `live`: `--live` is refused.

use super::Monitor;
use crate::not_built::not_built;
use crate::outcome::Failure;

/// There is no screen to restore.
pub fn restore_terminal() {}

/// No value of it exists.
pub enum Screen {}

impl Screen {
    /// Says how to get `--live`.
    pub fn of_run(_: Monitor, _: impl Fn() + Send + 'static) -> Result<Screen, Failure> {
        Err(not_built("--live", "live"))
    }
}
