//! Evidence that lets others judge and repeat a result: the program, the command line, the machine and the storage.

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

/// Build of the running program. An empty string means that the value is unknown.
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
    /// Collects the evidence for a result. The machine description covers the storage under `paths`.
    pub fn collect<'a>(paths: impl Iterator<Item = &'a Path>) -> Evidence {
        Evidence {
            jetcell_version: env!("CARGO_PKG_VERSION").into(),
            build: BUILD.get().cloned().unwrap_or_default(),
            command: std::env::args_os().map(|word| without_credentials(&word.to_string_lossy())).collect(),
            machine: Machine::examine(paths),
        }
    }
}

/// Replaces the user names and passwords of addresses such as `nats://user:password@host`, `tasmota=user:password@host`
/// and lists of them.
fn without_credentials(word: &str) -> String {
    let parts = word.split("://").enumerate();
    parts.map(|(at, part)| masked(part, at > 0)).collect::<Vec<_>>().join("://")
}

/// Replaces the credentials in a part of a word. In a part that does not follow a scheme, only text with a password
/// is treated as credentials. After a path, a comma begins the next address.
fn masked(part: &str, follows_scheme: bool) -> String {
    let (mut rest, mut follows_scheme) = (part, follows_scheme);
    let mut masked = String::new();
    loop {
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        match authority.rsplit_once('@') {
            Some((user, host)) if follows_scheme || user.contains(':') => {
                // Names of options and meters, as in `--meter=tasmota=user:password@host`.
                let is_name = |name: &&str| !follows_scheme && !name.contains([':', ',']);
                masked.extend(
                    user.split_inclusive('=').take_while(|name| name.ends_with('=') && is_name(name)),
                );
                masked += "***@";
                masked += host;
            }
            _ => masked += authority,
        }
        let Some((path, next)) = path.split_once(',') else { return masked + path };
        masked += path;
        masked.push(',');
        (rest, follows_scheme) = (next, false);
    }
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
        for (word, expected) in [
            ("tasmota=user:secret@plug", "tasmota=***@plug"),
            ("--meter=tasmota=user:secret@plug/x", "--meter=tasmota=***@plug/x"),
            ("tasmota=http://user:secret@plug", "tasmota=http://***@plug"),
            ("nats://a:secret@h1:4222,nats://b:secret@h2", "nats://***@h1:4222,nats://***@h2"),
            ("nats://a:secret@h1,b:secret@h2", "nats://***@h2"),
            ("nats://a:secret@h1/x,b:secret@h2/y", "nats://***@h1/x,***@h2/y"),
            ("nats://a:se,secret@h1", "nats://***@h1"),
            ("tasmota=a:secret@h1,shelly=b:secret@h2", "tasmota=***@h2"),
        ] {
            assert_eq!(without_credentials(word), expected);
        }
        let many = "/,".repeat(60_000);
        assert_eq!(without_credentials(&many), many);
        for unchanged in
            ["nats://host:4222", "/mnt/a@b", "jetcell://host/a@b", "--dir", "me@host:/a", "1=2,3"]
        {
            assert_eq!(without_credentials(unchanged), unchanged);
        }
    }

    #[test]
    fn results_of_earlier_versions_are_read() {
        let old: Evidence = serde_json::from_str(r#"{ "program": "0.0.9" }"#).unwrap();
        assert_eq!(old, Evidence { jetcell_version: "0.0.9".into(), ..Evidence::default() });
    }
}
