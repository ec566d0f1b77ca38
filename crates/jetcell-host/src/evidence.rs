//! What a result says about where and how it was obtained, so that others can judge and repeat it.

use std::path::Path;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// Evidence for a result: the program, its command line, the machine and the storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Version of this program.
    #[serde(alias = "program")]
    pub jetcell_version: String,
    /// Build of this program.
    #[serde(default)]
    pub build: BuildInfo,
    /// Command line, without credentials in addresses. Empty in results of earlier versions.
    #[serde(default)]
    pub command: Vec<String>,
    /// The machine, and the storage under the directories of the result.
    #[serde(default)]
    pub machine: Machine,
}

/// Build of the running program. Empty strings are unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildInfo {
    /// Commit of the sources. Empty if they were not in a checkout.
    pub commit: String,
    /// Target triple.
    pub target: String,
    /// Cargo profile.
    pub profile: String,
    /// Cargo features.
    pub features: Vec<String>,
}

static BUILD: OnceLock<BuildInfo> = OnceLock::new();

impl BuildInfo {
    /// Makes this the build that [`Evidence::collect`] records. Only the first call has an effect.
    pub fn register(self) {
        let _ = BUILD.set(self);
    }
}

impl Evidence {
    /// Collects the evidence for a result about `paths`.
    pub fn collect<'a>(paths: impl Iterator<Item = &'a Path>) -> Evidence {
        Evidence {
            jetcell_version: env!("CARGO_PKG_VERSION").into(),
            build: BUILD.get().cloned().unwrap_or_default(),
            command: std::env::args_os().map(|word| without_credentials(&word.to_string_lossy())).collect(),
            machine: Machine::examine(paths),
        }
    }
}

/// Replaces the user name and password of an address such as `nats://user:password@host`.
fn without_credentials(word: &str) -> String {
    let split = word.split_once("://").and_then(|(scheme, rest)| {
        let authority = rest.split('/').next()?;
        let (_, host) = authority.rsplit_once('@')?;
        Some(format!("{scheme}://***@{host}{}", &rest[authority.len()..]))
    });
    split.unwrap_or_else(|| word.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_not_recorded() {
        assert_eq!(
            without_credentials("--nats=nats://me:secret@host:4222/a"),
            "--nats=nats://***@host:4222/a"
        );
        for unchanged in ["nats://host:4222", "/mnt/a@b", "jetcell://host/a@b", "--dir"] {
            assert_eq!(without_credentials(unchanged), unchanged);
        }
    }

    #[test]
    fn results_of_earlier_versions_are_read() {
        let old: Evidence = serde_json::from_str(r#"{ "program": "0.0.9" }"#).unwrap();
        assert_eq!(old, Evidence { jetcell_version: "0.0.9".into(), ..Evidence::default() });
    }
}
