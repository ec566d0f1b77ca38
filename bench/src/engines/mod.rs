//! The engines, each as a [`Store`].

use anyhow::{Result, bail};

use crate::store::{Store, StoreOptions};

mod jetcell;

/// Names of all engines.
pub const ALL: [&str; 1] = ["jetcell"];

/// Opens a store, or creates it if the directory is empty.
pub fn open(engine: &str, options: &StoreOptions) -> Result<Box<dyn Store>> {
    Ok(match engine {
        "jetcell" => Box::new(jetcell::Jetcell::open(options)?),
        other => bail!("there is no engine {other}; there are: {}", ALL.join(", ")),
    })
}
